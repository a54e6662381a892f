/* SPDX-License-Identifier: Apache-2.0
 * Which loops wait for another thread, told from compiled loops; and what samples of threads come to: sums, places,
 * names. */
#include "toy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

/* Every loop of the functions whose names begin so, and at least `least` of them. */
static void check_loops(const struct toy *t, const char *begin, bool wanted, unsigned min)
{
    const struct join_module m = {.img = t->img, .cfg = t->built};
    unsigned seen = 0;
    for (uint32_t l = 0; l < t->built->loops.len; l++) {
        const char *name = image_symbol_name(t->img, t->built->funcs.data[t->built->loops.data[l].func].addr, NULL);
        if (!name || strncmp(name, begin, strlen(begin)) != 0)
            continue;
        if (spins_is_wait_loop(&m, l) != wanted)
            fail_msg("the loop of %s counts as one that %s", name, wanted ? "works" : "waits");
        seen++;
    }
    assert_true(seen >= min);
}

static void test_loops(void **state)
{
    (void)state;
    static const char *const files[] = {SPINNING_O2, SPINNING_O0};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct toy t;
        toy_read(&t, files[i]);
        if (i == 0) /* without optimisation what a turn begins with stands in memory */
            check_loops(&t, "wait_", true, 6);
        check_loops(&t, "work_", false, 6);
        toy_fini(&t);
    }
}

/* Thread 0: 1 s in work, half of it memory's by the object's figures. Thread 1: called the same code, which called a
 * library that made it wait; the rest asleep and without a processor. */
static void test_sums(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    toy_done(&t);
    struct prof_input_module modules[] = {t.module, {.path = "/none/libgomp.so.1.0.0", .refused = "for the test"}};
    struct observed_sample samples[] = {{0, toy_addr(&t, 2), 1000}};
    struct observed_thread threads[] = {{10, false, 0, 1.2, 1.1, 0}, {11, true, 0.1, 1.0, 0.3, 0.2}};
    struct observed_frame frames[] = {{ID_NONE, 0, toy_addr(&t, 2)}, {0, 1, 0x100}, {ID_NONE, 1, 0x200}};
    struct observed_thread_sample activity[] = {{0, OBSERVED_RUNS, -1, 0, 100},    {0, OBSERVED_IN_KERNEL, -1, 0, 10},
                                                {1, OBSERVED_RUNS, -1, 1, 20},     {1, OBSERVED_RUNS, -1, 2, 10},
                                                {1, OBSERVED_BLOCKED, 202, 1, 30}, {1, OBSERVED_BLOCKED, 0, 0, 20}};
    double user[] = {1.3}, sys[] = {0.1};
    struct prof_input in = {.modules = modules,
                            .module_count = 2,
                            .samples = samples,
                            .sample_count = 1,
                            .sample_period_s = 0.01,
                            .plain_user_s = user,
                            .plain_system_s = sys,
                            .plain_runs = 1,
                            .threads = threads,
                            .thread_count = 2,
                            .frames = frames,
                            .frame_count = 3,
                            .activity = activity,
                            .activity_count = ARRAY_LEN(activity)};
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    assert_int_equal(r->thread_count, 2);
    const struct prof_thread *a = &r->thread[0], *b = &r->thread[1];
    assert_near(a->uncounted_s, 1.0); /* without a machine there is no ideal time to part it by */
    assert_near(a->system_s, 0.1);
    assert_near(a->asleep_s, 0.1);
    assert_near(b->spin_s, 0.3);
    assert_near(b->blocked_s, 0.3);
    assert_near(b->asleep_s, 0.2);
    assert_near(b->compute_s + b->memory_s + b->uncounted_s + b->system_s + b->spin_s + b->blocked_s + b->asleep_s +
                    b->ready_s,
                1.0);
    assert_int_equal(r->wait_count, 2);
    assert_int_equal(r->waits[0].thread, 1);
    assert_near(r->waits[0].spin_s, 0.2);
    assert_near(r->waits[0].blocked_s, 0.3);
    assert_int_not_equal(r->waits[0].object, ID_NONE);
    assert_string_equal(r->objects[r->waits[0].object].module, "/none/a");
    assert_string_equal(r->waits[0].into, "libgomp.so.1.0.0");
    assert_int_equal(r->waits[1].object, ID_NONE);
    assert_int_equal(r->thread_object_count, 1);
    assert_near(r->thread_objects[0].blocked_s, 0.3);
    prof_result_free(r);
    toy_fini(&t);
}

/* The same loop with the same samples: of a program's own its time may be memory's, of a library of messages it waits.
 */
