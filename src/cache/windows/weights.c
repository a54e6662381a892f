/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows that are drawn by time have too much of what is slowed down while they are taken, and of what waits. How much
 * of each kind of work all of the run does is known, and so it is of each window; weights are sought with which the
 * windows together do as the run does: the likeliest ones, were each unit of work drawn from some window (a mixture of
 * known components, by expectation and maximisation: Dempster, Laird and Rubin 1977), a few steps from where all
 * windows weigh the same, since what is left then is chance. Weights stay positive, and work that no window has says
 * nothing.
 */
#include "cache/cache.h"

#include <stdlib.h>

enum { STEPS = 30 };

static void sum_kinds(const struct cache_work *work, size_t count, const double *weights, size_t kinds, double *sums)
{
    memset(sums, 0, kinds * sizeof *sums);
    for (size_t i = 0; i < count; i++)
        sums[work[i].kind] += weights[work[i].window] * work[i].amount;
}

/* What all of the run does of the kinds that windows have, for what windows do of all. */
static double scale_of(const double *whole, const double *sums, size_t kinds)
{
    double met = 0, done = 0;
    for (size_t k = 0; k < kinds; k++) {
        met += sums[k] > 0 ? whole[k] : 0;
        done += sums[k];
    }
    return done > 0 ? met / done : 0;
}

static void step(const struct cache_work *work, size_t count, const double *whole, const double *sums, double scale,
                 const double *own, double *weights, size_t windows)
{
    double *more = xmalloc((windows + 1) * sizeof *more);
    for (size_t i = 0; i < count; i++)
        if (sums[work[i].kind] > 0)
            more[work[i].window] += work[i].amount * whole[work[i].kind] / (scale * sums[work[i].kind]);
    for (size_t w = 0; w < windows; w++)
        weights[w] *= own[w] > 0 ? more[w] / own[w] : 1;
    free(more);
}

void cache_work_weights(const struct cache_work *work, size_t count, const double *whole, size_t kinds, double *weights,
                        size_t windows)
{
    double *sums = xmalloc((kinds + 1) * sizeof *sums), *own = xmalloc((windows + 1) * sizeof *own);
    for (size_t w = 0; w < windows; w++)
        weights[w] = 1;
    for (size_t i = 0; i < count; i++)
        own[work[i].window] += work[i].amount;
    for (int i = 0; i < STEPS; i++) {
        sum_kinds(work, count, weights, kinds, sums);
        double scale = scale_of(whole, sums, kinds);
        if (scale > 0)
            step(work, count, whole, sums, scale, own, weights, windows);
    }
    free(sums);
    free(own);
}
