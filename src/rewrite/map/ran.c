/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that ran, and so need their equations solved, out of the counters alone: a union-find over functions.
 */
#include "rewrite/map/map.h"

#include <stdlib.h>

/* Functions between which control may pass inside moved code are solved together: the root of each in a forest. */
static uint32_t root_of(uint32_t *up, uint32_t f)
{
    while (up[f] != f)
        f = up[f] = up[up[f]];
    return f;
}

static void join_functions(uint32_t *up, const struct cfg *c, uint32_t block_a, uint32_t block_b)
{
    uint32_t a = root_of(up, c->blocks.data[block_a].func), b = root_of(up, c->blocks.data[block_b].func);
    up[a > b ? a : b] = a > b ? b : a;
}

static void join_groups(const struct map_full *m, uint32_t *up)
{
    const struct cfg *c = m->pub.cfg;
    uint32_t *first = xmalloc(((size_t)m->group_count + 1) * 4); /* a target of each group */
    for (uint32_t g = 0; g < m->group_edge_count; g++)
        first[m->group_edges[g].group] = m->group_edges[g].to;
    for (uint32_t g = 0; g < m->group_edge_count; g++)
        join_functions(up, c, first[m->group_edges[g].group], m->group_edges[g].to);
    for (uint32_t b = 0; m->group_edge_count && b < c->blocks.len; b++)
        if (m->block_group[b] != ID_NONE)
            join_functions(up, c, b, first[m->block_group[b]]);
    free(first);
}

static uint32_t *functions_joined(const struct map_full *m)
{
    const struct cfg *c = m->pub.cfg;
    uint32_t *up = xmalloc((c->funcs.len + 1) * 4);
    for (uint32_t f = 0; f < c->funcs.len; f++)
        up[f] = f;
    for (uint32_t e = 0; e < c->edges.len; e++) {
        const struct cfg_edge *ed = &c->edges.data[e];
        const struct cfg_func *fn = &c->funcs.data[c->blocks.data[ed->from].func];
        if (ed->to != ID_NONE && ed->to - fn->block_first >= fn->block_count && rw_cfg_edge_inside(c, ed))
            join_functions(up, c, ed->from, ed->to);
    }
    join_groups(m, up);
    return up;
}

static bool any_count(uint32_t counter, const uint64_t *counters) { return counter != ID_NONE && counters[counter]; }

/* The equations have one solution, so where all counters of a function, and of those joined to it, are 0 all of its
 * counts are. Most functions of most programs never run. */
bool *rw_functions_that_ran(const struct map_full *m, const uint64_t *counters, const struct rw_side_exit *side_exits,
                            size_t side_exits_len)
{
    const struct cfg *c = m->pub.cfg;
    const struct rewrite_map *p = &m->pub;
    uint32_t *up = functions_joined(m);
    bool *ran = xmalloc((c->funcs.len + 1) * sizeof *ran);
    for (uint32_t b = 0; b < c->blocks.len; b++)
        if (any_count(p->block_counter[b], counters) || any_count(p->enter_counter[b], counters) ||
            (m->step[b].step && !m->step[b].turns && counters[m->step[b].pending]))
            ran[root_of(up, c->blocks.data[b].func)] = true;
    for (uint32_t e = 0; e < c->edges.len; e++)
        if (any_count(p->edge_counter[e], counters))
            ran[root_of(up, c->blocks.data[c->edges.data[e].from].func)] = true;
    for (uint32_t g = 0; g < m->group_edge_count; g++)
        if (any_count(m->group_edges[g].counter, counters))
            ran[root_of(up, c->blocks.data[m->group_edges[g].to].func)] = true;
    for (size_t i = 0; i < side_exits_len; i++)
        ran[root_of(up, c->blocks.data[side_exits[i].block].func)] = true;
    for (uint32_t f = 0; f < c->funcs.len; f++)
        ran[f] = ran[root_of(up, f)];
    free(up);
    return ran;
}
