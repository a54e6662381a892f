/* SPDX-License-Identifier: Apache-2.0
 * A ledger of the program's own threads: when each began and ended, when it had a processor, when it wanted one in
 * vain, and where it was seen. Fed with events in order of time, by perf rings or from /proc; knows nothing of either.
 * Threads of processes that the program makes are not in it. */
#include <math.h>
#include <stdlib.h>

#include "launch/impl.h"

#define THREADS_MAX 60000
#define MOMENTS_MAX (4u << 20)

struct entry {
    uint32_t tid;
    bool has_ended, runs, was_preempted;
    uint64_t begin_ns, end_ns, cpu_ns, preempted_ns;
    uint64_t since_ns;                            /* of the last switch */
    uint64_t usage_cpu_ns, delay_ns, usage_at_ns; /* as the kernel reported last; usage_at_ns 0: never */
};
struct threads {
    uint64_t exec_ns; /* 0: the program has not begun */
    bool is_closed;   /* the program was replaced by another */
    bool has_switches;
    uint64_t delay_first_ns, cpu_first_ns; /* what the first thread had before the program began */
    VEC(struct entry) all;
    struct map by_tid; /* index of the one alive */
    VEC(struct observed_thread_sample) samples;
    struct map by_hash;
    VEC(struct observed_moment) moments;
    struct stacks *stacks; /* NULL until the program is watched */
    bool wants_stacks;
};

struct threads *threads_new(bool wants_stacks)
{
    struct threads *t = xmalloc(sizeof *t);
    t->wants_stacks = wants_stacks;
    return t;
}

void threads_watch(struct threads *t, struct launch_program *p, struct spaces *spaces)
{
    t->stacks = stacks_new(p, spaces);
}
struct stacks *threads_stacks(const struct threads *t) { return t->stacks; }
bool threads_want_stacks(const struct threads *t) { return t->wants_stacks; }

void threads_free(struct threads *t)
{
    if (!t)
        return;
    VEC_FREE(&t->all);
    VEC_FREE(&t->samples);
    VEC_FREE(&t->moments);
    stacks_free(t->stacks);
    map_fini(&t->by_tid);
    map_fini(&t->by_hash);
    free(t);
}

/* ---- lives ---- */

static struct entry *entry_of(struct threads *t, uint32_t tid)
{
    uint64_t i;
    return !t->is_closed && map_get(&t->by_tid, tid, &i) && !t->all.data[i].has_ended ? &t->all.data[i] : NULL;
}

void threads_begin(struct threads *t, uint32_t tid, uint64_t time_ns)
{
    if (!t->exec_ns || t->is_closed || t->all.len >= THREADS_MAX || entry_of(t, tid))
        return;
    map_put(&t->by_tid, tid, t->all.len);
    VEC_PUSH(&t->all, ((struct entry){.tid = tid, .begin_ns = time_ns, .since_ns = time_ns}));
}

static void end_entry(struct entry *e, uint64_t time_ns)
{
    uint64_t passed = time_ns > e->since_ns ? time_ns - e->since_ns : 0;
    e->cpu_ns += e->runs ? passed : 0;
    e->preempted_ns += !e->runs && e->was_preempted ? passed : 0;
    e->end_ns = max_u64(time_ns, e->begin_ns);
}

void threads_end(struct threads *t, uint32_t tid, uint64_t time_ns)
{
    struct entry *e = entry_of(t, tid);
    if (!e)
        return;
    end_entry(e, time_ns);
    e->has_ended = true;
}

/* The first is the program's own beginning. A later one replaces the program: that is the end of its threads. */
void threads_exec(struct threads *t, uint32_t tid, uint64_t time_ns)
{
    if (!t->exec_ns) {
        t->exec_ns = time_ns;
        threads_begin(t, tid, time_ns);
        t->all.data[0].runs = true;
        return;
    }
    for (size_t i = 0; i < t->all.len; i++)
        threads_end(t, t->all.data[i].tid, time_ns);
    t->is_closed = true;
}

void threads_switch(struct threads *t, uint32_t tid, enum threads_state turn, uint64_t time_ns)
{
    struct entry *e = entry_of(t, tid);
    t->has_switches = true;
    if (!e ||
        e->runs == (turn == THREADS_RUNS)) /* one was lost, nobody knows when it was: the first of the two counts */
        return;
    end_entry(e, time_ns);
    e->runs = turn == THREADS_RUNS;
    e->was_preempted = turn == THREADS_PREEMPTED;
    e->since_ns = time_ns;
}

