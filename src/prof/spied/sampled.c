/* SPDX-License-Identifier: Apache-2.0
 *
 * Of some sets for all: what one set in N missed, N times, with an interval by how much the groups of these sets differ
 * (cache_estimate). Where all sets were simulated nothing changes, and figures are exact.
 */
#include "prof/spied/spied.h"

#include <math.h>

static void scale_cell(struct cache_cell *c, unsigned by)
{
    c->references *= by;
    c->misses *= by;
    c->streamed *= by;
    for (int k = 0; k < CACHE_CAUSE_COUNT; k++)
        c->causes[k] *= by;
}

const struct cache_cell *spied_scaled(struct spied *s, const struct cache_cell *cells, size_t count)
{
    if (s->one_in == 1 || !count)
        return cells;
    struct cache_cell *out = ARENA_ARRAY(s->j->scratch, struct cache_cell, count);
    memcpy(out, cells, count * sizeof *out);
    for (size_t i = 0; i < count; i++)
        scale_cell(&out[i], s->one_in);
    return out;
}

void spied_scale_row(const struct spied *s, struct prof_data_miss *row)
{
    uint64_t *const fields[] = {&row->references, &row->misses, &row->cold,         &row->capacity,     &row->conflict,
                                &row->inclusion,  &row->around, &row->true_sharing, &row->false_sharing};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        *fields[i] *= s->one_in;
}

void spied_estimate(const struct spied *s, uint32_t level, const uint32_t *cells, size_t count,
                    struct prof_data_miss *row)
{
    const struct spied_level *l = &s->levels[level];
    const struct cache *c = spy_cache(s->in->spy, l->config);
    row->misses_low = row->misses_high = row->misses;
    if (s->one_in == 1)
        return;
    struct cache_estimate e = cells ? cache_estimate_cells(c, l->level, cells, count) : cache_estimate(c, l->level);
    row->misses_low = (uint64_t)ceil(e.low);
    row->misses_high = (uint64_t)floor(e.high);
}

/* ---- shares of the stall ---- */

static void add_cell(const struct spied *s, uint32_t cell, double *to)
{
    for (uint32_t k = 0; k < s->level_count; k++) {
        const struct spied_level *l = &s->levels[k];
        unsigned groups;
        const uint64_t *of = cache_cell_groups(spy_cache(s->in->spy, l->config), l->level, cell, &groups);
        for (unsigned i = 0; of && l->config == 0 && i < groups; i++)
            to[i] += l->miss_cycles * (double)of[i];
    }
}

void spied_sum_groups(struct spied *s)
{
    for (uint32_t i = 0; s->one_in > 1 && i < s->cell_count; i++)
        add_cell(s, i, s->stall_groups);
}

/* A ratio's: of what each group has more or less than the share of its own stall. */
double spied_error(const struct spied *s, const struct spied_group *g)
{
    double groups[CACHE_GROUPS] = {0}, share = g->stall / s->stall_all;
    const struct cache *c = spy_cache(s->in->spy, 0);
    unsigned count;
    cache_cell_groups(c, s->levels[0].level, 0, &count);
    if (s->one_in == 1 || !(s->stall_all > 0))
        return 0;
    for (size_t i = 0; i < g->count; i++)
        add_cell(s, g->cells[i], groups);
    for (unsigned i = 0; i < count; i++)
        groups[i] -= share * s->stall_groups[i];
    return cache_groups_error(c, groups, count) / s->stall_all;
}

/* As uncertain as its measured seconds, and as its share of them. */
struct prof_interval spied_memory(const struct spied *s, const struct spied_group *g)
{
    double error = g->stall > 0 ? spied_error(s, g) * s->stall_all / g->stall : 0;
    return (struct prof_interval){g->memory_s.value, g->memory_s.low * fmax(1 - error, 0),
                                  g->memory_s.high * (1 + error)};
}
