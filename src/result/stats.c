/* SPDX-License-Identifier: Apache-2.0
 *
 * stats: the few statistics of the join. Intervals are 95 %; independent errors are combined in quadrature, for the low
 * and the high side on their own, because Wilson intervals and model errors are lopsided. Those of measured times are
 * of what another job like this one would say ("again"), which is off by as much once more. Also the generator that
 * draws random walks: the same seed draws the same walks on every machine.
 */
#include "result/stats.h"

#include <math.h>
#include <stdlib.h>

struct prof_interval stats_unknown(void) { return (struct prof_interval){NAN, NAN, NAN}; }

static struct prof_interval wilson(uint64_t k, uint64_t n, double z)
{
    if (n == 0)
        return stats_unknown();
    double p = (double)k / (double)n, z2n = z * z / (double)n;
    double centre = (p + z2n / 2) / (1 + z2n);
    double half = z * sqrt(p * (1 - p) / (double)n + z2n / (4 * (double)n)) / (1 + z2n);
    /* At the ends the formula is exact only up to rounding. */
    return (struct prof_interval){p, k == 0 ? 0 : fmax(0, centre - half), k == n ? 1 : fmin(1, centre + half)};
}

struct prof_interval stats_wilson(uint64_t k, uint64_t n) { return wilson(k, n, NORMAL_T); }

struct prof_interval stats_wilson_again(uint64_t k, uint64_t n) { return wilson(k, n, NORMAL_T * M_SQRT2); }

static struct prof_interval count_of(double n, double z)
{
    double centre = n + z * z / 2, half = z * sqrt(n + z * z / 4);
    return (struct prof_interval){n, fmax(0, centre - half), centre + half};
}

struct prof_interval stats_count(double n) { return count_of(n, NORMAL_T); }

struct prof_interval stats_count_again(double n) { return count_of(n, NORMAL_T * M_SQRT2); }

struct prof_interval stats_again(struct prof_interval i)
{
    return (struct prof_interval){i.value, fmax(0, i.value - M_SQRT2 * (i.value - i.low)),
                                  i.value + M_SQRT2 * (i.high - i.value)};
}

/* Half-widths of sums add up here, and what is not counted enters as it was measured: what branches do not have of the
 * predicted interval is the ideal times'. That of branches is a bound of the model's, alike in every job. */
struct prof_interval stats_predicted_again(const struct prof_result *r)
{
    struct prof_interval p = r->predicted_user_s, b = r->branch_user_s;
    if (isnan(b.value))
        return stats_again(p);
    double low = p.value - p.low - (b.value - b.low), high = p.high - p.value - (b.high - b.value);
    return (struct prof_interval){p.value, fmax(0, p.low - (M_SQRT2 - 1) * fmax(0, low)),
                                  p.high + (M_SQRT2 - 1) * fmax(0, high)};
}

struct prof_interval stats_whole_memory(const struct prof_result *r)
{
    return gate_loss(r, r->replayed_share, stats_difference(r->actual_user_s, stats_predicted_again(r)));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double stats_median(const double *x, size_t n)
{
    if (n == 0)
        return NAN;
    double *s = xmalloc(n * sizeof *s);
    memcpy(s, x, n * sizeof *s);
    qsort(s, n, sizeof *s, compare_doubles);
    double m = n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
    free(s);
    return m;
}

double stats_nth(double *x, size_t n, size_t nth)
{
    qsort(x, n, sizeof *x, compare_doubles);
    return x[nth];
}

/* Few runs say little of how much runs differ, so what is usual on a machine with other work counts as PRIOR_FREEDOM
 * degrees of freedom beside theirs: the posterior of a scaled inverse chi-squared prior, a Student's t too. Without a
 * prior two runs would span 12.7 times half of their distance. */
#define PRIOR_FREEDOM 2
#define PRIOR_SPREAD 0.04 /* standard deviation of a run, as a fraction: see doc/design/ideal.md */
#define GUISE_SPREAD 0.03 /* by so much runs differ for being counted or sampled */

static double mean_of(const double *x, size_t n, const double *more, size_t more_count)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    for (size_t i = 0; i < more_count; i++)
        sum += more[i];
    return sum / (double)(n + more_count);
}

