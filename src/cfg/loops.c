/* SPDX-License-Identifier: Apache-2.0
 *
 * Natural loops of each function and their nesting. Dominators by the semi-NCA algorithm (Georgiadis 2005), which stays
 * near linear on the functions of 50,000 blocks that compilers contain; loops by collapsing from the inside outwards
 * (Tarjan 1974). Edges of calls to their return points are part of the graph. Irreducible cycles are no loops.
 *
 * Ways in: the function's entry and blocks that are called. What these do not reach (landing pads, labels jumped to
 * from elsewhere, continuations entered from a .cold part) is walked afterwards as further regions, and an edge from a
 * later region back into an earlier one is left out of account: else an exception handler that goes on with the loop it
 * stands in, or the label table of an interpreter, would make a second way into the loop and no loop of it.
 */
#include "cfg/impl.h"

#include <assert.h>
#include <stdlib.h>

struct loop_list { /* of a range of functions; ids count from its start */
    VEC(struct cfg_loop) loops;
    VEC(uint32_t) members;
};

struct work { /* nodes: 0 the virtual root, block k of the function is k + 1; "number" is the place in DFS preorder */
    struct cfg *c;
    struct loop_list *out;
    const struct cfg_func *f;
    uint32_t n; /* nodes */
    uint32_t cap;
    uint32_t *number, *node_at, *region;          /* by node, by number, by number */
    uint32_t *parent, *semi, *label, *idom;       /* by number */
    uint32_t *dom_in, *dom_size;                  /* by number: interval in the dominator tree */
    uint32_t *pred_first, *preds;                 /* by number: sources as numbers */
    uint32_t *collapsed, *loop_of, *stack, *next; /* by number */
    uint32_t pred_cap;
};

static void grow_u32(uint32_t **p, size_t n) { *p = xrealloc(*p, n * sizeof **p); }

static void work_reserve(struct work *w, uint32_t n, uint32_t edges)
{
    if (n + 2 > w->cap) {
        w->cap = n + n / 2 + 64;
        uint32_t **all[] = {&w->number, &w->node_at,  &w->region,     &w->parent,    &w->semi,    &w->label, &w->idom,
                            &w->dom_in, &w->dom_size, &w->pred_first, &w->collapsed, &w->loop_of, &w->stack, &w->next};
        for (size_t k = 0; k < ARRAY_LEN(all); k++)
            grow_u32(all[k], w->cap);
    }
    if (edges + 1 > w->pred_cap) {
        w->pred_cap = edges + edges / 2 + 64;
        grow_u32(&w->preds, w->pred_cap);
    }
}

static void work_fini(struct work *w)
{
    uint32_t *all[] = {w->number,   w->node_at,    w->region,    w->parent,  w->semi,  w->label, w->idom, w->dom_in,
                       w->dom_size, w->pred_first, w->collapsed, w->loop_of, w->stack, w->next,  w->preds};
    for (size_t k = 0; k < ARRAY_LEN(all); k++)
        free(all[k]);
}

/* The node that edge e leads to inside the function, 0 if it leaves. */
static uint32_t edge_node(const struct work *w, const struct cfg_edge *e)
{
    return cfg_func_has_block(w->f, e->to) ? e->to - w->f->block_first + 1 : 0;
}

/* ---- depth first ---- */

static const struct cfg_block *block_of(const struct work *w, uint32_t node)
{
    return &w->c->blocks.data[w->f->block_first + node - 1];
}

static void visit(struct work *w, uint32_t node, uint32_t from, uint32_t region, uint32_t *count)
{
    uint32_t k = (*count)++;
    w->number[node] = k;
    w->node_at[k] = node;
    w->parent[k] = from;
    w->region[k] = region;
    w->next[k] = 0;
}

