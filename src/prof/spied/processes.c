/* SPDX-License-Identifier: Apache-2.0
 * Processes that were followed: what each missed in its caches, and its part of the stall of all. */
#include "prof/spied/spied.h"

#include <math.h>
#include <stdlib.h>

enum { PROCESSES_MAX = 1000 };

struct ranked {
    const struct prof_input_process *process;
    struct prof_interval stall; /* cycles */
};

/* Behind those of the configurations before. */
static const struct prof_input_spied_level *level_of(const struct spied *s, const struct prof_input_process *p,
                                                     const struct spied_level *l)
{
    size_t before = 0;
    for (size_t i = 0; i < l->config; i++)
        before += s->in->caches[i].config.count;
    return &p->levels[before + l->level];
}

static struct prof_data_miss misses_of(const struct spied *s, const struct prof_input_process *p, uint32_t level)
{
    const struct spied_level *l = &s->levels[level];
    const struct prof_input_spied_level *of = level_of(s, p, l);
    struct prof_data_miss row = spied_misses_of(&of->counts);
    row.owner = PROF_OWNER_PROCESS;
    row.cache = level;
    row.misses_low = row.misses_high = row.misses;
    if (spied_is_part(s)) {
        spied_scale_by(&of->estimate, &row);
        row.misses_low = min_u64((uint64_t)ceil(of->estimate.low), row.misses);
        row.misses_high = max_u64((uint64_t)floor(of->estimate.high), row.misses);
    }
    if (s->in->is_filtered && spied_is_nearest(l))
        row.references = PROF_UNKNOWN; /* those that hit did not come */
    return row;
}

static struct prof_interval stall_of(const struct spied *s, const struct prof_input_process *p)
{
    struct prof_interval sum = {0, 0, 0};
    for (uint32_t i = 0; i < s->level_count; i++) {
        struct prof_data_miss row = misses_of(s, p, i);
        double cycles = s->levels[i].config == 0 ? s->levels[i].miss_cycles : 0;
        sum.value += cycles * (double)row.misses;
        sum.low += cycles * (double)row.misses_low;
        sum.high += cycles * (double)row.misses_high;
    }
    return sum;
}

static int compare(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;
    if (a->stall.value != b->stall.value)
        return a->stall.value < b->stall.value ? 1 : -1;
    return (a->process > b->process) - (a->process < b->process);
}

static double share(const struct spied *s, double stall) { return s->stall_all > 0 ? stall / s->stall_all : NAN; }

static const char *keep(struct arena *a, const char *text) { return text ? arena_strdup(a, text) : NULL; }

static void add_process(struct spied *s, const struct ranked *k)
{
    struct prof_result *r = s->j->r;
    for (uint32_t i = 0; i < s->level_count; i++) {
        struct prof_data_miss row = misses_of(s, k->process, i);
        row.owner_id = (uint32_t)r->data_process_count;
        spied_add_miss(s, &row);
    }
    r->data_processes[r->data_process_count++] = (struct prof_data_process){
        .pid = k->process->pid,
        .command = keep(r->arena, k->process->command),
        .module = keep(r->arena, k->process->executable),
        .is_fork = k->process->is_fork,
        .threads = k->process->threads,
        .stall_share = {share(s, k->stall.value), share(s, k->stall.low), fmin(share(s, k->stall.high), 1)}};
}

void spied_processes(struct spied *s)
{
    struct prof_result *r = s->j->r;
    size_t count = s->in->process_count;
    struct ranked *list = ARENA_ARRAY(s->j->scratch, struct ranked, count + 1);
    for (size_t i = 0; i < count; i++)
        list[i] = (struct ranked){&s->in->processes[i], stall_of(s, &s->in->processes[i])};
    if (count)
        qsort(list, count, sizeof *list, compare);
    r->data_processes = ARENA_ARRAY(r->arena, struct prof_data_process, min_u64(count, PROCESSES_MAX) + 1);
    for (size_t i = 0; i < count && i < PROCESSES_MAX; i++)
        add_process(s, &list[i]);
}
