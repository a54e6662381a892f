/* SPDX-License-Identifier: Apache-2.0
 * What was executed (follow.c) and who counted into which area of the counter file, joined to one list of processes in
 * order of time, each with its own counters. A process that executes several programs is there once for each. */
#include <stdlib.h>

#include "launch/impl.h"

/* The image that process `pid` was at a time: the last that began before. */
static size_t image_when(const struct follow_image *im, size_t n, uint32_t pid, uint64_t time_ns)
{
    while (n > 0 && !(im[n - 1].pid == pid && im[n - 1].time_ns <= time_ns))
        n--;
    return n ? n - 1 : SIZE_MAX;
}

struct images {
    VEC(struct follow_image) v;
};

static int by_start(const void *a, const void *b)
{
    const struct follow_image *x = a, *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

/* What was executed, and the processes that only forked, which the counter file knows. */
static void collect(const struct follow *f, const struct counters_area *areas, size_t n, struct images *out)
{
    size_t executed;
    const struct follow_image *im = follow_images(f, &executed);
    for (size_t i = 0; i < executed; i++)
        VEC_PUSH(&out->v, im[i]);
    for (size_t i = 0; i < n; i++) {
        size_t k = image_when(out->v.data, out->v.len, areas[i].pid, UINT64_MAX);
        struct follow_image *known = k == SIZE_MAX ? NULL : &out->v.data[k];
        if (known && known->is_fork && known->time_ns > areas[i].time_ns) /* known by its end only */
            known->time_ns = areas[i].time_ns;
        else if (image_when(out->v.data, out->v.len, areas[i].pid, areas[i].time_ns) == SIZE_MAX)
            VEC_PUSH(&out->v, ((struct follow_image){.pid = areas[i].pid,
                                                     .parent = areas[i].parent,
                                                     .status = -1,
                                                     .is_fork = true,
                                                     .time_ns = areas[i].time_ns}));
    }
    if (out->v.len)
        qsort(out->v.data, out->v.len, sizeof *out->v.data, by_start);
}

/* Sums each process's areas and hands them to the caller. */
static void each_process(const struct launch_options *opt, const struct counters *c, const struct images *im,
                         const struct counters_area *areas, size_t n, struct launch_result *r)
{
    for (size_t p = 0; p < im->v.len; p++) {
        struct arena *a = arena_new();
        uint64_t **sums = ARENA_ARRAY(a, uint64_t *, r->counters_len);
        for (size_t i = 0; i < n; i++)
            if (areas[i].pid == im->v.data[p].pid &&
                image_when(im->v.data, im->v.len, areas[i].pid, areas[i].time_ns) == p) {
                counters_sum_area(c, i, a, sums);
                r->each[p].is_counted = true;
            }
        if (r->each[p].is_counted && opt->each)
            opt->each(opt->ctx, p, sums);
        arena_free(a);
    }
}

void processes_fill(const struct launch_options *opt, const struct follow *f, const struct counters *c,
                    struct launch_result *r)
{
    struct counters_area *areas = xmalloc(WIRE_AREAS_MAX * sizeof *areas);
    size_t n = counters_areas(c, areas, WIRE_AREAS_MAX);
    struct images im = {0};
    collect(f, areas, n, &im);
    r->each = ARENA_ARRAY(r->arena, struct launch_process, im.v.len);
    r->each_count = im.v.len;
    for (size_t i = 0; i < im.v.len; i++) {
        const struct follow_image *from = &im.v.data[i];
        struct launch_process *p = &r->each[i];
        *p = (struct launch_process){
            .pid = from->pid, .parent = from->parent, .is_fork = from->is_fork, .status = from->status};
        size_t parent = from->is_fork ? image_when(im.v.data, im.v.len, from->parent, from->time_ns) : i;
        const char *command = parent == SIZE_MAX ? NULL : parent < i ? r->each[parent].command : from->command;
        p->command = command ? arena_strdup(r->arena, command) : NULL;
        p->refused = from->refused ? arena_strdup(r->arena, from->refused) : NULL;
    }
    each_process(opt, c, &im, areas, n, r);
    if (r->each_count && !r->each[0].is_fork) {
        size_t last = image_when(im.v.data, im.v.len, im.v.data[0].pid, UINT64_MAX);
        r->each[last].status = r->status;
    }
    VEC_FREE(&im.v);
    free(areas);
}
