/* SPDX-License-Identifier: Apache-2.0
 *
 * further_up: objects further up the calls, for memory operations that are in no object yet. */
#include "objects/selection.h"

#include <math.h>
#include <stdlib.h>

#define LACK_SHARE 0.02  /* of all memory operations: so much on behalf of a procedure in no object is worth one */
#define COVER_SHARE 0.97 /* of all memory operations: less in disjoint objects, and the root of the calls is one */

/* The procedure by which a node is entered, by number; ID_NONE: there are several. */
static uint32_t *find_entrances(const struct selection *s)
{
    const struct graph *g = &s->graph;
    uint32_t *func = ARENA_ARRAY(s->j->scratch, uint32_t, g->node_count + 1);
    memset(func, 0xff, g->node_count * sizeof *func);
    for (uint32_t f = 0; f < s->j->func_count; f++)
        if (g->node_of[f] != ID_NONE && g->func_entries[f] > 0 && g->func_entries[f] >= g->nodes[g->node_of[f]].entries)
            func[g->node_of[f]] = f;
    return func;
}

static struct join_module *module_of(const struct selection *s, uint32_t func)
{
    struct join_module *m = s->j->modules;
    while (!m->cfg || func < m->func_base || func - m->func_base >= m->cfg->funcs.len)
        m++;
    return m;
}

/* The procedure as a candidate that is not put yet. Returns whether it ran. */
static bool make_procedure(struct selection *s, uint32_t number, struct made *made)
{
    struct join_module *m = module_of(s, number);
    struct procedure_search p = {.m = m, .func = number - m->func_base};
    select_find_owners(s, &p);
    struct region all = select_region_of(s, &p, ID_NONE, false), own = select_region_of(s, &p, ID_NONE, true);
    if (!all.count)
        return false;
    *made = select_make(s, m, PROF_PROCEDURE, &all, &own);
    if (!s->procedure_search[number] && select_is_long(&made->o))
        made->o.pieces = select_cut(s, &p, &own);
    s->procedure_search[number] = 1;
    return true;
}

/* True if it is taken: the last candidate then, and counted as one of those that are added up. */
static bool put_callers(struct selection *s, struct made *made, double lack)
{
    select_put(s, made, lack);
    select_keep_unprobed(s, s->out.len - 1);
    struct prof_candidate *o = &s->out.data[s->out.len - 1];
    if (o->verdict == PROF_TAKEN && o->probe_s > s->left_s) {
        o->verdict = PROF_SAMPLED;
        o->reason = "not timable: probes of others cost 1 % of the program's time already";
    }
    o->is_summed = o->verdict == PROF_TAKEN;
    s->left_s -= o->is_summed ? o->probe_s : 0;
    return o->is_summed;
}

static void cover_summed(struct selection *s)
{
    cover_clear(s->cover);
    for (size_t i = 0; i < s->out.len; i++)
        if (s->out.data[i].is_summed)
            cover_add(s->cover, &s->details.data[i].part);
}

/* From the procedures that call nothing upwards: the nearest caller that can be timed and estimated. */
static void move_up(struct selection *s)
{
    const uint32_t *entrance = find_entrances(s);
    const double min = LACK_SHARE * (double)s->j->memory_ops;
    cover_summed(s);
    const double *lacks = cover_lacks(s->cover);
    for (uint32_t n = 0; n < s->graph.node_count; n++) {
        if (lacks[n] < min || entrance[n] == ID_NONE || s->procedure_search[entrance[n]])
            continue;
        struct made made;
        if (!make_procedure(s, entrance[n], &made) || !put_callers(s, &made, lacks[n]))
            continue;
        cover_summed(s);
        lacks = cover_lacks(s->cover);
    }
    cover_clear(s->cover);
}

/* By the figures that the profile has: where samples have shared out what several objects call, counts of calls may say
 * that all is covered, and a tenth is not. */
static bool is_covered(const struct selection *s)
{
    double memory_ops = 0;
    for (size_t i = 0; i < s->out.len; i++)
        memory_ops += s->out.data[i].is_summed ? s->out.data[i].memory_ops_all : 0;
    return memory_ops >= COVER_SHARE * (double)s->j->memory_ops;
}

/* What was considered as a procedure like others, and left to samples, makes way for it. Returns its pieces. */
static uint32_t forget(struct selection *s, const struct prof_candidate *o)
{
    for (size_t i = 0; i < s->out.len; i++) {
        struct prof_candidate *old = &s->out.data[i];
        if (old->kind != PROF_PROCEDURE || old->address != o->address || strcmp(old->module, o->module) != 0)
            continue;
        uint32_t pieces = old->pieces;
        memmove(old, old + 1, (s->out.len - i - 1) * sizeof *old);
        memmove(&s->details.data[i], &s->details.data[i + 1], (s->out.len - i - 1) * sizeof *s->details.data);
        s->out.len--, s->details.len--;
        return pieces;
    }
    return o->pieces;
}

/* "Both the root of the call graph, which corresponds to the execution of the whole program, and the leaves are
 * estimable." Counts of calls say little of who works for whom where interpreters call themselves through pointers. */
static void take_root(struct selection *s)
{
    struct made made;
    uint32_t root = s->chains ? chains_root(s->j, s->chains) : ID_NONE;
    if (root == ID_NONE || !make_procedure(s, root, &made))
        return;
    struct prof_candidate *o = &made.o;
    made.part.root = true;
    o->estimable = PROF_ESTIMABLE_EXCLUSIVE;
    o->reason = "the root of the calls, on whose behalf all is done";
    o->time_s = s->j->r->actual_user_s.value;
    o->memory_ops_all = (double)s->j->memory_ops;
    o->pieces = forget(s, o);
    put_callers(s, &made, (double)s->j->memory_ops);
}

void select_compare_taken(struct selection *s)
{
    struct overlap_object *taken = ARENA_ARRAY(s->j->scratch, struct overlap_object, s->out.len + 1);
    size_t count = 0;
    for (size_t i = 0; i < s->out.len; i++)
        if (s->out.data[i].verdict == PROF_TAKEN)
            taken[count++] = (struct overlap_object){&s->out.data[i], (uint32_t)i, &s->details.data[i].part};
    overlap_build(s->j, &s->graph, s->cover, s->chains, taken, count);
}

void select_cover_the_rest(struct selection *s)
{
    if (!s->j->samples_all || is_covered(s))
        return;
    move_up(s);
    select_compare_taken(s);
    if (is_covered(s))
        return;
    take_root(s);
    select_compare_taken(s);
}
