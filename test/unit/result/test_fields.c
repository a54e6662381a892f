/* SPDX-License-Identifier: Apache-2.0
 * What becomes of two rows of one thing, by the rule of each field; and a row of which nothing is known. */
#include "result/fields.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const double users[] = {1, 3};

static void test_figures_are_summed(void **state)
{
    (void)state;
    struct prof_object a = {.samples = 4, .entries = PROF_UNKNOWN, .iterations = 1, .tlb_s = NAN, .branch_s = 0.5};
    struct prof_object b = {.samples = 5, .entries = 7, .iterations = PROF_UNKNOWN, .tlb_s = 2, .branch_s = 0.25};
    a.memory_s = (struct prof_interval){1, 0.5, NAN}, b.memory_s = (struct prof_interval){2, NAN, 4};
    a.module = "first", b.module = "second", b.is_wait = true;
    prof_row_add(PROF_ROW_OBJECT, &a, &b, users);
    assert_int_equal(a.samples, 9);
    assert_int_equal(a.entries, 7);
    assert_int_equal(a.iterations, 1);
    assert_true(a.tlb_s == 2 && a.branch_s == 0.75);
    assert_true(a.memory_s.value == 3 && a.memory_s.low == 0.5 && a.memory_s.high == 4);
    assert_true(a.is_wait);
    assert_string_equal(a.module, "first");
}

static void test_shares_weigh(void **state)
{
    (void)state;
    struct prof_object a = {.replayed_share = 0.5, .ideal_s = {1, 1, 1}},
                       b = {.replayed_share = 1, .ideal_s = {3, 3, 3}};
    struct prof_module m = {.time_share = 0.2}, n = {.time_share = 0.6};
    prof_row_add(PROF_ROW_OBJECT, &a, &b, users);
    assert_true(fabs(a.replayed_share - (0.5 + 3) / 4) < 1e-12 && a.ideal_s.value == 4);
    prof_row_add(PROF_ROW_MODULE, &m, &n, users);
    assert_true(fabs(m.time_share - (0.2 + 3 * 0.6) / 4) < 1e-12);
    b.replayed_share = NAN;
    prof_row_add(PROF_ROW_OBJECT, &a, &b, users);
    assert_true(fabs(a.replayed_share - (0.5 + 3) / 4) < 1e-12);
}

static void test_whole(void **state)
{
    (void)state;
    struct prof_result a = {.exit_status = 0, .processes = 2, .threads = 8, .plain_runs = 5, .samples = PROF_UNKNOWN};
    struct prof_result b = {.exit_status = 3, .processes = 1, .threads = 4, .plain_runs = 7, .samples = 9};
    a.coverage.memory_ops = 100, a.coverage.memory_ops_measured = 1, a.machine.ideal_error_p90 = 0.3;
    b.coverage.memory_ops = 300, b.coverage.memory_ops_measured = 0.5, b.machine.ideal_error_p90 = NAN;
    for (unsigned id = 0; id < PROF_ROW_LISTS; id++)
        prof_row_add((enum prof_row_id)id, &a, &b, users);
    assert_int_equal(a.exit_status, 3);
    assert_int_equal(a.processes, 3);
    assert_int_equal(a.threads, 8);
    assert_int_equal(a.plain_runs, 7);
    assert_int_equal(a.samples, 9);
    assert_true(fabs(a.coverage.memory_ops_measured - 0.625) < 1e-12);
    assert_true(a.machine.ideal_error_p90 == 0.3);
}

static void test_unknown(void **state)
{
    (void)state;
    struct prof_candidate c = {.depth = 3, .file = "f.c"};
    prof_row_unknown(PROF_ROW_CANDIDATE, &c);
    assert_true(isnan(c.time_s) && isnan(c.memory_s.low) && isnan(c.tot));
    assert_true(c.samples == PROF_UNKNOWN && c.object == ID_NONE && c.agrees == ID_NONE);
    assert_true(c.depth == 3 && c.own_lines == 0);
    assert_string_equal(c.file, "f.c");
}

static void test_kept(void **state)
{
    (void)state;
    char function[] = "f", file[] = "f.c";
    struct prof_object o = {.function = function, .file = file};
    struct arena *a = arena_new();
    prof_row_keep(PROF_ROW_OBJECT, &o, a);
    function[0] = file[0] = 'g';
    assert_string_equal(o.function, "f");
    assert_string_equal(o.file, "f.c");
    assert_null(o.bound_by);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_figures_are_summed), cmocka_unit_test(test_shares_weigh),
                                       cmocka_unit_test(test_whole), cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
