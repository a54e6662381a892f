/* SPDX-License-Identifier: Apache-2.0
 *
 * whole: the prediction and overhead of the whole program, what was covered, the modules, and the code that was not
 * counted. Time in code that was not counted enters the prediction as it was measured: nothing is known of its ideal,
 * and it must not look like memory overhead.
 */
#include "prof/impl.h"

#include <math.h>
#include <stdlib.h>

static double sample_share(const struct join *j, uint64_t samples)
{
    return j->samples_all ? (double)samples / (double)j->samples_all : NAN;
}

static void fill_modules(struct join *j)
{
    struct prof_result *r = j->r;
    r->module_count = j->module_count;
    r->modules = ARENA_ARRAY(r->arena, struct prof_module, j->module_count + 1);
    r->coverage.functions = r->coverage.functions_rewritten = 0;
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        struct prof_module *out = &r->modules[i];
        out->path = m->path;
        out->build_id = m->img && m->img->build_id[0] ? arena_strdup(r->arena, m->img->build_id) : NULL;
        out->is_counted = m->cfg && (m->in->counters || j->in->known);
        out->functions = m->functions;
        out->functions_rewritten = m->functions_rewritten;
        out->instructions = m->instructions;
        out->memory_ops = m->memory_ops;
        out->time_share = sample_share(j, m->samples);
        r->coverage.functions += m->functions;
        r->coverage.functions_rewritten += m->functions_rewritten;
    }
}

static int compare_refused(const void *a, const void *b)
{
    const struct prof_refused *x = a, *y = b;
    if (x->time_share != y->time_share && !isnan(x->time_share) && !isnan(y->time_share))
        return x->time_share < y->time_share ? 1 : -1;
    int by_module = strcmp(x->module, y->module);
    return by_module ? by_module : x->address < y->address ? -1 : x->address > y->address;
}

static void fill_refused(struct join *j)
{
    struct prof_result *r = j->r;
    r->refused = ARENA_ARRAY(r->arena, struct prof_refused, j->unattributed.len + j->module_count + 1);
    for (size_t i = 0; i < j->unattributed.len; i++) {
        const struct join_unattributed *l = &j->unattributed.data[i];
        r->refused[r->refused_count++] =
            (struct prof_refused){l->module, l->function, l->address, l->reason, sample_share(j, l->samples)};
    }
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        if (m->cfg)
            continue;
        const char *why = m->in->refused     ? m->in->refused
                          : m->in->is_interp ? "the dynamic loader stays as it is"
                                             : "not rewritten";
        r->refused[r->refused_count++] =
            (struct prof_refused){m->path, NULL, 0, arena_strdup(r->arena, why), sample_share(j, m->samples)};
    }
    qsort(r->refused, r->refused_count, sizeof *r->refused, compare_refused);
}

static void add_to(struct prof_interval *sum, struct prof_interval more)
{
    *sum = (struct prof_interval){sum->value + more.value, sum->low + more.low, sum->high + more.high};
}

static void fill_overhead(struct join *j)
{
    struct prof_result *r = j->r;
    uint64_t uncounted = j->samples_all - j->samples_counted;
    r->predicted_user_s = ideal_of_whole(j);
    if (isnan(r->predicted_user_s.value))
        return;
    struct prof_interval branch = r->branch_user_s = branch_of_whole(j);
    if (!isnan(branch.value))
        add_to(&r->predicted_user_s, branch);
    struct prof_interval rest = actual_of(j, uncounted);
    if (uncounted && !isnan(rest.value))
        add_to(&r->predicted_user_s, (struct prof_interval){rest.value, rest.value, rest.value});
    r->overhead = gate_loss(r, r->replayed_share, stats_ratio_less_one(r->actual_user_s, stats_predicted_again(r)));
    if (j->samples_all && isnan(branch.value))
        prof_warn(r, PROF_WARN_BRANCH_NOT_SEPARATED, "memory seconds include mispredicted branches");
}

static void fill_coverage(struct join *j)
{
    struct prof_result *r = j->r;
    double memory_ops = 0;
    for (size_t i = 0; i < r->object_count; i++)
        memory_ops += (double)r->objects[i].memory_ops;
    r->coverage.instructions_counted = j->instructions;
    r->coverage.memory_ops = j->memory_ops;
    r->coverage.instructions_counted_share = sample_share(j, j->samples_counted);
    r->coverage.memory_ops_measured = j->memory_ops && j->samples_all ? memory_ops / (double)j->memory_ops : NAN;
    if (r->coverage.instructions_counted_share < 0.95)
        prof_warn(r, PROF_WARN_UNCOUNTED_CODE, "%.0f %% of the user time was spent in code that was not counted",
                  100 * (1 - r->coverage.instructions_counted_share));
}

void whole_build(struct join *j)
{
    fill_modules(j);
    fill_refused(j);
    fill_overhead(j);
    fill_coverage(j);
}
