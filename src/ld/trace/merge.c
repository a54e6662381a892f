/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared buffer, read. Segments come in the order of their numbers (wire/trace.h). A thread that lost its turn may
 * still write a block that it had begun: its segment is then behind (`behind`), and is looked at again before any that
 * was written later is given. What depends on such a block is written after it; so who looks at the later segment
 * first, and then at those behind, sees both or neither.
 */
#include "ld/trace/buffer.h"
#include "ld/trace/expand.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY_HAS_IT_MS = 5000 };

struct chunk {
    struct ld_trace_stream *stream; /* NULL: free, or not yet seen */
    uint64_t segment;
    uint32_t at;  /* word behind the header */
    bool is_over; /* its thread is gone */
};

struct ld_trace {
    struct arena *arena;
    struct ld_trace_buffer buffer;
    struct ld_trace_expand expand;
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
    struct ld_trace_module modules[WIRE_TRACE_MODULES];
    VEC(struct ld_trace_stream *) all_streams;
    struct map streams; /* module and thread -> struct ld_trace_stream */
    struct map processes, threads;
    enum ld_trace_fetches fetches;
    unsigned fetch_shift;
};

static uint64_t load(const volatile uint64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }

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

static struct ld_trace_module *module_of(struct ld_trace *t, uint32_t number)
{
    struct wire_trace_module *shared = ld_trace_buffer_module(&t->buffer, number);
    struct ld_trace_module *m = &t->modules[number % WIRE_TRACE_MODULES];
    char path[sizeof shared->path];
    if (m->process)
        return m;
    memcpy(path, shared->path, sizeof path);
    path[sizeof path - 1] = 0;
    m->process = shared->process;
    m->known = ARENA_ARRAY(t->arena, struct ld_trace_known, LD_TRACE_KNOWN);
    m->program = program_of(t, path);
    if (m->program) {
        m->above = shared->note - ld_trace_program_note(m->program);
        m->parts = ld_trace_program_parts(m->program, &m->lo, &m->span);
        m->lo += m->above;
    }
    t->expand.stats.modules++;
    if (!map_has(&t->processes, m->process)) {
        map_put(&t->processes, m->process, 1);
        t->expand.stats.processes++;
    }
    return m;
}

static struct ld_trace_stream *stream_of(struct ld_trace *t, const struct wire_trace_chunk *c)
{
    uint64_t key = LD_TRACE_STREAM(c->module, c->thread);
    uint64_t *at = map_place(&t->streams, key);
    if (*at)
        return (struct ld_trace_stream *)(uintptr_t)*at;
    struct ld_trace_stream *s = ARENA_NEW(t->arena, struct ld_trace_stream);
    VEC_PUSH(&t->all_streams, s);
    s->module = module_of(t, c->module);
    s->values[LD_TRACE_VALUE_ABOVE] = s->module->above;
    s->values[LD_TRACE_VALUE_THREAD] = c->fs;
    uint64_t *number = map_place(&t->threads, (uint64_t)s->module->process << 32 | c->thread);
    if (!*number)
        *number = ++t->expand.stats.threads;
    s->who = (struct ld_trace_thread){s->module->process, c->thread, (uint32_t)*number - 1};
    at = map_place(&t->streams, key);
    *at = (uintptr_t)s;
    return s;
}

/* ---- chunks ---- */

static void give_back(struct ld_trace *t, uint32_t c)
{
    t->chunks[c] = (struct chunk){.stream = NULL};
    ld_trace_buffer_give_back(&t->buffer, c);
}

static void find_chunks(struct ld_trace *t)
{
    for (uint32_t c = 0; c < t->buffer.handed_out; c++) {
        struct chunk *k = &t->chunks[c];
        uint64_t segment = k->stream ? 0 : load(&ld_trace_buffer_chunk(&t->buffer, c)->segment);
        if (!segment)
            continue;
        *k = (struct chunk){.segment = segment};
        k->stream = stream_of(t, ld_trace_buffer_chunk(&t->buffer, c));
    }
}

