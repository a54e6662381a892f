/* SPDX-License-Identifier: Apache-2.0
 *
 * threads: what each thread of the program did with its time. Processor time is shared out by the thread's own samples,
 * waiting by where it was seen to wait; totals are measured, samples only divide them, so the parts add up to the wall
 * time. An object's time is compute and memory by what the thread itself executed there, or, where that is not known,
 * in the same proportion for all threads. Time in which a thread waits for others is no object's work; it is told where
 * the wait was asked for.
 */
#include "prof/impl.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define SAMPLES_MIN                                                                                                    \
    10 /* of a thread in an object: below, its time there is too coarse to be set against its counts                   \
        */

struct build {
    struct join *j;
    struct regions_weight *shares;                /* [thread] */
    uint64_t (*samples)[OBSERVED_ACTIVITY_COUNT]; /* [thread] */
    struct executed_work *executed;               /* [thread * object_count + object]; NULL not known */
    struct map by_pair;                           /* thread << 32 | object -> index into objects */
    VEC(struct prof_thread_object) objects;
    struct waits *waits;
    struct map by_wait; /* thread, object and name -> index into wait */
    VEC(struct prof_wait) wait;
};

static void measure_shares(struct build *b)
{
    const struct prof_input *in = b->j->in;
    for (size_t i = 0; i < in->activity_count; i++)
        b->samples[in->activity[i].thread][in->activity[i].activity] += in->activity[i].count;
    for (size_t t = 0; t < in->thread_count; t++) {
        const struct observed_thread *x = &in->threads[t];
        struct regions_weight *s = &b->shares[t];
        const uint64_t *samples = b->samples[t];
        uint64_t sampled = samples[OBSERVED_RUNS] + samples[OBSERVED_IN_KERNEL];
        s->cpu_s = sampled ? x->cpu_s / (double)sampled : 0;
        if (in->samples_user_only)
            s->cpu_s = fmin(s->cpu_s, in->sample_period_s);
        s->blocked_s = samples[OBSERVED_BLOCKED]
                           ? fmax(x->wall_s - x->cpu_s - x->ready_s, 0) / (double)samples[OBSERVED_BLOCKED]
                           : 0;
    }
}

static struct prof_thread_object *pair_of(struct build *b, uint32_t thread, uint32_t object)
{
    uint64_t key = (uint64_t)thread << 32 | object, at;
    if (!map_get(&b->by_pair, key, &at)) {
        at = b->objects.len;
        map_put(&b->by_pair, key, at);
        const struct executed_work *w = b->executed ? &b->executed[thread * b->j->r->object_count + object] : NULL;
        VEC_PUSH(&b->objects, ((struct prof_thread_object){.thread = thread,
                                                           .object = object,
                                                           .instructions = w ? w->instructions : PROF_UNKNOWN,
                                                           .memory_ops = w ? w->memory_ops : PROF_UNKNOWN}));
    }
    return &b->objects.data[at];
}

/* The object that a frame's code belongs to; ID_NONE: none. */
static uint32_t object_of(const struct join *j, uint32_t frame)
{
    if (frame == ID_NONE)
        return ID_NONE;
    const struct observed_frame *f = &j->in->frames[frame];
    const struct join_module *m = f->module < j->module_count ? &j->modules[f->module] : NULL;
    uint32_t b = m && m->cfg ? cfg_block_at(m->cfg, f->vaddr) : ID_NONE;
    if (b == ID_NONE)
        return ID_NONE;
    const struct cfg_block *block = &m->cfg->blocks.data[b];
    return j->funcs[m->func_base + block->func].is_counted ? objects_owner(j, m, block->func, block->loop) : ID_NONE;
}

/* How much of an object's time is not memory's; NAN unknown. */
static double compute_share(const struct prof_object *o)
{
    bool is_known = o->actual_s.value > 0 && !isnan(o->memory_s.value);
    return is_known ? fmin(fmax(1 - o->memory_s.value / o->actual_s.value, 0), 1) : NAN;
}

static void add_running(struct build *b, const struct observed_thread_sample *d, struct prof_thread *t)
{
    uint32_t object = object_of(b->j, d->stack);
    t->samples += d->count;
    if (object == ID_NONE || isnan(compute_share(&b->j->r->objects[object])))
        t->uncounted_s += b->shares[d->thread].cpu_s * (double)d->count;
    else
        pair_of(b, d->thread, object)->samples += d->count;
}

struct among { /* all threads, of one object */
    uint64_t samples;
    double cycles;
};

static struct among *sum_over_threads(const struct build *b)
{
    size_t objects = b->j->r->object_count;
    struct among *all = ARENA_ARRAY(b->j->scratch, struct among, objects + 1);
    for (size_t i = 0; i < b->objects.len; i++)
        all[b->objects.data[i].object].samples += b->objects.data[i].samples;
    for (size_t i = 0; b->executed && i < b->j->in->thread_count * objects; i++)
        all[i % objects].cycles += b->executed[i].cycles;
    return all;
}

