/* SPDX-License-Identifier: Apache-2.0
 *
 * probes: the ticks that probes measured to seconds of each candidate.
 * What the probes took themselves is taken off: their own inside part, and for each pair that ran within another object
 * a whole pair. Time that a thread did not run is waiting, and distinguished. Samples are kept beside it, and
 * differences beyond both intervals are said.
 */
#include "result/unexplained.h"

#include <math.h>
#include <stdlib.h>

#define COUNT_UNLIKE 0.01 /* entries that differ by more between runs are told */
#define RUN_ERROR 0.01    /* one run measures a time to so much at best */
#define UNSEEN_PERIODS 3  /* of samples: what takes longer has one, but for one time in twenty */
#define OPEN_ERROR_S 1e-3 /* an interval begins up to half a millisecond after its look */

bool prof_is_probed_in(const struct prof_candidate *o, const char *module)
{
    return o->verdict == PROF_TAKEN && strcmp(o->module, module) == 0;
}

static struct prof_candidate *candidate_of(struct prof_result *r, const char *module, uint32_t number)
{
    uint32_t cell = 0;
    for (size_t i = 0; i < r->candidate_count; i++)
        if (prof_is_probed_in(&r->candidates[i], module) && ++cell == number)
            return &r->candidates[i];
    return NULL;
}

static double spread_of(const struct prof_interval *t) { return t->value > 0 ? (t->high - t->low) / 2 / t->value : 0; }

static double run_error(const struct prof_result *r)
{
    double spread = spread_of(&r->actual_user_s);
    return fmin(0.2, fmax(RUN_ERROR, isfinite(spread) ? spread : RUN_ERROR));
}

/* Of its own code, and taken for that of what it calls too. */
static double replayed_share(const struct prof_result *r, const struct prof_candidate *o)
{
    return o->object < r->object_count ? r->objects[o->object].replayed_share : 0;
}

/* What was under way at the end: the processor time is known of a program with one thread, else a share of the time. */
static struct prof_interval open_s(const struct observed_probe *p, const struct prof_probe_terms *t)
{
    double s = (double)p->open_ns * 1e-9, max = (double)p->open_ticks / t->ticks_a_second;
    if (p->open_ns)
        return (struct prof_interval){s, fmax(0, s - OPEN_ERROR_S), s + OPEN_ERROR_S};
    return (struct prof_interval){max * t->run_share, 0, max};
}

struct probed {                      /* a candidate's probes */
    struct pair_cost cost;           /* of a pair of them */
    double within_s, within_error_s; /* that pairs of others took in its time */
};

/* That the thread did not run between its probes. Readings lie apart by what is between intervals, too: who waited for
 * a processor was taken it at any moment, so that what is waited is shared out by how long both are. */
static struct prof_interval waiting_s(const struct observed_probe *p, const struct prof_probe_terms *t)
{
    double all = fmax(0, (double)p->clocked_ticks / t->ticks_a_second - (double)p->clocked_ns * 1e-9);
    double inside = p->clocked_ticks ? fmin(1, (double)p->ticks / (double)p->clocked_ticks) : 1;
    double s = inside * all, error = all - s;
    return (struct prof_interval){s, s - fmin(s, error), s + error};
}

/* Of the same run as others: what no other run may do otherwise. */
static struct prof_interval measured(const struct probed *of, const struct observed_probe *p,
                                     const struct prof_probe_terms *t, struct prof_interval waiting)
{
    double own = (double)p->count * of->cost.inside_s + of->within_s,
           error = (double)p->count * of->cost.inside_error_s + of->within_error_s + waiting.high - waiting.value;
    double s = fmax(0, (double)p->ticks / t->ticks_a_second - own - waiting.value);
    struct prof_interval open = open_s(p, t);
    return (struct prof_interval){s + open.value, fmax(0, s - error) + open.low, s + error + open.high};
}

/* What another run would measure. The kernel takes its time less evenly than the program. */
static struct prof_interval of_any_run(const struct prof_result *r, const struct prof_candidate *o,
                                       struct prof_interval s)
{
    double system = isfinite(o->system_s.value) ? fmin(s.value, o->system_s.value) : 0,
           uneven = spread_of(&r->actual_system_s);
    double error = run_error(r) * (s.value - system) + (isfinite(uneven) ? uneven : 0) * system;
    return (struct prof_interval){s.value, fmax(0, s.low - error), s.high + error};
}

