/* SPDX-License-Identifier: Apache-2.0
 *
 * callees: what a region calls, shared out by the number of calls, and whether that can be estimated (Goldberg and
 * Hennessy 1990, section 4): callees that work for it alone, or always take as long, or by the two rules of the paper
 * that can be wrong. Knows nothing of probes.
 */
#include "objects/callees.h"

#include <math.h>
#include <stdlib.h>

#define MOST_CALLS 0.98
#define NEGLIGIBLE 0.01 /* of an object's time */
#define SAMPLES_MIN 10  /* below, the ideal time is the better guess */
#define PATH_BLOCKS_MAX 500

/* Few samples do too where chance alone would hardly (one in forty) bring so many more than the ideal time has. */
double work_seconds(const struct join *j, const struct work *w)
{
    double ideal = j->cycles && j->core_hz > 0 ? w->cycles / j->core_hz : NAN;
    if (!j->samples_all || !(j->r->actual_user_s.value > 0))
        return ideal;
    double a_sample = j->r->actual_user_s.value / (double)j->samples_all;
    bool is_sampled =
        w->samples >= SAMPLES_MIN || isnan(ideal) || (w->samples - 2 * sqrt(w->samples)) * a_sample > ideal;
    return is_sampled ? w->samples * a_sample : ideal;
}

static struct join_module *module_of(struct join *j, uint32_t func)
{
    for (uint32_t i = j->module_count; i-- > 0;)
        if (j->modules[i].cfg && j->modules[i].func_base <= func)
            return &j->modules[i];
    return NULL; /* a number that no function has */
}

static const char *func_name(struct join *j, uint32_t func)
{
    struct join_module *m = module_of(j, func);
    return join_func_name(j, m, func - m->func_base);
}

/* ---- constant-time leaves ---- */

struct path { /* instructions from a block to a way out of the function */
    uint64_t shortest, longest;
    uint8_t state; /* 0 not known, 1 being looked at, 2 known */
};

/* False: it goes round, or calls something. */
static bool find_path(const struct cfg *c, const struct cfg_func *f, uint32_t b, struct path *paths)
{
    const struct cfg_block *block = &c->blocks.data[b];
    struct path *p = &paths[b - f->block_first];
    if (p->state)
        return p->state == 2;
    if (block->term == X86_CALL || block->term == X86_CALL_IND)
        return false;
    p->state = 1;
    uint64_t shortest = UINT64_MAX, longest = 0;
    cfg_for_each_edge(block, e) {
        uint32_t to = c->edges.data[e].to;
        uint64_t min = 0, max = 0;
        if (to != ID_NONE && c->blocks.data[to].func == block->func) {
            if (!find_path(c, f, to, paths))
                return false;
            min = paths[to - f->block_first].shortest;
            max = paths[to - f->block_first].longest;
        } else if (to != ID_NONE) {
            return false; /* goes on elsewhere */
        }
        shortest = min_u64(shortest, min);
        longest = max_u64(longest, max);
    }
    *p = (struct path){block->insn_count + (shortest == UINT64_MAX ? 0 : shortest), block->insn_count + longest, 2};
    return true;
}

/* Loop-free, call-free, and each call executed as many instructions as the shortest or the longest way through has. */
static bool is_constant(struct join *j, uint32_t func)
{
    const struct join_module *m = module_of(j, func);
    const struct cfg_func *f = &m->cfg->funcs.data[func - m->func_base];
    const struct join_func *jf = &j->funcs[func];
    if (!jf->calls || f->block_count > PATH_BLOCKS_MAX)
        return false;
    struct path *paths = xmalloc(f->block_count * sizeof *paths);
    bool is = find_path(m->cfg, f, f->block_first, paths) && (jf->incl.instructions == jf->calls * paths[0].shortest ||
                                                              jf->incl.instructions == jf->calls * paths[0].longest);
    free(paths);
    return is;
}

/* ---- what it calls ---- */

static void add_callee(const struct graph *g, const struct graph_arc *arc, struct map *by_node, struct callees *out)
{
    uint32_t to = g->node_of[arc->to];
    uint64_t at;
    if (!map_get(by_node, to, &at)) {
        at = out->v.len;
        map_put(by_node, to, at);
        VEC_PUSH(&out->v, ((struct callee){to, arc->to, 0}));
    }
    out->v.data[at].count += arc->count;
}

/* inside NULL: of the whole node. */
static void gather_of(const struct graph *g, const struct join_module *m, uint32_t func, const uint8_t *inside,
                      struct map *by_node, struct callees *out)
{
    const struct graph_node *node = &g->nodes[g->node_of[func]];
    for (uint32_t a = node->arc_first; a < node->arc_first + node->arc_count; a++) {
        const struct graph_arc *arc = &g->arcs[a];
        if (!arc->is_jump && (!inside || (arc->from == func && inside[arc->block - m->block_base])))
            add_callee(g, arc, by_node, out);
    }
}

void callees_gather(const struct graph *g, const struct join_module *m, const struct region *r, const uint8_t *inside,
                    bool whole, struct callees *out)
{
    struct map by_node = {0};
    for (size_t i = 0; i < r->count; i++)
        if (region_begins_function(m, r, i))
            gather_of(g, m, m->func_base + m->cfg->blocks.data[r->blocks[i]].func, whole ? NULL : inside, &by_node,
                      out);
    for (size_t i = 0; i < r->count; i++) {
        out->pointer_calls += (double)g->pointer_calls[m->block_base + r->blocks[i]];
        out->is_recursive |= g->scc_calls[m->block_base + r->blocks[i]] != 0;
    }
    map_fini(&by_node);
}