static void search_from(struct work *w, uint32_t root, uint32_t region, uint32_t *count)
{
    if (w->number[root])
        return;
    uint32_t depth = 0;
    visit(w, root, 0, region, count);
    w->stack[depth++] = w->number[root];
    while (depth) {
        uint32_t k = w->stack[depth - 1];
        const struct cfg_block *b = block_of(w, w->node_at[k]);
        if (w->next[k] == b->edge_count) {
            depth--;
            continue;
        }
        uint32_t to = edge_node(w, &w->c->edges.data[b->edge_first + w->next[k]++]);
        if (to && !w->number[to]) {
            visit(w, to, k, region, count);
            w->stack[depth++] = w->number[to];
        }
    }
}

static void search(struct work *w)
{
    uint32_t count = 1, region = 1;
    assert(w->number); /* work_reserve, for the outside at least */
    memset(w->number, 0, w->n * sizeof *w->number);
    w->node_at[0] = w->parent[0] = w->region[0] = 0;
    for (uint32_t v = 1; v < w->n; v++)
        if (block_of(w, v)->flags & (CFG_BLOCK_ENTRY | CFG_BLOCK_CALLED))
            search_from(w, v, 0, &count);
    for (uint32_t v = 1; v < w->n; v++)
        search_from(w, v, region++, &count);
}

/* Sources of each node's edges, those of later regions left out. */
static void list_predecessors(struct work *w)
{
    memset(w->pred_first, 0, (w->n + 1) * sizeof *w->pred_first);
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t k = 1; k < w->n; k++) {
            const struct cfg_block *b = block_of(w, w->node_at[k]);
            cfg_for_each_edge(b, e) {
                uint32_t node = edge_node(w, &w->c->edges.data[e]), to = node ? w->number[node] : 0;
                if (!to || w->region[to] != w->region[k])
                    continue;
                if (fill)
                    w->preds[--w->pred_first[to]] = k;
                else
                    w->pred_first[to]++;
            }
        }
        for (uint32_t k = 1; !fill && k <= w->n; k++)
            w->pred_first[k] = w->pred_first[k - 1] + (k < w->n ? w->pred_first[k] : 0);
    }
    /* counted, summed to the end of each list, filled from there downwards: now each holds its start */
}

/* ---- dominators ---- */

/* The ancestor of v above `linked` that has the least semidominator, with path compression. */
static uint32_t min_label(struct work *w, uint32_t v, uint32_t linked)
{
    uint32_t depth = 0, u = v;
    while (w->parent[u] >= linked) {
        w->stack[depth++] = u;
        u = w->parent[u];
    }
    uint32_t above = u;
    while (depth) {
        uint32_t x = w->stack[--depth];
        w->parent[x] = w->parent[above];
        if (w->semi[w->label[above]] < w->semi[w->label[x]])
            w->label[x] = w->label[above];
        above = x;
    }
    return w->label[v];
}

static void find_dominators(struct work *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        w->idom[k] = w->parent[k];
        w->semi[k] = w->label[k] = k; /* until it is processed: a source before its target counts as itself */
    }
    for (uint32_t k = w->n - 1; k >= 1; k--) {
        w->semi[k] = w->parent[k];
        for (uint32_t p = w->pred_first[k]; p < w->pred_first[k + 1]; p++) {
            uint32_t s = w->semi[min_label(w, w->preds[p], k + 1)];
            if (s < w->semi[k])
                w->semi[k] = s;
        }
    }
    for (uint32_t k = 1; k < w->n; k++)
        while (w->idom[k] > w->semi[k])
            w->idom[k] = w->idom[w->idom[k]];
    for (uint32_t k = 0; k < w->n; k++)
        w->dom_size[k] = 1;
    for (uint32_t k = w->n - 1; k >= 1; k--)
        w->dom_size[w->idom[k]] += w->dom_size[k];
    w->dom_in[0] = 0;
    w->next[0] = 1;
    for (uint32_t k = 1; k < w->n; k++) {
        w->dom_in[k] = w->next[w->idom[k]];
        w->next[w->idom[k]] += w->dom_size[k];
        w->next[k] = w->dom_in[k] + 1;
    }
}

static bool dominates(const struct work *w, uint32_t a, uint32_t b)
{
    return w->dom_in[b] - w->dom_in[a] < w->dom_size[a];
}

