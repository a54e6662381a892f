/* SPDX-License-Identifier: Apache-2.0
 *
 * The flow equations of a run: from counters to the counts of all blocks and edges.
 */
#include "rewrite/map/map.h"

#include <stdlib.h>

struct solver {
    const struct map_full *m;
    struct rw_arcs arcs;
    uint64_t *val;      /* [arcs] */
    uint8_t *known;     /* [arcs] */
    uint32_t *first;    /* [nodes + 1] into incident */
    uint32_t *incident; /* arc ids by node */
    uint32_t *unknown;  /* [nodes] arcs not known yet */
    const struct rw_side_exit *side_exits;
    size_t side_exits_len;
    int64_t *away; /* [blocks] of what comes in, what does not come to the end; NULL: nowhere */
    uint64_t broken;
};

static uint32_t counter_of(const struct map_full *m, const struct rw_arc *a)
{
    switch ((enum rw_arc_kind)a->kind) {
    case RW_ARC_BLOCK:
        return m->pub.block_counter[a->id];
    case RW_ARC_EDGE:
        return m->pub.edge_counter[a->id];
    case RW_ARC_ENTER:
        return m->pub.enter_counter[a->id];
    case RW_ARC_GROUP:
        return m->group_edges[a->id].counter;
    case RW_ARC_OUT:
        return ID_NONE;
    }
    return ID_NONE;
}

/* How often a block was entered that its counter does not tell of, since it was left in front of that. */
static uint64_t left_uncounted(const struct solver *s, uint32_t block)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->side_exits_len; i++)
        if (s->side_exits[i].block == block && !s->side_exits[i].is_counted)
            sum += (uint64_t)s->side_exits[i].at->count;
    return sum;
}

static bool are_turns(const struct rw_step *step, uint64_t gained)
{
    return (int64_t)gained != INT64_MIN && (int64_t)gained % step->step == 0 && (int64_t)gained / step->step >= 0;
}

/* Turns of a counted loop: what its register gained in all, by the step. Of each entry that ended in the middle of the
 * loop, what the register held there is what it was left with; the entry value of the last one is still there then, or
 * that of one that was under way at the program's end: which, tells what is more likely, no address of a program being
 * a number of turns. Where the code says how many turns an entry takes, the ways out were counted, and the entry value
 * is known. */
static uint64_t turns_of(struct solver *s, uint32_t block, uint64_t counted, uint64_t pending)
{
    const struct rw_step *step = &s->m->step[block];
    uint64_t begun = 0, gained = step->turns ? counted * step->turns * (uint64_t)step->step : counted;
    bool is_left = false;
    for (size_t i = 0; i < s->side_exits_len; i++) {
        const struct rw_side_exit *l = &s->side_exits[i];
        if (l->block != block)
            continue;
        gained += l->at->regs[step->reg] - (uint64_t)step->first * (uint64_t)l->at->count;
        begun += l->off < step->done ? (uint64_t)l->at->count : 0;
        is_left |= l->at->count != 0;
    }
    bool is_over = is_left && are_turns(step, gained) && (int64_t)gained / step->step < INT64_C(1) << 40;
    gained += is_over ? 0 : pending;
    if (are_turns(step, gained))
        return (uint64_t)((int64_t)gained / step->step) + begun;
    s->broken++;
    return 0;
}

static bool is_in_loop_of(const struct cfg *c, uint32_t block, uint32_t header)
{
    uint32_t l = c->blocks.data[block].loop;
    while (l != ID_NONE && c->loops.data[l].header != header)
        l = c->loops.data[l].parent;
    return l != ID_NONE;
}

/* What a counter's register held where its loop was left by a fault: it never came to the counter. */
static uint64_t left_in_register(const struct solver *s, uint32_t n)
{
    const struct rw_promoted *p = s->m->promoted;
    size_t at = s->side_exits_len ? PARTITION_POINT(i, 0, s->m->promoted_count, p[i].counter <= n) : 0;
    if (!at || n - p[at - 1].counter >= p[at - 1].count)
        return 0;
    unsigned lane = n - p[at - 1].counter, reg = rw_vector_at(s->m->vectors, lane / 2);
    uint64_t sum = 0;
    for (size_t i = 0; i < s->side_exits_len && reg < RW_VECTORS; i++)
        if (is_in_loop_of(s->m->pub.cfg, s->side_exits[i].block, p[at - 1].header))
            sum += s->side_exits[i].at->vectors[2 * reg + lane % 2];
    return sum;
}

