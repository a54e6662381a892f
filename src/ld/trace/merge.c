/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared buffer, read. Segments come in the order of their numbers (wire/trace.h). A thread that lost its turn may
 * still write a block that it had begun: its segment is then behind (`behind`), and is looked at again before any that
 * was written later is given. What depends on such a block is written after it; so who looks at the later segment
 * first, and then at those behind, sees both or neither.
 */
#include "ld/trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>

#include "ld/trace/program.h"
#include "wire/trace.h"

enum { BATCH = 1 << 14, NESTED_MAX = 16, WORDS_MAX = 2 * REWRITE_TRACE_FIRST_LATE, NOBODY_HAS_IT_MS = 5000 };

struct pending { /* a part that is under way */
    const struct ld_trace_part *part;
    uint32_t op;
    uint16_t late;
    uint64_t words[WORDS_MAX];
};
struct stream { /* what a thread does in a linked file */
    struct ld_trace_thread who;
    struct module *module;
    uint64_t fs;
    struct pending nested[NESTED_MAX]; /* those that handlers of signals interrupted, and the last one */
    unsigned depth;
};
struct module {                       /* a linked file in a process */
    struct ld_trace_program *program; /* NULL: it cannot be read */
    uint64_t above;                   /* run-time addresses, over those in the file */
    uint32_t process;
};
struct chunk {
    struct stream *stream; /* NULL: free, or not yet seen */
    uint64_t segment;
    uint32_t at;  /* word behind the header */
    bool is_over; /* its thread is gone */
};

struct ld_trace {
    struct arena *arena;
    const char *path;
    int fd;
    uint8_t *base;
    volatile struct wire_trace *head;
    unsigned chunk_count;
    struct chunk *chunks;
    uint32_t *behind;     /* chunks whose segment is behind, by segment */
    uint32_t *end_behind; /* how far that is there */
    unsigned behind_count;
    uint64_t next;    /* segment */
    uint32_t current; /* the chunk that has it; ID_NONE: not known */
    struct timespec missing_since;
    bool is_missing, is_ended;
    VEC(struct ld_trace_program *) all_programs;
    VEC(char *) paths;
    struct module modules[WIRE_TRACE_MODULES];
    struct map streams; /* module and thread -> struct stream */
    struct map processes, threads;
    ld_trace_take_fn *take;
    void *ctx;
    struct cache_ref refs[BATCH];
    size_t ref_count;
    struct ld_trace_stats stats;
};

/* ---- references ---- */

static void flush(struct ld_trace *t, const struct stream *s)
{
    if (t->ref_count)
        t->take(t->ctx, &s->who, t->refs, t->ref_count);
    t->ref_count = 0;
}

static void add_ref(struct ld_trace *t, const struct stream *s, uint64_t address, uint16_t bytes, uint8_t kind)
{
    if (t->ref_count == BATCH)
        flush(t, s);
    t->refs[t->ref_count++] = (struct cache_ref){
        .address = address, .bytes = bytes, .kind = kind, .thread = (uint8_t)(s->who.number % CACHE_THREADS_MAX)};
}

static uint64_t address_of(const struct stream *s, const struct ld_trace_op *op, const uint64_t *words)
{
    uint64_t from = op->from == LD_TRACE_FROM_FILE ? s->module->above : op->from == LD_TRACE_FROM_THREAD ? s->fs : 0;
    return from + op->plus + (op->word >= 0 ? words[op->word] : 0);
}

static void add_op(struct ld_trace *t, const struct stream *s, const struct ld_trace_op *op, const uint64_t *words)
{
    uint64_t address = address_of(s, op, words), count = 1;
    if (op->count_word >= 0)
        count = words[op->count_word] + (uint64_t)op->count_plus;
    if (op->rest_word >= 0)
        count -= words[op->rest_word];
    for (; count; count--, address += op->bytes)
        add_ref(t, s, address, op->bytes, op->kind);
}

/* As far as is known. */
static void advance(struct ld_trace *t, struct stream *s, struct pending *p)
{
    while (p->op < p->part->op_count && p->part->ops[p->op].late <= p->late)
        add_op(t, s, &p->part->ops[p->op++], p->words);
}

static bool is_done(const struct pending *p) { return p->op == p->part->op_count && p->late == p->part->late_count; }