static void check_library(const char *path, bool waits)
{
    struct toy t;
    toy_init(&t, path);
    toy_nest(&t, 7, 10, 100);
    toy_done(&t);
    struct observed_sample samples[] = {{0, toy_addr(&t, 2), 1000}};
    double user[] = {10}, sys[] = {0};
    struct prof_input in = {.modules = &t.module,
                            .module_count = 1,
                            .samples = samples,
                            .sample_count = 1,
                            .sample_period_s = 0.01,
                            .plain_user_s = user,
                            .plain_system_s = sys,
                            .plain_runs = 1};
    struct prof_result *r = prof_result_new();
    size_t marked = 0;
    assert_int_equal(prof_join(r, &in), 0);
    for (size_t i = 0; i < r->object_count; i++) {
        assert_int_equal(r->objects[i].is_wait, waits && r->objects[i].samples > 0);
        assert_false(waits && r->objects[i].is_significant && r->objects[i].samples > 0);
        marked += r->objects[i].is_wait;
    }
    assert_int_equal(marked > 0, waits);
    prof_result_free(r);
    toy_fini(&t);
}

static void test_libraries(void **state)
{
    (void)state;
    check_library("/none/liba.so.1", false);
    check_library("/none/mca_btl_vader.so", true);
    check_library("/none/libgomp.so.1", true);
}

/* Two threads in a region that a run-time library calls: thread 0 works for 30 looks, thread 1 for 10 and then waits in
 * the library while thread 0 still works; at last thread 0 works outside while thread 1 waits. */
static void test_regions(void **state)
{
    (void)state;
    enum { BEGIN, SERIAL, LIBRARY, REGION, WORKER, WORKER_REGION, FRAMES };
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    uint32_t outlined = toy_func(&t);
    uint32_t entry = toy_block(&t, 4, 1, CFG_BLOCK_ENTRY, X86_RET, 40, 40);
    (void)outlined;
    toy_done(&t);
    struct prof_input_module modules[] = {t.module,
                                          {.path = "/none/libgomp.so.1", .refused = "for the test"},
                                          {.path = "/none/libc.so.6", .refused = "too"}};
    struct observed_thread threads[] = {{10, false, 0, 0.4, 0.4, 0}, {11, false, 0, 0.4, 0.1, 0}};
    struct observed_frame frames[FRAMES] = {
        [BEGIN] = {ID_NONE, 0, toy_addr(&t, 0)}, [SERIAL] = {BEGIN, 0, toy_addr(&t, 2)},
        [LIBRARY] = {BEGIN, 1, 0x100},           [REGION] = {LIBRARY, 0, toy_addr(&t, entry)},
        [WORKER] = {ID_NONE, 1, 0x200},          [WORKER_REGION] = {WORKER, 0, toy_addr(&t, entry)}};
    struct observed_thread_sample activity[] = {{0, OBSERVED_RUNS, -1, REGION, 30},
                                                {0, OBSERVED_RUNS, -1, SERIAL, 10},
                                                {1, OBSERVED_RUNS, -1, WORKER_REGION, 10},
                                                {1, OBSERVED_BLOCKED, 202, WORKER, 30}};
    struct observed_moment moments[80];
    size_t n = 0;
    for (unsigned i = 0; i < 40; i++) {
        moments[n++] = (struct observed_moment){0.01 * i, i < 30 ? 0 : 1};
        moments[n++] = (struct observed_moment){0.01 * i + 0.005, i < 10 ? 2 : 3};
    }
    double user[] = {0.5}, sys[] = {0};
    struct prof_input in = {.modules = modules,
                            .module_count = 3,
                            .plain_user_s = user,
                            .plain_system_s = sys,
                            .plain_runs = 1,
                            .threads = threads,
                            .thread_count = 2,
                            .frames = frames,
                            .frame_count = FRAMES,
                            .activity = activity,
                            .activity_count = ARRAY_LEN(activity),
                            .moments = moments,
                            .moment_count = n};
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    assert_int_equal(r->region_count, 2);
    const struct prof_region *region = &r->regions[0], *outside = &r->regions[1];
    assert_non_null(region->function);
    assert_null(outside->function);
    assert_int_equal(region->threads, 2);
    assert_int_equal(region->thread_most, 0);
    assert_near(region->max_s, 0.3);
    assert_near(region->mean_s, 0.2);
    assert_near(region->imbalance, 1.5);
    assert_near(region->wait_s, 0.2);
    assert_near(outside->work_s, 0.1);
    assert_near(outside->wait_s, 0.1);
    assert_int_equal(r->region_thread_count, 4);
    assert_near(r->region_threads[1].wait_s, 0.2);
    prof_result_free(r);
    toy_fini(&t);
}

/* Where neither switches nor the kernel's account are known, nothing is made of it. */
static void test_unknown(void **state)
{
    (void)state;
    struct observed_thread threads[] = {{10, true, 0, 0.002, NAN, NAN}};
    struct prof_input in = {.threads = threads, .thread_count = 1};
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    assert_near(r->thread[0].wall_s, 0.002);
    assert_true(isnan(r->thread[0].compute_s) && isnan(r->thread[0].asleep_s) && isnan(r->thread[0].ready_s));
    prof_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loops), cmocka_unit_test(test_sums),
                                       cmocka_unit_test(test_libraries), cmocka_unit_test(test_regions),
                                       cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