/* As compute_share, of one thread: it has its part of the object's ideal time by its counts, of the time by its
 * samples. */
static double compute_share_of(const struct build *b, const struct prof_thread_object *o, const struct among *all)
{
    double share = compute_share(&b->j->r->objects[o->object]);
    if (!b->executed || all->cycles <= 0 || o->samples < SAMPLES_MIN)
        return share;
    double executed = b->executed[o->thread * b->j->r->object_count + o->object].cycles / all->cycles;
    struct prof_interval sampled = stats_wilson(o->samples, all->samples);
    bool is_alike = executed >= sampled.low && executed <= sampled.high;
    return is_alike ? share : fmin(share * executed / sampled.value, 1);
}

static void split_running(struct build *b)
{
    const struct among *all = sum_over_threads(b);
    for (size_t i = 0; i < b->objects.len; i++) {
        struct prof_thread_object *o = &b->objects.data[i];
        struct prof_thread *t = &b->j->r->thread[o->thread];
        if (!o->samples)
            continue;
        double seconds = b->shares[o->thread].cpu_s * (double)o->samples;
        o->compute_s = seconds * compute_share_of(b, o, &all[o->object]);
        o->memory_s = seconds - o->compute_s;
        t->compute_s += o->compute_s;
        t->memory_s += o->memory_s;
    }
}

static struct prof_wait *wait_of(struct build *b, uint32_t thread, uint32_t object, const char *into)
{
    uint64_t key = ((uint64_t)thread << 40 ^ (uint64_t)object << 20) * 0x9e3779b97f4a7c15u ^ (uintptr_t)into, at = 0;
    for (; map_get(&b->by_wait, key, &at); key++) {
        assert(at < b->wait.len);
        struct prof_wait *w = &b->wait.data[at];
        if (w->thread == thread && w->object == object && w->into == into)
            return w;
    }
    map_put(&b->by_wait, key, b->wait.len);
    VEC_PUSH(&b->wait, ((struct prof_wait){.thread = thread, .object = object, .into = into}));
    return &b->wait.data[b->wait.len - 1];
}

static void add_wait(struct build *b, const struct observed_thread_sample *d, double spin_s, double blocked_s)
{
    const struct waits_sense *s = waits_sense_of(b->waits, d->stack);
    uint32_t object = object_of(b->j, s->caller);
    struct prof_thread *t = &b->j->r->thread[d->thread];
    struct prof_wait *w = wait_of(b, d->thread, object, waits_name(b->waits, s));
    t->spin_s += spin_s;
    t->blocked_s += blocked_s;
    w->spin_s += spin_s;
    w->blocked_s += blocked_s;
    if (object == ID_NONE)
        return;
    struct prof_thread_object *o = pair_of(b, d->thread, object);
    o->spin_s += spin_s;
    o->blocked_s += blocked_s;
}

static void add_activity(struct build *b, const struct observed_thread_sample *d)
{
    struct prof_thread *t = &b->j->r->thread[d->thread];
    double cpu_s = b->shares[d->thread].cpu_s * (double)d->count,
           blocked_s = b->shares[d->thread].blocked_s * (double)d->count;
    bool waits = waits_is_waiting(b->waits, d);
    if (d->activity == OBSERVED_BLOCKED && waits)
        add_wait(b, d, 0, blocked_s);
    else if (d->activity == OBSERVED_BLOCKED)
        t->asleep_s += blocked_s;
    else if (waits)
        add_wait(b, d, cpu_s, 0);
    else if (d->activity == OBSERVED_IN_KERNEL)
        t->system_s += cpu_s;
    else
        add_running(b, d, t);
}

/* What no sample stands for. */
static void add_rest(const struct build *b, size_t thread)
{
    const struct observed_thread *x = &b->j->in->threads[thread];
    const struct regions_weight *s = &b->shares[thread];
    const uint64_t *samples = b->samples[thread];
    struct prof_thread *t = &b->j->r->thread[thread];
    uint64_t sampled = samples[OBSERVED_RUNS] + samples[OBSERVED_IN_KERNEL];
    double unseen = fmax(x->cpu_s - s->cpu_s * (double)sampled, 0);
    *(b->j->in->samples_user_only ? &t->system_s : &t->uncounted_s) += unseen;
    if (!samples[OBSERVED_BLOCKED])
        t->asleep_s += fmax(x->wall_s - x->cpu_s - x->ready_s, 0);
}

