/* SPDX-License-Identifier: Apache-2.0
 * What the whole job may cost. A run each for samples, counts, windows and probes is what it needs; plain runs, which
 * tell noise, take what is left. Without windows there is no such bound, but what two plain runs cost. */
#include "cmd/run/budget.h"

#include <math.h>

static const double TIMES = 4, MORE_S = 5;
static const double COUNTED = 1.05, PROBED = 1.05; /* times the plain time, at most usually */
static const double WINDOWS_S = 4;                 /* what windows take besides, and the estimate by them; */
static const double ESTIMATE_S = 2.5;              /* the estimate alone, and copies with probes */
static const double COUNTER_S = 1.2e-6;            /* the same more for each counter: cc1 has 1.3 million */
static const double SNAPSHOTS = 1.03;        /* times the plain time: pages that are written anew after each snapshot */
static const double PLAIN = 0.98;            /* times the sampled run */
static const double SNAPSHOTS_COUNTED = 1.2; /* likewise, of the counted run, counters and all */
static const double WINDOWS_MIN_S = 0.7;
static const double WINDOWS_RUN_S = 1.5; /* left for windows beside a run of their own, to be worth one */
static const double MARGIN = 0.08;       /* of the budget, since runs differ */
static const double SHORT_S = 1.5;       /* of user time: shorter programs are run more often */

size_t budget_plain_runs(const struct budget *b)
{
    size_t max = b->first_user_s < SHORT_S ? BUDGET_RUNS_SHORT : BUDGET_RUNS;
    if (!b->windows)
        return max;
    double runs = COUNTED + 1 + (b->probes ? PROBED : 0);
    double left = TIMES * b->first_s + MORE_S - b->spent_s - WINDOWS_S - runs * b->first_s;
    return left > 0 && b->first_s > 0 ? (size_t)fmin((double)max, left / b->first_s) : 0;
}

/* Beside further runs that take so many times the first, the probed one, and the estimate. */
static double left_s(const struct budget *b, double runs)
{
    double estimate_s = ESTIMATE_S + COUNTER_S * (double)b->counters;
    runs += b->probes ? PROBED : 0;
    return TIMES * PLAIN * b->first_s + MORE_S - b->spent_s - estimate_s - runs * b->first_s;
}

static double within(double windows_s) { return fmin(BUDGET_WINDOWS_MAX_S, fmax(WINDOWS_MIN_S, windows_s)); }

/* Beside the runs that a job needs: plain ones were made because there was room for all. */
bool budget_has_windows_run(const struct budget *b)
{
    struct budget needed = *b;
    needed.spent_s = b->first_s;
    return left_s(&needed, COUNTED + SNAPSHOTS) >= WINDOWS_RUN_S;
}

double budget_windows_s(const struct budget *b) { return within(left_s(b, SNAPSHOTS)); }

double budget_after_s(const struct budget *b)
{
    return within(left_s(b, SNAPSHOTS_COUNTED) - MARGIN * (TIMES * b->first_s + MORE_S));
}
