/* SPDX-License-Identifier: Apache-2.0
 *
 * A tape: what each experiment of a calibration told, by its label, as text; and back. A line is one of
 *
 *     mtool-tape 1                        the first
 *     program "0.1.0"                     that wrote it
 *     processor "NAME" VENDOR FAMILY MODEL
 *     number NAME VALUE                   tsc-ghz, clock-step, core-per-tsc, nop-cycles, noise, vectors-256,
 * vectors-512 time "LABEL" HASH CYCLES TICKS QUIET   a fact that is no timing as well end COUNT the last; so many times
 * stand before it
 *
 * HASH is of the experiment's code (16 hexadecimal digits, - unknown), CYCLES and TICKS are of one iteration (CYCLES
 * -1: the processor lacks an instruction, -2: the time was over), QUIET the number of samples that nothing disturbed.
 * The same label may come several times: an experiment that was disturbed is made again. # begins a comment.
 * doc/tape.md says more. */
#include "machine/lab/lab.h"
#include "machine/machine.h"

#include "machine/impl.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { FORMAT = 1, NUMBERS = 16, SAMPLES_MAX = 1000000, FAMILY_MAX = 65535 };
static const double CYCLES_MAX = 1e12 /* a size in bytes may stand there too */, NUMBER_MAX = 1e6;

struct tape {
    struct arena *arena;
    const char *name, *program, *cpu, *vendor;
    unsigned family, model;
    VEC(struct tape_entry) entries;
    struct map first, last; /* hash of a label -> its first and its last entry, plus 1 */
    VEC(uint32_t) next;     /* of each entry: the next of the same label, 0 none */
    struct map at;          /* hash of a label -> the entry to be played next, plus 1 */
    struct {
        const char *name;
        double value;
    } numbers[NUMBERS];
    size_t number_count;
    size_t missing, changed, doubted; /* that were asked for when played */
    const char *first_doubted;
    VEC(const char *) missing_labels;
};

struct tape *machine_tape_new(void)
{
    struct arena *a = arena_new();
    struct tape *t = ARENA_NEW(a, struct tape);
    t->arena = a;
    t->program = MTOOL_VERSION;
    t->name = t->cpu = t->vendor = "";
    return t;
}

void machine_tape_free(struct tape *t)
{
    if (!t)
        return;
    VEC_FREE(&t->entries);
    VEC_FREE(&t->next);
    VEC_FREE(&t->missing_labels);
    map_fini(&t->first);
    map_fini(&t->last);
    map_fini(&t->at);
    arena_free(t->arena);
}

void machine_tape_clear(struct tape *t)
{
    t->entries.len = t->next.len = t->number_count = 0;
    map_fini(&t->first);
    map_fini(&t->last);
}

/* ---- entries ---- */

void tape_add(struct tape *t, const char *label, uint64_t hash, double cycles, double ticks, unsigned quiet)
{
    uint64_t key = machine_hash(label), k;
    struct tape_entry e = {arena_strdup(t->arena, label), hash, cycles, ticks, quiet, false};
    VEC_PUSH(&t->entries, e);
    VEC_PUSH(&t->next, 0);
    if (map_get(&t->last, key, &k))
        t->next.data[k - 1] = (uint32_t)t->entries.len;
    else
        map_put(&t->first, key, t->entries.len);
    map_put(&t->last, key, t->entries.len);
}

static void miss(struct tape *t, const char *label)
{
    t->missing++;
    VEC_PUSH(&t->missing_labels, arena_strdup(t->arena, label));
}

const struct tape_entry *tape_next(struct tape *t, const char *label, uint64_t hash)
{
    uint64_t key = machine_hash(label), k;
    if (!map_get(&t->at, key, &k) && !map_get(&t->first, key, &k)) {
        miss(t, label);
        return NULL;
    }
    struct tape_entry *e = &t->entries.data[k - 1];
    uint32_t next = t->next.data[k - 1];
    map_put(&t->at, key, next ? next : k);
    t->changed += e->hash && hash && e->hash != hash;
    e->used = true;
    return e;
}

bool tape_has(const struct tape *t, const char *label)
{
    uint64_t k;
    return map_get(&t->first, machine_hash(label), &k);
}

void tape_doubt(struct tape *t, const char *label)
{
    if (!t->doubted++)
        t->first_doubted = arena_strdup(t->arena, label);
}

double tape_number(const struct tape *t, const char *name)
{
    for (size_t i = 0; i < t->number_count; i++)
        if (strcmp(t->numbers[i].name, name) == 0)
            return t->numbers[i].value;
    return NAN;
}

