/* SPDX-License-Identifier: Apache-2.0
 *
 * Pseudo-registers, bottom up over the call graph, and which of them become registers. */
#include <stdlib.h>

#include "regs/regs.h"

struct work {
    const struct regs_program *p;
    uint32_t *first_arc;            /* [procedures + 1]: arcs by caller, in `order` */
    uint32_t *order;                /* [arcs] */
    uint32_t *circle;               /* [procedures]: number of the strongly connected component */
    uint32_t circle_count;          /* those that are called have lower numbers */
    uint32_t *locals, *first_local; /* variables by procedure, the most often used first */
    uint32_t *base;                 /* [circles]: first pseudo-register of its locals */
    uint32_t *above;                /* [circles]: first that none of it or of what it calls has */
    uint32_t *pseudo_of;            /* [variables] */
    uint32_t pseudo_count;
};

static double uses(const struct regs_variable *v, enum regs_by by) { return v->loads[by] + v->stores[by]; }

/* ---- arcs by caller ---- */

static void sort_arcs(struct work *w)
{
    const struct regs_program *p = w->p;
    w->first_arc = xmalloc((p->procedure_count + 2) * sizeof *w->first_arc);
    w->order = xmalloc((p->arc_count + 1) * sizeof *w->order);
    for (size_t a = 0; a < p->arc_count; a++)
        w->first_arc[p->arcs[a].caller + 1]++;
    for (size_t i = 0; i < p->procedure_count; i++)
        w->first_arc[i + 1] += w->first_arc[i];
    uint32_t *at = xmalloc((p->procedure_count + 1) * sizeof *at);
    memcpy(at, w->first_arc, (p->procedure_count + 1) * sizeof *at);
    for (size_t a = 0; a < p->arc_count; a++)
        w->order[at[p->arcs[a].caller]++] = (uint32_t)a;
    free(at);
}

/* ---- circles of calls: Tarjan's components, without recursion ---- */

struct search {
    uint32_t *number, *low, *stack, *way, *next;
    bool *is_open;
    uint32_t numbers, open, depth;
};

static void enter(const struct work *w, struct search *s, uint32_t v)
{
    s->number[v] = s->low[v] = ++s->numbers;
    s->stack[s->open++] = v;
    s->is_open[v] = true;
    s->next[v] = w->first_arc[v];
    s->way[s->depth++] = v;
}

static void leave(struct work *w, struct search *s)
{
    uint32_t v = s->way[--s->depth];
    if (s->low[v] == s->number[v]) {
        uint32_t x;
        do {
            x = s->stack[--s->open];
            s->is_open[x] = false;
            w->circle[x] = w->circle_count;
        } while (x != v);
        w->circle_count++;
    }
    if (s->depth && s->low[v] < s->low[s->way[s->depth - 1]])
        s->low[s->way[s->depth - 1]] = s->low[v];
}

static void walk_from(struct work *w, struct search *s, uint32_t root)
{
    enter(w, s, root);
    while (s->depth) {
        uint32_t v = s->way[s->depth - 1];
        if (s->next[v] == w->first_arc[v + 1]) {
            leave(w, s);
            continue;
        }
        uint32_t to = w->p->arcs[w->order[s->next[v]++]].callee;
        if (to == ID_NONE)
            continue;
        if (!s->number[to])
            enter(w, s, to);
        else if (s->is_open[to] && s->number[to] < s->low[v])
            s->low[v] = s->number[to];
    }
}

static void find_circles(struct work *w)
{
    size_t n = w->p->procedure_count + 1;
    struct search s = {.number = xmalloc(n * 4),
                       .low = xmalloc(n * 4),
                       .stack = xmalloc(n * 4),
                       .way = xmalloc(n * 4),
                       .next = xmalloc(n * 4),
                       .is_open = xmalloc(n)};
    w->circle = xmalloc(n * sizeof *w->circle);
    for (uint32_t v = 0; v < w->p->procedure_count; v++)
        if (!s.number[v])
            walk_from(w, &s, v);
    free(s.number), free(s.low), free(s.stack), free(s.way), free(s.next), free(s.is_open);
}

