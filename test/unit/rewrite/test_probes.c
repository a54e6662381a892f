/* SPDX-License-Identifier: Apache-2.0
 * What a pair of probes costs: measured at all, and what was promised. */
#include "rewrite/rewrite.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_cost(void **state)
{
    (void)state;
    struct rewrite_probe_cost c = rewrite_probe_cost();
    assert_true(c.inside > 0);
    assert_true(c.all > c.inside);
    assert_true(c.all < 1000);   /* ticks; some 30 ns */
    assert_true(c.look > c.all); /* a system call */
    assert_true(c.begin > 0 && c.end > 0);
    assert_true(c.look_seen > c.begin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
