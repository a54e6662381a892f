/* SPDX-License-Identifier: Apache-2.0
 * Nodes into chains, chains into an order. A heap has the arcs between chains, heaviest first; when two chains become
 * one their arcs to others are added up and put into the heap again, so an entry whose weight is no longer that of its
 * arc is old and passed over. */
#include "order/order.h"

#include <stdlib.h>

typedef VEC(uint32_t) ids;
struct chain {
    ids nodes; /* in their order */
    ids near;  /* chains that it has an arc to; may hold old ones and some twice */
    uint64_t heat, bytes;
    uint32_t first; /* the smallest of its nodes */
};
struct joint { /* an arc between two chains, a < b */
    uint64_t weight;
    uint32_t a, b;
};
struct orderer {
    const struct order_node *nodes;
    struct chain *chains;             /* [n]; of one that is part of another `nodes` is empty */
    uint32_t *chain_of;               /* [n] */
    ids *near;                        /* [n] nodes with an arc to this one, each once */
    struct map node_arcs, chain_arcs; /* a pair's key: weight */
    VEC(struct joint) heap;
    uint64_t limit;
};

static uint64_t key_of(uint32_t a, uint32_t b) { return a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a; }

/* ---- the heap ---- */

static bool is_before(const struct joint *x, const struct joint *y)
{
    if (x->weight != y->weight)
        return x->weight > y->weight;
    return x->a != y->a ? x->a < y->a : x->b < y->b;
}

static void swap(struct joint *x, struct joint *y)
{
    struct joint t = *x;
    *x = *y;
    *y = t;
}