void threads_usage(struct threads *t, uint32_t tid, uint64_t cpu_ns, uint64_t delay_ns, uint64_t time_ns)
{
    struct entry *e = entry_of(t, tid);
    if (!t->exec_ns) { /* the first thread, before the program began */
        t->cpu_first_ns = cpu_ns;
        t->delay_first_ns = delay_ns;
    }
    if (!e)
        return;
    bool is_first = e == t->all.data;
    e->usage_cpu_ns = cpu_ns - (is_first ? min_u64(cpu_ns, t->cpu_first_ns) : 0);
    e->delay_ns = delay_ns - (is_first ? min_u64(delay_ns, t->delay_first_ns) : 0);
    e->usage_at_ns = time_ns;
}

/* ---- where they were seen ---- */

static uint64_t hash_of(const struct observed_thread_sample *s)
{
    const uint64_t parts[] = {s->thread, s->activity, (uint64_t)(int64_t)s->syscall, s->stack};
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        h = (h ^ parts[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

static bool is_same(const struct observed_thread_sample *a, const struct observed_thread_sample *b)
{
    return a->thread == b->thread && a->activity == b->activity && a->syscall == b->syscall && a->stack == b->stack;
}

/* The same as one seen before, or a new one. */
static uint32_t sample_like(struct threads *t, const struct observed_thread_sample *s)
{
    uint64_t i = 0, h = hash_of(s);
    while (map_get(&t->by_hash, h, &i) && !is_same(&t->samples.data[i], s))
        h++;
    if (map_has(&t->by_hash, h))
        return (uint32_t)i;
    map_put(&t->by_hash, h, t->samples.len);
    VEC_PUSH(&t->samples, *s);
    return (uint32_t)t->samples.len - 1;
}

void threads_sample(struct threads *t, uint32_t tid, uint64_t time_ns, const struct observed_thread_sample *seen)
{
    struct observed_thread_sample s = *seen;
    uint64_t i = 0;
    if (t->is_closed || !map_get(&t->by_tid, tid, &i))
        return;
    s.thread = (uint32_t)i;
    uint32_t sample = sample_like(t, &s);
    t->samples.data[sample].count++;
    if (time_ns && t->moments.len < MOMENTS_MAX)
        VEC_PUSH(&t->moments,
                 ((struct observed_moment){1e-9 * (double)(time_ns - min_u64(t->exec_ns, time_ns)), sample}));
}

/* ---- the result ---- */

/* Switches tell the processor time exactly; without them the kernel's account of it does, as it was last read. */
static struct observed_thread thread_of(const struct threads *t, const struct entry *e)
{
    struct observed_thread out = {.tid = e->tid, .has_ended = e->has_ended};
    uint64_t wall_ns = e->end_ns - e->begin_ns,
             cpu_ns = t->has_switches ? e->cpu_ns : min_u64(e->usage_cpu_ns, wall_ns);
    uint64_t ready_ns = min_u64(max_u64(e->preempted_ns, e->delay_ns), wall_ns - cpu_ns);
    out.begin_s = 1e-9 * (double)(e->begin_ns - t->exec_ns);
    out.wall_s = 1e-9 * (double)wall_ns;
    out.cpu_s = t->has_switches || e->usage_at_ns ? 1e-9 * (double)cpu_ns : NAN;
    out.ready_s = t->has_switches || e->usage_at_ns ? 1e-9 * (double)ready_ns : NAN;
    return out;
}

void threads_close(struct threads *t, uint64_t end_ns)
{
    for (size_t i = 0; i < t->all.len; i++)
        if (!t->all.data[i].has_ended)
            end_entry(&t->all.data[i], end_ns);
}

void threads_fill(const struct threads *t, struct launch_result *out)
{
    out->threads = ARENA_ARRAY(out->arena, struct observed_thread, t->all.len);
    out->thread_count = t->all.len;
    for (size_t i = 0; i < t->all.len; i++)
        out->threads[i] = thread_of(t, &t->all.data[i]);
    out->thread_samples = ARENA_ARRAY(out->arena, struct observed_thread_sample, t->samples.len);
    out->thread_sample_count = t->samples.len;
    if (t->samples.len)
        memcpy(out->thread_samples, t->samples.data, t->samples.len * sizeof *t->samples.data);
    out->moments = ARENA_ARRAY(out->arena, struct observed_moment, t->moments.len);
    out->moment_count = t->moments.len;
    if (t->moments.len)
        memcpy(out->moments, t->moments.data, t->moments.len * sizeof *t->moments.data);
    if (t->stacks)
        stacks_fill(t->stacks, out);
}