/* What the counter of an arc says. */
static uint64_t counter_value(struct solver *s, const struct rw_arc *a, const uint64_t *counters)
{
    uint32_t n = counter_of(s->m, a);
    if (a->kind != RW_ARC_BLOCK)
        return counters[n] + left_in_register(s, n);
    const struct rw_step *step = &s->m->step[a->id];
    uint64_t counted = counters[n] + left_in_register(s, n);
    return step->step ? turns_of(s, a->id, counted, step->turns ? 0 : counters[step->pending])
                      : counted + left_uncounted(s, a->id);
}

static void solver_index(struct solver *s, const uint64_t *counters)
{
    s->val = xmalloc((s->arcs.len + 1) * 8);
    s->known = xmalloc(s->arcs.len + 1);
    s->first = xmalloc(((size_t)s->arcs.nodes + 2) * 4);
    s->unknown = xmalloc(((size_t)s->arcs.nodes + 1) * 4);
    s->incident = xmalloc((2 * s->arcs.len + 1) * 4);
    for (size_t i = 0; i < s->arcs.len; i++) {
        const struct rw_arc *a = &s->arcs.data[i];
        uint32_t n = counter_of(s->m, a);
        if (n != ID_NONE) {
            s->val[i] = counter_value(s, a, counters);
            s->known[i] = 1;
        } else {
            s->unknown[a->a]++;
            s->unknown[a->b]++;
        }
        s->first[a->a + 1]++;
        s->first[a->b + 1]++;
    }
    for (uint32_t n = 0; n < s->arcs.nodes; n++)
        s->first[n + 1] += s->first[n];
    uint32_t *at = xmalloc(((size_t)s->arcs.nodes + 1) * 4);
    memcpy(at, s->first, s->arcs.nodes * sizeof *at);
    for (size_t i = 0; i < s->arcs.len; i++) {
        s->incident[at[s->arcs.data[i].a]++] = (uint32_t)i;
        s->incident[at[s->arcs.data[i].b]++] = (uint32_t)i;
    }
    free(at);
}

/* Flow into node n minus flow out of it over the known arcs; *open: the one arc not known. Modulo 2^64: counters hold
 * whatever the program wrote there. */
static uint64_t balance(const struct solver *s, uint32_t n, uint32_t *open)
{
    uint64_t sum = s->away && n < s->arcs.outside && n % 2 ? 0 - (uint64_t)s->away[n / 2] : 0; /* a block's way out */
    *open = ID_NONE;
    for (uint32_t k = s->first[n]; k < s->first[n + 1]; k++) {
        uint32_t i = s->incident[k];
        if (!s->known[i])
            *open = i;
        else
            sum += s->arcs.data[i].b == n ? s->val[i] : 0 - s->val[i];
    }
    return sum;
}

/* Of a block that ends in a system call more may come out than went in: who forks returns in the child too. */
static bool may_be_negative(const struct solver *s, const struct rw_arc *a)
{
    return a->kind == RW_ARC_OUT && (s->m->pub.cfg->blocks.data[a->id].flags & CFG_BLOCK_SYSCALL);
}

