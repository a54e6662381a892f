/* SPDX-License-Identifier: Apache-2.0
 *
 * Which blocks and edges get a counter: the chords of a maximum spanning tree (Knuth, TAOCP 1, 2.3.4.1; Ball and Larus
 * 1994; Kruskal). The graph (arcs.c) has two nodes a block, the way in and the way out, joined by the block itself, and
 * one node for the world outside. No equation is ever used at the outside node, and a call is a way out followed by a
 * way in: so counts stay exact when a call does not come back (exit, longjmp, an exception). Nearly all arcs
 * stand inside one function, and all but the outside node and what other functions jump to (joints) are nobody else's.
 * So each function finds its own tree first, by all processors. An arc that closes a cycle there is a chord in the
 * whole graph too, and one that joins a part without a joint is in the whole tree too; what is left is decided by one
 * more round over the rest. The outcome is that of one round over all arcs in the order of weight, then of address.
 *
 * needs: funcs, block_group, group_edges. fills: *_counter.
 */
#include "rewrite/impl.h"

#include <stdlib.h>

#define FUNCS_A_RANGE 64

struct rest { /* of a range of functions: arcs that the second round decides, in the order of address */
    VEC(struct rw_arc) arcs;
};

struct tree {
    struct rw *w;
    uint32_t outside;
    uint32_t *uf;      /* [nodes] union-find over what is in the tree for certain */
    uint8_t *joint;    /* [nodes] */
    struct rest *rest; /* [ranges] */
};

struct own { /* one function's arcs and nodes, these counted from its first; one more for the outside */
    struct tree *t;
    struct rw_flow *flow;
    uint32_t node_first, node_count;
    struct rw_arcs arcs;
    VEC(uint32_t) order, spare;
    VEC(uint32_t) part;     /* union-find over all that was joined */
    VEC(uint32_t) sure;     /* and over what is in the tree for certain */
    VEC(uint8_t) has_joint; /* of a part's root */
    VEC(uint8_t) is_open;   /* [arcs] for the second round */
};

static uint32_t find(uint32_t *uf, uint32_t n)
{
    while (uf[n] != n)
        n = uf[n] = uf[uf[n]];
    return n;
}

/* ---- arcs in the order of weight, heaviest first ---- */

static void order_by(const struct rw_arc *arcs, size_t n, unsigned shift, const uint32_t *from, uint32_t *to)
{
    enum { DIGITS = 64 };
    uint32_t first[DIGITS + 1] = {0};
    for (size_t i = 0; i < n; i++)
        first[DIGITS - (arcs[i].weight >> shift & (DIGITS - 1))]++;
    for (size_t k = 1; k <= DIGITS; k++)
        first[k] += first[k - 1];
    for (size_t i = 0; i < n; i++) {
        uint32_t at = from ? from[i] : (uint32_t)i;
        to[first[DIGITS - 1 - (arcs[at].weight >> shift & (DIGITS - 1))]++] = at;
    }
}

/* Those of one weight in the order that they had. */
static void order_by_weight(const struct rw_arc *arcs, size_t n, uint32_t *order, uint32_t *spare)
{
    _Static_assert(RW_WEIGHT_FORCED < 64 * 64, "two digits");
    order_by(arcs, n, 0, NULL, spare);
    order_by(arcs, n, 6, spare, order);
}

/* The number comes later: here it is only said that there is one. */
static void take_chord(struct rw *w, const struct rw_arc *a)
{
    uint32_t counter = w->feedback_block && a->weight < RW_WEIGHT_FEEDBACK ? RW_COUNTER_COLD : RW_COUNTER_HOT;
    switch ((enum rw_arc_kind)a->kind) {
    case RW_ARC_BLOCK:
        w->block_counter[a->id] = counter;
        break;
    case RW_ARC_EDGE:
        w->edge_counter[a->id] = counter;
        break;
    case RW_ARC_ENTER:
        w->enter_counter[a->id] = counter;
        break;
    case RW_ARC_GROUP:
        w->group_edges.data[a->id].counter = counter;
        break;
    case RW_ARC_OUT:
        break; /* cannot be: forced arcs form no cycle */
    }
}

/* ---- joints ---- */

static void mark_joint(struct tree *t, uint32_t node) { __atomic_store_n(&t->joint[node], 1, __ATOMIC_RELAXED); }

