/* SPDX-License-Identifier: Apache-2.0
 *
 * threads: what each thread of the program did with its time. Processor time is shared out by the thread's own samples,
 * waiting by where it was seen to wait; totals are measured, samples only divide them, so the parts add up to the wall
 * time. An object's time is compute and memory in the same proportion for all threads.
 */
#include "prof/impl.h"

#include <math.h>
#include <stdlib.h>

struct share { /* of one thread: seconds that one sample stands for */
    double cpu_s, blocked_s;
    uint64_t samples[PROF_DOING_COUNT];
};

struct build {
    struct join *j;
    struct share *shares; /* [thread] */
    struct map by_pair;   /* thread << 32 | object -> index into objects */
    VEC(struct prof_thread_object) objects;
};

/* System calls in which a thread waits for another. */
static bool is_futex(int32_t number)
{
    enum { FUTEX = 202, FUTEX_WAITV = 449, FUTEX_WAIT = 455 };
    return number == FUTEX || number == FUTEX_WAITV || number == FUTEX_WAIT;
}

static void measure_shares(struct build *b)
{
    const struct prof_input *in = b->j->in;
    for (size_t i = 0; i < in->doing_count; i++)
        b->shares[in->doing[i].thread].samples[in->doing[i].doing] += in->doing[i].count;
    for (size_t t = 0; t < in->thread_count; t++) {
        const struct prof_input_thread *x = &in->threads[t];
        struct share *s = &b->shares[t];
        uint64_t seen = s->samples[PROF_RUNS] + s->samples[PROF_IN_KERNEL];
        s->cpu_s = seen ? x->cpu_s / (double)seen : 0;
        if (in->samples_user_only)
            s->cpu_s = fmin(s->cpu_s, in->sample_period_s);
        s->blocked_s = s->samples[PROF_BLOCKED] ? fmax(x->wall_s - x->cpu_s - x->ready_s, 0) / (double)s->samples[PROF_BLOCKED] : 0;
    }
}

static struct prof_thread_object *pair_of(struct build *b, uint32_t thread, uint32_t object)
{
    uint64_t key = (uint64_t)thread << 32 | object, at;
    if (!map_get(&b->by_pair, key, &at)) {
        at = b->objects.len;
        map_put(&b->by_pair, key, at);
        VEC_PUSH(&b->objects, ((struct prof_thread_object){.thread = thread, .object = object}));
    }
    return &b->objects.data[at];
}

/* The object that code belongs to; ID_NONE: none. */
static uint32_t object_at(const struct join *j, uint32_t module, uint64_t vaddr)
{
    const struct join_module *m = module < j->module_count ? &j->modules[module] : NULL;
    uint32_t b = m && m->cfg ? cfg_block_at(m->cfg, vaddr) : ID_NONE;
    if (b == ID_NONE)
        return ID_NONE;
    const struct cfg_block *block = &m->cfg->blocks.data[b];
    return j->funcs[m->func_base + block->func].is_counted ? objects_home(j, m, block->func, block->loop) : ID_NONE;
}

/* How much of an object's time is not memory's; NAN unknown. */
static double compute_share(const struct prof_object *o)
{
    return o->actual_s.value > 0 ? fmin(fmax(1 - o->memory_s.value / o->actual_s.value, 0), 1) : NAN;
}

static void add_running(struct build *b, const struct prof_input_doing *d, struct prof_thread *t)
{
    double seconds = b->shares[d->thread].cpu_s * (double)d->count;
    uint32_t object = object_at(b->j, d->module, d->vaddr);
    double compute = object == ID_NONE ? NAN : compute_share(&b->j->r->objects[object]);
    t->samples += d->count;
    if (isnan(compute)) {
        t->uncounted_s += seconds;
        return;
    }
    struct prof_thread_object *o = pair_of(b, d->thread, object);
    o->samples += d->count;
    o->compute_s += seconds * compute;
    o->memory_s += seconds * (1 - compute);
    t->compute_s += seconds * compute;
    t->memory_s += seconds * (1 - compute);
}

static void add_doing(struct build *b, const struct prof_input_doing *d)
{
    struct prof_thread *t = &b->j->r->thread[d->thread];
    double blocked_s = b->shares[d->thread].blocked_s * (double)d->count;
    switch (d->doing) {
    case PROF_RUNS:
        add_running(b, d, t);
        break;
    case PROF_IN_KERNEL:
        t->system_s += b->shares[d->thread].cpu_s * (double)d->count;
        break;
    case PROF_BLOCKED:
        *(is_futex(d->syscall) ? &t->blocked_s : &t->asleep_s) += blocked_s;
        break;
    case PROF_DOING_COUNT:
        break;
    }
}

/* What no sample stands for. */
static void add_rest(const struct build *b, size_t thread)
{
    const struct prof_input_thread *x = &b->j->in->threads[thread];
    const struct share *s = &b->shares[thread];
    struct prof_thread *t = &b->j->r->thread[thread];
    uint64_t seen = s->samples[PROF_RUNS] + s->samples[PROF_IN_KERNEL];
    double unseen = fmax(x->cpu_s - s->cpu_s * (double)seen, 0);
    *(b->j->in->samples_user_only ? &t->system_s : &t->uncounted_s) += unseen;
    if (!s->samples[PROF_BLOCKED])
        t->asleep_s += fmax(x->wall_s - x->cpu_s - x->ready_s, 0);
}

static struct prof_thread thread_of(const struct prof_input_thread *x)
{
    struct prof_thread t = {.tid = x->tid, .has_ended = x->has_ended, .begin_s = x->begin_s, .wall_s = x->wall_s, .ready_s = x->ready_s};
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

void threads_build(struct join *j)
{
    const struct prof_input *in = j->in;
    struct build b = {.j = j, .shares = ARENA_ARRAY(j->scratch, struct share, in->thread_count + 1)};
    j->r->thread = ARENA_ARRAY(j->r->arena, struct prof_thread, in->thread_count + 1);
    j->r->thread_count = in->thread_count;
    measure_shares(&b);
    for (size_t t = 0; t < in->thread_count; t++)
        j->r->thread[t] = thread_of(&in->threads[t]);
    for (size_t i = 0; i < in->doing_count; i++)
        add_doing(&b, &in->doing[i]);
    for (size_t t = 0; t < in->thread_count; t++)
        add_rest(&b, t);
    keep_pairs(&b);
    map_fini(&b.by_pair);
    VEC_FREE(&b.objects);
}