void tape_set_number(struct tape *t, const char *name, double v)
{
    size_t i = 0;
    while (i < t->number_count && strcmp(t->numbers[i].name, name) != 0)
        i++;
    if (i == NUMBERS)
        return;
    t->numbers[i].name = arena_strdup(t->arena, name);
    t->numbers[i].value = v;
    t->number_count += i == t->number_count;
}

const char *tape_name(const struct tape *t) { return t->name; }

const char *tape_cpu(const struct tape *t) { return t->cpu; }

void tape_set_cpu(struct tape *t, const char *name, const char *vendor, unsigned family, unsigned model)
{
    t->cpu = arena_strdup(t->arena, str_printable(t->arena, name));
    t->vendor = arena_strdup(t->arena, vendor);
    t->family = family;
    t->model = model;
}

/* ---- writing ---- */

void machine_tape_format(const struct tape *t, struct strbuf *out)
{
    str_printf(out, "mtool-tape %d\nprogram \"%s\"\nprocessor \"%s\" %s %u %u\n", FORMAT, t->program, t->cpu,
               *t->vendor ? t->vendor : "-", t->family, t->model);
    for (size_t i = 0; i < t->number_count; i++)
        str_printf(out, "number %s %.10g\n", t->numbers[i].name, t->numbers[i].value);
    for (size_t i = 0; i < t->entries.len; i++) {
        const struct tape_entry *e = &t->entries.data[i];
        str_printf(out, "time \"%s\" ", e->label);
        e->hash ? str_printf(out, "%016llx", (unsigned long long)e->hash) : str_puts(out, "-");
        str_printf(out, " %.12g %.6g %u\n", e->cycles, e->ticks, e->quiet);
    }
    str_printf(out, "end %zu\n", t->entries.len);
}

int machine_tape_write(const struct tape *t, const char *path)
{
    struct strbuf s = {0};
    machine_tape_format(t, &s);
    int rc = file_write_whole(path, s.data, s.len, 0644);
    str_free(&s);
    return rc == 0 ? 0 : diag_error("cannot write the tape %s: %s", path, strerror(errno));
}

/* ---- reading ---- */

struct line {
    const char *path;
    unsigned number;
    const char *at, *end;
};

static int wrong(const struct line *l, const char *what)
{
    return diag_error("%s:%u: %s; get a whole tape, as `mtool calibrate --record` writes it", l->path, l->number, what);
}

static void skip_blanks(struct line *l)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t'))
        l->at++;
}

/* A word, or what stands between double quotes. NULL: there is none. */
static char *take_word(struct line *l, struct arena *a)
{
    skip_blanks(l);
    bool quoted = l->at < l->end && *l->at == '"';
    const char *start = l->at += quoted;
    while (l->at < l->end && (quoted ? *l->at != '"' : !isspace((unsigned char)*l->at)))
        l->at++;
    if (quoted && l->at == l->end)
        return NULL;
    size_t n = (size_t)(l->at - start);
    l->at += quoted;
    return n || quoted ? arena_strndup(a, start, n) : NULL;
}

static bool take_number(struct line *l, struct arena *a, double *out)
{
    char *word = take_word(l, a), *end = NULL;
    *out = word ? strtod(word, &end) : 0;
    return word && end > word && !*end && isfinite(*out);
}

static bool take_count(struct line *l, struct arena *a, double max, unsigned *out)
{
    double v;
    bool ok = take_number(l, a, &v) && v >= 0 && v <= max;
    *out = ok ? (unsigned)v : 0;
    return ok;
}

/* Can it be written again without quotes, or between them? */
static bool is_word(const char *s) { return s && *s && !s[strcspn(s, " \t\r\v\f\"")]; }
static bool is_text(const char *s) { return s && !strchr(s, '"'); }

static int read_time(struct tape *t, struct line *l)
{
    char *label = take_word(l, t->arena), *hash = label ? take_word(l, t->arena) : NULL, *end = NULL;
    double cycles, ticks;
    unsigned quiet;
    uint64_t h = hash && strcmp(hash, "-") != 0 ? strtoull(hash, &end, 16) : 0;
    if (!hash || !is_text(label) || (end && *end) || !take_number(l, t->arena, &cycles) || cycles > CYCLES_MAX ||
        !take_number(l, t->arena, &ticks) || !take_count(l, t->arena, SAMPLES_MAX, &quiet))
        return wrong(l, "a time needs a label in quotes, a hash, cycles, ticks and a number of samples");
    if (cycles < 0 && cycles != -1 && cycles != -2)
        return wrong(l, "cycles below 0 are -1 (the processor lacks it) or -2 (the time was over)");
    tape_add(t, label, h, cycles, ticks, quiet);
    return 0;
}