static void joints_of_range(void *ctx, size_t first, size_t end)
{
    struct tree *t = ctx;
    const struct cfg *c = t->w->cfg;
    for (size_t f = first; f < end; f++)
        cfg_for_each_block(&c->funcs.data[f], b) {
            const struct cfg_block *blk = &c->blocks.data[b];
            if (t->w->block_group[b] != ID_NONE)
                mark_joint(t, 2 * b + 1);
            cfg_for_each_edge(blk, e) {
                uint32_t to = c->edges.data[e].to;
                if (to == ID_NONE || c->blocks.data[to].func == f)
                    continue;
                mark_joint(t, 2 * b + 1);
                mark_joint(t, 2 * to);
            }
        }
}

static void find_joints(struct tree *t)
{
    t->joint[t->outside] = 1;
    for (size_t g = 0; g < t->w->group_edges.len; g++)
        t->joint[2 * t->w->group_edges.data[g].to] = 1;
    parallel_for(t->w->cfg->funcs.len, FUNCS_A_RANGE, joints_of_range, t);
}

/* ---- first round: a function by itself ---- */

static uint32_t own_node(const struct own *o, uint32_t node)
{
    return node == o->t->outside ? o->node_count : node - o->node_first;
}

static bool is_own(const struct own *o, uint32_t node)
{
    return node == o->t->outside || node - o->node_first < o->node_count;
}

#define ROOM(v, n)                                                                                                     \
    do {                                                                                                               \
        VEC_RESERVE(v, n);                                                                                             \
        (v)->len = (n);                                                                                                \
    } while (0)

static void own_begin(struct own *o, const struct cfg_func *fn)
{
    struct tree *t = o->t;
    const struct cfg *c = t->w->cfg;
    o->node_first = 2 * fn->block_first;
    o->node_count = 2 * fn->block_count;
    o->arcs.len = 0;
    o->arcs.outside = t->outside;
    cfg_for_each_block(fn, b)
        rw_arcs_of_block(c, t->w->block_group, &o->arcs, b);
    size_t n = o->node_count + 1u, m = o->arcs.len;
    ROOM(&o->part, n);
    ROOM(&o->sure, n);
    ROOM(&o->has_joint, n);
    ROOM(&o->is_open, m);
    ROOM(&o->order, m);
    ROOM(&o->spare, m);
    for (uint32_t k = 0; k < n; k++) {
        o->part.data[k] = o->sure.data[k] = k;
        o->has_joint.data[k] = t->joint[k < o->node_count ? o->node_first + k : t->outside];
    }
    for (size_t i = 0; i < m; i++)
        if (o->arcs.data[i].kind != RW_ARC_OUT)
            o->arcs.data[i].weight = rw_weight(o->flow, &o->arcs.data[i]);
}

/* True if the second round must decide. */
static bool own_arc(struct own *o, const struct rw_arc *a)
{
    if (!is_own(o, a->a) || !is_own(o, a->b))
        return true;
    uint32_t from = own_node(o, a->a), to = own_node(o, a->b);
    uint32_t x = find(o->part.data, from), y = find(o->part.data, to);
    if (x == y) {
        take_chord(o->t->w, a);
        return false;
    }
    bool open = o->has_joint.data[x] && o->has_joint.data[y];
    if (!open) /* the root is on the side of the joint */
        o->sure.data[find(o->sure.data, o->has_joint.data[x] ? to : from)] =
            find(o->sure.data, o->has_joint.data[x] ? from : to);
    o->has_joint.data[y] |= o->has_joint.data[x];
    o->part.data[x] = y;
    return open;
}

/* The function's parts, and its arcs that are open, for the second round. */
static void own_end(struct own *o, struct rest *rest)
{
    struct tree *t = o->t;
    for (uint32_t k = 0; k < o->node_count; k++) {
        uint32_t root = find(o->sure.data, k);
        t->uf[o->node_first + k] = root == o->node_count ? t->outside : o->node_first + root;
    }
    for (size_t i = 0; i < o->arcs.len; i++)
        if (o->is_open.data[i])
            VEC_PUSH(&rest->arcs, o->arcs.data[i]);
}

static void own_tree(struct own *o, uint32_t f, struct rest *rest)
{
    struct rw *w = o->t->w;
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    rw_weigh(o->flow, f);
    own_begin(o, fn);
    order_by_weight(o->arcs.data, o->arcs.len, o->order.data, o->spare.data);
    for (size_t k = 0; k < o->arcs.len; k++) {
        uint32_t i = o->order.data[k];
        const struct rw_arc *a = &o->arcs.data[i];
        bool is_done = w->opt->all_blocks && a->kind == RW_ARC_BLOCK; /* counted anyway */
        o->is_open.data[i] = !is_done && own_arc(o, a);
    }
    own_end(o, rest);
}

