/* SPDX-License-Identifier: Apache-2.0
 * The whole program's time without one object's memory part: a closed form, cut at nothing saved, and bounds where
 * threads overlap. */
#include "estimate/model/walks.h"
#include "prof/impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct prof_interval without(struct prof_interval memory, uint32_t threads)
{
    struct prof_object o = {.memory_s = memory};
    struct prof_result r = {.actual_user_s = {4, 3.9, 4.1}, .threads = threads, .objects = &o, .object_count = 1};
    whatif_fill(&r);
    return o.without_s;
}

static void test_one_thread(void **state)
{
    (void)state;
    struct prof_interval s = without((struct prof_interval){1, 0.8, 1.2}, 1);
    assert_true(fabs(s.value - 3) < 1e-12);
    assert_true(s.low < 2.8 && s.low > 2.7 && s.high > 3.2 && s.high < 3.3);
}

static void test_nothing_to_save(void **state)
{
    (void)state;
    struct prof_interval s = without((struct prof_interval){-0.1, -0.3, 0.1}, 1);
    assert_true(fabs(s.value - 4) < 1e-12);
    assert_true(isnan(without((struct prof_interval){NAN, NAN, NAN}, 1).value));
}

static void test_threads(void **state)
{
    (void)state;
    struct prof_interval s = without((struct prof_interval){1, 0.8, 1.2}, 2);
    assert_true(fabs(s.value - 3) < 1e-12);
    assert_true(s.high >= 4.1); /* perhaps nobody waits for it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_thread), cmocka_unit_test(test_nothing_to_save),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
