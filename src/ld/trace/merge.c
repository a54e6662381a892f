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
#include "ld/trace/sim.h"
#include "wire/trace.h"

enum { BATCH = 1 << 14, NESTED_MAX = 16, NOBODY_HAS_IT_MS = 5000, CHUNKS_AT_FIRST = 64 };

struct pending { /* a part that is under way */
    const struct ld_trace_part *part;
    uint32_t op;
    uint16_t late;
    uint64_t values[LD_TRACE_VALUES_MAX];
};
struct module {                       /* a linked file in a process */
    struct ld_trace_program *program; /* NULL: it cannot be read */
    uint64_t above;                   /* run-time addresses, over those in the file */
    struct ld_trace_part *const *parts;
    uint64_t lo, span; /* of parts, at run time */
    uint32_t process;
};
struct stream { /* what a thread does in a linked file */
    struct ld_trace_thread who;
    struct module *module;
    uint64_t values[LD_TRACE_VALUES_MAX]; /* those that all parts share; behind them those of one */
    struct pending nested[NESTED_MAX];    /* those that handlers of signals interrupted, and the last one */
    unsigned depth;
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
    unsigned chunk_count, handed_out; /* of chunk_count that there could be */
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
    VEC(struct stream *) all_streams;
    struct map streams; /* module and thread -> struct stream */
    struct map processes, threads;
    ld_trace_take_fn *take;
    void *ctx;
    struct ld_trace_sim *sim; /* in its place, or NULL */
    enum ld_trace_fetches fetches;
    unsigned fetch_shift;
    struct cache_ref refs[BATCH];
    size_t ref_count;
    uint64_t undone[4]; /* by kind: of parts that were left */
    struct ld_trace_stats stats;
};

static uint64_t load(const volatile uint64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }

/* ---- references ---- */