static void begin_part(struct ld_trace *t, struct stream *s, const struct ld_trace_part *part, const uint64_t *words)
{
    t->stats.blocks++;
    if (!part->late_count) {
        for (uint32_t k = 0; k < part->op_count; k++)
            add_op(t, s, &part->ops[k], words);
        return;
    }
    if (s->depth == NESTED_MAX) {
        t->stats.torn++;
        memmove(s->nested, s->nested + 1, sizeof s->nested - sizeof *s->nested);
        s->depth--;
    }
    struct pending *p = &s->nested[s->depth++];
    p->part = part;
    p->op = 0;
    p->late = 0;
    memcpy(p->words, words, part->entry_count * sizeof *words);
    advance(t, s, p);
}

static void take_late(struct ld_trace *t, struct stream *s, unsigned number, uint64_t value)
{
    struct pending *p = s->depth ? &s->nested[s->depth - 1] : NULL;
    if (!p || number != p->late || number >= p->part->late_count) {
        t->stats.torn++;
        return;
    }
    p->words[REWRITE_TRACE_FIRST_LATE + p->late++] = value;
    advance(t, s, p);
    if (is_done(p))
        s->depth--;
}

/* ---- modules, threads ---- */

static struct ld_trace_program *program_of(struct ld_trace *t, const char *path)
{
    for (size_t i = 0; i < t->paths.len; i++)
        if (!strcmp(t->paths.data[i], path))
            return t->all_programs.data[i];
    struct ld_trace_program *p = NULL;
    if (ld_trace_program_open(path, &p) < 0)
        p = NULL;
    VEC_PUSH(&t->paths, arena_strdup(t->arena, path));
    VEC_PUSH(&t->all_programs, p);
    return p;
}

static struct module *module_of(struct ld_trace *t, uint32_t number)
{
    struct wire_trace_module *shared =
        (struct wire_trace_module *)(void *)(t->base + WIRE_TRACE_MODULES_AT) + number % WIRE_TRACE_MODULES;
    struct module *m = &t->modules[number % WIRE_TRACE_MODULES];
    char path[sizeof shared->path];
    if (m->process)
        return m;
    memcpy(path, shared->path, sizeof path);
    path[sizeof path - 1] = 0;
    m->process = shared->process;
    m->program = program_of(t, path);
    m->above = m->program ? shared->note - ld_trace_program_note(m->program) : 0;
    t->stats.modules++;
    if (!map_has(&t->processes, m->process)) {
        map_put(&t->processes, m->process, 1);
        t->stats.processes++;
    }
    return m;
}

static struct stream *stream_of(struct ld_trace *t, const struct wire_trace_chunk *c)
{
    uint64_t key = (uint64_t)c->module << 32 | c->thread;
    uint64_t *at = map_place(&t->streams, key);
    if (*at)
        return (struct stream *)(uintptr_t)*at;
    struct stream *s = ARENA_NEW(t->arena, struct stream);
    s->module = module_of(t, c->module);
    s->fs = c->fs;
    uint64_t *number = map_place(&t->threads, (uint64_t)s->module->process << 32 | c->thread);
    if (!*number)
        *number = ++t->stats.threads;
    s->who = (struct ld_trace_thread){s->module->process, c->thread, (uint32_t)*number - 1};
    at = map_place(&t->streams, key);
    *at = (uintptr_t)s;
    return s;
}

/* ---- chunks ---- */

static struct wire_trace_chunk *shared_chunk(const struct ld_trace *t, uint32_t c)
{
    return (struct wire_trace_chunk *)(void *)(t->base + WIRE_TRACE_CHUNKS_AT + (uint64_t)c * WIRE_TRACE_CHUNK);
}

static volatile uint64_t *words_of(const struct ld_trace *t, uint32_t c)
{
    return (volatile uint64_t *)(void *)(shared_chunk(t, c) + 1);
}

enum { CHUNK_WORDS = (WIRE_TRACE_CHUNK - sizeof(struct wire_trace_chunk)) / 8 };

static uint64_t load(const volatile uint64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }

static void give_back(struct ld_trace *t, uint32_t c)
{
    struct chunk *k = &t->chunks[c];
    volatile uint32_t *free_list = (volatile uint32_t *)(void *)(t->base + WIRE_TRACE_FREE_AT);
    memset(shared_chunk(t, c), 0, WIRE_TRACE_CHUNK);
    *k = (struct chunk){.stream = NULL};
    uint64_t given = t->head->given;
    free_list[given % WIRE_TRACE_CHUNKS_MAX] = c;
    __atomic_store_n(&t->head->given, given + 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&t->head->gives, 1, __ATOMIC_ACQ_REL);
    if (__atomic_load_n(&t->head->waits, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &t->head->gives, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void find_chunks(struct ld_trace *t)
{
    for (uint32_t c = 0; c < t->chunk_count; c++) {
        struct chunk *k = &t->chunks[c];
        uint64_t segment = k->stream ? 0 : load(&shared_chunk(t, c)->segment);
        if (!segment)
            continue;
        *k = (struct chunk){.segment = segment};
        k->stream = stream_of(t, shared_chunk(t, c));
    }
}

/* ---- records ---- */

/* How many words the record at `at` has, 0 if it is not all there. *part: of a block's. */
static unsigned record_words(const struct chunk *k, const volatile uint64_t *w, uint32_t at, uint64_t *first,
                             const struct ld_trace_part **part)
{
    const struct module *m = k->stream->module;
    unsigned n;
    *part = NULL;
    if (at >= CHUNK_WORDS || !(*first = load(&w[at])))
        return 0;
    if (*first == WIRE_TRACE_END)
        return 1;
    if (*first >> 63) {
        n = 2;
    } else {
        *part = m->program ? ld_trace_program_part(m->program, *first - m->above) : NULL;
        n = *part ? 1u + (*part)->entry_count : 1;
    }
    return at + n <= CHUNK_WORDS ? n : 0;
}

enum stop { STOP_OPEN, STOP_SEGMENT, STOP_END };

/* How far words of the segment are there. */
static uint32_t extent(const struct ld_trace *t, uint32_t c)
{
    const struct chunk *k = &t->chunks[c];
    const struct ld_trace_part *part;
    uint64_t first;
    uint32_t at = k->at;
    for (unsigned n; (n = record_words(k, words_of(t, c), at, &first, &part)); at += n)
        if (first == WIRE_TRACE_END || first == WIRE_TRACE_SEGMENT)
            return at + n;
    return at;
}

/* Gives records up to `end`, not beyond the segment. */
static enum stop give(struct ld_trace *t, uint32_t c, uint32_t end)
{
    struct chunk *k = &t->chunks[c];
    const volatile uint64_t *w = words_of(t, c);
    const struct ld_trace_part *part;
    uint64_t first, words[WORDS_MAX];
    enum stop stop = STOP_OPEN;
    for (unsigned n; k->at < end && stop == STOP_OPEN && (n = record_words(k, w, k->at, &first, &part)); k->at += n) {
        if (part) {
            for (unsigned i = 0; i < part->entry_count; i++)
                words[i] = w[k->at + 1 + i];
            begin_part(t, k->stream, part, words);
        } else if (first == WIRE_TRACE_END) {
            stop = STOP_END;
        } else if (first == WIRE_TRACE_SEGMENT) {
            k->segment = w[k->at + 1];
            stop = STOP_SEGMENT;
        } else if (first >> 63) {
            take_late(t, k->stream, (unsigned)(first - WIRE_TRACE_LATE), w[k->at + 1]);
        } else {
            t->stats.unknown++;
        }
    }
    flush(t, k->stream);
    return stop;
}

/* A thread that is gone writes no more: what is not there is torn. */
static bool skip_holes(struct ld_trace *t, uint32_t c)
{
    struct chunk *k = &t->chunks[c];
    const volatile uint64_t *w = words_of(t, c);
    uint32_t at = k->at;
    while (at < CHUNK_WORDS && !w[at])
        at++;
    t->stats.torn += at < CHUNK_WORDS;
    k->at = at;
    return at < CHUNK_WORDS;
}

/* ---- who is gone ---- */

static bool is_gone(const struct ld_trace_thread *who)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%u/task/%u/stat", who->process, who->thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ESRCH;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return true;
    text[n] = 0;
    const char *state = strrchr(text, ')');
    return state && state[1] && (state[2] == 'Z' || state[2] == 'X');
}

static void find_gone(struct ld_trace *t)
{
    for (uint32_t c = 0; c < t->chunk_count; c++) {
        struct chunk *k = &t->chunks[c];
        if (k->stream && !k->is_over)
            k->is_over = t->is_ended || is_gone(&k->stream->who);
    }
}

/* ---- order ---- */

/* Gives all of a segment that is there; what stays open is over if its thread is. */
static enum stop give_all(struct ld_trace *t, uint32_t c, uint32_t end)
{
    enum stop stop = give(t, c, end);
    while (stop == STOP_OPEN && t->chunks[c].is_over) {
        stop = give(t, c, CHUNK_WORDS);
        if (stop == STOP_OPEN && !skip_holes(t, c))
            stop = STOP_END;
    }
    return stop;
}

static void leave_behind(struct ld_trace *t, uint32_t c)
{
    unsigned n = t->behind_count++;
    while (n > 0 && t->chunks[t->behind[n - 1]].segment > t->chunks[c].segment) {
        t->behind[n] = t->behind[n - 1];
        n--;
    }
    t->behind[n] = c;
}

/* Looks first at those of higher numbers. */
static bool give_behind(struct ld_trace *t)
{
    unsigned kept = 0;
    bool any = false;
    for (unsigned n = t->behind_count; n-- > 0;)
        t->end_behind[n] = extent(t, t->behind[n]);
    for (unsigned n = 0; n < t->behind_count; n++) {
        uint32_t c = t->behind[n], at = t->chunks[c].at;
        enum stop stop = give_all(t, c, t->end_behind[n]);
        any |= t->chunks[c].at != at;
        if (stop == STOP_END)
            give_back(t, c);
        else if (stop == STOP_OPEN)
            t->behind[kept++] = c;
    }
    t->behind_count = kept;
    return any;
}

static bool find_next(struct ld_trace *t)
{
    if (t->current != ID_NONE)
        return true;
    for (int looked = 0; looked < 2; looked++) {
        for (uint32_t c = 0; c < t->chunk_count; c++)
            if (t->chunks[c].stream && t->chunks[c].segment == t->next) {
                t->current = c;
                return true;
            }
        if (!looked)
            find_chunks(t);
    }
    return false;
}

static uint64_t ms_since(const struct timespec *from)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)((now.tv_sec - from->tv_sec) * 1000 + (now.tv_nsec - from->tv_nsec) / 1000000);
}