static void push(struct orderer *o, uint32_t a, uint32_t b, uint64_t weight)
{
    struct joint j = {weight, a < b ? a : b, a < b ? b : a};
    VEC_PUSH(&o->heap, j);
    for (size_t i = o->heap.len - 1; i && is_before(&o->heap.data[i], &o->heap.data[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&o->heap.data[i], &o->heap.data[(i - 1) / 2]);
}

static struct joint pop(struct orderer *o)
{
    struct joint top = o->heap.data[0];
    o->heap.data[0] = o->heap.data[--o->heap.len];
    for (size_t i = 0, next; (next = 2 * i + 1) < o->heap.len; i = next) {
        if (next + 1 < o->heap.len && is_before(&o->heap.data[next + 1], &o->heap.data[next]))
            next++;
        if (!is_before(&o->heap.data[next], &o->heap.data[i]))
            break;
        swap(&o->heap.data[i], &o->heap.data[next]);
    }
    return top;
}

/* ---- chains ---- */

static void begin(struct orderer *o, size_t n, const struct order_arc *arcs, size_t arc_count)
{
    for (uint32_t i = 0; i < n; i++) {
        VEC_PUSH(&o->chains[i].nodes, i);
        o->chains[i].heat = o->nodes[i].heat;
        o->chains[i].bytes = o->nodes[i].bytes;
        o->chains[i].first = o->chain_of[i] = i;
    }
    for (size_t i = 0; i < arc_count; i++) {
        const struct order_arc *arc = &arcs[i];
        if (arc->a == arc->b || !arc->weight)
            continue;
        uint64_t *weight = map_place(&o->node_arcs, key_of(arc->a, arc->b));
        if (!*weight) {
            VEC_PUSH(&o->near[arc->a], arc->b);
            VEC_PUSH(&o->near[arc->b], arc->a);
        }
        *weight += arc->weight;
    }
    for (uint32_t a = 0; a < n; a++)
        for (size_t i = 0; i < o->near[a].len; i++) {
            uint32_t b = o->near[a].data[i];
            uint64_t weight = 0;
            VEC_PUSH(&o->chains[a].near, b);
            if (a > b || !map_get(&o->node_arcs, key_of(a, b), &weight))
                continue;
            map_put(&o->chain_arcs, key_of(a, b), weight);
            push(o, a, b, weight);
        }
}

/* The heaviest arc between nodes of two chains; from `small`, which has fewer nodes. */
static void heaviest(const struct orderer *o, uint32_t small, uint32_t large, uint32_t *in_small, uint32_t *in_large)
{
    const struct chain *c = &o->chains[small];
    struct joint best = {0};
    for (size_t k = 0; k < c->nodes.len; k++) {
        uint32_t a = c->nodes.data[k];
        for (size_t i = 0; i < o->near[a].len; i++) {
            uint32_t b = o->near[a].data[i];
            uint64_t weight = 0;
            if (o->chain_of[b] != large)
                continue;
            map_get(&o->node_arcs, key_of(a, b), &weight);
            struct joint j = {weight, a < b ? a : b, a < b ? b : a};
            if (best.weight && !is_before(&j, &best))
                continue;
            best = j;
            *in_small = a;
            *in_large = b;
        }
    }
}

static uint64_t bytes_before(const struct orderer *o, const struct chain *c, uint32_t node)
{
    uint64_t bytes = 0;
    for (size_t i = 0; c->nodes.data[i] != node; i++)
        bytes += o->nodes[c->nodes.data[i]].bytes;
    return bytes;
}

static void turn(ids *v)
{
    for (size_t i = 0; i < v->len / 2; i++) {
        uint32_t t = v->data[i];
        v->data[i] = v->data[v->len - 1 - i];
        v->data[v->len - 1 - i] = t;
    }
}

/* Turns both so that, the one behind the other, these nodes are as near as can be; as they are if that is as good. */
static void turn_both(struct orderer *o, struct chain *front, struct chain *back, uint32_t f, uint32_t b)
{
    uint64_t before_f = bytes_before(o, front, f), behind_f = front->bytes - before_f - o->nodes[f].bytes;
    uint64_t before_b = bytes_before(o, back, b), behind_b = back->bytes - before_b - o->nodes[b].bytes;
    if (before_f < behind_f)
        turn(&front->nodes);
    if (behind_b < before_b)
        turn(&back->nodes);
}

/* `from` becomes part of `into`. */
static void join_arcs(struct orderer *o, uint32_t into, uint32_t from)
{
    const ids near = o->chains[from].near;
    for (size_t i = 0; i < near.len; i++) {
        uint32_t other = near.data[i];
        uint64_t weight = 0, *old = map_place(&o->chain_arcs, key_of(from, other));
        weight = *old;
        *old = 0;
        if (other == into || !weight)
            continue;
        uint64_t *sum = map_place(&o->chain_arcs, key_of(into, other));
        if (!*sum) {
            VEC_PUSH(&o->chains[into].near, other);
            VEC_PUSH(&o->chains[other].near, into);
        }
        *sum += weight;
        push(o, into, other, *sum);
    }
}

static void join(struct orderer *o, uint32_t a, uint32_t b)
{
    uint32_t front = o->chains[a].first < o->chains[b].first ? a : b, back = front == a ? b : a;
    uint32_t into =
        o->chains[a].near.len + o->chains[a].nodes.len >= o->chains[b].near.len + o->chains[b].nodes.len ? a : b;
    uint32_t from = into == a ? b : a, f = 0, g = 0;
    if (o->chains[front].nodes.len < o->chains[back].nodes.len)
        heaviest(o, front, back, &f, &g);
    else
        heaviest(o, back, front, &g, &f);
    struct chain *x = &o->chains[front], *y = &o->chains[back], *kept = &o->chains[into];
    turn_both(o, x, y, f, g);
    ids whole = {0};
    for (size_t i = 0; i < x->nodes.len; i++)
        VEC_PUSH(&whole, x->nodes.data[i]);
    for (size_t i = 0; i < y->nodes.len; i++)
        VEC_PUSH(&whole, y->nodes.data[i]);
    for (size_t i = 0; i < o->chains[from].nodes.len; i++)
        o->chain_of[o->chains[from].nodes.data[i]] = into;
    kept->first = x->first;
    kept->heat = x->heat + y->heat;
    kept->bytes = x->bytes + y->bytes;
    VEC_FREE(&x->nodes);
    VEC_FREE(&y->nodes);
    kept->nodes = whole;
    join_arcs(o, into, from);
}

static void make_chains(struct orderer *o)
{
    while (o->heap.len) {
        struct joint j = pop(o);
        uint64_t weight = 0;
        if (!map_get(&o->chain_arcs, key_of(j.a, j.b), &weight) || weight != j.weight)
            continue;
        if (o->limit && o->chains[j.a].bytes + o->chains[j.b].bytes > o->limit)
            continue;
        join(o, j.a, j.b);
    }
}

/* ---- the whole ---- */

static double density(const struct chain *c) { return (double)c->heat / (double)max_u64(c->bytes, 1); }

static int by_density(const void *a, const void *b)
{
    const struct chain *x = *(struct chain *const *)a, *y = *(struct chain *const *)b;
    if (density(x) != density(y))
        return density(x) < density(y) ? 1 : -1;
    return x->first > y->first ? 1 : -1;
}

static void free_all(struct orderer *o, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        VEC_FREE(&o->chains[i].nodes);
        VEC_FREE(&o->chains[i].near);
        VEC_FREE(&o->near[i]);
    }
    free(o->chains);
    free(o->chain_of);
    free(o->near);
    map_fini(&o->node_arcs);
    map_fini(&o->chain_arcs);
    VEC_FREE(&o->heap);
}

void order_nodes(const struct order_node *nodes, size_t n, const struct order_arc *arcs, size_t arc_count,
                 uint64_t limit_bytes, uint32_t *out)
{
    struct orderer o = {.nodes = nodes, .limit = limit_bytes};
    VEC(struct chain *) left = {0};
    if (!n)
        return;
    o.chains = xmalloc(n * sizeof *o.chains);
    o.chain_of = xmalloc(n * sizeof *o.chain_of);
    o.near = xmalloc(n * sizeof *o.near);
    begin(&o, n, arcs, arc_count);
    make_chains(&o);
    for (size_t i = 0; i < n; i++)
        if (o.chains[i].nodes.len)
            VEC_PUSH(&left, &o.chains[i]);
    if (left.len)
        qsort(left.data, left.len, sizeof *left.data, by_density);
    for (size_t i = 0; i < left.len; i++)
        for (size_t k = 0; k < left.data[i]->nodes.len; k++)
            *out++ = left.data[i]->nodes.data[k];
    VEC_FREE(&left);
    free_all(&o, n);
}
