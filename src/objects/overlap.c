/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap: objects that are to be probed, each beside all others: how many pairs of probes run inside of it, what
 * samples say of the same code with what it calls, and which objects are disjoint, so that their times may be added
 * up. An object within another is part of its time; of two that overlap otherwise the smaller is left out of the sum.
 */
#include "objects/overlap.h"

#include <math.h>
#include <stdlib.h>

#define APART 0.01     /* of an object's work within another: no overlap to speak of */
#define UNSURE_MAX 0.2 /* of all samples: chains that were cut before they said whether they are inside */

struct overlap {
    struct join *j;
    struct cover *c;
    const struct graph *graph;
    const struct overlap_object *objects;
    size_t count;
    double *within; /* [inner * count + outer]: how much of the inner's work is done within the outer */
    VEC(struct prof_pairs) pairs;
};

static double within(const struct overlap *v, size_t inner, size_t outer)
{
    return v->within[inner * v->count + outer];
}

/* Calls through pointers, further down than the object's own, are not in the sums of its callees. */
static void take_work(const struct overlap *v, struct prof_candidate *o)
{
    struct work w = cover_work(v->c);
    o->memory_ops_all = w.memory_ops;
    o->ideal_s = ideal_of(v->j, &(struct tally){.cycles = w.cycles});
}

static double share_of(uint64_t n, uint64_t all) { return all ? (double)n / (double)all : 0; }

/* The share of samples times what they share out; `unsure` samples may be inside too. */
static struct prof_interval time_of(uint64_t inside, uint64_t unsure, uint64_t all, struct prof_interval whole)
{
    struct prof_interval t = stats_product(stats_wilson_again(inside, all), whole);
    t.high += share_of(unsure, all) * whole.value;
    return t;
}

/* By the samples themselves, and not as a share of what the kernel says of the program's time in it: it takes that by
 * its ticks, of which there are fewer, none perhaps of a program that spends some milliseconds there. */
static struct prof_interval time_in_kernel(const struct overlap *v, const struct chained *in)
{
    struct prof_interval n = stats_count_again((double)in->kernel);
    n.high += (double)in->kernel_unsure;
    return prof_interval_scaled(&n, v->j->in->sample_period_s);
}

/* False: they do not tell. */
static bool take_samples(const struct overlap *v, const struct chains *chains, struct prof_candidate *o)
{
    const struct prof_result *r = v->j->r;
    if (!chains)
        return false;
    struct chained in = chains_within(chains, cover_direct(v->c));
    uint64_t all = in.user_all + in.kernel_all;
    if (share_of(in.user_unsure + in.kernel_unsure, all) > UNSURE_MAX)
        return false;
    o->is_sampled_whole = true;
    o->samples = in.user;
    o->sampled_s = time_of(in.user, in.user_unsure, in.user_all, r->actual_user_s);
    o->uncounted_s = share_of(in.uncounted, in.user_all) * r->actual_user_s.value;
    if (!v->j->in->samples_user_only)
        o->system_s = time_in_kernel(v, &in);
    return true;
}

/* What several call is shared out by the calls of its samples; how long each call takes, counts do not know. */
static void correct(const struct overlap *v, const struct chains *chains)
{
    uint32_t nodes = v->graph->node_count;
    struct chained_share *shares = xmalloc((nodes + 1) * sizeof *shares);
    memset(shares, 0, (nodes + 1) * sizeof *shares);
    chains_by_node(chains, cover_direct(v->c), v->graph->node_of, shares);
    cover_correct(v->c, shares);
    free(shares);
}

static void look_at(struct overlap *v, size_t outer, const struct chains *chains)
{
    struct prof_candidate *o = v->objects[outer].o;
    struct cover_part code = *v->objects[outer].part;
    code.root = false; /* samples have it among their calls, or not */
    cover_add(v->c, &code);
    bool is_told = take_samples(v, chains, o);
    cover_add(v->c, v->objects[outer].part);
    cover_flow(v->c);
    if (is_told)
        correct(v, chains);
    take_work(v, o);
    for (size_t i = 0; i < v->count; i++)
        v->within[i * v->count + outer] = cover_of_part(v->c, v->objects[i].part);
    cover_clear(v->c);
}

/* Of two that are the same code, the one that stands first is inside. */
static double pairs_of(const struct overlap *v, size_t inner, size_t outer)
{
    bool is_same = within(v, outer, inner) >= 1 && within(v, inner, outer) >= 1;
    return inner == outer || (is_same && inner > outer)
               ? 0
               : within(v, inner, outer) * (double)v->objects[inner].o->entries;
}

static void count_pairs(struct overlap *v, size_t outer)
{
    struct prof_candidate *o = v->objects[outer].o;
    o->pairs_inside = 0;
    for (size_t i = 0; i < v->count; i++) {
        double pairs = pairs_of(v, i, outer);
        o->pairs_inside += pairs;
        if (pairs > 0)
            VEC_PUSH(&v->pairs, ((struct prof_pairs){v->objects[i].candidate, v->objects[outer].candidate, pairs}));
    }
}

static void keep_pairs(const struct overlap *v)
{
    struct prof_result *r = v->j->r;
    r->pairs_count = v->pairs.len;
    r->pairs = ARENA_ARRAY(r->arena, struct prof_pairs, v->pairs.len + 1);
    if (v->pairs.len)
        memcpy(r->pairs, v->pairs.data, v->pairs.len * sizeof *v->pairs.data);
}

/* ---- the sum ---- */

static bool may_be_summed(const struct prof_candidate *o)
{
    return o->estimable != PROF_ESTIMABLE_NOT && !o->is_in_circle;
}

static bool is_apart(const struct overlap *v, size_t x)
{
    for (size_t i = 0; i < v->count; i++)
        if (i != x && v->objects[i].o->is_summed && (within(v, x, i) > APART || within(v, i, x) > APART))
            return false;
    return true;
}

static int by_memory_ops(const void *a, const void *b, void *ctx)
{
    const struct overlap *v = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    double p = v->objects[x].o->memory_ops_all, q = v->objects[y].o->memory_ops_all;
    return p != q ? (p < q ? 1 : -1) : (x > y) - (x < y);
}

/* The largest first: what is inside of them they hold. */
static void choose_disjoint(struct overlap *v)
{
    uint32_t *order = xmalloc((v->count + 1) * sizeof *order);
    for (uint32_t i = 0; i < v->count; i++) {
        order[i] = i;
        v->objects[i].o->is_summed = false;
    }
    qsort_r(order, v->count, sizeof *order, by_memory_ops, v);
    for (size_t i = 0; i < v->count; i++)
        v->objects[order[i]].o->is_summed = may_be_summed(v->objects[order[i]].o) && is_apart(v, order[i]);
    free(order);
}

void overlap_build(struct join *j, const struct graph *graph, struct cover *c, const struct chains *chains,
                   const struct overlap_object *objects, size_t count)
{
    struct overlap v = {.j = j, .c = c, .graph = graph, .objects = objects, .count = count};
    v.within = xmalloc((count * count + 1) * sizeof *v.within);
    cover_clear(c);
    for (size_t i = 0; i < count; i++)
        look_at(&v, i, chains);
    for (size_t i = 0; i < count; i++)
        count_pairs(&v, i);
    keep_pairs(&v);
    choose_disjoint(&v);
    VEC_FREE(&v.pairs);
    free(v.within);
}
