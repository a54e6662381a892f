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

void unexplained_add(struct unexplained *sum, const struct prof_candidate *o, struct prof_interval probed_s,
                     const struct pair_cost *cost)
{
    sum->pairs_s += (double)o->probed_entries * cost->pair_s;
    sum->pairs_error_s += (double)o->probed_entries * cost->pair_error_s;
    sum->looks_s += cost->looks_s;
    if (!o->is_summed)
        return;
    sum->memory_ops += o->memory_ops_all;
    if (!isfinite(o->ideal_s.value))
        return;
    sum->probed_s = stats_sum(sum->probed_s, probed_s); /* errors of different objects do not go together */
    if (isfinite(o->system_s.value))
        sum->system_s += o->system_s.value;
    else
        sum->lacks_system = true;
    sum->ideal_s += o->ideal_s.value;
    sum->objects++;
    if (isfinite(o->uncounted_s))
        sum->uncounted_s += o->uncounted_s;
    else
        sum->lacks_uncounted = true;
}

/* ---- what is left ---- */

static double known(double x) { return isfinite(x) ? x : 0; }

/* Seconds of the run that no object has; the kernel's among them, but not what comes before the process's own code and
 * behind it: no object is under way then, and its clock tells that exactly. */
static struct prof_interval rest_of_run(const struct unexplained *sum, const struct prof_probe_terms *t)
{
    double error = sum->pairs_error_s + LOOK_ERROR * sum->looks_s, probes = sum->pairs_s + sum->looks_s;
    struct prof_interval whole = {t->user_s + t->system_s - t->start_s - t->after_exit_s - t->landed_s - probes, 0, 0};
    whole.low = whole.value - error;
    whole.high = whole.value + error;
    return stats_difference(whole, sum->probed_s);
}

/* Of what is done outside of the objects; where nobody knows, as much as of their time. */
static struct prof_interval outside(double all, double share_probed)
{
    return (struct prof_interval){all * (1 - share_probed), 0, all};
}

/* Samples of another run, of what no object has, as seconds of this one. start_s of them are the start's, or nearly so:
 * they begin in the middle of it. There is no more of the rest than there is outside at all: where they say more, they
 * say nothing of this run. */
static struct prof_interval seen_outside(double s, double start_s, double period_s, double max)
{
    struct prof_interval n = stats_count(fmax(0, s) / period_s), seen = prof_interval_scaled(&n, period_s);
    double value = fmax(0, seen.value - start_s), low = value > max ? 0 : fmax(0, seen.low - start_s);
    return (struct prof_interval){fmin(max, value), low, fmin(max, seen.high)};
}

/* Of the start: in the loader's code, which is never counted and runs before all other. */
static double loader_s(const struct prof_probe_terms *t)
{
    return fmin(t->start_s, (double)t->seen.loader * t->seen.period_s);
}

static struct prof_interval system_outside(const struct unexplained *sum, const struct prof_probe_terms *t, double max,
                                           double share_probed)
{
    double period_s = t->seen.period_s;
    if (sum->lacks_system || !(period_s > 0))
        return outside(fmin(max, fmax(0, t->system_s - t->after_exit_s)), share_probed);
    return seen_outside((double)t->seen.kernel * period_s - sum->system_s, t->start_s - loader_s(t), period_s, max);
}

static struct prof_interval uncounted_outside(const struct prof_result *r, const struct unexplained *sum,
                                              const struct prof_probe_terms *t, double max, double share_probed)
{
    double uncounted = known(1 - r->coverage.instructions_counted_share) * known(r->actual_user_s.value),
           period_s = t->seen.period_s;
    if (sum->lacks_uncounted)
        return outside(uncounted, share_probed);
    double rest = fmax(0, uncounted - loader_s(t) - sum->uncounted_s);
    return period_s > 0 ? seen_outside(rest, 0, period_s, max) : (struct prof_interval){rest, rest, rest};
}

/* What the model is off by, it is off by here in proportion; in the objects it is off by as much on both sides. */
static struct prof_interval with_model_error(const struct prof_result *r, double counted_s)
{
    const struct prof_interval *p = &r->predicted_user_s;
    double low = known((p->value - p->low) / p->value), high = known((p->high - p->value) / p->value);
    return (struct prof_interval){counted_s, counted_s - fabs(counted_s) * low, counted_s + fabs(counted_s) * high};
}

static struct prof_interval predicted_outside(const struct prof_result *r, const struct unexplained *sum)
{
    double uncounted = known(1 - r->coverage.instructions_counted_share) * known(r->actual_user_s.value);
    return with_model_error(r, r->predicted_user_s.value - uncounted - sum->ideal_s);
}

void unexplained_fill(struct prof_result *r, const struct unexplained *sum, const struct prof_probe_terms *t)
{
    double whole = t->user_s + t->system_s;
    if (!(whole > 0))
        return;
    double share = fmin(1, sum->probed_s.value / whole), predicted = r->predicted_user_s.value;
    r->probed_user_s = fmax(0, t->user_s - sum->pairs_s);
    r->probed_system_s = t->system_s;
    if (r->coverage.memory_ops && r->coverage.memory_ops != PROF_UNKNOWN)
        r->coverage.memory_ops_probed = fmin(1, sum->memory_ops / (double)r->coverage.memory_ops);
    if (!(predicted > 0))
        return;
    struct prof_interval rest = rest_of_run(sum, t);
    struct prof_interval system = system_outside(sum, t, fmax(0, rest.value), share);
    struct prof_interval user = stats_difference(rest, system),
                         uncounted = uncounted_outside(r, sum, t, fmax(0, user.value), share),
                         outside_s = predicted_outside(r, sum);
    struct prof_interval s = stats_difference(user, stats_sum(uncounted, outside_s));
    diag_debug(1,
               "probes: %zu disjoint objects; of the run %.4f of %.4f s in none, %.4f s of it in the kernel and %.4f s "
               "in code that is not counted; %.4f s before its begin and %.4f s behind its end; predicted %.4f s",
               sum->objects, rest.value, whole, system.value, uncounted.value, t->start_s, t->after_exit_s,
               outside_s.value);
    r->coverage.unexplained_overhead = gate_loss(r, r->replayed_share, prof_interval_scaled(&s, 1 / predicted));
}
