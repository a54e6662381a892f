/* SPDX-License-Identifier: Apache-2.0
 * How often loops are entered. The guest tells how often each block was executed, not which way control went; where a
 * block has one way in or out that is not known yet, the others tell. Where that leads nowhere (a loop without a block
 * of its own in front, behind a test that may skip it) nothing is said. */
#include "monster/impl.h"

#include <stdlib.h>

#include "cfg/cfg.h"

struct flow { /* of one function */
    const struct cfg *c;
    const struct cfg_func *f;
    const uint64_t *counts; /* by block of the cfg */
    uint64_t *edges;        /* by edge, from `first` on; PROF_UNKNOWN */
    uint32_t first, edge_count;
    uint32_t *in, *in_first; /* edges by the block that they lead to; in_first: by block of the function */
};

static bool is_inside(const struct flow *w, const struct cfg_edge *e) { return cfg_func_has_block(w->f, e->to); }

static void index_arrivals(struct flow *w)
{
    uint32_t blocks = w->f->block_count;
    w->in_first = xmalloc((blocks + 2) * sizeof *w->in_first);
    w->in = xmalloc((w->edge_count + 1) * sizeof *w->in);
    for (uint32_t e = w->first; e < w->first + w->edge_count; e++)
        if (is_inside(w, &w->c->edges.data[e]))
            w->in_first[w->c->edges.data[e].to - w->f->block_first + 2]++;
    for (uint32_t b = 0; b < blocks; b++)
        w->in_first[b + 2] += w->in_first[b + 1];
    for (uint32_t e = w->first; e < w->first + w->edge_count; e++)
        if (is_inside(w, &w->c->edges.data[e]))
            w->in[w->in_first[w->c->edges.data[e].to - w->f->block_first + 1]++] = e;
}

/* These edges together have `sum`: if one is not known, it is now. Counts that contradict each other tell nothing. */
static bool conclude(struct flow *w, const uint32_t *list, uint32_t first, uint32_t count, uint64_t sum)
{
    uint32_t unknown = ID_NONE;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t e = list ? list[i] : first + i;
        uint64_t known = w->edges[e - w->first];
        if (known == PROF_UNKNOWN && unknown != ID_NONE)
            return false;
        if (known == PROF_UNKNOWN)
            unknown = e;
        else if (known > sum)
            return false;
        else
            sum -= known;
    }
    if (unknown == ID_NONE)
        return false;
    w->edges[unknown - w->first] = sum;
    return true;
}

/* A call may not come back, so what leaves its block by returning is known from where it arrives alone. */
static bool conclude_block(struct flow *w, uint32_t b)
{
    const struct cfg_block *block = &w->c->blocks.data[b];
    uint32_t own = b - w->f->block_first;
    bool is_call = block->term == X86_CALL || block->term == X86_CALL_IND;
    bool is_entered = block->flags & (CFG_BLOCK_EXT_IN & ~CFG_BLOCK_RETURN_POINT);
    bool any = false;
    if (!is_call && block->edge_count)
        any |= conclude(w, NULL, block->edge_first, block->edge_count, w->counts[b]);
    if (!is_entered)
        any |= conclude(w, w->in + w->in_first[own], 0, w->in_first[own + 1] - w->in_first[own], w->counts[b]);
    return any;
}

static bool loop_holds(const struct cfg *c, uint32_t loop, uint32_t block)
{
    uint32_t l = c->blocks.data[block].loop;
    while (l != ID_NONE && l != loop)
        l = c->loops.data[l].parent;
    return l == loop;
}

/* By the edges that come from outside, or by those that come back. */
static uint64_t entries_of(const struct flow *w, uint32_t loop)
{
    uint32_t header = w->c->loops.data[loop].header, own = header - w->f->block_first;
    uint64_t sums[2] = {0, 0}; /* from outside, back */
    for (uint32_t i = w->in_first[own]; i < w->in_first[own + 1]; i++) {
        uint64_t *sum = &sums[loop_holds(w->c, loop, w->c->edges.data[w->in[i]].from)];
        uint64_t known = w->edges[w->in[i] - w->first];
        *sum = known == PROF_UNKNOWN || *sum == PROF_UNKNOWN ? PROF_UNKNOWN : *sum + known;
    }
    bool is_called = w->c->blocks.data[header].flags & CFG_BLOCK_EXT_IN;
    if (sums[1] != PROF_UNKNOWN && sums[1] <= w->counts[header])
        return w->counts[header] - sums[1];
    return is_called || sums[0] > w->counts[header] ? PROF_UNKNOWN : sums[0];
}

void monster_entries(const struct cfg *c, const uint64_t *counts, uint32_t func, uint64_t *out)
{
    struct flow w = {.c = c, .f = &c->funcs.data[func], .counts = counts};
    bool any = w.f->loop_count != 0;
    if (!any || !w.f->block_count)
        return;
    const struct cfg_block *last = &c->blocks.data[w.f->block_first + w.f->block_count - 1];
    w.first = c->blocks.data[w.f->block_first].edge_first;
    w.edge_count = last->edge_first + last->edge_count - w.first;
    w.edges = xmalloc((w.edge_count + 1) * sizeof *w.edges);
    for (uint32_t e = 0; e < w.edge_count; e++)
        w.edges[e] = PROF_UNKNOWN;
    index_arrivals(&w);
    while (any) {
        any = false;
        cfg_for_each_block(w.f, b)
            any |= conclude_block(&w, b);
    }
    cfg_for_each_loop(w.f, l)
        out[l] = entries_of(&w, l);
    free(w.edges);
    free(w.in);
    free(w.in_first);
}
