/* SPDX-License-Identifier: Apache-2.0
 * Samples to objects, modules and refused code: shares, seconds, what stays unknown, and the warnings. */
#include "toy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define assert_near(a, b, e) assert_true(fabs((a) - (b)) <= (e))

static bool warned(const struct prof_result *r, const char *id)
{
    for (size_t i = 0; i < r->warning_count; i++)
        if (strcmp(r->warnings[i].id, id) == 0)
            return true;
    return false;
}

static const struct prof_refused *refused(const struct prof_result *r, const char *module, const char *function)
{
    for (size_t i = 0; i < r->refused_count; i++) {
        const struct prof_refused *x = &r->refused[i];
        if (strcmp(x->module, module) == 0 &&
            (function ? x->function && strcmp(x->function, function) == 0 : !x->function))
            return x;
    }
    return NULL;
}

/* A nest in one module (600 samples inner, 200 outer, 100 procedure), a refused function (50), no function (10), a
 * library that was not rewritten (30), no file (10). */
static void test_shares(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    uint32_t bad = toy_func(&t);
    toy_block(&t, 4, 1, CFG_BLOCK_ENTRY, X86_RET, 0, 0);
    t.cfg.funcs.data[bad].reason = CFG_REASON_TABLE;
    toy_done(&t);
    struct prof_input_module modules[] = {t.module,
                                          {.path = "/none/lib.so", .refused = "it is written in Go"},
                                          {.path = "/none/ld.so", .is_interp = true}};
    struct observed_sample samples[] = {{0, toy_addr(&t, 2), 400},
                                        {0, toy_addr(&t, 2) + 8, 200},
                                        {0, toy_addr(&t, 1), 150},
                                        {0, toy_addr(&t, 3), 50},
                                        {0, toy_addr(&t, 0), 100},
                                        {0, toy_addr(&t, 5), 50},
                                        {0, 0x10, 10},
                                        {1, 0x5000, 30},
                                        {ID_NONE, 0, 10}};
    double user[] = {2.0, 2.1, 1.9}, sys[] = {0.1, 0.1, 0.1};
    struct prof_input in = {.modules = modules,
                            .module_count = 3,
                            .samples = samples,
                            .sample_count = ARRAY_LEN(samples),
                            .plain_user_s = user,
                            .plain_system_s = sys,
                            .plain_runs = 3};
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    assert_int_equal(r->samples, 1000);
    assert_near(r->actual_user_s.value, 2.0, 1e-12);
    assert_near(r->actual_system_s.value, 0.1, 1e-12);
    const struct prof_object *inner = &r->objects[0], *outer = &r->objects[1], *proc = &r->objects[2];
    assert_int_equal(inner->address, toy_addr(&t, 2)); /* no ideal times: in order of actual ones */
    assert_int_equal(inner->samples, 600);
    assert_near(inner->actual_s.value, 1.2, 1e-12);
    assert_true(inner->actual_s.low < 1.2 && inner->actual_s.high > 1.2);
    assert_near(outer->actual_s.value, 0.4, 1e-12);
    assert_near(outer->actual_incl_s.value, 1.6, 1e-12);
    assert_near(proc->actual_incl_s.value, 1.8, 1e-12);
    assert_string_equal(inner->actual_method, "sampled");
    assert_true(isnan(inner->ideal_s.value) && isnan(inner->memory_s.value) && !inner->is_significant);
    assert_near(r->coverage.instructions_counted_share, 0.9, 1e-12);
    assert_near(r->modules[1].time_share, 0.03, 1e-12);
    assert_int_equal(r->modules[0].functions, 2);
    assert_int_equal(r->modules[0].functions_rewritten, 1);
    assert_int_equal(r->refused_count, 5);
    assert_near(r->refused[0].time_share, 0.05, 1e-12);
    assert_string_equal(r->refused[0].reason, cfg_reason_text[CFG_REASON_TABLE]);
    assert_int_equal(r->refused[0].address, toy_addr(&t, 5));
    assert_near(refused(r, "/none/a", "(no function)")->time_share, 0.01, 1e-12);
    assert_string_equal(refused(r, "/none/lib.so", NULL)->reason, "it is written in Go");
    assert_near(refused(r, "/none/ld.so", NULL)->time_share, 0, 0);
    assert_non_null(refused(r, "(no file)", "(no file)"));
    assert_true(warned(r, "uncounted-code") && !warned(r, "few-samples") && !warned(r, "runs-differ"));
    prof_result_free(r);
    toy_fini(&t);
}

static void test_few_samples(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    toy_nest(&t, 0, 10, 100);
    toy_done(&t);
    struct observed_sample samples[] = {{0, toy_addr(&t, 2), 20}, {0, toy_addr(&t, 7), 10}};
    double user[] = {1.0, 3.0, 2.0};
    struct prof_input in = {.modules = &t.module,
                            .module_count = 1,
                            .samples = samples,
                            .sample_count = 2,
                            .plain_user_s = user,
                            .plain_runs = 3};
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    assert_true(warned(r, "few-samples") && warned(r, "noisy-runs") && warned(r, "runs-differ"));
    assert_true(isnan(r->actual_system_s.value));
    const struct prof_object *o = &r->objects[0];
    assert_true(o->actual_s.low < 0.45 * 2 && o->actual_s.high > 0.8 * 2);
    assert_int_equal(r->object_count, 4); /* code with samples but no counts is a procedure without entries */
    assert_int_equal(r->objects[1].entries, 0);
    assert_int_equal(r->objects[1].samples, 10);
    prof_result_free(r);
    toy_fini(&t);
}

/* What counters took of the only run is said, and widens the interval by as much. */
static void test_ran_once(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    toy_done(&t);
    double user[] = {2.0};
    struct prof_input in = {.modules = &t.module,
                            .module_count = 1,
                            .plain_user_s = user,
                            .plain_runs = 1,
                            .counting_s = 0.3,
                            .windows_s = 0.1};
    struct prof_result *plain = prof_result_new(), *once = prof_result_new();
    assert_int_equal(prof_join(plain, &in), 0);
    in.ran_once = true;
    assert_int_equal(prof_join(once, &in), 0);
    assert_true(isnan(plain->counting_user_s));
    assert_near(once->counting_user_s, 0.3, 0);
    assert_true(isnan(plain->windows_system_s));
    assert_near(once->windows_system_s, 0.1, 0);
    assert_near(once->actual_user_s.value, 2, 0);
    double runs = plain->actual_user_s.high - 2, more = hypot(hypot(0.3, 0.05 * 2), 0.05);
    assert_true(runs > 0.4 && runs < 0.6);
    assert_near(once->actual_user_s.high - 2, hypot(runs, more), 1e-9);
    assert_near(2 - once->actual_user_s.low, hypot(runs, more), 1e-9);
    prof_result_free(plain);
    prof_result_free(once);
    toy_fini(&t);
}

/* No samples: the whole is known, its parts are not. */
static void test_no_samples(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    toy_done(&t);
    double user[] = {1.0};
    struct prof_input in = {.modules = &t.module, .module_count = 1, .plain_user_s = user, .plain_runs = 1};
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    assert_near(r->actual_user_s.value, 1, 0);
    assert_true(isnan(r->objects[0].actual_s.value) && !r->objects[0].actual_method);
    assert_true(isnan(r->coverage.instructions_counted_share) && isnan(r->modules[0].time_share));
    assert_true(warned(r, "no-samples"));
    prof_result_free(r);
    toy_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_few_samples),
                                       cmocka_unit_test(test_ran_once), cmocka_unit_test(test_no_samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