static void solver_run(struct solver *s)
{
    uint32_t *ready = xmalloc(((size_t)s->arcs.nodes + 1) * 4), len = 0;
    for (uint32_t n = 0; n < s->arcs.nodes; n++)
        if (n != s->arcs.outside && s->unknown[n] == 1)
            ready[len++] = n;
    while (len) {
        uint32_t n = ready[--len], open;
        if (s->unknown[n] != 1)
            continue;
        uint64_t sum = balance(s, n, &open);
        const struct rw_arc *a = &s->arcs.data[open];
        /* what comes in and is not accounted for goes out here, and the reverse */
        int64_t v = (int64_t)(a->a == n ? sum : 0 - sum);
        bool is_broken = v < 0 && !may_be_negative(s, a);
        s->broken += is_broken;
        s->val[open] = is_broken ? 0 : (uint64_t)v;
        s->known[open] = 1;
        s->unknown[a->a]--;
        s->unknown[a->b]--;
        uint32_t other = a->a == n ? a->b : a->a;
        if (other != s->arcs.outside && s->unknown[other] == 1)
            ready[len++] = other;
    }
    for (uint32_t n = 0; n < s->arcs.nodes; n++) {
        uint32_t open;
        if (n != s->arcs.outside && s->first[n] != s->first[n + 1] && s->unknown[n] == 0 && balance(s, n, &open) != 0)
            s->broken++;
    }
    free(ready);
}

/* Edges through a shared table: what leaves by it is spread over the targets in proportion (a table entry cannot tell
 * who used it). */
static void distribute_groups(const struct solver *s, const uint64_t *blocks, uint64_t *edges)
{
    const struct map_full *m = s->m;
    const struct cfg *c = m->pub.cfg;
    if (!m->group_count)
        return;
    struct map into = {0};
    double *total = xmalloc(m->group_count * sizeof *total);
    for (size_t i = 0; i < s->arcs.len; i++) {
        if (s->arcs.data[i].kind != RW_ARC_GROUP)
            continue;
        const struct rw_group_edge *ge = &m->group_edges[s->arcs.data[i].id];
        map_put(&into, (uint64_t)ge->group << 32 | ge->to, s->val[i]);
        total[ge->group] += (double)s->val[i];
    }
    for (uint32_t e = 0; e < c->edges.len; e++) {
        const struct cfg_edge *ed = &c->edges.data[e];
        uint32_t g = m->block_group[ed->from];
        uint64_t v;
        if (g != ID_NONE && ed->kind == CFG_EDGE_TABLE && map_get(&into, (uint64_t)g << 32 | ed->to, &v) &&
            total[g] > 0)
            edges[e] = (uint64_t)((double)blocks[ed->from] * ((double)v / total[g]) + 0.5);
    }
    free(total);
    map_fini(&into);
}

/* Edges that are no arcs. A return point is entered by its call, or else by nothing we follow; what leaves by no other
 * edge leaves by the one that leads out. left: so often control did not come to the block's end. */
static void edges_of_block(const struct cfg *c, uint32_t b, int64_t side_exits, const uint64_t *blocks, uint64_t *edges)
{
    const struct cfg_block *blk = &c->blocks.data[b];
    uint64_t ends = side_exits > 0 && (uint64_t)side_exits > blocks[b] ? 0 : blocks[b] - (uint64_t)side_exits,
             rest = ends;
    bool one_way_out = true;
    uint32_t out = ID_NONE;
    cfg_for_each_edge(blk, e) {
        const struct cfg_edge *ed = &c->edges.data[e];
        if (ed->kind == CFG_EDGE_OUT) {
            one_way_out = out == ID_NONE;
            out = e;
        } else if (ed->kind == CFG_EDGE_RETURN) {
            if (rw_cfg_block_moved(c, ed->to))
                edges[e] = min_u64(blocks[ed->to], ends);
        } else {
            rest -= edges[e] < rest ? edges[e] : rest;
        }
    }
    if (out != ID_NONE && one_way_out)
        edges[out] = rest;
}

/* The caller frees s->left and s->away. */
static void solver_take_side_exits(struct solver *s, struct rewrite_side_exits side_exits)
{
    if (!side_exits.len)
        return;
    struct rw_side_exit *found = xmalloc(side_exits.len * sizeof *found);
    s->side_exits_len = rw_side_exit_find(&s->m->pub, s->m->mark, side_exits, found);
    s->side_exits = found;
    s->away = xmalloc((s->m->pub.cfg->blocks.len + 1) * sizeof *s->away);
    for (size_t i = 0; i < s->side_exits_len; i++)
        s->away[found[i].block] = (int64_t)((uint64_t)s->away[found[i].block] + (uint64_t)found[i].at->count);
}

