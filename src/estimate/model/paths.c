/* SPDX-License-Identifier: Apache-2.0
 *
 * paths: random walks over blocks, each step in proportion to the exact count of its edge, so that in the long run
 * every block and edge is visited as often as it was executed. Calls are followed and returned from; a walk that began
 * inside a function returns to one of its callers, in proportion to their counts. What walks do not know: that one
 * branch depends on another (a loop of exactly four turns becomes one of four on average).
 */
#include "estimate/model/walks.h"

#include <stdlib.h>

const struct join_module *walk_module(const struct join *j, uint32_t block)
{
    /* the last one whose base is not above: one without blocks has the base of the next */
    return &j->modules[PARTITION_POINT(i, 1, j->module_count, j->modules[i].block_base <= block) - 1];
}

static void add_weight(struct path_draw *d, uint32_t block, uint64_t weight)
{
    if (weight == 0)
        return;
    d->blocks[d->count] = block;
    d->up_to[d->count] = weight + (d->count ? d->up_to[d->count - 1] : 0);
    d->count++;
}

static struct path_draw new_draw(struct join *j, uint32_t max)
{
    return (struct path_draw){ARENA_ARRAY(j->scratch, uint32_t, max + 1), ARENA_ARRAY(j->scratch, uint64_t, max + 1),
                              0};
}

static uint32_t draw(struct paths *p, const struct path_draw *d)
{
    if (d->count == 0)
        return ID_NONE;
    uint64_t pick = rng_below(&p->rng, d->up_to[d->count - 1]);
    return d->blocks[PARTITION_POINT(i, 0, d->count - 1, d->up_to[i] <= pick)];
}

static void list_executed(struct paths *p, struct join *j)
{
    uint32_t max = 0;
    for (uint32_t b = 0; b < j->block_count; b++)
        max += j->counts[b] != 0;
    p->executed = new_draw(j, max);
    p->entered = new_draw(j, max);
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (uint32_t b = 0; m->cfg && b < m->cfg->blocks.len; b++)
            add_weight(&p->executed, m->block_base + b,
                       j->counts[m->block_base + b] * m->cfg->blocks.data[b].insn_count);
    }
}

static bool is_way(const struct join_module *m, size_t e) { return m->edges[e] && m->cfg->edges.data[e].to != ID_NONE; }

static void list_in_edges(struct paths *p, struct join *j)
{
    uint32_t *at = p->in_first = ARENA_ARRAY(j->scratch, uint32_t, j->block_count + 2), total = 0;
    for (uint32_t i = 0; i < j->module_count; i++)
        for (size_t e = 0; j->modules[i].cfg && e < j->modules[i].cfg->edges.len; e++)
            if (is_way(&j->modules[i], e))
                at[j->modules[i].block_base + j->modules[i].cfg->edges.data[e].to + 1]++, total++;
    for (uint32_t b = 0; b < j->block_count; b++)
        at[b + 1] += at[b];
    p->in_edges = ARENA_ARRAY(j->scratch, struct path_in, total + 1);
    uint32_t *used = xmalloc_sparse((j->block_count + 1) * sizeof *used);
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (size_t e = 0; m->cfg && e < m->cfg->edges.len; e++) {
            if (!is_way(m, e))
                continue;
            uint32_t to = m->block_base + m->cfg->edges.data[e].to;
            p->in_edges[at[to] + used[to]++] =
                (struct path_in){m->block_base + m->cfg->edges.data[e].from, m->edges[e]};
        }
    }
    xfree_sparse(used);
}

static uint64_t sites_of(const struct calls *c, uint32_t entry)
{
    uint32_t end = c->from_first[entry + 1];
    return c->from_first[entry] < end ? c->sites[end - 1].up_to : 0;
}

static void list_entered(struct paths *p, struct join *j)
{
    p->outside = ARENA_SPARSE(j->scratch, uint64_t, j->block_count + 1);
    for (uint32_t i = 0; i < p->executed.count; i++) {
        uint32_t b = p->executed.blocks[i];
        uint64_t known = sites_of(p->calls, b);
        for (uint32_t k = p->in_first[b]; k < p->in_first[b + 1]; k++)
            known += p->in_edges[k].count;
        p->outside[b] = j->counts[b] > known ? j->counts[b] - known : 0;
        add_weight(&p->entered, b, p->outside[b]);
    }
}

void paths_init(struct paths *p, struct join *j, uint64_t seed)
{
    *p = (struct paths){.j = j, .calls = j->calls, .rng = {seed}};
    list_executed(p, j);
    list_in_edges(p, j);
    list_entered(p, j);
}

uint32_t paths_draw_start(struct paths *p) { return draw(p, &p->executed); }

uint32_t paths_draw_entry(struct paths *p)
{
    p->top = p->depth = 0;
    uint32_t entry = draw(p, &p->entered);
    return entry != ID_NONE ? entry : paths_draw_start(p);
}

