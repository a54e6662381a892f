/* SPDX-License-Identifier: Apache-2.0
 * Intervals against values worked out by hand or published. */
#include "estimate/model/walks.h"
#include "prof/impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define assert_near(a, b, e) assert_true(fabs((a) - (b)) <= (e))

static void test_wilson(void **state)
{
    (void)state;
    struct prof_interval a = stats_wilson(5, 10), none = stats_wilson(0, 10), all = stats_wilson(10, 10),
                         big = stats_wilson(81, 263);
    assert_near(a.value, 0.5, 1e-12);
    assert_near(a.low, 0.2366, 5e-5);
    assert_near(a.high, 0.7634, 5e-5);
    assert_true(none.low == 0 && none.value == 0);
    assert_near(none.high, 0.2775, 5e-5);
    assert_true(all.high == 1 && all.value == 1);
    assert_near(all.low, 0.7225, 5e-5);
    assert_near(big.low, 0.2553, 5e-5); /* Newcombe (1998), table I, method 3 */
    assert_near(big.high, 0.3662, 5e-5);
    assert_true(isnan(stats_wilson(0, 0).value) && isnan(stats_wilson(0, 0).high));
}

static void test_count(void **state)
{
    (void)state;
    struct prof_interval none = stats_count(0), ten = stats_count(10), again = stats_count_again(10);
    assert_true(none.value == 0 && none.low == 0);
    assert_near(none.high, 1.96 * 1.96, 1e-3);
    assert_near(ten.low, 5.43, 0.01); /* roots of (10 - m)^2 = 1.96^2 m */
    assert_near(ten.high, 18.41, 0.01);
    assert_true(again.low < ten.low && again.high > ten.high);
}

static struct prof_interval centre_of(const double *x, size_t n) { return stats_centre(x, n, NULL, 0); }

static void test_centre(void **state)
{
    (void)state;
    assert_near(stats_median((double[]){3, 1, 2}, 3), 2, 0);
    assert_near(stats_median((double[]){4, 1, 2, 3}, 4), 2.5, 0);
    assert_true(isnan(stats_median(NULL, 0)) && isnan(stats_centre(NULL, 0, NULL, 0).low));
    struct prof_interval same = centre_of((double[]){2, 2, 2}, 3), one = centre_of((double[]){2}, 1);
    assert_near(one.high - 2, 4.303 * 0.08 * M_SQRT2, 2e-4); /* t(2), and twice: this job's and another's */
    assert_near(2 - one.low, 4.303 * 0.08 * M_SQRT2, 2e-4);
    assert_true(same.high > 2.01 &&
                same.high < one.high); /* three that agree by chance are not exact, but surer than one */
    struct prof_interval three =
        centre_of((double[]){9, 10, 11}, 3); /* squares: 2, and 0.32 of the prior; t(4) = 2.776 */
    assert_near(three.high - 10, 2.776 * sqrt(2.32 / 4 * 2 / 3), 1e-3);
    assert_true(centre_of((double[]){0, 0}, 2).high == 0);
}

/* Two runs that differ much say that the time is not well known, not that it may be anything. */
static void test_centre_of_two(void **state)
{
    (void)state;
    struct prof_interval far = centre_of((double[]){1, 1.36}, 2), near = centre_of((double[]){1, 1.01}, 2);
    assert_true(far.low > 0.6 && far.low < 1 && far.high > 1.36 && far.high < 1.75);
    assert_true(near.low > 0.88 && near.low < 1 && near.high > 1.01 && near.high < 1.13);
}

/* Runs in another guise tell how much runs differ, and move nothing; that they are in one is no difference. */
static void test_centre_of_guises(void **state)
{
    (void)state;
    double one = 2, alike[] = {2.05, 1.98}, unlike[] = {2.8, 1.9};
    struct prof_interval alone = centre_of(&one, 1), surer = stats_centre(&one, 1, alike, 2),
                         wider = stats_centre(&one, 1, unlike, 2);
    assert_near(surer.value, 2, 0);
    assert_near(wider.value, 2, 0);
    assert_near(surer.high - 2, 2.776 * sqrt(2 * 0.08 * 0.08 / 4 * 2 + 1e-4 / 4 * 2), 1e-3); /* t(4); mean 2.01 */
    assert_true(surer.high < alone.high && wider.high > alone.high && wider.high > 2.8);
}

enum { SAMPLES = 400, RUNS = 3 };
struct job {
    uint64_t hits;
    double times[RUNS]; /* of a spread of about four hundredths */
};

static struct job draw_job(struct rng *g)
{
    struct job j = {.hits = 0};
    for (int i = 0; i < SAMPLES; i++)
        j.hits += rng_below(g, 10) < 3;
    for (int i = 0; i < RUNS; i++)
        j.times[i] = 1 + 0.04 * ((double)(rng_below(g, 1001) + rng_below(g, 1001) + rng_below(g, 1001)) / 500 - 3);
    return j;
}