/* ---- pseudo-registers ---- */

struct by_use {
    const struct regs_program *p;
    enum regs_by by;
};

static int compare_locals(const void *a, const void *b, void *ctx)
{
    const struct by_use *c = ctx;
    const struct regs_variable *x = &c->p->variables[*(const uint32_t *)a], *y = &c->p->variables[*(const uint32_t *)b];
    if (x->procedure != y->procedure)
        return x->procedure < y->procedure ? -1 : 1; /* globals last */
    double m = uses(x, c->by), n = uses(y, c->by);
    return m > n ? -1 : m < n ? 1 : (*(const uint32_t *)a > *(const uint32_t *)b) - 1;
}

static void sort_locals(struct work *w, enum regs_by by)
{
    const struct regs_program *p = w->p;
    struct by_use ctx = {p, by};
    w->locals = xmalloc((p->variable_count + 1) * 4);
    w->first_local = xmalloc((p->procedure_count + 2) * 4);
    for (uint32_t v = 0; v < p->variable_count; v++)
        w->locals[v] = v;
    if (p->variable_count)
        qsort_r(w->locals, p->variable_count, 4, compare_locals, &ctx);
    for (size_t i = 0, at = 0; i <= p->procedure_count; i++) {
        while (at < p->variable_count && p->variables[w->locals[at]].procedure < i)
            at++;
        w->first_local[i] = (uint32_t)at;
    }
}

/* Procedures of a circle may all be active: one behind the other; behind all that they call. Circles that are called
 * have lower numbers. */
static void number_locals(struct work *w)
{
    const struct regs_program *p = w->p;
    w->base = xmalloc((w->circle_count + 1ull) * 4);
    w->above = xmalloc((w->circle_count + 1ull) * 4);
    w->pseudo_of = xmalloc((p->variable_count + 1) * 4);
    uint32_t *members = xmalloc((p->procedure_count + 1) * 4), *first = xmalloc((w->circle_count + 2ull) * 4);
    for (size_t i = 0; i < p->procedure_count; i++)
        first[w->circle[i] + 1]++;
    for (uint32_t c = 0; c < w->circle_count; c++)
        first[c + 1] += first[c];
    uint32_t *at = xmalloc((w->circle_count + 1ull) * 4);
    memcpy(at, first, (w->circle_count + 1ull) * 4);
    for (uint32_t i = 0; i < p->procedure_count; i++)
        members[at[w->circle[i]]++] = i;
    for (uint32_t c = 0; c < w->circle_count; c++) {
        for (uint32_t m = first[c]; m < first[c + 1]; m++)
            for (uint32_t a = w->first_arc[members[m]]; a < w->first_arc[members[m] + 1]; a++) {
                uint32_t to = p->arcs[w->order[a]].callee;
                if (to != ID_NONE && w->circle[to] != c && w->above[w->circle[to]] > w->base[c])
                    w->base[c] = w->above[w->circle[to]];
            }
        uint32_t next = w->base[c];
        for (uint32_t m = first[c]; m < first[c + 1]; m++)
            for (uint32_t l = w->first_local[members[m]]; l < w->first_local[members[m] + 1]; l++)
                w->pseudo_of[w->locals[l]] = next++;
        w->above[c] = next;
        w->pseudo_count = next > w->pseudo_count ? next : w->pseudo_count;
    }
    for (uint32_t v = 0; v < p->variable_count; v++)
        if (p->variables[v].procedure == ID_NONE)
            w->pseudo_of[v] = w->pseudo_count++;
    free(members), free(first), free(at);
}

/* ---- registers ---- */

struct pseudo {
    double used;
    uint32_t id;
};

static int most_used(const void *a, const void *b)
{
    const struct pseudo *x = a, *y = b;
    return x->used > y->used ? -1 : x->used < y->used ? 1 : (x->id > y->id) - (x->id < y->id);
}