/* A segment was taken and is nowhere: its thread is about to write it, or died before. */
static bool skip_missing(struct ld_trace *t)
{
    if (t->next > load(&t->head->turn) && !t->is_ended)
        return false;
    if (!t->is_missing) {
        t->is_missing = true;
        clock_gettime(CLOCK_MONOTONIC, &t->missing_since);
    }
    if (!t->is_ended && ms_since(&t->missing_since) < NOBODY_HAS_IT_MS)
        return false;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t c = 0; c < t->chunk_count; c++)
        if (t->chunks[c].stream && t->chunks[c].segment >= t->next)
            lowest = min_u64(lowest, t->chunks[c].segment);
    if (lowest == UINT64_MAX)
        return false;
    t->stats.skipped += lowest - t->next;
    t->next = lowest;
    return true;
}

static void go_on(struct ld_trace *t)
{
    t->next++;
    if (t->current != ID_NONE && (!t->chunks[t->current].stream || t->chunks[t->current].segment != t->next))
        t->current = ID_NONE;
}

/* Of the segment whose turn it is. False: nothing came of it. */
static bool give_next(struct ld_trace *t)
{
    if (!find_next(t))
        return skip_missing(t);
    t->is_missing = false;
    uint32_t c = t->current, at = t->chunks[c].at;
    bool is_last = load(&t->head->turn) == t->next && !t->is_ended; /* before it is looked at */
    uint32_t end = t->behind_count ? extent(t, c) : CHUNK_WORDS;
    bool any = t->behind_count && give_behind(t);
    enum stop stop = give_all(t, c, end);
    any |= t->chunks[c].at != at;
    if (stop == STOP_END) {
        give_back(t, c);
        go_on(t);
    } else if (stop == STOP_SEGMENT) {
        go_on(t);
    } else if (!is_last) {
        leave_behind(t, c);
        t->current = ID_NONE;
        t->next++;
    } else {
        return any;
    }
    return true;
}

