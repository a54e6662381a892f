/* SPDX-License-Identifier: Apache-2.0
 *
 * regions: code that threads execute together, and how unevenly. A region is a function that a run-time library of
 * parallel programs calls (an outlined loop of OpenMP), or that a thread begins with; all that it calls is part of it.
 * Who waits inside of it waits for it; who waits elsewhere waits for what the others work at just then. So the end of a
 * region, where the run time waits on its own behalf, is told too.
 */
#include "prof/impl.h"

#include <math.h>
#include <stdlib.h>

#define STALE_S 0.05 /* a thread that was last seen so long ago may do anything now */

struct last_sample { /* what a thread was last seen at */
    double time_s;
    uint32_t region;
    bool works;
};
struct build {
    struct join *j;
    struct waits *waits;
    const struct regions_weight *weights;
    uint32_t *region; /* [frame]; ID_NONE outside of all */
    bool *is_start;   /* [frame]: nothing but libraries from the thread's beginning to here */
    struct map by_function;
    VEC(struct prof_region) regions; /* [0]: outside of all */
    struct map by_pair;
    VEC(struct prof_region_thread) pairs;
    struct last_sample *last_sample; /* [thread] */
};

/* ---- which region a chain of calls is in ---- */

static struct prof_region region_at(struct join *j, struct join_module *m, uint32_t func)
{
    uint32_t object = j->funcs[m->func_base + func].object;
    const struct prof_object *o = object == ID_NONE ? NULL : &j->r->objects[object];
    struct prof_region r = {.module = m->path,
                            .function = join_func_name(j, m, func),
                            .address = m->cfg->funcs.data[func].addr,
                            .object = object};
    if (o) {
        r.file = o->file;
        r.line_first = o->line_first;
        r.line_last = o->line_last;
    }
    return r;
}

static uint32_t region_of_frame(struct build *b, uint32_t frame)
{
    const struct observed_frame *f = &b->j->in->frames[frame];
    struct join_module *m = f->module < b->j->module_count ? &b->j->modules[f->module] : NULL;
    uint32_t func = m && m->cfg ? cfg_func_at(m->cfg, f->vaddr) : ID_NONE;
    uint64_t at, key = (uint64_t)f->module << 32 | func;
    if (func == ID_NONE)
        return ID_NONE;
    if (!map_get(&b->by_function, key, &at)) {
        at = b->regions.len;
        map_put(&b->by_function, key, at);
        VEC_PUSH(&b->regions, region_at(b->j, m, func));
    }
    return (uint32_t)at;
}

/* A caller has a lower number than whom it calls. */
static void place_frames(struct build *b)
{
    const struct observed_frame *frames = b->j->in->frames;
    for (uint32_t f = 0; f < b->j->in->frame_count; f++) {
        uint32_t up = frames[f].parent;
        enum waits_library library = waits_library_of(b->waits, f),
                           above = up == ID_NONE ? WAITS_SYSTEM : waits_library_of(b->waits, up);
        bool begins = up == ID_NONE || b->is_start[up];
        b->is_start[f] = library == WAITS_SYSTEM && frames[f].module != ID_NONE && begins;
        b->region[f] = up == ID_NONE ? ID_NONE : b->region[up];
        bool is_called =
            up != ID_NONE && library == WAITS_NONE && (above == WAITS_PARALLEL || (above == WAITS_SYSTEM && begins));
        if (b->region[f] == ID_NONE && is_called)
            b->region[f] = region_of_frame(b, f);
    }
}

/* ---- what threads did there ---- */

static struct prof_region_thread *pair_of(struct build *b, uint32_t region, uint32_t thread)
{
    uint64_t key = (uint64_t)region << 32 | thread, at;
    if (!map_get(&b->by_pair, key, &at)) {
        at = b->pairs.len;
        map_put(&b->by_pair, key, at);
        VEC_PUSH(&b->pairs, ((struct prof_region_thread){.region = region, .thread = thread}));
    }
    return &b->pairs.data[at];
}

/* What others work at now: a region, 0 outside of all; ID_NONE: nobody is seen to work. */
static uint32_t others_region(const struct build *b, uint32_t thread, double now_s)
{
    uint32_t found = ID_NONE;
    for (uint32_t t = 0; t < b->j->in->thread_count; t++) {
        const struct last_sample *s = &b->last_sample[t];
        if (t == thread || !s->works || now_s - s->time_s > STALE_S)
            continue;
        if (s->region != 0)
            return s->region;
        found = 0;
    }
    return found;
}

