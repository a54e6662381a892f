/* SPDX-License-Identifier: Apache-2.0
 * The ledger of threads: what events say of lives, processor time and waiting, whole, with a switch lost, and from the
 * kernel's account alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "launch/impl.h"

#define MS 1000000u
#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-6)

static struct launch_result *result_of(struct threads *t, uint64_t end_ns)
{
    struct arena *a = arena_new();
    struct launch_result *r = ARENA_NEW(a, struct launch_result);
    r->arena = a;
    threads_close(t, end_ns);
    threads_fill(t, r);
    threads_free(t);
    return r;
}

/* Runs 10 to 40, is preempted to 50, runs to 70, waits to 95, runs to its end at 100. */
static void test_switches(void **state)
{
    (void)state;
    struct threads *t = threads_new(false);
    threads_begin(t, 8, 1 * MS); /* before the program: nothing */
    threads_exec(t, 7, 10 * MS);
    threads_begin(t, 8, 30 * MS);
    threads_switch(t, 7, THREADS_PREEMPTED, 40 * MS);
    threads_switch(t, 8, THREADS_RUNS, 40 * MS);
    threads_switch(t, 7, THREADS_RUNS, 50 * MS);
    threads_switch(t, 7, THREADS_WAITS, 70 * MS);
    threads_end(t, 8, 90 * MS);
    threads_begin(t, 8, 92 * MS); /* the number is used again */
    threads_switch(t, 7, THREADS_RUNS, 95 * MS);
    struct launch_result *r = result_of(t, 100 * MS);
    assert_int_equal(r->thread_count, 3);
    assert_near(r->threads[0].wall_s, 0.09);
    assert_near(r->threads[0].cpu_s, 0.055);
    assert_near(r->threads[0].ready_s, 0.01);
    assert_false(r->threads[0].has_ended);
    assert_near(r->threads[1].begin_s, 0.02);
    assert_near(r->threads[1].wall_s, 0.06);
    assert_near(r->threads[1].cpu_s, 0.05);
    assert_true(r->threads[1].has_ended);
    assert_near(r->threads[2].wall_s, 0.008);
    assert_near(r->threads[2].cpu_s, 0);
    launch_result_free(r);
}

/* Of two switches to the processor, or away from it, in a row the first one counts. */
static void test_lost(void **state)
{
    (void)state;
    struct threads *t = threads_new(false);
    threads_exec(t, 7, 0 + MS);
    threads_switch(t, 7, THREADS_RUNS, 11 * MS);
    threads_switch(t, 7, THREADS_WAITS, 21 * MS);
    threads_switch(t, 7, THREADS_WAITS, 31 * MS);
    threads_switch(t, 99, THREADS_RUNS, 31 * MS);
    struct launch_result *r = result_of(t, 41 * MS);
    assert_int_equal(r->thread_count, 1);
    assert_near(r->threads[0].wall_s, 0.04);
    assert_near(r->threads[0].cpu_s, 0.02);
    launch_result_free(r);
}

/* Without switches the kernel's account is taken, less what the first thread had before the program. */
static void test_usage(void **state)
{
    (void)state;
    struct threads *t = threads_new(false);
    threads_usage(t, 7, 5 * MS, 2 * MS, 0);
    threads_exec(t, 7, 10 * MS);
    threads_begin(t, 8, 20 * MS);
    threads_usage(t, 7, 25 * MS, 12 * MS, 40 * MS);
    struct launch_result *r = result_of(t, 50 * MS);
    assert_near(r->threads[0].wall_s, 0.04);
    assert_near(r->threads[0].cpu_s, 0.02);
    assert_near(r->threads[0].ready_s, 0.01);
    assert_true(isnan(r->threads[1].cpu_s));
    launch_result_free(r);
}

/* Equal ones are one with a count; a second exec is the end of the program that is looked at. */
static void test_samples(void **state)
{
    (void)state;
    struct threads *t = threads_new(false);
    struct observed_thread_sample s = {.activity = OBSERVED_RUNS, .syscall = -1, .stack = 2};
    threads_exec(t, 7, MS);
    threads_begin(t, 8, MS);
    threads_sample(t, 8, 3 * MS, &s);
    threads_sample(t, 7, 3 * MS, &s);
    threads_sample(t, 8, 3 * MS, &s);
    s.stack = 3;
    threads_sample(t, 8, 3 * MS, &s);
    threads_sample(t, 9, 3 * MS, &s);
    threads_exec(t, 7, 2 * MS);
    threads_sample(t, 7, 3 * MS, &s);
    struct launch_result *r = result_of(t, 9 * MS);
    assert_int_equal(r->thread_sample_count, 3);
    assert_int_equal(r->thread_samples[0].thread, 1);
    assert_int_equal(r->thread_samples[0].count, 2);
    assert_int_equal(r->thread_samples[1].thread, 0);
    assert_int_equal(r->thread_samples[2].stack, 3);
    assert_int_equal(r->moment_count, 4);
    assert_near(r->moments[3].time_s, 0.002);
    assert_near(r->threads[0].wall_s, 0.001);
    launch_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_switches), cmocka_unit_test(test_lost),
                                       cmocka_unit_test(test_usage), cmocka_unit_test(test_samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
