/* SPDX-License-Identifier: Apache-2.0
 *
 * When references are told, where only samples of them are. All threads of the program begin and end together, by the
 * word `left` of each area, which their code looks at; a single thread ends by itself. A sample begins at a place of
 * each period of the program's processor time, from which what samples themselves take is left out; it ends when the
 * program has made so many references. Where an area stood at that moment is kept as a cut, so that each entry is known
 * to be of a sample or not.
 *
 * Before a sample begins all of the one before is handed over, so its entries come together whatever threads do later.
 */
#include <stdlib.h>
#include <time.h>

#include "launch/impl.h"

enum { LOOK_NS = 50000, BEGIN_NS = 2000000 };

struct reference_samples {
    struct launch_samples opt;
    bool is_on;
    uint64_t begun;                      /* so many */
    uint64_t period, next;               /* whose sample began last, and begins next */
    uint64_t told, told_begin;           /* references, when the last one ended and began */
    double on_s, on_since;               /* processor time in samples before; when this one began */
    double began_s;                      /* when it did, by the clock */
    double seen_s;                       /* processor time in it, when it was last seen to go on; 0: it was not */
    uint64_t seen;                       /* references until then */
    double all_seen_s, all_seen;         /* sums of these over samples before */
    double next_s;                       /* when the next one begins, by the time without samples */
    uint64_t *counted[WIRE_MODULES_MAX]; /* by module of the plan, at the end of the last one */
    struct rng rng;
};

static void plan(struct reference_samples *m, uint64_t period)
{
    double u = m->opt.is_even ? 1 : rng_fraction(&m->rng);
    m->next = period;
    m->next_s = m->opt.period_s * ((double)period + u * (1 - m->opt.part));
}

struct reference_samples *reference_samples_new(const struct launch_samples *opt)
{
    struct reference_samples *m = xmalloc(sizeof *m);
    *m = (struct reference_samples){.opt = *opt, .rng = {opt->seed}};
    plan(m, 0);
    return m;
}

void reference_samples_free(struct reference_samples *m)
{
    for (size_t i = 0; m && i < WIRE_MODULES_MAX; i++)
        free(m->counted[i]);
    free(m);
}