/* Calls through pointers get their share of all such calls. */
static double pointer_share(const struct graph *g, const struct callees *c)
{
    return c->pointer_calls > 0 ? c->pointer_calls / fmax(g->pointer_calls_all, g->unknown_entries) : 0;
}

void callees_add(const struct graph *g, const struct callees *c, struct work *work, double *tot)
{
    for (size_t i = 0; i < c->v.len; i++) {
        const struct graph_node *n = &g->nodes[c->v.data[i].node];
        work_add(work, &n->all, c->v.data[i].count / n->entries);
        *tot += n->tot * c->v.data[i].count / n->entries;
    }
    work_add(work, &g->unknown_all, pointer_share(g, c));
}

uint32_t callees_descendants(struct graph *g, const struct callees *c)
{
    uint32_t *nodes = xmalloc((c->v.len + 1) * sizeof *nodes);
    for (size_t i = 0; i < c->v.len; i++)
        nodes[i] = c->v.data[i].node;
    uint32_t n = graph_descendants(g, nodes, c->v.len);
    free(nodes);
    return n;
}

/* ---- judgement ---- */

static bool is_negligible(const struct join *j, const struct work *all, double share, double time_s)
{
    struct work w = {0};
    work_add(&w, all, share);
    return work_seconds(j, &w) <= NEGLIGIBLE * time_s;
}

static bool works_only_for_it(struct graph *g, const struct callee *c)
{
    const struct graph_node *n = &g->nodes[c->node];
    return c->count >= n->entries && fabs(n->tot - graph_descendants(g, &c->node, 1)) < 1e-6 * n->tot;
}

static enum prof_estimable estimate_callee(struct join *j, struct graph *g, const struct callee *c, double time_s)
{
    const struct graph_node *n = &g->nodes[c->node];
    if (works_only_for_it(g, c))
        return PROF_ESTIMABLE_EXCLUSIVE;
    if (n->size == 1 && is_constant(j, c->func))
        return PROF_ESTIMABLE_CONSTANT;
    if (c->count >= MOST_CALLS * n->entries)
        return PROF_ESTIMABLE_MOST;
    return is_negligible(j, &n->all, c->count / n->entries, time_s) ? PROF_ESTIMABLE_NEGLIGIBLE : PROF_ESTIMABLE_NOT;
}

static enum prof_estimable estimate_pointers(const struct join *j, const struct graph *g, const struct callees *c,
                                             double time_s)
{
    double share = pointer_share(g, c);
    if (!(c->pointer_calls > 0))
        return PROF_ESTIMABLE_EXCLUSIVE;
    if (share >= MOST_CALLS)
        return PROF_ESTIMABLE_MOST;
    return is_negligible(j, &g->unknown_all, share, time_s) ? PROF_ESTIMABLE_NEGLIGIBLE : PROF_ESTIMABLE_NOT;
}

/* What is estimable by no rule is worst, then by the rule that guesses most. */
static bool is_worse(enum prof_estimable how, enum prof_estimable than)
{
    return than != PROF_ESTIMABLE_NOT && (how == PROF_ESTIMABLE_NOT || how > than);
}

static const char *reason_of(struct arena *a, enum prof_estimable how, const char *which)
{
    switch (how) {
    case PROF_ESTIMABLE_NOT:
        return arena_printf(a, "calls %s, which works for others too", which);
    case PROF_ESTIMABLE_MOST:
        return arena_printf(a, "nearly all calls of %s are its own", which);
    case PROF_ESTIMABLE_NEGLIGIBLE:
        return arena_printf(a, "calls of %s take no time to speak of", which);
    default:
        return NULL;
    }
}

static void judge(struct join *j, struct graph *g, const struct callees *c, struct prof_candidate *o)
{
    const struct callee *worst = NULL;
    o->estimable = PROF_ESTIMABLE_EXCLUSIVE;
    for (size_t i = 0; i < c->v.len && o->estimable != PROF_ESTIMABLE_NOT; i++) {
        enum prof_estimable how = estimate_callee(j, g, &c->v.data[i], o->time_s);
        if (!is_worse(how, o->estimable))
            continue;
        o->estimable = how;
        worst = &c->v.data[i];
    }
    enum prof_estimable pointers = estimate_pointers(j, g, c, o->time_s);
    if (!is_worse(pointers, o->estimable)) {
        o->reason = worst ? reason_of(j->r->arena, o->estimable, func_name(j, worst->func)) : NULL;
        return;
    }
    o->estimable = pointers;
    o->reason =
        pointers == PROF_ESTIMABLE_NOT
            ? arena_printf(j->r->arena, "%.0f calls through pointers or of code that is not counted", c->pointer_calls)
            : reason_of(j->r->arena, pointers, "what pointers lead to");
}

void callees_judge(struct join *j, struct graph *g, const struct callees *c, bool whole, struct prof_candidate *o)
{
    o->is_in_circle = o->kind == PROF_REGION && c->is_recursive;
    if (c->is_recursive && !whole)
        o->reason = "calls procedures that call its own";
    else if (!c->v.len && c->pointer_calls <= 0)
        o->estimable = PROF_ESTIMABLE_LEAF;
    else
        judge(j, g, c, o);
}
