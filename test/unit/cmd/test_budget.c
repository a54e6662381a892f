/* SPDX-License-Identifier: Apache-2.0
 * How many plain runs the budget of the whole job has room for. */
#include "cmd/run/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h> /* needs the three above it */

static size_t runs(double s, bool windows, bool probes)
{
    return budget_plain_runs(
        &(struct budget){.first_s = s, .first_user_s = s, .spent_s = s, .windows = windows, .probes = probes});
}

static void short_programs_run_more_often(void **state)
{
    (void)state;
    assert_int_equal(runs(0.05, true, true), 5);
    assert_true(runs(0.3, true, true) >= 2 && runs(0.3, true, true) < 5);
    assert_int_equal(runs(0.6, true, true), 1);
}

static void no_run_goes_beyond_the_budget(void **state)
{
    (void)state;
    for (double s = 0.1; s < 100; s *= 1.1) {
        double whole = s + 1.05 * s + s + 4 + 1.05 * s + (double)runs(s, true, true) * s;
        assert_true(runs(s, true, true) == 0 || whole <= 4 * s + 5);
    }
    assert_int_equal(runs(2, true, true), 0);
    assert_int_equal(runs(10, true, false), 1); /* in place of the probes' */
    assert_int_equal(runs(0, true, true), 0);
}

static void without_windows_there_are_two(void **state)
{
    (void)state;
    assert_int_equal(runs(1, false, true), 5);
    assert_int_equal(runs(60, false, true), 2);
}

static double windows_s(double s, double spent, bool probes)
{
    return budget_windows_s(&(struct budget){.first_s = s, .spent_s = spent, .windows = true, .probes = probes});
}

static void windows_take_what_is_left(void **state)
{
    (void)state;
    assert_true(windows_s(0.2, 1, true) > 1.8 && windows_s(0.2, 1, true) < 2);
    assert_true(windows_s(2, 4, true) > 2.1 && windows_s(2, 4, true) < 2.3);
    assert_true(windows_s(2, 2.1, false) == 4); /* at most */
    assert_true(windows_s(2, 12, true) == 0.7); /* there are always some */
    struct budget large = {.first_s = 2, .spent_s = 4, .counters = 1000000, .windows = true, .probes = true};
    assert_true(budget_windows_s(&large) < windows_s(2, 4, true) - 0.5);
}

/* Sampled, counted, windows, probed: more than four times a long one; or the estimate takes what is left. */
static void long_ones_have_windows_in_the_counted_run(void **state)
{
    (void)state;
    struct budget b = {.first_s = 2, .spent_s = 2.1, .windows = true, .probes = true};
    assert_true(budget_has_windows_run(&b));
    b.counters = 1300000;
    assert_false(budget_has_windows_run(&b));
    b = (struct budget){.first_s = 0.9, .spent_s = 2.5, .windows = true, .probes = true}; /* after a plain run */
    assert_true(budget_has_windows_run(&b));
    for (double s = 6; s < 100; s *= 1.1) {
        b = (struct budget){.first_s = s, .spent_s = s, .windows = true, .probes = true};
        assert_false(budget_has_windows_run(&b));
        assert_true(s + 1.2 * s + budget_after_s(&b) + 2.5 + 1.05 * s < 4 * s + 5);
        b.probes = false; /* in place of which there is one for windows */
        assert_true(budget_has_windows_run(&b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_programs_run_more_often),
        cmocka_unit_test(no_run_goes_beyond_the_budget),
        cmocka_unit_test(without_windows_there_are_two),
        cmocka_unit_test(windows_take_what_is_left),
        cmocka_unit_test(long_ones_have_windows_in_the_counted_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