/* Of memory that nobody wrote to, no page is taken. */
static void clear(uint64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (v[i])
            v[i] = 0;
}

/* Most counts of a large module are 0. */
static void take_counts(const struct solver *s, uint64_t *blocks, uint64_t *edges, uint64_t *enter)
{
    for (size_t i = 0; i < s->arcs.len; i++) {
        const struct rw_arc *a = &s->arcs.data[i];
        uint64_t *to = a->kind == RW_ARC_BLOCK   ? blocks
                       : a->kind == RW_ARC_EDGE  ? edges
                       : a->kind == RW_ARC_ENTER ? enter
                                                 : NULL;
        if (to && s->val[i])
            to[a->id] = s->val[i];
    }
}

uint64_t rewrite_counts_solve(const struct rewrite_map *m, const uint64_t *counters, uint64_t *blocks, uint64_t *edges,
                              uint64_t *enter)
{
    return rewrite_counts_solve_side_exits(m, counters, (struct rewrite_side_exits){NULL, 0}, blocks, edges, enter);
}

/* Into arrays of zeroes. */
static uint64_t solve(const struct rewrite_map *pub, const uint64_t *counters, struct rewrite_side_exits side_exits,
                      uint64_t *blocks, uint64_t *edges, uint64_t *enter)
{
    const struct map_full *m = (const struct map_full *)(const void *)pub;
    const struct cfg *c = pub->cfg;
    struct solver s = {.m = m};
    solver_take_side_exits(&s, side_exits);
    bool *ran = rw_functions_that_ran(m, counters, s.side_exits, s.side_exits_len);
    rw_arcs_build(c, m->block_group, m->group_edges, m->group_edge_count, m->group_count, ran, &s.arcs);
    solver_index(&s, counters);
    solver_run(&s);
    take_counts(&s, blocks, edges, enter);
    distribute_groups(&s, blocks, edges);
    for (uint32_t f = 0; f < c->funcs.len; f++)
        if (ran[f])
            cfg_for_each_block(&c->funcs.data[f], b)
                edges_of_block(c, b, s.away ? s.away[b] : 0, blocks, edges);
    free(ran);
    free((void *)(uintptr_t)s.side_exits);
    free(s.away);
    free(s.val);
    free(s.known);
    free(s.first);
    free(s.incident);
    free(s.unknown);
    VEC_FREE(&s.arcs);
    return s.broken;
}

uint64_t rewrite_counts_solve_side_exits(const struct rewrite_map *m, const uint64_t *counters,
                                         struct rewrite_side_exits side_exits, uint64_t *blocks, uint64_t *edges,
                                         uint64_t *enter)
{
    clear(blocks, m->cfg->blocks.len);
    clear(edges, m->cfg->edges.len);
    if (enter)
        clear(enter, m->cfg->blocks.len);
    return solve(m, counters, side_exits, blocks, edges, enter);
}

void rewrite_flow_solve(const struct rewrite_map *m, const uint64_t *counters, struct rewrite_side_exits side_exits,
                        struct rewrite_flow *out)
{
    const struct cfg *c = m->cfg;
    *out = (struct rewrite_flow){.blocks = xmalloc_sparse((c->blocks.len + 1) * sizeof *out->blocks),
                                 .edges = xmalloc_sparse((c->edges.len + 1) * sizeof *out->edges),
                                 .enter = xmalloc_sparse((c->blocks.len + 1) * sizeof *out->enter)};
    out->broken = solve(m, counters, side_exits, out->blocks, out->edges, out->enter);
}

void rewrite_flow_free(struct rewrite_flow *f)
{
    xfree_sparse(f->blocks);
    xfree_sparse(f->edges);
    xfree_sparse(f->enter);
    *f = (struct rewrite_flow){.blocks = NULL};
}

uint64_t rewrite_flow_instructions(const struct rewrite_map *m, const struct rewrite_flow *f)
{
    uint64_t sum = 0;
    for (size_t b = 0; b < m->cfg->blocks.len; b++)
        sum += f->blocks[b] * m->cfg->blocks.data[b].insn_count;
    return sum;
}
