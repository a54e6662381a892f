/* SPDX-License-Identifier: Apache-2.0
 *
 * select: which m-objects are worth a probe (Goldberg and Hennessy 1990, Figure 1 and section 4), on exact counts. The
 * procedures that hold the first 95 % of memory operations are searched, and those that take a hundredth of the
 * predicted time: inner loops first, then outer ones, then the procedure, then pieces of what is long. Each candidate
 * says whether it is timable (a probe costs little beside it), whether what it calls can be estimated (callees.c), and
 * what follows. It measures nothing itself, and what is not taken is measured by samples all the same. Regions that the
 * source marks come before all others, and need not be estimable. What of the program's memory operations no object
 * does then is looked for further up the calls: "move up the call graph as we know that eventually we will encounter an
 * estimable node".
 */
#include "objects/selection.h"

#include <math.h>
#include <stdlib.h>

#define PROBE_S 40e-9   /* where it was not measured */
#define TIME_SHARE 0.01 /* of the predicted time: what takes so much is searched, */
#define TIME_SAMPLES 3  /* if so many samples say it, or the prediction itself */

/* The two rules that can be wrong are said whenever an object rests on one. */
static void warn_of_rule(struct selection *s, enum prof_estimable rule, enum prof_warn id)
{
    size_t first = 0;
    unsigned count = 0;
    for (size_t i = 0; i < s->out.len; i++)
        if (s->out.data[i].verdict == PROF_TAKEN && s->out.data[i].estimable == rule && count++ == 0)
            first = i;
    if (count)
        prof_warn(s->j->r, id, "what calls take is a guess for %u object%s, such as %s (%s)", count,
                  count > 1 ? "s" : "", s->out.data[first].function, s->details.data[first].rule);
}

/* Few operations that all miss cost as much as many that hit. Overhead is a fraction of the predicted time: of a
 * program that takes twenty times that, a hundredth of it is a two thousandth of the samples. */
static void find_worth(struct selection *s)
{
    const struct join *j = s->j;
    double predicted_s = ideal_of_whole(j).value, predicted = predicted_s / j->r->actual_user_s.value;
    double share = TIME_SHARE * (predicted < 1 ? predicted : 1); /* 1 if it is not known */
    s->samples_worth = fmax(TIME_SAMPLES, share * (double)j->samples_all);
    s->cycles_worth = predicted_s > 0 ? TIME_SHARE * predicted_s * j->core_hz : INFINITY;
}

void select_build(struct join *j)
{
    struct ranks all = {0};
    struct selection s = {.j = j, .probe_s = j->in->probe_s > 0 ? j->in->probe_s : PROBE_S};
    size_t max = 0;
    for (uint32_t i = 0; i < j->module_count; i++)
        max = j->modules[i].cfg ? max_u64(max, j->modules[i].cfg->blocks.len) : max;
    s.inside = ARENA_ARRAY(j->scratch, uint8_t, max + 1);
    s.procedure_search = ARENA_ARRAY(j->scratch, uint8_t, j->func_count + 1);
    s.requested =
        requested_objects(j, &(struct requested_set){j->in->requested, j->in->requested_count, "--probe", true});
    find_worth(&s);
    graph_build(j, &s.graph);
    s.cover = cover_open(j, &s.graph);
    select_find_unprobed(&s);
    select_rank_all(&s, &all);
    select_consider_all_marked(&s);
    select_search_first(&s, &all);
    for (size_t i = 0; i < s.out.len; i++)
        select_keep_unprobed(&s, i);
    select_keep_to_budget(&s);
    s.chains = chains_open(j);
    select_compare_taken(&s);
    select_cover_the_rest(&s);
    select_pass_over_rest(&s, &all);
    warn_of_rule(&s, PROF_ESTIMABLE_MOST, PROF_WARN_RULE_MOST);
    warn_of_rule(&s, PROF_ESTIMABLE_NEGLIGIBLE, PROF_WARN_RULE_NEGLIGIBLE);
    j->r->candidate_count = s.out.len;
    j->r->candidates = ARENA_ARRAY(j->r->arena, struct prof_candidate, s.out.len + 1);
    if (s.out.len)
        memcpy(j->r->candidates, s.out.data, s.out.len * sizeof *s.out.data);
    VEC_FREE(&s.out);
    VEC_FREE(&s.details);
    VEC_FREE(&s.unprobed);
    VEC_FREE(&all.v);
}
