/* SPDX-License-Identifier: Apache-2.0
 *
 * graph: exact counts become the dynamic call graph, and what is done on behalf of each of its nodes. A call through a
 * pointer, or to a function that is chosen at start-up, has no known target: such calls are counted where they are made
 * and, as entries from code that is not known, where they arrive; which led where is estimated (targets.c) if windows
 * saw it, and else unknown. What several procedures call is shared out among them by the number of calls, as in the
 * paper.
 */
#include "objects/graph.h"
#include "estimate/model/targets.h"

#include <stdlib.h>

void work_add(struct work *to, const struct work *w, double share)
{
    to->instructions += share * w->instructions;
    to->memory_ops += share * w->memory_ops;
    to->samples += share * w->samples;
    to->cycles += share * w->cycles;
}

struct work work_of_tally(const struct tally *t)
{
    return (struct work){(double)t->instructions, (double)t->memory_ops, (double)t->samples,
                         t->cycles + t->branch_cycles};
}

/* ---- arcs between procedures ---- */

struct arcs {
    VEC(struct graph_arc) v;
};

static uint32_t func_number(const struct join *j, uint32_t block)
{
    return walk_module(j, block)->func_base + walk_block(j, block)->func;
}

static bool ends_in_call(const struct cfg_block *b) { return b->term == X86_CALL || b->term == X86_CALL_IND; }

/* Returns how many of the block's calls or jumps have an arc now. */
static uint64_t add_targets(const struct join *j, const struct join_module *m, uint32_t b, struct arcs *out)
{
    const struct cfg_block *block = &m->cfg->blocks.data[b];
    uint32_t number = m->block_base + b, count;
    const struct target *targets = targets_of(j->targets, number, &count);
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!(targets[i].calls > 0))
            continue;
        VEC_PUSH(&out->v, ((struct graph_arc){number, m->func_base + block->func, func_number(j, targets[i].to),
                                              !ends_in_call(block), targets[i].calls}));
        sum += targets[i].calls;
    }
    return min_u64((uint64_t)(sum + 0.5), j->counts[number]);
}

static void add_call(struct join *j, struct graph *g, const struct join_module *m, uint32_t b, struct arcs *out)
{
    const struct cfg_block *block = &m->cfg->blocks.data[b];
    uint32_t number = m->block_base + b, to = j->calls->to[number];
    if (to != ID_NONE) {
        VEC_PUSH(&out->v, ((struct graph_arc){number, m->func_base + block->func, func_number(j, to),
                                              !ends_in_call(block), (double)j->counts[number]}));
        return;
    }
    uint64_t told = add_targets(j, m, b, out);
    if (ends_in_call(block)) {
        g->pointer_calls[number] = j->counts[number] - told;
        g->pointer_calls_all += (double)g->pointer_calls[number];
    }
}

static void add_jumps(const struct join_module *m, struct arcs *out)
{
    const struct cfg *c = m->cfg;
    for (uint32_t e = 0; e < c->edges.len; e++) {
        const struct cfg_edge *edge = &c->edges.data[e];
        if (!m->edges[e] || edge->to == ID_NONE || edge->kind == CFG_EDGE_RETURN)
            continue;
        uint32_t from = c->blocks.data[edge->from].func, to = c->blocks.data[edge->to].func;
        if (from != to)
            VEC_PUSH(&out->v, ((struct graph_arc){m->block_base + edge->from, m->func_base + from, m->func_base + to,
                                                  true, (double)m->edges[e]}));
    }
}

static int by_from(const void *a, const void *b)
{
    const struct graph_arc *x = a, *y = b;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : (x->block > y->block) - (x->block < y->block);
}

static void collect_arcs(struct join *j, struct graph *g, struct arcs *out)
{
    g->pointer_calls = ARENA_SPARSE(j->scratch, uint64_t, j->block_count + 1);
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        if (!m->cfg)
            continue;
        for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
            if (j->counts[m->block_base + b])
                add_call(j, g, m, b, out);
        if (m->edges)
            add_jumps(m, out);
    }
    if (out->v.len)
        qsort(out->v.data, out->v.len, sizeof *out->v.data, by_from);
}

