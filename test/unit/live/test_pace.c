/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "live/impl.h"

/* 997 a second where that is cheap or nothing is known, else as many as take a hundredth of the time. */
static void rates(void **state)
{
    (void)state;
    assert_true(live_pace(NAN) == 997);
    assert_true(live_pace(2e-6) == 997);
    assert_true(live_pace(10e-6) == 997);
    assert_true(live_pace(12e-6) == 797);
    assert_true(live_pace(16e-6) == 599);
    assert_true(live_pace(1e-3) == 97);
    for (double s = 1e-6; s < 1e-4; s += 1e-6)
        assert_true(live_pace(s) >= live_pace(s + 1e-6) && live_pace(s) * s <= 0.01);
}

/* What is measured depends on the machine: nothing, or a time that an interrupt can take. */
static void measured(void **state)
{
    (void)state;
    double s = live_pace_measure();
    assert_true(isnan(s) || (s > 0 && s < 250e-6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rates), cmocka_unit_test(measured)};
    return cmocka_run_group_tests_name("live-pace", tests, NULL, NULL);
}