/* register of each pseudo-register, ID_NONE none */
static uint32_t *choose(const struct work *w, unsigned registers, enum regs_by by, struct regs_allocation *out)
{
    struct pseudo *all = xmalloc((w->pseudo_count + 1ull) * sizeof *all);
    uint32_t *reg = xmalloc((w->pseudo_count + 1ull) * 4);
    for (uint32_t i = 0; i < w->pseudo_count; i++)
        all[i].id = i, reg[i] = ID_NONE;
    for (size_t v = 0; v < w->p->variable_count; v++)
        all[w->pseudo_of[v]].used += uses(&w->p->variables[v], by);
    if (w->pseudo_count)
        qsort(all, w->pseudo_count, sizeof *all, most_used);
    for (uint32_t i = 0; i < w->pseudo_count && i < registers && all[i].used > 0; i++)
        reg[all[i].id] = out->registers++;
    out->pseudo = w->pseudo_count;
    free(all);
    return reg;
}

static unsigned locals_in_registers(const struct work *w, const uint32_t *reg, uint32_t procedure)
{
    unsigned n = 0;
    for (uint32_t l = w->first_local[procedure]; l < w->first_local[procedure + 1]; l++)
        n += reg[w->pseudo_of[w->locals[l]]] != ID_NONE;
    return n;
}

/* Registers with locals of what a call through a pointer may reach. */
static unsigned reached_through_pointers(const struct work *w, const uint32_t *reg, unsigned registers)
{
    uint32_t high = 0;
    for (size_t i = 0; i < w->p->procedure_count; i++)
        if (w->p->procedures[i].has_pointers && w->above[w->circle[i]] > high)
            high = w->above[w->circle[i]];
    bool *is_reached = xmalloc(registers + 1ull);
    for (size_t v = 0; v < w->p->variable_count; v++) {
        uint32_t pseudo = w->pseudo_of[v];
        if (w->p->variables[v].procedure != ID_NONE && pseudo < high && reg[pseudo] != ID_NONE)
            is_reached[reg[pseudo]] = true;
    }
    unsigned n = 0;
    for (unsigned r = 0; r < registers; r++)
        n += is_reached[r];
    free(is_reached);
    return n;
}

static void add_up(const struct work *w, const uint32_t *reg, struct regs_allocation *out)
{
    unsigned reached = reached_through_pointers(w, reg, out->registers);
    for (size_t v = 0; v < w->p->variable_count; v++) {
        const struct regs_variable *x = &w->p->variables[v];
        if (reg[w->pseudo_of[v]] == ID_NONE)
            continue;
        out->variables++;
        out->loads += x->loads[REGS_MEASURED];
        out->stores += x->stores[REGS_MEASURED];
    }
    for (size_t a = 0; a < w->p->arc_count; a++) {
        const struct regs_arc *arc = &w->p->arcs[a];
        if (arc->callee == ID_NONE)
            out->indirect += arc->calls[REGS_MEASURED] * reached;
        else if (w->circle[arc->caller] == w->circle[arc->callee])
            out->recursive += arc->calls[REGS_MEASURED] * locals_in_registers(w, reg, arc->caller);
    }
}

struct regs_allocation regs_allocate(const struct regs_program *p, unsigned registers, enum regs_by by,
                                     uint32_t *in_register)
{
    struct work w = {.p = p};
    struct regs_allocation out = {0};
    sort_arcs(&w);
    find_circles(&w);
    sort_locals(&w, by);
    number_locals(&w);
    uint32_t *reg = choose(&w, registers, by, &out);
    add_up(&w, reg, &out);
    for (size_t v = 0; in_register && v < p->variable_count; v++)
        in_register[v] = reg[w.pseudo_of[v]];
    free(reg);
    free(w.first_arc), free(w.order), free(w.circle), free(w.locals), free(w.first_local);
    free(w.base), free(w.above), free(w.pseudo_of);
    return out;
}