static void take_moment(struct build *b, const struct observed_moment *m)
{
    const struct observed_thread_sample *d = &b->j->in->activity[m->sample];
    uint32_t region = b->region[d->stack] == ID_NONE ? 0 : b->region[d->stack];
    double cpu_s = b->weights[d->thread].cpu_s, blocked_s = b->weights[d->thread].blocked_s;
    bool waits = waits_is_waiting(b->waits, d);
    struct last_sample *s = &b->last_sample[d->thread];
    *s = (struct last_sample){m->time_s, region, d->activity != OBSERVED_BLOCKED && !waits};
    if (s->works) {
        pair_of(b, region, d->thread)->work_s += cpu_s;
        return;
    }
    if (waits && region == 0)
        region = others_region(b, d->thread, m->time_s);
    if (waits && region != ID_NONE)
        pair_of(b, region, d->thread)->wait_s += d->activity == OBSERVED_BLOCKED ? blocked_s : cpu_s;
}

static int compare_moments(const void *a, const void *b)
{
    const struct observed_moment *x = a, *y = b;
    return x->time_s != y->time_s ? (x->time_s < y->time_s ? -1 : 1)
                                  : (x->sample > y->sample) - (x->sample < y->sample);
}

static void take_moments(struct build *b)
{
    const struct prof_input *in = b->j->in;
    struct observed_moment *m = ARENA_ARRAY(b->j->scratch, struct observed_moment, in->moment_count + 1);
    if (in->moment_count)
        memcpy(m, in->moments, in->moment_count * sizeof *m);
    qsort(m, in->moment_count, sizeof *m, compare_moments);
    for (size_t i = 0; i < in->moment_count; i++)
        take_moment(b, &m[i]);
}

/* ---- the result ---- */

/* Threads that never worked in a region are not part of it, whatever they waited for. */
static bool is_part(const struct prof_region_thread *p) { return p->region == 0 || p->work_s > 0; }

static void sum_regions(struct build *b)
{
    for (size_t i = 0; i < b->pairs.len; i++) {
        const struct prof_region_thread *p = &b->pairs.data[i];
        struct prof_region *r = &b->regions.data[p->region];
        if (!is_part(p))
            continue;
        r->threads += p->work_s > 0;
        r->work_s += p->work_s;
        r->wait_s += p->wait_s;
        if (p->work_s > r->max_s) {
            r->max_s = p->work_s;
            r->thread_most = p->thread;
        }
    }
    for (size_t i = 0; i < b->regions.len; i++) {
        struct prof_region *r = &b->regions.data[i];
        r->mean_s = r->threads ? r->work_s / r->threads : 0;
        r->imbalance = r->threads ? r->max_s / r->mean_s : NAN;
        r->id = (uint32_t)i;
    }
}

static int compare_regions(const void *a, const void *b)
{
    const struct prof_region *x = a, *y = b;
    return x->wait_s != y->wait_s ? (x->wait_s < y->wait_s ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static int compare_pairs(const void *a, const void *b)
{
    const struct prof_region_thread *x = a, *y = b;
    return x->region != y->region ? (x->region < y->region ? -1 : 1)
                                  : (x->thread > y->thread) - (x->thread < y->thread);
}

static void keep(struct build *b)
{
    struct prof_result *r = b->j->r;
    uint32_t *moved = ARENA_ARRAY(b->j->scratch, uint32_t, b->regions.len);
    r->regions = ARENA_ARRAY(r->arena, struct prof_region, b->regions.len);
    r->region_threads = ARENA_ARRAY(r->arena, struct prof_region_thread, b->pairs.len + 1);
    qsort(b->regions.data, b->regions.len, sizeof *b->regions.data, compare_regions);
    for (uint32_t i = 0; i < b->regions.len; i++) {
        struct prof_region *x = &b->regions.data[i];
        moved[x->id] = ID_NONE;
        if (!x->threads)
            continue;
        moved[x->id] = (uint32_t)r->region_count;
        r->regions[r->region_count] = *x;
        r->regions[r->region_count].id = moved[x->id];
        r->region_count++;
    }
    for (size_t i = 0; i < b->pairs.len; i++) {
        struct prof_region_thread p = b->pairs.data[i];
        bool is_kept = is_part(&p) && moved[p.region] != ID_NONE;
        p.region = moved[p.region];
        if (is_kept)
            r->region_threads[r->region_thread_count++] = p;
    }
    qsort(r->region_threads, r->region_thread_count, sizeof *r->region_threads, compare_pairs);
}

void regions_build(struct join *j, struct waits *waits, const struct regions_weight *weights)
{
    struct build b = {.j = j, .waits = waits, .weights = weights};
    b.region = ARENA_ARRAY(j->scratch, uint32_t, j->in->frame_count + 1);
    b.is_start = ARENA_ARRAY(j->scratch, bool, j->in->frame_count + 1);
    b.last_sample = ARENA_ARRAY(j->scratch, struct last_sample, j->in->thread_count + 1);
    VEC_PUSH(&b.regions, ((struct prof_region){.object = ID_NONE}));
    if (j->in->thread_count > 1) /* what one thread does alone is no region */
        place_frames(&b);
    if (b.regions.len > 1) {
        take_moments(&b);
        sum_regions(&b);
        keep(&b);
    }
    map_fini(&b.by_function);
    map_fini(&b.by_pair);
    VEC_FREE(&b.regions);
    VEC_FREE(&b.pairs);
}