/* The kernel's part, and that of code that is not counted, is no loss to memory: less these, the user's. */
static struct prof_interval memory_of(const struct prof_result *r, const struct prof_candidate *o)
{
    struct prof_interval user = o->probed_s;
    if (isfinite(o->system_s.value))
        user = stats_difference(user, o->system_s);
    if (isfinite(o->uncounted_s))
        user =
            (struct prof_interval){user.value - o->uncounted_s, user.low - o->uncounted_s, user.high - o->uncounted_s};
    return gate_loss(r, replayed_share(r, o), stats_difference(user, o->ideal_s));
}

static void take(struct prof_result *r, struct prof_candidate *o, const struct probed *of,
                 const struct observed_probe *p, const struct prof_probe_terms *t, struct unexplained *sum)
{
    struct prof_interval waiting = waiting_s(p, t);
    o->probed_entries = p->count + p->open;
    if (!o->probed_entries)
        return;
    o->waiting_s = waiting.value;
    struct prof_interval s = measured(of, p, t, waiting);
    o->probed_s = of_any_run(r, o, s);
    if (isfinite(o->ideal_s.value) && o->estimable != PROF_ESTIMABLE_NOT)
        o->memory_s = memory_of(r, o);
    unexplained_add(sum, o, s, &of->cost);
}

/* What a pair of each took, and what pairs of others took within it. probes[i] is of candidate of[i], or of none. */
static struct probed *cost_of_all(const struct prof_result *r, struct prof_candidate *const *of,
                                  const struct observed_probe *probes, size_t count, const struct prof_probe_terms *t)
{
    struct probed *all = xmalloc((r->candidate_count + 1) * sizeof *all);
    const struct observed_probe none = {.count = 0};
    for (size_t i = 0; i < r->candidate_count; i++)
        all[i] = (struct probed){.cost = pair_cost_of(&none, t)};
    for (size_t i = 0; i < count; i++)
        if (of[i])
            all[of[i] - r->candidates].cost = pair_cost_of(&probes[i], t);
    for (size_t i = 0; i < r->pairs_count; i++) {
        const struct prof_pairs *p = &r->pairs[i];
        const struct pair_cost *inner = &all[p->inner].cost;
        double looks_s = inner->looks_s * fmin(1, p->pairs / fmax(1, (double)r->candidates[p->inner].entries));
        all[p->outer].within_s += p->pairs * inner->pair_s + looks_s;
        all[p->outer].within_error_s += p->pairs * inner->pair_error_s + LOOK_ERROR * looks_s;
    }
    return all;
}

/* ---- what is to be said ---- */

static const char *what(const struct prof_result *r, const struct prof_candidate *o)
{
    if (o->region)
        return arena_printf(r->arena, "the region %s", o->region);
    if (o->file && o->line_first)
        return arena_printf(r->arena, "the %s at %s:%u", prof_kind_name[o->kind], file_base_name(o->file),
                            o->line_first);
    return arena_printf(r->arena, "the %s in %s at 0x%llx", prof_kind_name[o->kind], o->function,
                        (unsigned long long)o->address);
}

static bool counts_differ(const struct prof_candidate *o)
{
    double a = (double)o->entries, b = (double)o->probed_entries;
    if (o->is_in_circle) /* probes see the first entry only */
        return false;
    return o->probed_entries != PROF_UNKNOWN && fabs(a - b) > fmax(1, COUNT_UNLIKE * a);
}

/* The program did not do the same as when it was counted: the time is that of other work. */
static void widen(struct prof_candidate *o)
{
    double unlike = fabs((double)o->entries - (double)o->probed_entries) /
                    fmax(1, fmax((double)o->entries, (double)o->probed_entries));
    o->probed_s.low = fmax(0, o->probed_s.low - unlike * o->probed_s.value);
    o->probed_s.high += unlike * o->probed_s.value;
}

/* Probes see the time in the kernel as well, samples that of the user; where it is not known how much of it was in the
 * object, it may have been all. */
