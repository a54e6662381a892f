/* SPDX-License-Identifier: Apache-2.0
 *
 * Which global variables can be in a register for the whole run. T of a variable: the functions that refer to it, and
 * all that call one of these, directly or not. A register holds the variable wherever a function of T runs, if none of
 * T uses the register otherwise, and what they call gives it back as it was. T must be entered from the root alone: who
 * calls a function of T through a pointer may have something else in the register. A function outside of T, and all
 * that it calls, never refers to the variable, so that it may use the register, in between its saving and restoring it.
 */
#include "regs/regs.h"

#include <stdlib.h>

struct closure { /* of one variable */
    uint16_t available;
    enum regs_refusal refusal;
    uint32_t culprit;
    uint8_t reg; /* BUSY: that the culprit uses */
};
struct promoter {
    const struct regs_promotion *p;
    uint32_t *first, *callers;                /* of function f: callers[first[f]..first[f + 1]) */
    uint32_t *seen;                           /* [functions]: the last variable, plus 1, in whose T it is */
    VEC(uint32_t) members;                    /* T */
    struct closure *closures;                 /* [variables] */
    uint32_t owner[REGS_PROMOTION_REGISTERS]; /* variable, ID_NONE */
    uint16_t tried;
};

static void index_callers(struct promoter *m)
{
    const struct regs_promotion *p = m->p;
    m->first = xmalloc((p->function_count + 2) * sizeof *m->first);
    m->callers = xmalloc((p->arc_count + 1) * sizeof *m->callers);
    for (size_t i = 0; i < p->arc_count; i++)
        m->first[p->arcs[i].callee + 2]++;
    for (size_t f = 2; f < p->function_count + 2; f++)
        m->first[f] += m->first[f - 1];
    for (size_t i = 0; i < p->arc_count; i++)
        m->callers[m->first[p->arcs[i].callee + 1]++] = p->arcs[i].caller;
}

static void join(struct promoter *m, uint32_t variable, uint32_t function)
{
    if (m->seen[function] == variable + 1)
        return;
    m->seen[function] = variable + 1;
    VEC_PUSH(&m->members, function);
}

static void refuse(struct closure *c, enum regs_refusal why, uint32_t culprit)
{
    if (c->refusal == REGS_PROMOTED)
        *c = (struct closure){0, why, culprit, 0};
}

/* A register that fewest of T use, and one of these. */
static void blame(const struct promoter *m, struct closure *c)
{
    size_t fewest = SIZE_MAX;
    for (unsigned r = 0; r < REGS_PROMOTION_REGISTERS; r++) {
        size_t users = 0;
        uint32_t user = ID_NONE;
        for (size_t i = 0; i < m->members.len && m->p->kept >> r & 1; i++)
            if (m->p->functions[m->members.data[i]].uses >> r & 1 && users++ == 0)
                user = m->members.data[i];
        if (users && users < fewest) {
            fewest = users;
            c->culprit = user;
            c->reg = (uint8_t)r;
        }
    }
}

static struct closure close_over(struct promoter *m, uint32_t variable)
{
    const struct regs_promotable *v = &m->p->variables[variable];
    struct closure c = {m->p->kept | m->p->free, REGS_PROMOTED, ID_NONE, 0};
    uint16_t uses = 0;
    m->members.len = 0;
    for (size_t i = 0; i < v->function_count; i++)
        join(m, variable, v->functions[i]);
    for (size_t i = 0; i < m->members.len; i++) {
        uint32_t f = m->members.data[i];
        const struct regs_promotion_function *fn = &m->p->functions[f];
        uses |= fn->uses;
        if (fn->is_unclear)
            refuse(&c, REGS_REFUSED_UNCLEAR, f);
        if (fn->returns_twice)
            refuse(&c, REGS_REFUSED_TWICE, f);
        if (fn->is_entered)
            refuse(&c, REGS_REFUSED_ENTERED, f);
        for (uint32_t k = m->first[f]; k < m->first[f + 1]; k++)
            join(m, variable, m->callers[k]);
    }
    c.available &= (uint16_t)~uses;
    if (!c.available && c.refusal == REGS_PROMOTED) {
        c.refusal = REGS_REFUSED_BUSY;
        blame(m, &c);
    }
    return c;
}

/* A way for the variable to get a register, others moving to another of theirs (Kuhn). */
static bool place(struct promoter *m, uint32_t variable)
{
    for (unsigned r = REGS_PROMOTION_REGISTERS; r-- > 0;) {
        if (!(m->closures[variable].available >> r & 1) || m->tried >> r & 1)
            continue;
        m->tried |= (uint16_t)(1u << r);
        if (m->owner[r] == ID_NONE || place(m, m->owner[r])) {
            m->owner[r] = variable;
            return true;
        }
    }
    return false;
}

static int heaviest_first(const void *a, const void *b, void *ctx)
{
    const struct regs_promotion *p = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    double u = p->variables[x].weight, v = p->variables[y].weight;
    return u != v ? (u < v) - (u > v) : (x > y) - (x < y);
}

static void fill(const struct promoter *m, struct regs_promoted *out)
{
    for (size_t i = 0; i < m->p->variable_count; i++) {
        const struct closure *c = &m->closures[i];
        out[i] =
            (struct regs_promoted){c->refusal == REGS_PROMOTED ? REGS_REFUSED_FEW : c->refusal, c->culprit, c->reg};
    }
    for (unsigned r = 0; r < REGS_PROMOTION_REGISTERS; r++)
        if (m->owner[r] != ID_NONE)
            out[m->owner[r]] = (struct regs_promoted){REGS_PROMOTED, ID_NONE, (uint8_t)r};
}

void regs_promote(const struct regs_promotion *p, struct regs_promoted *out)
{
    struct promoter m = {.p = p};
    uint32_t *order = xmalloc((p->variable_count + 1) * sizeof *order);
    m.seen = xmalloc((p->function_count + 1) * sizeof *m.seen);
    m.closures = xmalloc((p->variable_count + 1) * sizeof *m.closures);
    memset(m.owner, 0xff, sizeof m.owner);
    index_callers(&m);
    for (uint32_t i = 0; i < p->variable_count; i++) {
        m.closures[i] = close_over(&m, i);
        order[i] = i;
    }
    qsort_r(order, p->variable_count, sizeof *order, heaviest_first, (void *)(uintptr_t)p);
    for (size_t i = 0; i < p->variable_count; i++) {
        m.tried = 0;
        if (m.closures[order[i]].refusal == REGS_PROMOTED)
            place(&m, order[i]); /* those placed before keep one: the heaviest that can have registers together do */
    }
    fill(&m, out);
    VEC_FREE(&m.members);
    free(m.first);
    free(m.callers);
    free(m.seen);
    free(m.closures);
    free(order);
}
