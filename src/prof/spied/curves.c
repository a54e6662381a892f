/* SPDX-License-Identifier: Apache-2.0
 * Miss-ratio curves: of the program, and of its first data objects, whose misses are part of the program's. */
#include "prof/spied/spied.h"

enum { CURVES_MAX = 16 };

static void put_program(struct spied *s, const struct cache_curve *k, uint64_t bytes)
{
    struct prof_result *r = s->j->r;
    r->data_curves[r->data_curve_count++] =
        (struct prof_data_curve){.object = ID_NONE,
                                 .bytes = bytes,
                                 .references = s->references,
                                 .misses = s->one_in * cache_curve_misses(k, bytes / s->one_in)};
}

static void put_object(struct spied *s, const struct cache_curve *k, uint32_t row, uint64_t bytes)
{
    struct prof_result *r = s->j->r;
    const struct spied_group *g = &s->groups[row];
    uint64_t misses = 0;
    for (size_t i = 0; i < g->count; i++)
        misses += s->one_in * cache_curve_cell_misses(k, g->cells[i], bytes / s->one_in);
    r->data_curves[r->data_curve_count++] =
        (struct prof_data_curve){.object = row, .bytes = bytes, .references = g->references, .misses = misses};
}

void spied_curves(struct spied *s)
{
    struct prof_result *r = s->j->r;
    const struct cache_curve *k = spy_curve(s->in->spy);
    uint64_t least = s->in->curve_min, most = k ? s->in->curve_max : 0;
    uint32_t objects = (uint32_t)min_u64(s->group_count, CURVES_MAX);
    size_t sizes = 0;
    for (uint64_t bytes = least; bytes <= most; bytes *= 2)
        sizes++;
    r->data_curves = ARENA_ARRAY(r->arena, struct prof_data_curve, sizes * (objects + 1ull) + 1);
    for (uint64_t bytes = least; bytes <= most; bytes *= 2)
        put_program(s, k, bytes);
    for (uint32_t row = 0; row < objects; row++)
        for (uint64_t bytes = least; bytes <= most; bytes *= 2)
            put_object(s, k, row, bytes);
}
