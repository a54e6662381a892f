/* SPDX-License-Identifier: Apache-2.0
 * Traces as text into references: what valgrind's lackey writes with --trace-mem=yes, and Dinero's "din". Neither has a
 * sum to check, so every line must be one that such a trace has, the last must be whole, and where lackey said who it
 * is it must have said farewell. */
#include "cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, TEXT_LINE_MAX = 4096, DIN_BYTES = 1, REFERENCE_MAX = 4096 };

struct cache_reader {
    const char *name;
    int fd;             /* -1: all is in memory */
    char *own;          /* the buffer of a file */
    const char *buffer; /* what is read of it: [at, end) is still to be parsed */
    size_t at, end;
    uint64_t line, done, total;
    bool is_ended, has_begin, has_end;
    enum cache_form form;
    uint64_t process; /* that valgrind's own lines name; 0 none yet */
    uint32_t cell;
    struct map cells;     /* address of an instruction -> cell */
    VEC(uint64_t) places; /* by cell */
};

struct text { /* what is left of a line */
    const char *at, *end;
};

static const char *const form_names[] = {NULL, "lackey", "din"};

const char *cache_form_name(enum cache_form f) { return form_names[f]; }

/* ---- bytes ---- */

static int wrong(const struct cache_reader *r, const char *what)
{
    return diag_error("%s:%llu: %s", r->name, (unsigned long long)r->line, what);
}

static int fill(struct cache_reader *r)
{
    if (r->fd < 0) {
        r->is_ended = true;
        return 0;
    }
    memmove(r->own, r->own + r->at, r->end - r->at);
    r->end -= r->at;
    r->at = 0;
    ssize_t n;
    do
        n = read(r->fd, r->own + r->end, BUFFER_BYTES - r->end);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return diag_error("cannot read the trace %s: %s", r->name, strerror(errno));
    r->is_ended = n == 0;
    r->end += (size_t)n;
    r->done += (uint64_t)n;
    return 0;
}

/* The next line without its end. 1, 0 at the end of the trace, or -1 after one line. */
static int take_line(struct cache_reader *r, struct text *out)
{
    for (;;) {
        const char *from = r->buffer + r->at, *end = memchr(from, '\n', min_u64(r->end - r->at, TEXT_LINE_MAX));
        if (end) {
            r->line++;
            r->at += (size_t)(end - from) + 1;
            *out = (struct text){from, end > from && end[-1] == '\r' ? end - 1 : end};
            return 1;
        }
        bool is_long = r->end - r->at >= TEXT_LINE_MAX;
        if (is_long || (r->is_ended && r->at < r->end)) {
            r->line++;
            return wrong(r, is_long ? "longer than any line of a trace" : "the trace was cut off in this line");
        }
        if (r->is_ended)
            return 0;
        if (fill(r) < 0)
            return -1;
    }
}

/* ---- words ---- */