/* Beyond what is for another cause anyway. */
static double squares_beyond(const double *x, size_t n, double mean, double anyway)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fmax(0, (x[i] - mean) * (x[i] - mean) - anyway * anyway);
    return sum;
}

struct prof_interval stats_centre(const double *x, size_t n, const double *guises, size_t guise_count)
{
    if (n == 0)
        return stats_unknown();
    double m = stats_median(x, n), mean = mean_of(x, n, guises, guise_count);
    double squares = squares_beyond(x, n, mean, 0) + squares_beyond(guises, guise_count, mean, GUISE_SPREAD * m);
    squares += PRIOR_FREEDOM * (PRIOR_SPREAD * m) * (PRIOR_SPREAD * m);
    size_t freedom = PRIOR_FREEDOM + n + guise_count - 1;
    double half = student_t(freedom) * sqrt(squares / (double)freedom * 2 / (double)n);
    return (struct prof_interval){m, fmax(0, m - half), m + half};
}

struct prof_interval stats_product(struct prof_interval a, struct prof_interval b)
{
    double v = a.value * b.value;
    double low = hypot((a.value - a.low) * b.value, (b.value - b.low) * a.value);
    double high = hypot((a.high - a.value) * b.value, (b.high - b.value) * a.value);
    /* A share of 0 has no lower side, and its upper side is all from the share. */
    return (struct prof_interval){v, fmax(0, v - low), v + high};
}

struct prof_interval stats_difference(struct prof_interval a, struct prof_interval b)
{
    double v = a.value - b.value;
    return (struct prof_interval){v, v - hypot(a.value - a.low, b.high - b.value),
                                  v + hypot(a.high - a.value, b.value - b.low)};
}

struct prof_interval stats_change(struct prof_interval a, struct prof_interval b)
{
    struct prof_interval d = stats_difference(a, b);
    return (struct prof_interval){d.value, d.value - M_SQRT1_2 * (d.value - d.low),
                                  d.value + M_SQRT1_2 * (d.high - d.value)};
}

struct prof_interval stats_sum(struct prof_interval a, struct prof_interval b)
{
    double v = a.value + b.value;
    return (struct prof_interval){v, v - hypot(a.value - a.low, b.value - b.low),
                                  v + hypot(a.high - a.value, b.high - b.value)};
}

struct prof_interval stats_ratio_less_one(struct prof_interval a, struct prof_interval b)
{
    if (!(a.low > 0) || !(b.low > 0)) {
        double v = b.value > 0 ? a.value / b.value - 1 : NAN;
        return (struct prof_interval){v, b.high > 0 ? a.low / b.high - 1 : NAN, b.low > 0 ? a.high / b.low - 1 : NAN};
    }
    double r = a.value / b.value;
    double low = hypot(log(a.value / a.low), log(b.high / b.value));
    double high = hypot(log(a.high / a.value), log(b.value / b.low));
    return (struct prof_interval){r - 1, r * exp(-low) - 1, r * exp(high) - 1};
}

/* ---- sums ---- */

double prof_sum(double a, double b) { return isnan(a) ? b : isnan(b) ? a : a + b; }

uint64_t prof_sum_counts(uint64_t a, uint64_t b) { return a == PROF_UNKNOWN ? b : b == PROF_UNKNOWN ? a : a + b; }

void prof_interval_add(struct prof_interval *sum, const struct prof_interval *x)
{
    sum->value = prof_sum(sum->value, x->value);
    sum->low = prof_sum(sum->low, x->low);
    sum->high = prof_sum(sum->high, x->high);
}

struct prof_interval prof_interval_scaled(const struct prof_interval *i, double factor)
{
    return (struct prof_interval){i->value * factor, i->low * factor, i->high * factor};
}