/* Of the program's process, all threads; negative: it is not there. */
static double processor_time(struct references *s)
{
    clockid_t clock;
    struct timespec t;
    int pid = atomic_load(&s->pid);
    if (!pid || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        return -1;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t told_by(const struct references_area *a)
{
    int64_t left = a->given ? __atomic_load_n(&a->stream->left, __ATOMIC_RELAXED) : 0;
    return a->told + (a->given > left ? (uint64_t)(a->given - left) : 0);
}

/* Of the first process. */
static uint64_t told(const struct references *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->area_count; i++) {
        const struct wire_stream *w = s->areas[i].stream;
        if (w && s->areas[0].stream && w->process == s->areas[0].stream->process)
            sum += told_by(&s->areas[i]);
    }
    return sum;
}

/* Where the area's next entry goes. Of a thread that waits for the host, behind the chunk that it has ended. */
static struct references_cut next_entry(const struct wire_stream *w)
{
    struct references_cut cut = {.begins = false};
    uint64_t start, put;
    do {
        cut.chunk = __atomic_load_n(&w->filled, __ATOMIC_ACQUIRE);
        start = WIRE_STREAM_VADDR + WIRE_STREAM_RING + cut.chunk % WIRE_CHUNKS * WIRE_CHUNK_BYTES;
        put = __atomic_load_n(&w->put, __ATOMIC_ACQUIRE);
    } while (__atomic_load_n(&w->filled, __ATOMIC_ACQUIRE) != cut.chunk);
    bool is_in = put >= start && put - start <= WIRE_CHUNK_BYTES;
    cut.bytes = is_in ? put - start : 0;
    return cut;
}

static void cut_area(struct references_area *a, bool begins)
{
    struct references_cut cut = next_entry(a->stream);
    cut.begins = begins;
    cut.time = __builtin_ia32_rdtsc();
    if (a->cut_count < ARRAY_LEN(a->cuts))
        a->cuts[a->cut_count++] = cut;
}

/* The filter must not know lines from the last sample: the simulated caches do not. */
static void switch_on(struct references_area *a, uint64_t length)
{
    if (!a->stream)
        return;
    memset(a->stream->places, 0, sizeof a->stream->places);
    memset(a->stream->last, 0, sizeof a->stream->last);
    cut_area(a, true);
    a->given = (int64_t)length;
    __atomic_store_n(&a->stream->left, a->given, __ATOMIC_SEQ_CST);
}

static void switch_off(struct references_area *a)
{
    if (!a->stream || !a->given)
        return;
    a->told = told_by(a);
    a->given = 0;
    __atomic_store_n(&a->stream->left, 0, __ATOMIC_SEQ_CST);
    cut_area(a, false);
}

/* Up to where the last sample ended: nothing is written there any more. */
static void hand_over_rest(struct references *s, uint32_t area)
{
    struct references_area *a = &s->areas[area];
    const struct wire_stream *w = a->stream;
    const struct references_cut *last = &a->cuts[a->cut_count ? a->cut_count - 1 : 0];
    if (!w || !a->cut_count || last->begins || last->chunk != a->taken)
        return;
    struct wire_chunk c = {w->begin, last->time, 0, w->thread, w->fs, 0};
    references_hand_over(s, area, &c, last->bytes);
}

/* Between samples nothing is counted. */
static void put_end(struct references *s)
{
    struct reference_samples *m = s->samples;
    launch_executed_vec executed = {0};
    counters_since(s->counters, m->counted, &executed);
    reference_queue_end_sample(s->queue, m->told - m->told_begin, executed);
}

static void hand_over_last(struct references *s)
{
    const struct reference_samples *m = s->samples;
    while (references_go_round(s))
        continue;
    for (uint32_t i = 0; i < s->area_count; i++)
        hand_over_rest(s, i);
    for (uint32_t i = 0; i < s->area_count && s->area_count > 1; i++) /* calls of allocators since, in order */
        references_take_made(s, i, __builtin_ia32_rdtsc());
    if (m->begun)
        put_end(s);
}

static void begin(struct references *s, double now)
{
    struct reference_samples *m = s->samples;
    hand_over_last(s);
    m->told_begin = told(s);
    reference_queue_begin_sample(s->queue);
    m->begun++;
    m->period = m->next;
    m->is_on = true;
    m->on_since = now;
    m->began_s = time_now_s();
    m->seen_s = 0;
    for (uint32_t i = 0; i < s->area_count; i++)
        switch_on(&s->areas[i], m->opt.length);
}

/* Processor time that the sample took, if it took as long for each reference as until it was last seen to go on, or as
 * those before. `all_s`: until its end was seen. A program that has made a sample's references goes on without them,
 * and the host sees that late where processors have much to do; that is no time of the sample's. */
static double time_of_sample(const struct reference_samples *m, double all_s)
{
    bool is_seen = m->seen_s > 0;
    double seen_s = is_seen ? m->seen_s : m->all_seen_s, seen = is_seen ? (double)m->seen : m->all_seen;
    double likely_s = seen > 0 ? (double)m->opt.length * seen_s / seen : all_s;
    return likely_s < all_s ? likely_s : all_s;
}

static void end(struct references *s)
{
    struct reference_samples *m = s->samples;
    for (uint32_t i = 0; i < s->area_count; i++)
        switch_off(&s->areas[i]);
    m->told = told(s);
    m->is_on = false;
    m->on_s += time_of_sample(m, processor_time(s) - m->on_since);
    if (m->seen_s > 0) {
        m->all_seen_s += m->seen_s;
        m->all_seen += (double)m->seen;
    }
    plan(m, m->period + 1);
    diag_debug(1, "sample %llu: %llu references, %.6f s; on %.6f s of %.6f", (unsigned long long)m->period,
               (unsigned long long)(m->told - m->told_begin), m->on_s, m->on_since, processor_time(s));
}

/* Threads that were made since the sample began. */
static void switch_new(struct references *s)
{
    for (uint32_t i = s->area_count; i-- > 0 && !s->areas[i].given;)
        switch_on(&s->areas[i], s->samples->opt.length);
}

/* Returns how long the next look may wait, in nanoseconds: half of what is left if it goes on as so far, and no more
 * than half of what it has taken, for it may begin slowly. */
static uint64_t look_on(struct references *s, double now)
{
    struct reference_samples *m = s->samples;
    switch_new(s);
    uint64_t done = told(s) - m->told_begin;
    if (done >= m->opt.length) {
        end(s);
        return LOOK_NS;
    }
    if (!done || now <= m->on_since)
        return LOOK_NS;
    m->seen = done;
    m->seen_s = now - m->on_since;
    double took_s = time_now_s() - m->began_s, rest_s = took_s * (double)(m->opt.length - done) / (double)done;
    return min_u64(max_u64((uint64_t)(1e9 / 2 * (rest_s < took_s ? rest_s : took_s)), LOOK_NS), BEGIN_NS);
}

uint64_t reference_samples_step(struct references *s)
{
    struct reference_samples *m = s->samples;
    double now = processor_time(s), plain = now - m->on_s + m->opt.part * m->opt.period_s * (double)m->begun;
    if (m->is_on)
        return look_on(s, now);
    if (now < 0 || !s->area_count || !s->areas[0].stream)
        return BEGIN_NS;
    if (plain >= m->next_s)
        begin(s, now);
    double rest_ns = (m->next_s - plain) * 1e9 / 2;
    return m->is_on || rest_ns < LOOK_NS ? LOOK_NS : rest_ns > 1e9 ? 1000000000 : (uint64_t)rest_ns;
}

void reference_samples_end(struct references *s)
{
    struct reference_samples *m = s->samples;
    if (m->is_on)
        m->told = told(s);
    if (m->begun)
        put_end(s);
}