static struct prof_thread thread_of(const struct observed_thread *x)
{
    struct prof_thread t = {.tid = x->tid,
                            .rank = ID_NONE,
                            .has_ended = x->has_ended,
                            .begin_s = x->begin_s,
                            .wall_s = x->wall_s,
                            .ready_s = x->ready_s};
    if (isnan(x->cpu_s))
        t.compute_s = t.memory_s = t.uncounted_s = t.system_s = t.spin_s = t.blocked_s = t.asleep_s = NAN;
    return t;
}

static int compare_pairs(const void *a, const void *b)
{
    const struct prof_thread_object *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return (x->object > y->object) - (x->object < y->object);
}

static void keep_pairs(struct build *b)
{
    struct prof_result *r = b->j->r;
    r->thread_object_count = b->objects.len;
    r->thread_objects = ARENA_ARRAY(r->arena, struct prof_thread_object, b->objects.len + 1);
    if (b->objects.len)
        memcpy(r->thread_objects, b->objects.data, b->objects.len * sizeof *b->objects.data);
    qsort(r->thread_objects, b->objects.len, sizeof *r->thread_objects, compare_pairs);
}

/* "GOMP_parallel@plt" is GOMP_parallel to who called it. */
static const char *without_stub(struct arena *a, const char *name)
{
    static const char stub[] = "@plt";
    size_t len = name ? strlen(name) : 0, more = sizeof stub - 1;
    if (len > more && strcmp(name + len - more, stub) == 0)
        len -= more;
    return name ? arena_strndup(a, name, len) : NULL;
}

static int compare_waits(const void *a, const void *b)
{
    const struct prof_wait *x = a, *y = b;
    double sx = x->spin_s + x->blocked_s, sy = y->spin_s + y->blocked_s;
    if (sx != sy)
        return sx < sy ? 1 : -1;
    return x->thread != y->thread ? (x->thread < y->thread ? -1 : 1)
                                  : (x->object > y->object) - (x->object < y->object);
}

static void keep_waits(struct build *b)
{
    struct prof_result *r = b->j->r;
    r->wait_count = b->wait.len;
    r->waits = ARENA_ARRAY(r->arena, struct prof_wait, b->wait.len + 1);
    for (size_t i = 0; i < b->wait.len; i++) {
        r->waits[i] = b->wait.data[i];
        r->waits[i].into = without_stub(r->arena, r->waits[i].into);
    }
    qsort(r->waits, b->wait.len, sizeof *r->waits, compare_waits);
}

static void mark(struct prof_result *r, uint32_t object, uint64_t samples)
{
    if (object == ID_NONE || !samples)
        return;
    r->objects[object].is_wait = true;
    r->objects[object].is_significant = false;
}

/* What waits takes is no work of its own: nothing of it is memory's. Such loops, and all code of libraries that make
 * threads or processes work together. */
static void mark_waits(struct build *b)
{
    struct join *j = b->j;
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        bool is_all = waits_library_of_module(b->waits, i) >= WAITS_PARALLEL;
        for (uint32_t l = 0; m->cfg && l < m->cfg->loops.len; l++) {
            const struct join_loop *loop = &j->loops[m->loop_base + l];
            if (loop->self.samples && (is_all || waits_is_wait_loop(b->waits, m, l))) /* which decodes it */
                mark(j->r, loop->object, loop->self.samples);
        }
        for (uint32_t f = 0; is_all && m->cfg && f < m->cfg->funcs.len; f++)
            mark(j->r, j->funcs[m->func_base + f].object, j->funcs[m->func_base + f].self.samples);
    }
}

void threads_build(struct join *j)
{
    const struct prof_input *in = j->in;
    struct build b = {.j = j,
                      .waits = waits_open(j),
                      .shares = ARENA_ARRAY(j->scratch, struct regions_weight, in->thread_count + 1),
                      .samples =
                          arena_alloc(j->scratch, (in->thread_count + 1) * sizeof(uint64_t[OBSERVED_ACTIVITY_COUNT]))};
    j->r->thread = ARENA_ARRAY(j->r->arena, struct prof_thread, in->thread_count + 1);
    j->r->thread_count = in->thread_count;
    b.executed = executed_build(j);
    measure_shares(&b);
    for (size_t t = 0; t < in->thread_count; t++)
        j->r->thread[t] = thread_of(&in->threads[t]);
    for (size_t i = 0; i < in->activity_count; i++)
        add_activity(&b, &in->activity[i]);
    split_running(&b);
    for (size_t t = 0; t < in->thread_count; t++)
        add_rest(&b, t);
    keep_pairs(&b);
    keep_waits(&b);
    mark_waits(&b);
    regions_build(j, b.waits, b.shares);
    map_fini(&b.by_wait);
    VEC_FREE(&b.wait);
    map_fini(&b.by_pair);
    VEC_FREE(&b.objects);
}
