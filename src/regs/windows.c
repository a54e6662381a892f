/* SPDX-License-Identifier: Apache-2.0
 *
 * Register windows: a circular buffer of them, over a drawn sequence of calls and returns. */
#include <stdlib.h>

#include "regs/regs.h"

enum { CALLS_MAX = 4000000, DEPTH_MAX = 100000 };

struct way { /* calls of one procedure to another, for each time it is active */
    uint32_t callee;
    double mean;
};
struct active {
    uint32_t procedure, at; /* at: of its ways */
    uint32_t left;          /* calls of that way still to be made */
};
struct walk {
    const struct regs_program *p;
    const struct regs_windows *w;
    struct rng g;
    uint32_t *first; /* [procedures + 1] into ways */
    struct way *ways;
    VEC(struct active) stack;
    unsigned held; /* windows in the buffer */
    double overflows, underflows, calls;
    unsigned depth;
};

/* Calls through pointers go to who is called more often than the arcs explain, as much as that is. */
static void find_ways(struct walk *k)
{
    const struct regs_program *p = k->p;
    double *open = xmalloc((p->procedure_count + 1) * sizeof *open), all = 0;
    k->first = xmalloc((p->procedure_count + 2) * 4);
    for (size_t i = 0; i < p->procedure_count; i++)
        open[i] = p->procedures[i].has_pointers ? p->procedures[i].calls : 0;
    for (size_t a = 0; a < p->arc_count; a++)
        if (p->arcs[a].callee != ID_NONE)
            open[p->arcs[a].callee] -= p->arcs[a].calls[REGS_MEASURED];
    size_t targets = 0;
    for (size_t i = 0; i < p->procedure_count; i++) {
        open[i] = open[i] > 0.5 ? open[i] : 0;
        all += open[i];
        targets += open[i] > 0;
    }
    VEC(struct way) ways = {0};
    for (uint32_t i = 0; i < p->procedure_count; i++) {
        double indirect = 0, times = p->procedures[i].calls > 0 ? p->procedures[i].calls : 1;
        k->first[i] = (uint32_t)ways.len;
        for (size_t a = 0; a < p->arc_count; a++) {
            const struct regs_arc *arc = &p->arcs[a];
            if (arc->caller != i || !(arc->calls[REGS_MEASURED] > 0))
                continue;
            if (arc->callee == ID_NONE)
                indirect += arc->calls[REGS_MEASURED];
            else
                VEC_PUSH(&ways, ((struct way){arc->callee, arc->calls[REGS_MEASURED] / times}));
        }
        for (uint32_t t = 0; indirect > 0 && targets <= 64 && t < p->procedure_count; t++)
            if (open[t] > 0)
                VEC_PUSH(&ways, ((struct way){t, indirect / times * open[t] / all}));
    }
    k->first[p->procedure_count] = (uint32_t)ways.len;
    k->ways = ways.data;
    free(open);
}

static uint32_t draw(struct walk *k, double mean)
{
    double whole = (double)(uint64_t)mean;
    return (uint32_t)(whole < 1e6 ? whole : 1e6) + (rng_fraction(&k->g) < mean - whole);
}

static void call(struct walk *k, uint32_t procedure)
{
    k->calls++;
    if (k->held == k->w->windows - 1) { /* one is always free, for who handles the overflow */
        k->overflows++;
        k->held -= k->w->at_once < k->held ? k->w->at_once : k->held;
    }
    k->held++;
    uint32_t at = k->first[procedure];
    VEC_PUSH(&k->stack, ((struct active){procedure, at, at < k->first[procedure + 1] ? draw(k, k->ways[at].mean) : 0}));
    k->depth = k->stack.len > k->depth ? (unsigned)k->stack.len : k->depth;
}

static void go_back(struct walk *k)
{
    k->stack.len--;
    k->held--;
    if (k->held || !k->stack.len)
        return;
    k->underflows++;
    k->held = k->w->at_once < k->stack.len ? k->w->at_once : (unsigned)k->stack.len;
    k->held = k->held < k->w->windows - 1 ? k->held : k->w->windows - 1;
}

static void run_from(struct walk *k, uint32_t root)
{
    call(k, root);
    while (k->stack.len) {
        struct active *a = &k->stack.data[k->stack.len - 1];
        uint32_t end = k->first[a->procedure + 1];
        if (a->left && k->calls < CALLS_MAX && k->stack.len < DEPTH_MAX) {
            a->left--;
            call(k, k->ways[a->at].callee);
        } else if (a->at + 1 < end && k->calls < CALLS_MAX) {
            a->left = draw(k, k->ways[++a->at].mean);
        } else {
            go_back(k);
        }
    }
}

/* Who is called by nobody that is known. */
static bool is_root(const struct regs_program *p, uint32_t procedure)
{
    double known = 0;
    for (size_t a = 0; a < p->arc_count; a++)
        if (p->arcs[a].callee == procedure)
            known += p->arcs[a].calls[REGS_MEASURED];
    return p->procedures[procedure].calls > known + 0.5 && !p->procedures[procedure].has_pointers;
}

/* ---- locals in windows ---- */

static int more_used(const void *a, const void *b)
{
    const struct regs_variable *x = *(const struct regs_variable *const *)a,
                               *y = *(const struct regs_variable *const *)b;
    double m = x->loads[REGS_MEASURED] + x->stores[REGS_MEASURED],
           n = y->loads[REGS_MEASURED] + y->stores[REGS_MEASURED];
    if (x->procedure != y->procedure)
        return x->procedure < y->procedure ? -1 : 1;
    return m > n ? -1 : m < n;
}

static void count_removed(const struct regs_program *p, unsigned size, struct regs_traffic *out)
{
    const struct regs_variable **all = xmalloc((p->variable_count + 1) * sizeof *all);
    for (size_t v = 0; v < p->variable_count; v++)
        all[v] = &p->variables[v];
    if (p->variable_count)
        qsort(all, p->variable_count, sizeof *all, more_used);
    unsigned nth = 0;
    for (size_t v = 0; v < p->variable_count && all[v]->procedure != ID_NONE; v++) {
        nth = v && all[v]->procedure == all[v - 1]->procedure ? nth + 1 : 0;
        if (nth >= size)
            continue;
        out->loads += all[v]->loads[REGS_MEASURED];
        out->stores += all[v]->stores[REGS_MEASURED];
    }
    free(all);
}

struct regs_traffic regs_windows(const struct regs_program *p, const struct regs_windows *w, uint64_t seed)
{
    struct walk k = {.p = p, .w = w, .g = {seed}};
    struct regs_traffic out = {0};
    find_ways(&k);
    for (uint32_t i = 0; i < p->procedure_count; i++)
        out.calls += p->procedures[i].calls;
    for (uint32_t i = 0; i < p->procedure_count && k.calls < CALLS_MAX; i++)
        if (is_root(p, i))
            run_from(&k, i);
    double scale = k.calls > 0 ? out.calls / k.calls : 0, words = (double)w->size * w->at_once;
    out.simulated = k.calls;
    out.overflows = k.overflows * scale;
    out.underflows = k.underflows * scale;
    out.stores_inserted = out.overflows * words;
    out.loads_inserted = out.underflows * words;
    out.depth = k.depth;
    count_removed(p, w->size, &out);
    free(k.first), free(k.ways);
    VEC_FREE(&k.stack);
    return out;
}