/* How far words of its segment are there. */
static uint32_t extent(const struct ld_trace *t, uint32_t c)
{
    return ld_trace_extent(t->chunks[c].stream, ld_trace_buffer_words(&t->buffer, c), t->chunks[c].at);
}

static enum ld_trace_stop give(struct ld_trace *t, uint32_t c, uint32_t end)
{
    struct chunk *k = &t->chunks[c];
    return ld_trace_give(&t->expand, k->stream, ld_trace_buffer_words(&t->buffer, c), &k->at, end, &k->segment);
}

/* A thread that is gone writes no more: what is not there is torn. */
static bool skip_holes(struct ld_trace *t, uint32_t c)
{
    struct chunk *k = &t->chunks[c];
    const volatile uint64_t *w = ld_trace_buffer_words(&t->buffer, c);
    uint32_t at = k->at;
    while (at < LD_TRACE_CHUNK_WORDS && !w[at])
        at++;
    t->expand.stats.torn += at < LD_TRACE_CHUNK_WORDS;
    k->at = at;
    return at < LD_TRACE_CHUNK_WORDS;
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
    for (uint32_t c = 0; c < t->buffer.handed_out; c++) {
        struct chunk *k = &t->chunks[c];
        if (k->stream && !k->is_over)
            k->is_over = t->is_ended || is_gone(&k->stream->who);
    }
}

/* ---- order ---- */