static void flush(struct ld_trace *t, const struct stream *s)
{
    if (t->ref_count && t->sim)
        ld_trace_sim_refs(t->sim, &s->who, t->refs, t->ref_count);
    else if (t->ref_count)
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

static uint64_t address_of(const struct ld_trace_op *op, const uint64_t *values)
{
    return values[op->value] + values[op->value_more] + op->plus;
}

static void add_fetch(struct ld_trace *t, const struct stream *s, const struct ld_trace_repeat *r)
{
    t->stats.made[CACHE_FETCH]++;
    if (r->fetch_bytes)
        add_ref(t, s, r->fetch + s->module->above, r->fetch_bytes, CACHE_FETCH);
}

/* Its operations, element by element. */
static void repeat(struct ld_trace *t, const struct stream *s, const struct ld_trace_part *part,
                   const struct ld_trace_op *op, const uint64_t *values)
{
    const struct ld_trace_repeat *r = &part->repeats[op->repeat - 1];
    uint64_t rest = values[r->rest], count = values[r->count] + (uint64_t)r->plus - rest;
    for (uint64_t i = 0; i < count; i++) {
        if (i)
            add_fetch(t, s, r);
        for (unsigned k = 0; k < r->ops; k++) {
            add_ref(t, s, address_of(&op[k], values) + i * op[k].bytes, op[k].bytes, op[k].kind);
            t->stats.made[op[k].kind]++;
        }
    }
    if (count && !rest)
        add_fetch(t, s, r);
    if (t->sim) /* others go there past the batch */
        flush(t, s);
}

static void give_ops(struct ld_trace *t, const struct stream *s, const struct ld_trace_part *part, uint32_t from,
                     uint32_t to, const uint64_t *values)
{
    if (t->sim && part->is_plain) {
        ld_trace_sim_ops(t->sim, part->ops + from, part->ops + to, values);
        return;
    }
    for (uint32_t k = from; k < to; k++) {
        const struct ld_trace_op *op = &part->ops[k];
        if (op->repeat) {
            repeat(t, s, part, op, values);
            k += part->repeats[op->repeat - 1].ops - 1u;
        } else if (t->sim && !op->value_more) {
            ld_trace_sim_ops(t->sim, op, op + 1, values);
        } else if (t->sim) {
            struct ld_trace_op whole = *op;
            whole.plus += values[op->value_more];
            ld_trace_sim_ops(t->sim, &whole, &whole + 1, values);
        } else {
            add_ref(t, s, address_of(op, values), op->bytes, op->kind);
        }
    }
}

/* As far as is known. */
static void advance(struct ld_trace *t, const struct stream *s, struct pending *p)
{
    uint32_t from = p->op;
    while (p->op < p->part->op_count && p->part->ops[p->op].late <= p->late)
        p->op++;
    give_ops(t, s, p->part, from, p->op, p->values);
}

static bool is_done(const struct pending *p) { return p->op == p->part->op_count && p->late == p->part->late_count; }

/* It is not known to its end. */
static void leave(struct ld_trace *t, const struct pending *p)
{
    t->stats.torn++;
    for (uint32_t k = p->op; k < p->part->op_count; k++)
        t->undone[p->part->ops[k].kind] += !p->part->ops[k].repeat;
}

static void begin_pending(struct ld_trace *t, struct stream *s, const struct ld_trace_part *part)
{
    if (s->depth == NESTED_MAX) {
        leave(t, &s->nested[0]);
        memmove(s->nested, s->nested + 1, sizeof s->nested - sizeof *s->nested);
        s->depth--;
    }
    struct pending *p = &s->nested[s->depth++];
    p->part = part;
    p->op = 0;
    p->late = 0;
    memcpy(p->values, s->values, (LD_TRACE_VALUE_WORDS + part->entry_count) * sizeof *p->values);
    advance(t, s, p);
}

/* What comes late stands right behind it, unless a handler came between. Returns how many words that are. */
static inline unsigned take_all_late(struct stream *s, const struct ld_trace_part *part, const volatile uint64_t *words)
{
    for (unsigned k = 0; k < part->late_count; k++) {
        if (load(&words[2 * k]) != WIRE_TRACE_LATE + k)
            return 0;
        s->values[LD_TRACE_VALUE_WORDS + part->entry_count + k] = words[2 * k + 1];
    }
    return 2 * part->late_count;
}

/* With so many words behind the first that may be looked at. Returns how many more than its own it took. */
static inline unsigned begin_part(struct ld_trace *t, struct stream *s, struct ld_trace_part *part,
                                  const volatile uint64_t *words, uint32_t room)
{
    unsigned late = 0;
    part->runs++;
    for (unsigned i = 0; i < part->entry_count; i++)
        s->values[LD_TRACE_VALUE_WORDS + i] = words[i];
    if (part->late_count && part->entry_count + 2u * part->late_count <= room)
        late = take_all_late(s, part, words + part->entry_count);
    if (part->late_count && !late)
        begin_pending(t, s, part);
    else if (t->sim && part->is_plain)
        ld_trace_sim_ops(t->sim, part->ops, part->ops + part->op_count, s->values);
    else
        give_ops(t, s, part, 0, part->op_count, s->values);
    return late;
}

static void take_late(struct ld_trace *t, struct stream *s, unsigned number, uint64_t value)
{
    struct pending *p = s->depth ? &s->nested[s->depth - 1] : NULL;
    if (!p || number != p->late || number >= p->part->late_count) {
        t->stats.torn++;
        return;
    }
    p->values[LD_TRACE_VALUE_WORDS + p->part->entry_count + p->late++] = value;
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
    if (ld_trace_program_open(path, t->fetches, t->fetch_shift, &p) < 0)
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
    if (m->program) {
        m->above = shared->note - ld_trace_program_note(m->program);
        m->parts = ld_trace_program_parts(m->program, &m->lo, &m->span);
        m->lo += m->above;
    }
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
    VEC_PUSH(&t->all_streams, s);
    s->module = module_of(t, c->module);
    s->values[LD_TRACE_VALUE_ABOVE] = s->module->above;
    s->values[LD_TRACE_VALUE_THREAD] = c->fs;
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

static void hand_out(struct ld_trace *t, uint32_t c)
{
    volatile uint32_t *free_list = (volatile uint32_t *)(void *)(t->base + WIRE_TRACE_FREE_AT);
    uint64_t given = t->head->given;
    free_list[given % WIRE_TRACE_CHUNKS_MAX] = c;
    __atomic_store_n(&t->head->given, given + 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&t->head->gives, 1, __ATOMIC_ACQ_REL);
    if (__atomic_load_n(&t->head->waits, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &t->head->gives, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void give_back(struct ld_trace *t, uint32_t c)
{
    memset(shared_chunk(t, c), 0, WIRE_TRACE_CHUNK);
    t->chunks[c] = (struct chunk){.stream = NULL};
    hand_out(t, c);
}

/* Threads wait for room while all that is there was read: each may keep what it has. */
static void hand_out_more(struct ld_trace *t)
{
    if (__atomic_load_n(&t->head->waits, __ATOMIC_ACQUIRE) && t->handed_out < t->chunk_count)
        hand_out(t, t->handed_out++);
}

static void find_chunks(struct ld_trace *t)
{
    for (uint32_t c = 0; c < t->handed_out; c++) {
        struct chunk *k = &t->chunks[c];
        uint64_t segment = k->stream ? 0 : load(&shared_chunk(t, c)->segment);
        if (!segment)
            continue;
        *k = (struct chunk){.segment = segment};
        k->stream = stream_of(t, shared_chunk(t, c));
    }
}

/* ---- records ---- */

static struct ld_trace_part *part_of(const struct module *m, uint64_t at)
{
    if (at - m->lo >= m->span)
        return NULL;
    struct ld_trace_part *part = m->parts[at - m->lo];
    return part ? part : ld_trace_program_part(m->program, at - m->above);
}

static bool is_known(const struct module *m, uint64_t at) { return ld_trace_program_has(m->program, at - m->above); }

/* How many words the record at `at` has, 0 if it is not all there. *part: of a block's. */
static inline unsigned record_words(const struct module *m, const volatile uint64_t *w, uint32_t at, uint64_t *first,
                                    struct ld_trace_part **part)
{
    unsigned n = 1;
    *part = NULL;
    if (at >= CHUNK_WORDS || !(*first = load(&w[at])))
        return 0;
    if (!(*first >> 63)) {
        *part = part_of(m, *first);
        n += *part ? (*part)->entry_count : 0;
    } else if (*first != WIRE_TRACE_END) {
        n = 2;
    }
    return at + n <= CHUNK_WORDS ? n : 0;
}

enum stop { STOP_OPEN, STOP_SEGMENT, STOP_END };

/* How far words of the segment are there. */
static uint32_t extent(const struct ld_trace *t, uint32_t c)
{
    const struct chunk *k = &t->chunks[c];
    struct ld_trace_part *part;
    uint64_t first;
    uint32_t at = k->at;
    for (unsigned n; (n = record_words(k->stream->module, words_of(t, c), at, &first, &part)); at += n)
        if (first == WIRE_TRACE_END || first == WIRE_TRACE_SEGMENT)
            return at + n;
    return at;
}

/* Gives records up to `end`, not beyond the segment. */
static enum stop give(struct ld_trace *t, uint32_t c, uint32_t end)
{
    struct chunk *k = &t->chunks[c];
    const volatile uint64_t *w = words_of(t, c);
    struct stream *s = k->stream;
    struct ld_trace_part *part;
    uint64_t first;
    uint32_t at = k->at;
    enum stop stop = STOP_OPEN;
    if (t->sim)
        ld_trace_sim_thread(t->sim, s->who.number);
    for (unsigned n; at < end && stop == STOP_OPEN && (n = record_words(s->module, w, at, &first, &part)); at += n) {
        if (part) {
            n += begin_part(t, s, part, &w[at + 1], end - at - 1);
        } else if (first == WIRE_TRACE_END) {
            stop = STOP_END;
        } else if (first == WIRE_TRACE_SEGMENT) {
            k->segment = w[at + 1];
            stop = STOP_SEGMENT;
        } else if (first >> 63) {
            take_late(t, s, (unsigned)(first - WIRE_TRACE_LATE), w[at + 1]);
        } else if (s->module->program) { /* what stands behind a hole, or a block that cannot be read */
            t->stats.torn += !is_known(s->module, first);
        } else {
            t->stats.unknown++;
        }
    }
    k->at = at;
    flush(t, s);
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
    for (uint32_t c = 0; c < t->handed_out; c++) {
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
        for (uint32_t c = 0; c < t->handed_out; c++)
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
    for (uint32_t c = 0; c < t->handed_out; c++)
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
        hand_out_more(t);
    }
    return any;
}

static void leave_all(struct ld_trace *t)
{
    for (size_t i = 0; i < t->all_streams.len; i++)
        for (unsigned n = 0; n < t->all_streams.data[i]->depth; n++)
            leave(t, &t->all_streams.data[i]->nested[n]);
}

/* What was made, by how often each part began. */
static void count(struct ld_trace *t)
{
    uint64_t made[4] = {0};
    for (size_t i = 0; i < t->all_programs.len; i++) {
        const struct ld_trace_program *p = t->all_programs.data[i];
        if (!p)
            continue;
        t->stats.unread += ld_trace_program_unread(p);
        t->stats.untold += ld_trace_program_untold(p);
        ld_trace_program_count(p, made, &t->stats.blocks);
    }
    for (int k = 0; k < 4; k++)
        made[k] -= t->undone[k];
    if (t->sim) {
        uint64_t of_sim[CACHE_KIND_COUNT] = {made[CACHE_FETCH], made[CACHE_READ] + made[CACHE_MODIFY],
                                             made[CACHE_WRITE]};
        ld_trace_sim_count(t->sim, of_sim);
        ld_trace_sim_end(t->sim);
    }
    for (int k = 0; k < 4; k++)
        t->stats.made[k] += made[k];
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
    leave_all(t);
    count(t);
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
    if (ftruncate(t->fd, bytes) < 0)
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
    for (uint32_t c = 0; c < CHUNKS_AT_FIRST; c++)
        free_list[c] = c;
    t->handed_out = CHUNKS_AT_FIRST;
    t->head->given = CHUNKS_AT_FIRST;
    t->head->version = WIRE_TRACE_VERSION;
    t->head->chunks = t->chunk_count;
    memcpy((char *)(uintptr_t)t->head->magic, WIRE_TRACE_MAGIC, sizeof t->head->magic);
    t->head->turn = 1;
    t->next = 2;
}

int ld_trace_new(ld_trace_take_fn *take, void *ctx, struct ld_trace_sim *sim, struct ld_trace **out)
{
    struct ld_trace *t = xmalloc(sizeof *t);
    *out = NULL;
    t->arena = arena_new();
    t->fd = -1;
    t->take = take;
    t->ctx = ctx;
    t->sim = sim;
    if (sim)
        t->fetches = ld_trace_sim_fetches(sim, &t->fetch_shift);
    t->chunk_count = WIRE_TRACE_CHUNKS_MAX;
    t->current = ID_NONE;
    t->chunks = ARENA_ARRAY(t->arena, struct chunk, t->chunk_count);
    t->behind = ARENA_ARRAY(t->arena, uint32_t, t->chunk_count + 1);
    t->end_behind = ARENA_ARRAY(t->arena, uint32_t, t->chunk_count + 1);
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
    VEC_FREE(&t->all_streams);
    map_fini(&t->streams);
    map_fini(&t->processes);
    map_fini(&t->threads);
    arena_free(t->arena);
    free(t);
}
