/* SPDX-License-Identifier: Apache-2.0
 * Ticks of probes to seconds: what the probes took is taken off, waiting told apart, open intervals kept in the
 * interval, and what does not agree is said. */
#include "prof/prof.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define HZ 2e9

static struct prof_candidate candidate(enum prof_kind kind, uint64_t address, uint64_t entries, double sampled)
{
    return (struct prof_candidate){.kind = kind,
                                   .module = "/none/a",
                                   .function = "f",
                                   .address = address,
                                   .entries = entries,
                                   .estimable = PROF_ESTIMABLE_LEAF,
                                   .verdict = PROF_TAKEN,
                                   .ideal_s = {0.5, 0.45, 0.55},
                                   .sampled_s = {sampled, 0.9 * sampled, 1.1 * sampled},
                                   .probed_s = {NAN, NAN, NAN},
                                   .memory_s = {NAN, NAN, NAN},
                                   .waiting_s = NAN,
                                   .probed_entries = PROF_UNKNOWN};
}

static struct prof_result *result(struct prof_candidate *list, size_t count)
{
    struct prof_result *r = prof_result_new();
    r->candidates = list;
    r->candidate_count = count;
    r->actual_user_s = (struct prof_interval){2, 1.98, 2.02};
    return r;
}

static size_t warnings(const struct prof_result *r, const char *id)
{
    size_t n = 0;
    for (size_t i = 0; i < r->warning_count; i++)
        n += strcmp(r->warnings[i].id, id) == 0;
    return n;
}

static const struct prof_probe_terms terms = {HZ, 40, 80, 0.5};

static void test_list(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1180, 10, 1), candidate(PROF_PROCEDURE, 0x1100, 1, 1),
                                    candidate(PROF_PIECE, 0x1200, 1, 1)};
    list[1].verdict = PROF_SAMPLED;
    list[2].address_end = 0x1300;
    struct prof_result *r = result(list, 3);
    assert_string_equal(prof_probes_list(r, "/none/a"), "loop 1180\npiece 1200 1300\n");
    assert_null(prof_probes_list(r, "/none/b"));
    prof_result_free(r);
}

static void test_seconds(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1180, 1000000, 1)};
    struct prof_result *r = result(list, 1);
    /* a second of work, 0.02 s of probes, 0.3 s asleep */
    struct prof_probed p = {.module = "/none/a",
                            .cell = 1,
                            .count = 1000000,
                            .ticks = (uint64_t)(1.32 * HZ),
                            .window_ticks = (uint64_t)(0.7 * HZ),
                            .window_ns = 400000000};
    prof_probes_take(r, &p, 1, &terms);
    assert_true(fabs(list[0].probed_s.value - 1) < 1e-6);
    assert_true(list[0].probed_s.low < 0.995 && list[0].probed_s.low > 0.97);
    assert_true(fabs(list[0].waiting_s - 0.3) < 1e-6);
    assert_true(fabs(list[0].memory_s.value - 0.5) < 1e-6);
    assert_int_equal(list[0].probed_entries, 1000000);
    assert_int_equal(r->warning_count, 0);
    prof_result_free(r);
}

static void test_open(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_PROCEDURE, 0x1100, 1, 0.5)};
    struct prof_result *r = result(list, 1);
    struct prof_probed p = {.module = "/none/a", .cell = 1, .open = 1, .open_ticks = (uint64_t)HZ};
    prof_probes_take(r, &p, 1, &terms);
    assert_true(fabs(list[0].probed_s.value - 0.5) < 1e-6); /* ran for half of the time */
    assert_true(list[0].probed_s.low <= 0 && list[0].probed_s.high >= 1);
    assert_int_equal(list[0].probed_entries, 1);
    prof_result_free(r);
}

static void test_warnings(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 100, 3), candidate(PROF_LOOP, 0x2, 100, 1),
                                    candidate(PROF_LOOP, 0x3, 100, 1)};
    struct prof_result *r = result(list, 3);
    struct prof_probed p[] = {{.module = "/none/a", .cell = 1, .count = 100, .ticks = (uint64_t)HZ},
                              {.module = "/none/a", .cell = 2, .count = 80, .ticks = (uint64_t)HZ},
                              {.module = "/none/a", .cell = 3, .count = 0}};
    prof_probes_take(r, p, 3, &terms);
    assert_int_equal(warnings(r, "probe-disagrees"), 1);
    assert_int_equal(warnings(r, "probe-counts-differ"), 1);
    assert_int_equal(warnings(r, "probe-silent"), 1);
    assert_true(list[1].probed_s.low < 0.8 && list[1].probed_s.high > 1.19); /* wider by what is unlike */
    assert_true(isnan(list[2].probed_s.value));
    prof_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_seconds),
                                       cmocka_unit_test(test_open), cmocka_unit_test(test_warnings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