static void push(struct paths *p, uint32_t block)
{
    p->stack[p->top++ % PATH_STACK] = block;
    if (p->depth < PATH_STACK)
        p->depth++;
}

/* Where a call in this block comes back to; ID_NONE if it never did. */
static uint32_t return_point(const struct join *j, uint32_t block)
{
    const struct join_module *m = walk_module(j, block);
    const struct cfg_block *b = &m->cfg->blocks.data[block - m->block_base];
    cfg_for_each_edge(b, e)
        if (m->cfg->edges.data[e].kind == CFG_EDGE_RETURN && is_way(m, e))
            return m->block_base + m->cfg->edges.data[e].to;
    return ID_NONE;
}

/* A call site of this entry; ID_NONE: it was called from code that is not known. */
static uint32_t draw_site(struct paths *p, uint32_t entry)
{
    const struct calls *c = p->calls;
    uint64_t sites = sites_of(c, entry), all = sites + p->outside[entry], pick = all ? rng_below(&p->rng, all) : 0;
    if (pick >= sites)
        return ID_NONE;
    size_t site = PARTITION_POINT(i, c->from_first[entry], c->from_first[entry + 1] - 1, c->sites[i].up_to <= pick);
    return c->sites[site].block;
}

static bool is_call(const struct cfg_block *b) { return b->term == X86_CALL || b->term == X86_CALL_IND; }

/* Back to the caller. A site that is a tail jump has a caller of its own, and so on. */
static uint32_t leave(struct paths *p, uint32_t block)
{
    if (p->depth) {
        p->depth--;
        return p->stack[--p->top % PATH_STACK];
    }
    for (int hops = 0; hops < 8; hops++) {
        const struct join_module *m = walk_module(p->j, block);
        const struct cfg_block *b = &m->cfg->blocks.data[block - m->block_base];
        uint32_t entry = m->block_base + m->cfg->funcs.data[b->func].block_first;
        block = draw_site(p, entry);
        if (block == ID_NONE)
            return ID_NONE;
        if (is_call(walk_block(p->j, block)))
            return return_point(p->j, block);
    }
    return ID_NONE;
}

static uint32_t draw_edge(struct paths *p, const struct join_module *m, const struct cfg_block *b)
{
    uint64_t sum = 0, pick;
    cfg_for_each_edge(b, e)
        sum += m->edges[e];
    if (sum == 0)
        return ID_NONE;
    pick = rng_below(&p->rng, sum);
    uint32_t e = b->edge_first;
    for (; pick >= m->edges[e]; e++)
        pick -= m->edges[e];
    return e;
}

uint32_t paths_next(struct paths *p, uint32_t block, bool *opaque)
{
    const struct join_module *m = walk_module(p->j, block);
    const struct cfg_block *b = &m->cfg->blocks.data[block - m->block_base];
    uint32_t to = p->calls->to[block];
    *opaque = false;
    if (is_call(b)) {
        uint32_t back = return_point(p->j, block);
        *opaque = to == ID_NONE;
        if (to != ID_NONE)
            push(p, back);
        return to != ID_NONE ? to : back;
    }
    if (b->term == X86_RET)
        return leave(p, block);
    uint32_t e = draw_edge(p, m, b);
    if (e != ID_NONE && m->cfg->edges.data[e].to != ID_NONE)
        return m->block_base + m->cfg->edges.data[e].to;
    if (to != ID_NONE) /* a jump to another function */
        return to;
    if (b->term != X86_JMP && b->term != X86_JMP_IND && b->term != X86_JCC)
        return ID_NONE;
    *opaque = true; /* a tail call into the unknown comes back to our caller */
    return leave(p, block);
}

void paths_follow(struct paths *p, uint32_t block, uint32_t next, bool *opaque)
{
    *opaque = false;
    if (!is_call(walk_block(p->j, block)))
        return;
    if (next == p->calls->to[block])
        push(p, return_point(p->j, block));
    else
        *opaque = true;
}

static uint32_t draw_before(struct paths *p, uint32_t block)
{
    uint32_t lo = p->in_first[block], hi = p->in_first[block + 1];
    uint64_t all = sites_of(p->calls, block) + p->outside[block];
    for (uint32_t i = lo; i < hi; i++)
        all += p->in_edges[i].count;
    uint64_t pick = all ? rng_below(&p->rng, all) : 0;
    for (uint32_t i = lo; i < hi; i++) {
        if (pick < p->in_edges[i].count)
            return p->in_edges[i].from;
        pick -= p->in_edges[i].count;
    }
    return draw_site(p, block);
}

uint32_t paths_before(struct paths *p, uint32_t block, uint32_t insns, uint32_t *out, uint32_t max)
{
    uint32_t count = 0, have = 0;
    p->top = p->depth = 0;
    while (have < insns && count < max && (block = draw_before(p, block)) != ID_NONE) {
        out[count++] = block;
        have += walk_block(p->j, block)->insn_count;
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        uint32_t other = out[i];
        out[i] = out[count - 1 - i];
        out[count - 1 - i] = other;
    }
    return count;
}