/* ---- strongly connected components (Tarjan 1972), without recursion: a chain of callers can be long ---- */

struct finder {
    const struct arcs *arcs;
    uint32_t *first;            /* by procedure: its arcs; [func_count] is the end */
    uint32_t *index, *low, *at; /* by procedure; index 0: not seen; at: next arc to look at */
    uint32_t *stack, *path;     /* procedures without a node yet; the way from the first */
    uint32_t stacked, depth, next;
    struct graph *g;
};

static void enter(struct finder *f, uint32_t func)
{
    f->index[func] = f->low[func] = ++f->next;
    f->at[func] = f->first[func];
    f->stack[f->stacked++] = func;
    f->path[f->depth++] = func;
}

static void leave(struct finder *f, uint32_t func)
{
    f->depth--;
    if (f->depth)
        f->low[f->path[f->depth - 1]] = (uint32_t)min_u64(f->low[f->path[f->depth - 1]], f->low[func]);
    if (f->low[func] != f->index[func])
        return;
    uint32_t node = f->g->node_count++, last;
    do {
        last = f->stack[--f->stacked];
        f->g->node_of[last] = node;
        f->g->nodes[node].size++;
    } while (last != func);
}

static void visit(struct finder *f, uint32_t start)
{
    enter(f, start);
    while (f->depth) {
        uint32_t func = f->path[f->depth - 1];
        if (f->at[func] == f->first[func + 1]) {
            leave(f, func);
            continue;
        }
        uint32_t to = f->arcs->v.data[f->at[func]++].to;
        if (!f->index[to])
            enter(f, to);
        else if (f->g->node_of[to] == ID_NONE)
            f->low[func] = (uint32_t)min_u64(f->low[func], f->index[to]);
    }
}

static void find_nodes(struct join *j, struct graph *g, const struct arcs *arcs)
{
    uint32_t n = j->func_count;
    struct finder f = {.arcs = arcs, .g = g, .first = ARENA_ARRAY(j->scratch, uint32_t, n + 2)};
    uint32_t **each[] = {&f.index, &f.low, &f.at, &f.stack, &f.path};
    for (size_t i = 0; i < ARRAY_LEN(each); i++)
        *each[i] = ARENA_ARRAY(j->scratch, uint32_t, n + 1);
    for (size_t a = 0; a < arcs->v.len; a++)
        f.first[arcs->v.data[a].from + 1]++;
    for (uint32_t i = 0; i < n; i++)
        f.first[i + 1] += f.first[i];
    g->nodes = ARENA_ARRAY(j->scratch, struct graph_node, n + 1);
    g->node_of = ARENA_ARRAY(j->scratch, uint32_t, n + 1);
    memset(g->node_of, 0xff, n * sizeof *g->node_of);
    for (uint32_t i = 0; i < n; i++)
        if (!f.index[i] && (j->funcs[i].incl.instructions || j->funcs[i].calls))
            visit(&f, i);
}

/* ---- sums ---- */

static int by_node(const void *a, const void *b, void *ctx)
{
    const struct graph *g = ctx;
    const struct graph_arc *x = a, *y = b;
    uint32_t m = g->node_of[x->from], n = g->node_of[y->from];
    return m != n ? (m < n ? -1 : 1) : (x->block > y->block) - (x->block < y->block);
}