/* Gives all of a segment that is there; what stays open is over if its thread is. */
static enum ld_trace_stop give_all(struct ld_trace *t, uint32_t c, uint32_t end)
{
    enum ld_trace_stop stop = give(t, c, end);
    while (stop == LD_TRACE_OPEN && t->chunks[c].is_over) {
        stop = give(t, c, LD_TRACE_CHUNK_WORDS);
        if (stop == LD_TRACE_OPEN && !skip_holes(t, c))
            stop = LD_TRACE_END;
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
        enum ld_trace_stop stop = give_all(t, c, t->end_behind[n]);
        any |= t->chunks[c].at != at;
        if (stop == LD_TRACE_END)
            give_back(t, c);
        else if (stop == LD_TRACE_OPEN)
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
        for (uint32_t c = 0; c < t->buffer.handed_out; c++)
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
    if (t->next > load(&t->buffer.head->turn) && !t->is_ended)
        return false;
    if (!t->is_missing) {
        t->is_missing = true;
        clock_gettime(CLOCK_MONOTONIC, &t->missing_since);
    }
    if (!t->is_ended && ms_since(&t->missing_since) < NOBODY_HAS_IT_MS)
        return false;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t c = 0; c < t->buffer.handed_out; c++)
        if (t->chunks[c].stream && t->chunks[c].segment >= t->next)
            lowest = min_u64(lowest, t->chunks[c].segment);
    if (lowest == UINT64_MAX)
        return false;
    t->expand.stats.skipped += lowest - t->next;
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
    bool is_last = load(&t->buffer.head->turn) == t->next && !t->is_ended; /* before it is looked at */
    uint32_t end = t->behind_count ? extent(t, c) : LD_TRACE_CHUNK_WORDS;
    bool any = t->behind_count && give_behind(t);
    enum ld_trace_stop stop = give_all(t, c, end);
    any |= t->chunks[c].at != at;
    if (stop == LD_TRACE_END) {
        give_back(t, c);
        go_on(t);
    } else if (stop == LD_TRACE_SEGMENT) {
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
    for (unsigned n = 0; n < WIRE_TRACE_CHUNKS_MAX && give_next(t); n++)
        any = true;
    if (!any) {
        any = t->behind_count && give_behind(t);
        find_gone(t);
        ld_trace_buffer_grow(&t->buffer);
    }
    return any;
}

/* What threads left out, by kind. */
static void count_left_out(struct ld_trace *t, uint64_t made[4])
{
    for (uint32_t k = 0; k < ld_trace_buffer_counted(&t->buffer); k++) {
        const volatile uint64_t *counts = ld_trace_buffer_counts(&t->buffer, k);
        for (unsigned n = 1; n < WIRE_TRACE_COUNTS; n++) {
            unsigned fetches = n & WIRE_TRACE_FETCHES_MAX;
            t->expand.stats.left_out += fetches ? counts[n] : 0;
            made[CACHE_FETCH] += counts[n] * fetches;
            made[CACHE_READ] += counts[n] * (n >> 6 & WIRE_TRACE_LOADS_MAX);
            made[CACHE_WRITE] += counts[n] * (n >> 8 & WIRE_TRACE_STORES_MAX);
            made[CACHE_MODIFY] += counts[n] * (n >> 10 & WIRE_TRACE_MODIFIES_MAX);
        }
    }
}

/* What was made, by how often each part began. */
static void count(struct ld_trace *t)
{
    uint64_t made[4] = {0};
    for (size_t i = 0; i < t->all_programs.len; i++) {
        const struct ld_trace_program *p = t->all_programs.data[i];
        if (!p)
            continue;
        t->expand.stats.unread += ld_trace_program_unread(p);
        t->expand.stats.untold += ld_trace_program_untold(p);
        ld_trace_program_count(p, made, &t->expand.stats.blocks);
    }
    for (int k = 0; k < 4; k++)
        made[k] -= t->expand.undone[k];
    count_left_out(t, made);
    t->expand.stats.blocks += t->expand.stats.left_out;
    if (t->expand.sim) {
        uint64_t of_sim[CACHE_KIND_COUNT] = {made[CACHE_FETCH], made[CACHE_READ] + made[CACHE_MODIFY],
                                             made[CACHE_WRITE]};
        ld_trace_sim_count(t->expand.sim, of_sim);
        ld_trace_sim_end(t->expand.sim);
    }
    for (int k = 0; k < 4; k++)
        t->expand.stats.made[k] += made[k];
}

void ld_trace_end(struct ld_trace *t)
{
    while (ld_trace_read(t))
        ;
    ld_trace_buffer_end(&t->buffer);
    t->is_ended = true;
    find_chunks(t);
    find_gone(t);
    while (ld_trace_read(t))
        find_chunks(t);
    give_behind(t);
    __atomic_store_n(&t->buffer.head->turn, 0, __ATOMIC_RELEASE);
    t->expand.stats.lost = t->buffer.head->lost;
    for (size_t i = 0; i < t->all_streams.len; i++)
        ld_trace_leave(&t->expand, t->all_streams.data[i]);
    count(t);
}

const struct ld_trace_stats *ld_trace_stats(const struct ld_trace *t) { return &t->expand.stats; }
const char *ld_trace_path(const struct ld_trace *t) { return t->buffer.path; }

/* ---- made and freed ---- */

int ld_trace_new(ld_trace_take_fn *take, void *ctx, struct ld_trace_sim *sim, struct ld_trace **out)
{
    struct ld_trace *t = xmalloc(sizeof *t);
    *out = NULL;
    t->arena = arena_new();
    t->expand.take = take;
    t->expand.ctx = ctx;
    t->expand.sim = sim;
    t->expand.streams = &t->streams;
    if (sim)
        t->fetches = ld_trace_sim_fetches(sim, &t->fetch_shift);
    t->current = ID_NONE;
    t->next = 2;
    t->chunks = ARENA_ARRAY(t->arena, struct chunk, WIRE_TRACE_CHUNKS_MAX);
    t->behind = ARENA_ARRAY(t->arena, uint32_t, WIRE_TRACE_CHUNKS_MAX + 1);
    t->end_behind = ARENA_ARRAY(t->arena, uint32_t, WIRE_TRACE_CHUNKS_MAX + 1);
    int error = ld_trace_buffer_open(&t->buffer, t->arena);
    if (error) {
        ld_trace_free(t);
        return diag_error("ld-trace: no room for the shared buffer: %s", strerror(error));
    }
    t->buffer.head->filter_slots = sim ? ld_trace_sim_slots(sim) : 0;
    t->buffer.head->filter_lines = t->buffer.head->filter_slots ? ld_trace_sim_lines(sim) : 1;
    *out = t;
    return 0;
}

void ld_trace_free(struct ld_trace *t)
{
    if (!t)
        return;
    ld_trace_buffer_close(&t->buffer);
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