static void trees_of_range(void *ctx, size_t first, size_t end)
{
    struct tree *t = ctx;
    struct own o = {.t = t, .flow = rw_flow_new(t->w)};
    for (size_t f = first; f < end; f++)
        if (t->w->cfg->funcs.data[f].reason == CFG_REASON_OK && t->w->cfg->funcs.data[f].block_count)
            own_tree(&o, (uint32_t)f, &t->rest[first / FUNCS_A_RANGE]);
    rw_flow_free(o.flow);
    VEC_FREE(&o.arcs);
    VEC_FREE(&o.order);
    VEC_FREE(&o.spare);
    VEC_FREE(&o.part);
    VEC_FREE(&o.sure);
    VEC_FREE(&o.has_joint);
    VEC_FREE(&o.is_open);
}

/* ---- second round ---- */

static void collect_group_edges(const struct tree *t, struct rw_arcs *all)
{
    const struct rw *w = t->w;
    struct rw_flow *flow = rw_flow_new(w);
    uint32_t weighed = ID_NONE; /* function; those of one jump lead into one, nearly always */
    for (uint32_t g = 0; g < w->group_edges.len; g++) {
        const struct rw_group_edge *e = &w->group_edges.data[g];
        struct rw_arc a = {t->outside + 1 + e->group, 2 * e->to, g, RW_ARC_GROUP, 0};
        if (w->cfg->blocks.data[e->to].func != weighed)
            rw_weigh(flow, weighed = w->cfg->blocks.data[e->to].func);
        a.weight = rw_weight(flow, &a);
        VEC_PUSH(all, a);
    }
    rw_flow_free(flow);
}

static void collect_rest(struct tree *t, size_t ranges, struct rw_arcs *all)
{
    size_t n = t->w->group_edges.len;
    for (size_t r = 0; r < ranges; r++)
        n += t->rest[r].arcs.len;
    VEC_RESERVE(all, n);
    for (size_t r = 0; r < ranges; r++) {
        size_t len = t->rest[r].arcs.len;
        if (len)
            memcpy(all->data + all->len, t->rest[r].arcs.data, len * sizeof *all->data);
        all->len += len;
        VEC_FREE(&t->rest[r].arcs);
    }
    collect_group_edges(t, all);
}

static void second_round(struct tree *t, size_t ranges)
{
    struct rw_arcs all = {0};
    collect_rest(t, ranges, &all);
    uint32_t *order = xmalloc((all.len + 1) * sizeof *order), *spare = xmalloc((all.len + 1) * sizeof *spare);
    order_by_weight(all.data, all.len, order, spare);
    for (size_t k = 0; k < all.len; k++) {
        const struct rw_arc *a = &all.data[order[k]];
        uint32_t x = find(t->uf, a->a), y = find(t->uf, a->b);
        if (x == y)
            take_chord(t->w, a);
        else
            t->uf[x] = y;
    }
    free(order);
    free(spare);
    VEC_FREE(&all);
}

static void number(uint32_t *counter, uint32_t which, uint32_t *next)
{
    if (*counter == which)
        *counter = (*next)++;
}

/* In the order of address. */
static void number_all(struct rw *w, uint32_t which, uint32_t *next)
{
    const struct cfg *c = w->cfg;
    for (uint32_t b = 0; b < c->blocks.len; b++) {
        number(&w->block_counter[b], which, next);
        number(&w->enter_counter[b], which, next);
        cfg_for_each_edge(&c->blocks.data[b], e)
            number(&w->edge_counter[e], which, next);
    }
    for (size_t g = 0; g < w->group_edges.len; g++)
        number(&w->group_edges.data[g].counter, which, next);
}

/* Those that an earlier run increased stand side by side: neighbours share lines of the cache. */
static void number_chords(struct rw *w)
{
    w->counter_count = 0;
    number_all(w, RW_COUNTER_HOT, &w->counter_count);
    if (w->feedback_block)
        number_all(w, RW_COUNTER_COLD, &w->counter_count);
}

void rw_tree(struct rw *w)
{
    const struct cfg *c = w->cfg;
    size_t nodes = 2 * c->blocks.len + 1 + w->group_count, ranges = c->funcs.len / FUNCS_A_RANGE + 1;
    struct tree t = {.w = w, .outside = (uint32_t)(2 * c->blocks.len)};
    t.uf = xmalloc(nodes * sizeof *t.uf);
    t.joint = xmalloc(nodes);
    t.rest = xmalloc(ranges * sizeof *t.rest);
    for (size_t n = t.outside; n < nodes; n++)
        t.uf[n] = (uint32_t)n;
    find_joints(&t);
    parallel_for(c->funcs.len, FUNCS_A_RANGE, trees_of_range, &t);
    second_round(&t, ranges);
    number_chords(w);
    free(t.rest);
    free(t.joint);
    free(t.uf);
}
