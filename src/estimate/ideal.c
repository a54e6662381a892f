/* SPDX-License-Identifier: Apache-2.0
 *
 * ideal: cycles of the core model become seconds with an interval. The error bar is what the machine's self-test found
 * on kernels not used for fitting (of one object: nine kernels in ten were nearer), together with the error the random
 * walks drawn. Does not itself simulate (walks.c does).
 */
#include "estimate/estimate.h"
#include "estimate/replays/replays.h"
#include "machine/machine.h"

#include <math.h>

/* Of a machine that was never tested. */
#define UNTESTED_MEDIAN 0.15
#define UNTESTED_P90 0.40
#define SHARE_UNDISTURBED 0.9

static void take_clock(struct join *j, const struct machine *m)
{
    struct prof_result *r = j->r;
    if (isnan(r->machine.tsc_hz) && m->tsc_ghz > 0)
        r->machine.tsc_hz = m->tsc_ghz * 1e9;
    double now = j->in->core_per_tsc; /* actual and ideal time by the same clock */
    if (!(now > 0))                   /* a description of another processor: replays were timed on this one */
        now = replays_clock(j->in->windows, j->in->window_count);
    if (isnan(r->machine.cycles_per_tsc) && m->core_per_tsc > 0)
        r->machine.cycles_per_tsc = now > 0 ? now : m->core_per_tsc;
    j->core_hz = r->machine.tsc_hz * r->machine.cycles_per_tsc;
    if (!(j->core_hz > 0))
        prof_warn(r, PROF_WARN_CLOCK_UNKNOWN, "the machine description gives no clock: ideal times are unknown");
}

static void take_share(struct join *j)
{
    double share = j->in->core_share;
    j->core_share = share > 0 && share < 1 ? share : 1;
    if (j->core_share < SHARE_UNDISTURBED)
        prof_warn(j->r, PROF_WARN_SMT_CONTENTION,
                  "SMT contention: during the plain runs the program had %.0f %% of the core's issue width",
                  100 * share);
}

void ideal_prepare(struct join *j)
{
    const struct machine *m = j->in->machine;
    struct prof_result *r = j->r;
    j->core_hz = NAN;
    if (!m)
        return;
    if (!r->machine.cpu && m->name)
        r->machine.cpu = arena_strdup(r->arena, m->name);
    take_clock(j, m);
    take_share(j);
    const struct machine_error *e = machine_error_of(m, "all");
    j->model_error.median = e ? e->median : UNTESTED_MEDIAN;
    j->model_error.p90 = e ? e->p90 : UNTESTED_P90;
    j->model_error.bias = e ? e->bias : 0;
    if (!e) {
        prof_warn(r, PROF_WARN_MODEL_NOT_CALIBRATED,
                  "the machine description has no self-test: an error of %.0f %% is assumed", 100 * UNTESTED_P90);
        return;
    }
    r->machine.ideal_error_median = e->median;
    r->machine.ideal_error_p90 = e->p90;
    r->machine.ideal_bias = e->bias;
    if (prof_model_failed(r))
        prof_warn(r, PROF_WARN_MODEL_FAILED,
                  "the model of the processor is off by %.0f %% in the median, %.0f %% for nine in ten kernels",
                  100 * e->median, 100 * e->p90);
}

/* predicted = true * (1 + error), error within bias +- spread. The figure itself is never moved by the bias, so that it
 * stays the sum of what was simulated; the interval reaches further to the side where the truth is likelier. Code that
 * needs the whole width of a core is slowed by a neighbour in proportion, other code less: up to there it is open. */
static struct prof_interval with_error(const struct join *j, double seconds, double bias, double spread)
{
    double low = seconds / (1 + bias + spread), high = seconds / fmax(0.25, 1 + bias - spread) / j->core_share;
    return (struct prof_interval){seconds, fmin(low, seconds), fmax(high, seconds)};
}

/* The self-test's quantiles are of the size of errors, bias and all; what is left of them around the bias. */
static double around_bias(const struct join *j, double quantile)
{
    return fmax(quantile - fabs(j->model_error.bias), quantile / 2);
}

static bool is_known(const struct join *j) { return j->cycles && j->core_hz > 0; }

/* Where replays validate the figure, their error stands in place of the model's. */
struct prof_interval ideal_of(const struct join *j, const struct tally *t)
{
    if (!is_known(j))
        return stats_unknown();
    if (!(t->cycles > 0))
        return (struct prof_interval){0, 0, 0};
    double drawn = NORMAL_T * sqrt(t->cycles_var) / t->cycles, modelled = 1 - t->replayed / t->cycles;
    double spread =
        around_bias(j, j->model_error.p90) * modelled + hypot(t->replayed_off, t->replayed_apart) / t->cycles;
    return with_error(j, t->cycles / j->core_hz, j->model_error.bias * modelled, hypot(spread, drawn));
}

struct whole {
    struct tally all;
    double modelled, modelled_squares, replayed_squares; /* cycles; (cycles)^2; (cycles they may be off)^2 */
};

static void add_owner(struct whole *w, const struct tally *t)
{
    tally_add(&w->all, t);
    w->modelled += t->cycles - t->replayed;
    w->modelled_squares += (t->cycles - t->replayed) * (t->cycles - t->replayed);
    w->replayed_squares += t->replayed_off * t->replayed_off;
}

static struct whole add_owners(const struct join *j)
{
    struct whole w = {.modelled = 0};
    for (uint32_t l = 0; l < j->loop_count; l++)
        add_owner(&w, &j->loops[l].self);
    for (uint32_t f = 0; f < j->func_count; f++)
        add_owner(&w, &j->funcs[f].self);
    return w;
}

/* Over many loops the model's errors cancel, down to its median error; a program of one loop has that loop's error. */
struct prof_interval ideal_of_whole(const struct join *j)
{
    if (!is_known(j))
        return stats_unknown();
    struct whole w = add_owners(j);
    double cycles = w.all.cycles;
    if (!(cycles > 0))
        return (struct prof_interval){0, 0, 0};
    double model = fmax(around_bias(j, j->model_error.median) * w.modelled,
                        around_bias(j, j->model_error.p90) * sqrt(w.modelled_squares));
    double apart = w.all.replayed_apart;
    double spread =
        sqrt(model * model + w.replayed_squares + apart * apart + NORMAL_T * NORMAL_T * w.all.cycles_var) / cycles;
    j->r->simulated_user_s = w.all.simulated / j->core_hz;
    j->r->replayed_share = w.all.replayed / cycles;
    return with_error(j, cycles / j->core_hz, j->model_error.bias * w.modelled / cycles, spread);
}

/* The model's predictor is not the machine's. It is mostly the worse one, since it learns from windows only: where a
 * program goes through the same data again and again, a processor gets nearly all branches right. */
struct prof_interval branch_of(const struct join *j, const struct tally *t)
{
    if (!is_known(j) || !j->branch_cycles)
        return stats_unknown();
    double s = t->branch_cycles / j->core_hz, drawn = NORMAL_T * sqrt(2 * t->branch_var) / j->core_hz;
    return (struct prof_interval){s, fmax(0, s - hypot(0.9 * s, drawn)), s + hypot(0.5 * s, drawn)};
}

struct prof_interval branch_of_whole(const struct join *j)
{
    struct tally all = {0};
    for (uint32_t f = 0; f < j->func_count; f++)
        tally_add(&all, &j->funcs[f].incl);
    return branch_of(j, &all);
}
