/* SPDX-License-Identifier: Apache-2.0
 * Chance is the same for a seed, and even. */
#include "base/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h> /* needs the three above it */

static void numbers_below(void **state)
{
    (void)state;
    struct rng a = {7}, b = {7};
    unsigned hits[10] = {0};
    for (int i = 0; i < 100000; i++) {
        uint64_t x = rng_below(&a, 10);
        assert_int_equal(x, rng_below(&b, 10));
        hits[x]++;
    }
    for (int i = 0; i < 10; i++)
        assert_true(fabs((double)hits[i] - 10000) < 500);
}

static void fractions(void **state)
{
    (void)state;
    struct rng g = {1};
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double x = rng_fraction(&g);
        assert_true(x >= 0 && x < 1);
        sum += x;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_below), cmocka_unit_test(fractions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