static void skip_blanks(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t'))
        t->at++;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static bool take_number(struct text *t, unsigned base, uint64_t *out)
{
    const char *from = t->at;
    uint64_t n = 0;
    for (int d; t->at < t->end && (d = digit_of(*t->at)) < (int)base; t->at++) {
        if (n > (UINT64_MAX - (uint64_t)d) / base)
            return false;
        n = n * base + (uint64_t)d;
    }
    *out = n;
    return t->at > from;
}

static bool take_address(struct text *t, uint64_t *out)
{
    if (t->end - t->at > 2 && t->at[0] == '0' && (t->at[1] | 0x20) == 'x')
        t->at += 2;
    return take_number(t, 16, out);
}

/* ---- instructions ---- */

static uint32_t cell_of(struct cache_reader *r, uint64_t address)
{
    uint64_t cell;
    if (r->places.data[r->cell] == address && r->cell)
        return r->cell;
    if (map_get(&r->cells, address, &cell))
        return (uint32_t)cell;
    cell = r->places.len;
    map_put(&r->cells, address, cell);
    VEC_PUSH(&r->places, address);
    return (uint32_t)cell;
}

static int put_reference(struct cache_reader *r, uint8_t kind, uint64_t address, uint64_t bytes, struct cache_ref *out)
{
    if (bytes < 1 || bytes > REFERENCE_MAX)
        return wrong(r, "no instruction reaches so many bytes at once");
    if (address + (bytes - 1) < address)
        return wrong(r, "reaches past the end of the address space");
    if (kind == CACHE_FETCH)
        r->cell = cell_of(r, address);
    *out = (struct cache_ref){.address = address, .cell = r->cell, .bytes = (uint16_t)bytes, .kind = kind};
    return 1;
}

/* ---- lackey ---- */

static bool is_at(struct text t, const char *word)
{
    size_t len = strlen(word);
    return (size_t)(t.end - t.at) >= len && memcmp(t.at, word, len) == 0;
}

/* "==123== ", "--123-- ", "**123** ": valgrind's own words, and whose they are. */
static bool is_valgrinds(struct text t, uint64_t *process, struct text *said)
{
    char c = t.at < t.end ? *t.at : 0;
    char mark[3] = {c, c, 0};
    if ((c != '=' && c != '-' && c != '*') || !is_at(t, mark))
        return false;
    t.at += 2;
    if (!take_number(&t, 10, process) || !is_at(t, mark))
        return false;
    t.at += 2;
    skip_blanks(&t);
    *said = t;
    return true;
}

static int hear(struct cache_reader *r, uint64_t process, struct text said)
{
    if (r->process && process != r->process)
        return diag_error("%s:%llu: references of process %llu and of process %llu in one trace; write each to a file "
                          "of its own (--log-file=FILE.%%p)",
                          r->name, (unsigned long long)r->line, (unsigned long long)r->process,
                          (unsigned long long)process);
    r->process = process;
    r->form = CACHE_FORM_LACKEY;
    r->has_begin |= is_at(said, "Lackey,");
    r->has_end |= is_at(said, "Exit code:");
    return 0;
}

static int parse_lackey(struct cache_reader *r, struct text t, struct cache_ref *out)
{
    static const char letters[] = "ILSM";
    static const uint8_t kinds[] = {CACHE_FETCH, CACHE_READ, CACHE_WRITE, CACHE_MODIFY};
    uint64_t address, bytes;
    skip_blanks(&t);
    const char *letter = t.at < t.end && *t.at ? strchr(letters, *t.at) : NULL;
    t.at++;
    skip_blanks(&t);
    if (!letter || !take_address(&t, &address) || !is_at(t, ","))
        return wrong(r, "neither a reference as lackey writes it (I, L, S or M, an address, a comma, a size) nor "
                        "valgrind's own (==PID== ...); let valgrind write the trace to a file, by --log-file");
    t.at++;
    if (!take_number(&t, 10, &bytes) || t.at != t.end)
        return wrong(r, "after the address and the comma comes a size, and no more");
    return put_reference(r, kinds[letter - letters], address, bytes, out);
}

/* ---- din ---- */

static bool is_din(struct text t)
{
    skip_blanks(&t);
    return t.end - t.at >= 2 && t.at[0] >= '0' && t.at[0] <= '9' && (t.at[1] == ' ' || t.at[1] == '\t');
}

static int parse_din(struct cache_reader *r, struct text t, struct cache_ref *out)
{
    static const uint8_t kinds[] = {CACHE_READ, CACHE_WRITE, CACHE_FETCH};
    uint64_t address;
    skip_blanks(&t);
    if (!is_din(t))
        return wrong(r, "no reference as in a din trace (0, 1 or 2, and an address)");
    if (*t.at > '2')
        return wrong(r, "the label is not 0 (read), 1 (write) or 2 (instruction)");
    uint8_t kind = kinds[*t.at++ - '0'];
    skip_blanks(&t);
    if (!take_address(&t, &address) || (t.at < t.end && *t.at != ' ' && *t.at != '\t'))
        return wrong(r, "no address, in hexadecimal, behind the label");
    return put_reference(r, kind, address, DIN_BYTES, out);
}

/* ---- both ---- */

/* 1, 0: a line that holds no reference, or -1. */
static int parse_line(struct cache_reader *r, struct text t, struct cache_ref *out)
{
    uint64_t process;
    struct text said, rest = t;
    skip_blanks(&rest);
    if (rest.at == rest.end)
        return 0;
    if (r->form != CACHE_FORM_DIN && is_valgrinds(t, &process, &said))
        return hear(r, process, said);
    if (r->form == CACHE_FORM_NONE)
        r->form = is_din(t) ? CACHE_FORM_DIN : CACHE_FORM_LACKEY;
    return r->form == CACHE_FORM_DIN ? parse_din(r, t, out) : parse_lackey(r, t, out);
}

static int check_end(const struct cache_reader *r)
{
    if (!r->line)
        return diag_error("the trace %s is empty", r->name);
    if (r->has_begin && !r->has_end)
        return wrong(r, "the trace was cut off behind this line: what lackey writes at its end is missing");
    return 0;
}

ptrdiff_t cache_reader_next(struct cache_reader *r, struct cache_ref *out, size_t max)
{
    size_t count = 0;
    struct text t = {0};
    int rc = 1;
    while (count < max && (rc = take_line(r, &t)) > 0) {
        rc = parse_line(r, t, &out[count]);
        if (rc < 0)
            return -1;
        count += rc > 0;
    }
    if (rc < 0 || (count == 0 && check_end(r) < 0))
        return -1;
    return (ptrdiff_t)count;
}

/* ---- made and asked ---- */

static struct cache_reader *reader_new(const char *name)
{
    struct cache_reader *r = xmalloc(sizeof *r);
    r->name = name;
    r->fd = -1;
    VEC_PUSH(&r->places, 0);
    return r;
}

struct cache_reader *cache_reader_of(const char *name, const char *text, size_t len)
{
    struct cache_reader *r = reader_new(name);
    r->buffer = text;
    r->end = r->done = r->total = len;
    return r;
}

int cache_reader_open(const char *path, struct cache_reader **out)
{
    bool is_input = strcmp(path, "-") == 0;
    struct stat st = {0};
    int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return diag_error("cannot read the trace %s: %s", path, strerror(errno));
    struct cache_reader *r = *out = reader_new(is_input ? "standard input" : path);
    r->fd = fd;
    r->buffer = r->own = xmalloc(BUFFER_BYTES);
    r->total = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    return 0;
}

void cache_reader_close(struct cache_reader *r)
{
    if (!r)
        return;
    if (r->fd > STDERR_FILENO)
        close(r->fd);
    free(r->own);
    map_fini(&r->cells);
    VEC_FREE(&r->places);
    free(r);
}

enum cache_form cache_reader_form(const struct cache_reader *r) { return r->form; }
uint64_t cache_reader_place(const struct cache_reader *r, uint32_t cell) { return r->places.data[cell]; }

void cache_reader_progress(const struct cache_reader *r, uint64_t *done, uint64_t *total)
{
    *done = r->done;
    *total = r->total;
}