/* Arcs inside a node say nothing about who works for whom: they go. */
static void keep_arcs(struct join *j, struct graph *g, const struct arcs *arcs)
{
    g->arcs = ARENA_ARRAY(j->scratch, struct graph_arc, arcs->v.len + 1);
    g->scc_calls = ARENA_SPARSE(j->scratch, uint64_t, j->block_count + 1);
    g->func_entries = ARENA_ARRAY(j->scratch, double, j->func_count + 1);
    for (size_t a = 0; a < arcs->v.len; a++) {
        const struct graph_arc *arc = &arcs->v.data[a];
        if (g->node_of[arc->from] == g->node_of[arc->to]) {
            g->scc_calls[arc->block] += arc->is_jump ? 0 : (uint64_t)arc->count;
            continue;
        }
        g->arcs[g->arc_count++] = *arc;
        g->func_entries[arc->to] += arc->count;
    }
    qsort_r(g->arcs, g->arc_count, sizeof *g->arcs, by_node, g);
    for (uint32_t a = 0; a < g->arc_count; a++) {
        struct graph_node *n = &g->nodes[g->node_of[g->arcs[a].from]];
        if (n->arc_count++ == 0)
            n->arc_first = a;
        g->nodes[g->node_of[g->arcs[a].to]].entries += g->arcs[a].count;
    }
}

/* Entries that no known call or jump explains. */
static void count_unknown(struct join *j, struct graph *g, const struct arcs *arcs)
{
    double *known = xmalloc((j->func_count + 1) * sizeof *known);
    for (size_t a = 0; a < arcs->v.len; a++)
        known[arcs->v.data[a].to] += arcs->v.data[a].count;
    for (uint32_t f = 0; f < j->func_count; f++) {
        double rest = (double)j->funcs[f].calls - known[f];
        if (g->node_of[f] == ID_NONE || rest <= 0)
            continue;
        g->nodes[g->node_of[f]].unknown += rest;
        g->func_entries[f] += rest;
    }
    for (uint32_t n = 0; n < g->node_count; n++)
        g->nodes[n].entries += g->nodes[n].unknown;
    free(known);
}

/* Nodes in their order: what one calls is whole before it. */
static void sum_work(struct join *j, struct graph *g)
{
    for (uint32_t f = 0; f < j->func_count; f++) {
        struct work own = work_of_tally(&j->funcs[f].incl);
        if (g->node_of[f] != ID_NONE)
            work_add(&g->nodes[g->node_of[f]].own, &own, 1);
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        struct graph_node *node = &g->nodes[n];
        node->tot = node->size;
        node->all = node->own;
        for (uint32_t a = node->arc_first; a < node->arc_first + node->arc_count; a++) {
            const struct graph_node *to = &g->nodes[g->node_of[g->arcs[a].to]];
            work_add(&node->all, &to->all, g->arcs[a].count / to->entries);
            node->tot += to->tot * g->arcs[a].count / to->entries;
        }
        g->unknown_entries += node->unknown;
        if (node->unknown > 0)
            work_add(&g->unknown_all, &node->all, node->unknown / node->entries);
    }
}

void graph_build(struct join *j, struct graph *g)
{
    struct arcs arcs = {0};
    *g = (struct graph){0};
    collect_arcs(j, g, &arcs);
    find_nodes(j, g, &arcs);
    keep_arcs(j, g, &arcs);
    count_unknown(j, g, &arcs);
    sum_work(j, g);
    g->visited = ARENA_ARRAY(j->scratch, uint8_t, g->node_count + 1);
    VEC_FREE(&arcs.v);
}

/* What a node calls has a lower number, so one pass downwards finds all. */
uint32_t graph_descendants(struct graph *g, const uint32_t *nodes, size_t count)
{
    uint32_t sum = 0, top = 0;
    for (size_t i = 0; i < count; i++) {
        g->visited[nodes[i]] = 1;
        top = (uint32_t)max_u64(top, nodes[i] + 1u);
    }
    for (uint32_t n = top; n-- > 0;) {
        if (!g->visited[n])
            continue;
        const struct graph_node *node = &g->nodes[n];
        for (uint32_t a = node->arc_first; a < node->arc_first + node->arc_count; a++)
            g->visited[g->node_of[g->arcs[a].to]] = 1;
        g->visited[n] = 0;
        sum += node->size;
    }
    return sum;
}