/* ---- loops ---- */

static uint32_t rep(struct work *w, uint32_t v)
{
    while (w->collapsed[v] != v)
        v = w->collapsed[v] = w->collapsed[w->collapsed[v]];
    return v;
}

/* Puts what reaches the back edges of h into its loop. loop_of[x]: number of the header of the innermost loop around x;
 * of a header: of the loop around its own. Returns whether h has a loop. */
static bool collapse_loop(struct work *w, uint32_t h)
{
    uint32_t depth = 0;
    bool any = false;
    for (uint32_t p = w->pred_first[h]; p < w->pred_first[h + 1]; p++) {
        uint32_t u = w->preds[p];
        if (!dominates(w, h, u))
            continue;
        any = true;
        u = rep(w, u);
        if (u != h) {
            w->collapsed[u] = w->loop_of[u] = h;
            w->stack[depth++] = u;
        }
    }
    while (depth) {
        uint32_t x = w->stack[--depth];
        for (uint32_t p = w->pred_first[x]; p < w->pred_first[x + 1]; p++) {
            uint32_t u = rep(w, w->preds[p]);
            if (u == h)
                continue;
            w->collapsed[u] = w->loop_of[u] = h;
            w->stack[depth++] = u;
        }
    }
    return any;
}

/* Headers in block order become the function's loops; w->next[number] is the id of a header's loop. */
static void publish_loops(struct cfg *c, struct work *w, struct cfg_func *f)
{
    struct loop_list *out = w->out;
    for (uint32_t v = 1; v < w->n; v++) {
        uint32_t k = w->number[v];
        if (w->next[k] == ID_NONE)
            continue;
        w->next[k] = (uint32_t)out->loops.len;
        struct cfg_loop l = {
            .func = (uint32_t)(f - c->funcs.data), .header = f->block_first + v - 1, .parent = ID_NONE};
        c->blocks.data[l.header].flags |= CFG_BLOCK_LOOP_HEADER;
        VEC_PUSH(&out->loops, l);
    }
    f->loop_count = (uint32_t)out->loops.len - f->loop_first;
    for (uint32_t k = 1; k < w->n; k++) {
        uint32_t around = w->loop_of[k] ? w->next[w->loop_of[k]] : ID_NONE, own = w->next[k];
        c->blocks.data[f->block_first + w->node_at[k] - 1].loop = own != ID_NONE ? own : around;
        if (own != ID_NONE)
            out->loops.data[own].parent = around;
    }
}

static void set_depths(struct loop_list *out, const struct cfg_func *f)
{
    cfg_for_each_loop(f, l) {
        uint32_t depth = 0;
        for (uint32_t up = l; up != ID_NONE; up = out->loops.data[up].parent)
            depth++;
        out->loops.data[l].depth = depth;
    }
}

static void list_members(const struct cfg *c, struct loop_list *out, const struct cfg_func *f)
{
    struct cfg_loop *loops = out->loops.data;
    cfg_for_each_block(f, k)
        for (uint32_t l = c->blocks.data[k].loop; l != ID_NONE; l = loops[l].parent)
            loops[l].member_count++;
    size_t at = out->members.len;
    cfg_for_each_loop(f, l) {
        loops[l].member_first = (uint32_t)at;
        at += loops[l].member_count;
        loops[l].member_count = 0;
    }
    VEC_RESERVE(&out->members, at);
    out->members.len = at;
    cfg_for_each_block(f, k)
        for (uint32_t l = c->blocks.data[k].loop; l != ID_NONE; l = loops[l].parent)
            out->members.data[loops[l].member_first + loops[l].member_count++] = k;
}

/* A cycle needs an edge that does not go forwards in the text. */
static bool may_loop(const struct cfg *c, const struct cfg_func *f)
{
    if (f->block_count == 0)
        return false;
    const struct cfg_block *first = &c->blocks.data[f->block_first],
                           *last = &c->blocks.data[f->block_first + f->block_count - 1];
    for (uint32_t e = first->edge_first; e < last->edge_first + last->edge_count; e++)
        if (c->edges.data[e].to <= c->edges.data[e].from && c->edges.data[e].to >= f->block_first)
            return true;
    return false;
}

