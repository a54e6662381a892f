/* SPDX-License-Identifier: Apache-2.0
 *
 * result/stats.h: intervals, and what may be said of a figure.
 */
#ifndef MTOOL_RESULT_STATS_H
#define MTOOL_RESULT_STATS_H

#include "result/result.h"

/* ---- gate.c ---- */
/* Nothing can be said for sure of a figure whose zero is "no loss" (or "no change"): its interval reaches there. */
struct prof_interval gate_opened(struct prof_interval loss);
/* Likewise unless the ideal time, of which so much was replayed, validates it. */
struct prof_interval gate_loss(const struct prof_result *r, double replayed_share, struct prof_interval loss);

/* ---- stats.c ---- */
struct prof_interval stats_unknown(void);
/* Share k/n with its 95 % interval (Wilson 1927). n 0: unknown. */
struct prof_interval stats_wilson(uint64_t k, uint64_t n);
/* The same, with the interval of what another n would say. */
struct prof_interval stats_wilson_again(uint64_t k, uint64_t n);
/* How often something was seen that comes at random moments, with the 95 % interval of its mean (the score interval of
 * a Poisson count), or of what another count would say. */
struct prof_interval stats_count(double n);
struct prof_interval stats_count_again(double n);
double stats_nth(double *x, size_t n, size_t nth); /* sorts x */
double stats_median(const double *x, size_t n);    /* NAN if n is 0 */
/* Median of the times of n runs, with a 95 % interval of what n runs of another job would say: from the values' spread,
 * that of the job's runs in another guise (sampled, counted), and the one that is usual of runs. One value: 24 % either
 * way. */
struct prof_interval stats_centre(const double *x, size_t n, const double *guises, size_t guise_count);
/* A figure's interval, from its own of the truth: of what another job would say. */
struct prof_interval stats_again(struct prof_interval i);
/* The same of the predicted time of the whole program, for its loss: as in losses of objects ideal times are widened,
 * mispredicted branches not. */
struct prof_interval stats_predicted_again(const struct prof_result *r);
/* What the whole program loses to memory, in seconds: measured less predicted time. */
struct prof_interval stats_whole_memory(const struct prof_result *r);
struct prof_interval stats_product(struct prof_interval a, struct prof_interval b);    /* independent, both >= 0 */
struct prof_interval stats_difference(struct prof_interval a, struct prof_interval b); /* a - b, independent */
/* a - b of two jobs, whose intervals are each of what another one would say. */
struct prof_interval stats_change(struct prof_interval a, struct prof_interval b);
struct prof_interval stats_sum(struct prof_interval a, struct prof_interval b);            /* a + b, independent */
struct prof_interval stats_ratio_less_one(struct prof_interval a, struct prof_interval b); /* a / b - 1 */

/* ---- whatif.c ---- */
void whatif_fill(struct prof_result *r); /* without_s of the objects */

#endif