bool ld_trace_read(struct ld_trace *t)
{
    bool any = false;
    for (unsigned n = 0; n < t->chunk_count && give_next(t); n++)
        any = true;
    if (!any) {
        any = t->behind_count && give_behind(t);
        find_gone(t);
    }
    return any;
}

void ld_trace_end(struct ld_trace *t)
{
    while (ld_trace_read(t))
        ;
    __atomic_store_n(&t->head->ends, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &t->head->gives, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    t->is_ended = true;
    find_chunks(t);
    find_gone(t);
    while (ld_trace_read(t))
        find_chunks(t);
    give_behind(t);
    __atomic_store_n(&t->head->turn, 0, __ATOMIC_RELEASE);
    t->stats.lost = t->head->lost;
    for (size_t i = 0; i < t->all_programs.len; i++)
        if (t->all_programs.data[i]) {
            t->stats.unread += ld_trace_program_unread(t->all_programs.data[i]);
            t->stats.untold += ld_trace_program_untold(t->all_programs.data[i]);
        }
}

const struct ld_trace_stats *ld_trace_stats(const struct ld_trace *t) { return &t->stats; }
const char *ld_trace_path(const struct ld_trace *t) { return t->path; }

/* ---- the file ---- */

/* So that the path is as long as any other, and stacks begin at the same place in each run. */
static int slashes(void)
{
    int digits = 0;
    for (pid_t pid = getpid(); pid; pid /= 10)
        digits++;
    return 12 - digits;
}

/* It has a path as long as this process lives, and so leaves nothing behind. Who writes asks whether it is locked. */
static int make_file(struct ld_trace *t)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    off_t bytes = (off_t)WIRE_TRACE_BYTES(t->chunk_count);
    t->fd = memfd_create("mtool-trace", MFD_CLOEXEC);
    if (t->fd < 0 || fcntl(t->fd, F_SETLK, &lock) < 0)
        return -1;
    errno = posix_fallocate(t->fd, 0, bytes);
    if (errno)
        return -1;
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
    if (at == MAP_FAILED)
        return -1;
    t->base = at;
    t->path = arena_printf(t->arena, "/proc%.*s%d/fd/%d", slashes(), "////////////////", (int)getpid(), t->fd);
    return 0;
}

static void fill_head(struct ld_trace *t)
{
    volatile uint32_t *free_list = (volatile uint32_t *)(void *)(t->base + WIRE_TRACE_FREE_AT);
    t->head = (volatile struct wire_trace *)(void *)t->base;
    for (uint32_t c = 0; c < t->chunk_count; c++)
        free_list[c] = c;
    t->head->given = t->chunk_count;
    t->head->version = WIRE_TRACE_VERSION;
    t->head->chunks = t->chunk_count;
    memcpy((char *)(uintptr_t)t->head->magic, WIRE_TRACE_MAGIC, sizeof t->head->magic);
    t->head->turn = 1;
    t->next = 2;
}

int ld_trace_new(unsigned chunks, ld_trace_take_fn *take, void *ctx, struct ld_trace **out)
{
    struct ld_trace *t = xmalloc(sizeof *t);
    *out = NULL;
    t->arena = arena_new();
    t->fd = -1;
    t->take = take;
    t->ctx = ctx;
    t->chunk_count = chunks;
    t->current = ID_NONE;
    t->chunks = ARENA_ARRAY(t->arena, struct chunk, chunks);
    t->behind = ARENA_ARRAY(t->arena, uint32_t, chunks + 1);
    t->end_behind = ARENA_ARRAY(t->arena, uint32_t, chunks + 1);
    if (make_file(t) < 0) {
        int error = errno;
        ld_trace_free(t);
        return diag_error("ld-trace: no room for the shared buffer: %s", strerror(error));
    }
    fill_head(t);
    *out = t;
    return 0;
}

void ld_trace_free(struct ld_trace *t)
{
    if (!t)
        return;
    if (t->base)
        munmap(t->base, WIRE_TRACE_BYTES(t->chunk_count));
    if (t->fd >= 0)
        close(t->fd);
    for (size_t i = 0; i < t->all_programs.len; i++)
        ld_trace_program_close(t->all_programs.data[i]);
    VEC_FREE(&t->all_programs);
    VEC_FREE(&t->paths);
    map_fini(&t->streams);
    map_fini(&t->processes);
    map_fini(&t->threads);
    arena_free(t->arena);
    free(t);
}