static void loops_of_function(struct cfg *c, struct work *w, struct cfg_func *f)
{
    const struct cfg_block *first = &c->blocks.data[f->block_first],
                           *last = &c->blocks.data[f->block_first + f->block_count - 1];
    w->f = f;
    w->n = f->block_count + 1;
    work_reserve(w, w->n, last->edge_first + last->edge_count - first->edge_first);
    search(w);
    list_predecessors(w);
    find_dominators(w);
    for (uint32_t k = 0; k < w->n; k++) {
        w->collapsed[k] = k;
        w->loop_of[k] = 0;
        w->next[k] = ID_NONE;
    }
    for (uint32_t k = w->n - 1; k >= 1; k--) /* inner headers have higher numbers */
        if (collapse_loop(w, k))
            w->next[k] = 0;
    publish_loops(c, w, f);
    set_depths(w->out, f);
    list_members(c, w->out, f);
}

#define FUNCS_A_RANGE 64

struct finder {
    struct cfg *c;
    struct loop_list *lists;
};

static void loops_of_range(void *ctx, size_t first, size_t end)
{
    const struct finder *all = ctx;
    struct work w = {.c = all->c, .out = &all->lists[first / FUNCS_A_RANGE]};
    for (size_t k = first; k < end; k++) {
        struct cfg_func *f = &w.c->funcs.data[k];
        f->loop_first = (uint32_t)w.out->loops.len;
        if (may_loop(w.c, f))
            loops_of_function(w.c, &w, f);
    }
    work_fini(&w);
}

/* The ids of one function become those of the whole. */
static void take_function(struct cfg *c, const struct loop_list *from, struct cfg_func *f, uint32_t by,
                          uint32_t members)
{
    cfg_for_each_loop(f, k) {
        struct cfg_loop l = from->loops.data[k];
        l.parent += l.parent == ID_NONE ? 0 : by;
        l.member_first += members;
        c->loops.data[c->loops.len++] = l;
    }
    for (uint32_t k = f->block_first; f->loop_count && k < f->block_first + f->block_count; k++)
        c->blocks.data[k].loop += c->blocks.data[k].loop == ID_NONE ? 0 : by;
    f->loop_first += by;
}

static void join_lists(struct cfg *c, struct loop_list *lists, size_t count)
{
    size_t loops = 0, members = 0;
    for (size_t k = 0; k < count; k++) {
        loops += lists[k].loops.len;
        members += lists[k].members.len;
    }
    VEC_RESERVE(&c->loops, loops);
    VEC_RESERVE(&c->loop_members, members);
    for (size_t k = 0; k < count; k++) {
        uint32_t by = (uint32_t)c->loops.len, before = (uint32_t)c->loop_members.len;
        for (size_t f = k * FUNCS_A_RANGE; f < c->funcs.len && f < (k + 1) * FUNCS_A_RANGE; f++)
            take_function(c, &lists[k], &c->funcs.data[f], by, before);
        if (lists[k].members.len)
            memcpy(c->loop_members.data + before, lists[k].members.data, lists[k].members.len * sizeof(uint32_t));
        c->loop_members.len += lists[k].members.len;
        VEC_FREE(&lists[k].loops);
        VEC_FREE(&lists[k].members);
    }
}

/* needs: blocks, edges. fills: loops, loop_members, blocks' loop and LOOP_HEADER. */
void build_loops(struct cfg *c)
{
    size_t count = (c->funcs.len + FUNCS_A_RANGE - 1) / FUNCS_A_RANGE;
    struct finder all = {c, xmalloc(count * sizeof *all.lists)};
    parallel_for(c->funcs.len, FUNCS_A_RANGE, loops_of_range, &all);
    join_lists(c, all.lists, count);
    free(all.lists);
}
