/* SPDX-License-Identifier: Apache-2.0
 *
 * unexplained: "the difference between measured overhead for the whole program and the sum of measured overheads for
 * individual objects" (Goldberg and Hennessy 1990, section 6), of the run with probes: its own clock tells what it took
 * as a whole, so that no other run's noise is in it. What the probes took is taken off. Samples enter only where the
 * kernel's time, and that of code which is not counted, is to be told from the objects': neither is overhead of memory.
 * Nothing makes the figure nought: where a loop is in no object, a probe loses time, or a count does not belong to this
 * run, it shows.
 */
#include "result/unexplained.h"

#include <math.h>

#define PAIR_ERROR 0.25 /* of what probes took */

static void add_system(struct unexplained *sum, struct prof_interval system_s, double all)
{
    struct prof_interval share = prof_interval_scaled(&system_s, all > 0 ? 1 / all : 0);
    if (!isfinite(system_s.value))
        sum->lacks_system = true;
    else
        sum->system_share = stats_sum(sum->system_share, share);
}

void unexplained_add(const struct prof_result *r, struct unexplained *sum, const struct prof_candidate *o,
                     struct prof_interval probed_s)
{
    sum->pairs += (double)o->probed_entries;
    if (!o->is_summed)
        return;
    sum->memory_ops += o->memory_ops_all;
    if (!isfinite(o->ideal_s.value))
        return;
    sum->probed_s = stats_sum(sum->probed_s, probed_s); /* errors of different objects do not go together */
    add_system(sum, o->system_s, r->actual_system_s.value);
    sum->ideal_s += o->ideal_s.value;
    sum->objects++;
    if (isfinite(o->uncounted_s))
        sum->uncounted_s += o->uncounted_s;
    else
        sum->lacks_uncounted = true;
}

/* ---- what is left ---- */

static double known(double x) { return isfinite(x) ? x : 0; }

/* Seconds of the run that no object has; the kernel's among them, but not what it takes to end the process: no object
 * is under way then, and samples do not tell it from what others have of the kernel's time. */
static struct prof_interval rest_of_run(const struct unexplained *sum, const struct prof_probe_terms *t)
{
    double pairs = sum->pairs * sum->pair_s;
    struct prof_interval whole = {t->user_s + t->system_s - t->after_exit_s - pairs, 0, 0};
    whole.low = whole.value - PAIR_ERROR * pairs;
    whole.high = whole.value + PAIR_ERROR * pairs;
    return stats_difference(whole, sum->probed_s);
}

/* Of what is done outside of the objects; where nobody knows, as much as of their time. */
static struct prof_interval outside(double all, double inside, bool is_known, double share_probed)
{
    if (is_known)
        return (struct prof_interval){all - inside, all - inside, all - inside};
    return (struct prof_interval){all * (1 - share_probed), 0, all};
}

/* No more than there is outside at all: where samples of the other run say more, they say nothing of this one. */
static struct prof_interval system_outside(const struct unexplained *sum, const struct prof_probe_terms *t,
                                           double rest_s, double share_probed)
{
    double system_s = t->system_s - t->after_exit_s, max = fmin(system_s, fmax(0, rest_s));
    if (sum->lacks_system)
        return outside(max, 0, false, share_probed);
    struct prof_interval in = prof_interval_scaled(&sum->system_share, t->system_s);
    struct prof_interval out = {system_s - in.value, system_s - in.high, system_s - in.low};
    double low = out.value > max ? 0 : fmax(0, out.low);
    return (struct prof_interval){fmin(max, fmax(0, out.value)), low, fmin(max, fmax(0, out.high))};
}

/* What the model is off by, it is off by here in proportion; in the objects it is off by as much on both sides. */
static struct prof_interval with_model_error(const struct prof_result *r, double counted_s)
{
    const struct prof_interval *p = &r->predicted_user_s;
    double low = known((p->value - p->low) / p->value), high = known((p->high - p->value) / p->value);
    return (struct prof_interval){counted_s, counted_s - fabs(counted_s) * low, counted_s + fabs(counted_s) * high};
}

static struct prof_interval predicted_outside(const struct prof_result *r, const struct unexplained *sum,
                                              double share_probed)
{
    double uncounted = known(1 - r->coverage.instructions_counted_share) * known(r->actual_user_s.value);
    struct prof_interval rest = with_model_error(r, r->predicted_user_s.value - uncounted - sum->ideal_s);
    return stats_sum(rest, outside(uncounted, sum->uncounted_s, !sum->lacks_uncounted, share_probed));
}

void unexplained_fill(struct prof_result *r, const struct unexplained *sum, const struct prof_probe_terms *t)
{
    double whole = t->user_s + t->system_s;
    if (!(whole > 0))
        return;
    double share = fmin(1, sum->probed_s.value / whole), predicted = r->predicted_user_s.value;
    r->probed_user_s = fmax(0, t->user_s - sum->pairs * sum->pair_s);
    r->probed_system_s = t->system_s;
    if (r->coverage.memory_ops && r->coverage.memory_ops != PROF_UNKNOWN)
        r->coverage.memory_ops_probed = fmin(1, sum->memory_ops / (double)r->coverage.memory_ops);
    if (!(predicted > 0))
        return;
    struct prof_interval rest = rest_of_run(sum, t), system = system_outside(sum, t, rest.value, share);
    struct prof_interval outside_s = predicted_outside(r, sum, share);
    struct prof_interval s = stats_difference(stats_difference(rest, system), outside_s);
    diag_debug(1,
               "probes: %zu disjoint objects; of the run %.4f of %.4f s in none, %.4f s of it in the kernel, and %.4f "
               "s behind its end; predicted %.4f s",
               sum->objects, rest.value, whole, system.value, t->after_exit_s, outside_s.value);
    r->coverage.unexplained_overhead = gate_loss(r, r->replayed_share, prof_interval_scaled(&s, 1 / predicted));
}