/* Of what the same would say once more: as often as it promises. */
static void test_again(void **state)
{
    enum { JOBS = 2000 };
    struct rng g = {1};
    unsigned share_within = 0, centre_within = 0;
    (void)state;
    for (int k = 0; k < JOBS; k++) {
        struct job one = draw_job(&g), other = draw_job(&g);
        struct prof_interval share = stats_wilson_again(one.hits, SAMPLES), centre = centre_of(one.times, RUNS);
        double again = (double)other.hits / SAMPLES, median = stats_median(other.times, RUNS);
        share_within += again >= share.low && again <= share.high;
        centre_within += median >= centre.low && median <= centre.high;
    }
    assert_true(share_within > 0.93 * JOBS && share_within < 0.97 * JOBS);
    assert_true(centre_within > 0.92 * JOBS && centre_within < 0.99 * JOBS);
}

/* Of the predicted time what is ideal is widened, what is branches not. */
static void test_predicted_again(void **state)
{
    (void)state;
    struct prof_result r = {.predicted_user_s = {2, 1.7, 2.6}, .branch_user_s = {0.2, 0.1, 0.3}};
    struct prof_interval all = stats_predicted_again(&r);
    assert_near(all.value, 2, 0);
    assert_near(all.low, 2 - 0.1 - M_SQRT2 * 0.2, 1e-9);
    assert_near(all.high, 2 + 0.1 + M_SQRT2 * 0.5, 1e-9);
    r.branch_user_s = stats_unknown();
    all = stats_predicted_again(&r);
    assert_near(all.low, 2 - M_SQRT2 * 0.3, 1e-9);
    assert_near(all.high, 2 + M_SQRT2 * 0.6, 1e-9);
}

/* Of many values the prior is nothing: their own standard error is left. */
/* Of 30 s measured, of which 12 (6 to 18) were predicted, no more can be lost than 29; the overhead's interval in
 * predicted seconds would say 36. */
static void test_whole_memory(void **state)
{
    (void)state;
    struct prof_result r = {.replayed_share = 1,
                            .actual_user_s = {30, 25, 35},
                            .predicted_user_s = {12, 6, 18},
                            .branch_user_s = {12, 6, 18},
                            .overhead = {1.5, 0.6, 3}};
    struct prof_interval memory = stats_whole_memory(&r);
    assert_near(memory.value, 18, 1e-12);
    assert_near(memory.low, 18 - hypot(5, 6), 1e-9);
    assert_near(memory.high, 18 + hypot(5, 6), 1e-9);
}

static void test_centre_of_many(void **state)
{
    enum { N = 400 };
    double x[N];
    (void)state;
    for (unsigned i = 0; i < N; i++)
        x[i] = 10 + (i % 2 ? 1 : -1);
    struct prof_interval c = centre_of(x, N);
    assert_near(c.high - 10, 1.96 * M_SQRT2 / sqrt(N), 3e-3);
}

static void test_combine(void **state)
{
    (void)state;
    struct prof_interval a = {10, 9, 12}, b = {4, 3, 5};
    struct prof_interval d = stats_difference(a, b), c = stats_change(a, b),
                         p = stats_product((struct prof_interval){0.5, 0.4, 0.6}, a);
    assert_near(d.value, 6, 0);
    assert_near(d.low, 6 - sqrt(2), 1e-12);
    assert_near(c.value, 6, 0);
    assert_near(c.low, 5, 1e-12);
    assert_near(d.high, 6 + sqrt(5), 1e-12);
    assert_near(p.value, 5, 0);
    assert_near(p.low, 5 - hypot(1, 0.5), 1e-12);
    struct prof_interval r = stats_ratio_less_one(a, b),
                         zero = stats_ratio_less_one(a, (struct prof_interval){0, 0, 0});
    assert_near(r.value, 1.5, 1e-12);
    assert_true(r.low < 1.5 && r.high > 1.5);
    assert_near(log(2.5) - log(r.low + 1), hypot(log(10 / 9.0), log(5 / 4.0)), 1e-12);
    assert_true(isnan(zero.value));
    assert_true(isnan(stats_difference(a, stats_unknown()).low));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wilson),           cmocka_unit_test(test_count),
                                       cmocka_unit_test(test_centre),           cmocka_unit_test(test_centre_of_two),
                                       cmocka_unit_test(test_centre_of_guises), cmocka_unit_test(test_again),
                                       cmocka_unit_test(test_predicted_again),  cmocka_unit_test(test_centre_of_many),
                                       cmocka_unit_test(test_combine),          cmocka_unit_test(test_whole_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