static int read_processor(struct tape *t, struct line *l)
{
    char *name = take_word(l, t->arena), *vendor = name ? take_word(l, t->arena) : NULL;
    unsigned family, model;
    if (!name || !vendor || !is_text(name) || !is_word(vendor) || !take_count(l, t->arena, FAMILY_MAX, &family) ||
        !take_count(l, t->arena, FAMILY_MAX, &model))
        return wrong(l, "a processor needs a name in quotes, its vendor, family and model");
    tape_set_cpu(t, name, strcmp(vendor, "-") == 0 ? "" : vendor, family, model);
    return 0;
}

static int read_line(struct tape *t, struct line *l, bool *ended)
{
    double v;
    char *word = take_word(l, t->arena);
    if (!word || *word == '#')
        return 0;
    if (strcmp(word, "time") == 0)
        return read_time(t, l);
    if (strcmp(word, "processor") == 0)
        return read_processor(t, l);
    if (strcmp(word, "program") == 0)
        return is_text(t->program = take_word(l, t->arena)) ? 0 : wrong(l, "the program's version is missing");
    if (strcmp(word, "number") == 0) {
        char *name = take_word(l, t->arena);
        if (!is_word(name) || !take_number(l, t->arena, &v) || v < 0 || v > NUMBER_MAX)
            return wrong(l, "a number needs a name and a value from 0 to a million");
        tape_set_number(t, name, v);
        return 0;
    }
    if (strcmp(word, "end") != 0)
        return wrong(l, "unknown word");
    if (!take_number(l, t->arena, &v) || v != (double)t->entries.len)
        return wrong(l, "the number of times is not the one that the last line tells: some are missing");
    *ended = true;
    return 0;
}

static int read_head(struct line *l, struct arena *a)
{
    double version;
    char *word = take_word(l, a);
    if (!word || strcmp(word, "mtool-tape") != 0)
        return diag_error(
            "%s:1: this is no tape: it must begin with \"mtool-tape %d\"; `mtool calibrate --record` writes one",
            l->path, FORMAT);
    if (!take_number(l, a, &version) || version != FORMAT)
        return diag_error(
            "%s:1: a tape of another format; this mtool reads format %d: record it again, or use the mtool that "
            "wrote it",
            l->path, FORMAT);
    return 0;
}

static int read_text(struct tape *t, const char *path, const char *text, size_t len)
{
    struct line l = {.path = path};
    bool ended = false;
    for (const char *at = text, *all = text + len; at < all && !ended;) {
        const char *end = memchr(at, '\n', (size_t)(all - at));
        l.at = at;
        l.end = end ? end : all;
        l.number++;
        if ((l.number == 1 ? read_head(&l, t->arena) : read_line(t, &l, &ended)) < 0)
            return -1;
        at = l.end + 1;
    }
    if (!l.number)
        return diag_error("%s:1: the file is empty; `mtool calibrate --record` writes a tape", path);
    return ended ? 0 : wrong(&l, "the file stops without a line \"end\": it is cut off");
}

int machine_tape_parse(const char *name, const char *text, size_t len, struct tape **out)
{
    struct tape *t = machine_tape_new();
    t->name = arena_strdup(t->arena, name);
    int rc = read_text(t, name, text, len);
    if (rc < 0)
        machine_tape_free(t);
    else
        *out = t;
    return rc;
}

int machine_tape_read(const char *path, struct tape **out)
{
    struct file_bytes f;
    if (file_map(path, &f) < 0)
        return diag_error("cannot read the tape %s: %s", path, strerror(errno));
    int rc = machine_tape_parse(path, (const char *)f.data, f.len, out);
    file_unmap(&f);
    return rc;
}

struct machine *machine_tape_shipped(const struct tape *t)
{
    bool is_amd = strcmp(t->vendor, "AuthenticAMD") == 0, is_intel = strcmp(t->vendor, "GenuineIntel") == 0;
    return is_amd || is_intel ? machine_shipped(is_amd ? "amd" : "intel", t->family, t->model) : NULL;
}

/* ---- what was not on it ---- */

void machine_tape_gaps(const struct tape *t, struct machine_tape_gaps *out)
{
    *out = (struct machine_tape_gaps){.program = t->program,
                                      .missing = t->missing,
                                      .changed = t->changed,
                                      .doubted = t->doubted,
                                      .first_doubted = t->first_doubted,
                                      .labels = t->missing_labels.data,
                                      .label_count = t->missing_labels.len};
    for (size_t i = 0; i < t->entries.len; i++)
        out->used += t->entries.data[i].used;
    out->unused = t->entries.len - out->used;
}