static struct prof_interval said_by_samples(const struct prof_result *r, const struct prof_candidate *o)
{
    struct prof_interval s = o->sampled_s;
    if (isfinite(o->system_s.value))
        return stats_sum(s, o->system_s);
    s.high += isfinite(r->actual_system_s.high) ? r->actual_system_s.high : 0;
    return s;
}

/* Samples that could hardly have seen it, and did not, are no witness. */
static uint32_t agreement(const struct prof_candidate *o, double period_s)
{
    bool is_meant = o->is_sampled_whole || o->estimable != PROF_ESTIMABLE_NOT,
         is_too_short = !(o->sampled_s.value > 0) && o->probed_s.value < UNSEEN_PERIODS * period_s;
    if (!is_meant || is_too_short || !isfinite(o->probed_s.value) || !isfinite(o->sampled_s.value))
        return ID_NONE;
    return o->probed_s.low <= o->sampled_all_s.high && o->sampled_all_s.low <= o->probed_s.high;
}

static void judge(struct prof_result *r, struct prof_candidate *o, double period_s)
{
    if (o->probed_entries == 0) {
        prof_warn(r, PROF_WARN_PROBE_SILENT, "the probes of %s saw no entry, where %llu were counted", what(r, o),
                  (unsigned long long)o->entries);
        return;
    }
    if (counts_differ(o)) {
        prof_warn(r, PROF_WARN_PROBE_COUNTS, "%s was entered %llu times with probes, %llu times when it was counted",
                  what(r, o), (unsigned long long)o->probed_entries, (unsigned long long)o->entries);
        widen(o);
    }
    o->sampled_all_s = said_by_samples(r, o);
    o->agrees = agreement(o, period_s);
    if (o->agrees == 0)
        prof_warn(r, PROF_WARN_PROBE_DISAGREES,
                  "%s: probes measured %.3g s (%.3g to %.3g), samples say %.3g s (%.3g to %.3g)", what(r, o),
                  o->probed_s.value, o->probed_s.low, o->probed_s.high, o->sampled_all_s.value, o->sampled_all_s.low,
                  o->sampled_all_s.high);
}

void prof_probes_take(struct prof_result *r, const char *const *paths, const struct observed_probe *probes,
                      size_t count, const struct prof_probe_terms *terms)
{
    if (!(terms->ticks_a_second > 0))
        return;
    for (size_t i = 0; i < r->candidate_count; i++)
        if (r->candidates[i].verdict == PROF_TAKEN)
            r->candidates[i].probed_entries = 0;
    struct unexplained sum = {.pairs_s = 0};
    struct prof_candidate **of = xmalloc((count + 1) * sizeof(*of));
    for (size_t i = 0; i < count; i++)
        of[i] = candidate_of(r, paths[probes[i].module], probes[i].cell);
    struct probed *all = cost_of_all(r, of, probes, count, terms);
    for (size_t i = 0; i < count; i++) {
        if (!of[i])
            continue;
        const struct probed *p = &all[of[i] - r->candidates];
        diag_debug(1,
                   "probes: a pair of %s took %.1f ns, by %llu starts and %llu stops of %llu; %llu looks at the "
                   "processor time took %.2f ms",
                   what(r, of[i]), 1e9 * p->cost.pair_s, (unsigned long long)probes[i].begin.seen,
                   (unsigned long long)probes[i].end.seen, (unsigned long long)probes[i].count,
                   (unsigned long long)probes[i].looks, 1e3 * p->cost.looks_s);
        take(r, of[i], p, &probes[i], terms, &sum);
    }
    free(all);
    free(of);
    for (size_t i = 0; i < r->candidate_count; i++)
        if (r->candidates[i].verdict == PROF_TAKEN)
            judge(r, &r->candidates[i], terms->seen.period_s);
    unexplained_fill(r, &sum, terms);
}

struct prof_crosschecks prof_crosschecks_of(const struct prof_result *r)
{
    struct prof_crosschecks w = {0};
    for (size_t i = 0; i < r->candidate_count; i++) {
        w.known += r->candidates[i].agrees != ID_NONE;
        w.agree += r->candidates[i].agrees == 1;
    }
    return w;
}
