/* SPDX-License-Identifier: Apache-2.0
 * Ticks of probes to seconds: what the probes took is taken off, waiting distinguished, open intervals kept in the
 * interval, and what does not agree is said. */
#include "objects/probed.h"
#include "prof/prof.h"
#include "rewrite/rewrite.h"

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
                                   .system_s = {NAN, NAN, NAN},
                                   .uncounted_s = NAN,
                                   .samples = PROF_UNKNOWN,
                                   .agrees = ID_NONE,
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

static const char *const paths[] = {"/none/b", "/none/a"};
static const struct prof_probe_terms terms = {
    .ticks_a_second = HZ, .inside_ticks = 40, .pair_ticks = 80, .run_share = 0.5, .user_s = 2};

static void test_list(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1180, 10, 1), candidate(PROF_PROCEDURE, 0x1100, 1, 1),
                                    candidate(PROF_PIECE, 0x1200, 1, 1)};
    list[1].verdict = PROF_SAMPLED;
    list[2].address_end = 0x1300;
    struct prof_result *r = result(list, 3);
    const struct rewrite_objects *objects = prof_probes_list(r, "/none/a");
    assert_int_equal(objects->len, 2);
    assert_int_equal(objects->data[0].kind, REWRITE_LOOP);
    assert_int_equal(objects->data[0].at, 0x1180);
    assert_int_equal(objects->data[1].kind, REWRITE_PIECE);
    assert_int_equal(objects->data[1].at, 0x1200);
    assert_int_equal(objects->data[1].end, 0x1300);
    assert_null(prof_probes_list(r, "/none/b"));
    prof_result_free(r);
}

static void test_seconds(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1180, 1000000, 1)};
    struct prof_result *r = result(list, 1);
    /* a second of work, 0.02 s of probes, 0.3 s asleep */
    struct observed_probe p = {.module = 1,
                               .cell = 1,
                               .count = 1000000,
                               .ticks = (uint64_t)(1.32 * HZ),
                               .clocked_ticks = (uint64_t)(0.7 * HZ),
                               .clocked_ns = 400000000};
    prof_probes_take(r, paths, &p, 1, &terms);
    assert_true(fabs(list[0].probed_s.value - 1) < 1e-6);
    assert_true(list[0].probed_s.low < 0.995 && list[0].probed_s.low > 0.97);
    assert_true(fabs(list[0].waiting_s - 0.3) < 1e-6);
    assert_true(fabs(list[0].memory_s.value - 0.5) < 1e-6);
    assert_int_equal(list[0].probed_entries, 1000000);
    assert_int_equal(r->warning_count, 0);
    prof_result_free(r);
}

/* A stamp of warm probes sees 10 ticks of a start and 20 of a stop. Here starts took 90 and stops 220. */
static const struct observed_stamps starts = {1000, 90000, 90 * 90000}, stops = {1000, 220000, 220 * 220000};

static struct prof_probe_terms warm(void)
{
    struct prof_probe_terms t = terms;
    t.begin_ticks = 10;
    t.end_ticks = 20;
    return t;
}

/* What a pair takes is measured where it stands: a start in the interval of its object, all of it in the time of those
 * around it. */
static void test_cost_in_place(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1180, 1000000, 1), candidate(PROF_PROCEDURE, 0x1100, 1, 1)};
    struct prof_result *r = result(list, 2);
    struct prof_pairs within = {.inner = 0, .outer = 1, .pairs = 1000000};
    const struct prof_probe_terms t = warm();
    /* a second of work; 120 ticks of each pair are in the interval, and 360 in that of the procedure */
    struct observed_probe p[] = {
        {.module = 1, .cell = 1, .count = 1000000, .ticks = (uint64_t)(1.06 * HZ), .begin = starts, .end = stops},
        {.module = 1, .cell = 2, .count = 1, .ticks = (uint64_t)(1.18 * HZ)}};
    r->pairs = &within;
    r->pairs_count = 1;
    prof_probes_take(r, paths, p, 2, &t);
    assert_true(fabs(list[0].probed_s.value - 1) < 1e-6);
    assert_true(fabs(list[1].probed_s.value - 1) < 1e-6);
    p[0].restarts = 500000; /* half of the starts are in no interval */
    prof_probes_take(r, paths, p, 2, &t);
    assert_true(fabs(list[0].probed_s.value - 1.0225) < 1e-6);
    prof_result_free(r);
}

/* A few starts say little of a million; how far they are apart is in the interval, and of hardly any nothing is said.
 */
static void test_cost_interval(void **state)
{
    (void)state;
    const struct {
        struct observed_stamps begin;
        double value, wide;
    } seen[] = {{{10000, 900000, 90 * 900000}, 1, 0.025},
                {{16, 16 * 90, 16 * 2 * 90 * 90}, 1, 0.025 + 1.96e6 * 90 / sqrt(15) / HZ},
                {{4, 4 * 90, 4 * 90 * 90}, 1.04, 0.0154}};
    for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
        struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1180, 1000000, 1)};
        struct prof_result *r = result(list, 1);
        const struct prof_probe_terms t = warm();
        struct observed_probe p = {
            .module = 1, .cell = 1, .count = 1000000, .ticks = (uint64_t)(1.06 * HZ), .begin = seen[i].begin};
        r->actual_user_s = (struct prof_interval){0, 0, 0}; /* no error of another run */
        prof_probes_take(r, paths, &p, 1, &t);
        assert_true(fabs(list[0].probed_s.value - seen[i].value) < 1e-6);
        assert_true(fabs((list[0].probed_s.high - list[0].probed_s.low) / 2 - seen[i].wide) < 1e-6);
        prof_result_free(r);
    }
}

/* Of 1.25 s from reading to reading 0.25 s were between intervals, and a fifth of the waiting with them. */
static void test_waiting_between(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1180, 1000, 1)};
    struct prof_result *r = result(list, 1);
    struct observed_probe p = {.module = 1,
                               .cell = 1,
                               .count = 1000,
                               .ticks = (uint64_t)(1 * HZ),
                               .clocked_ticks = (uint64_t)(1.25 * HZ),
                               .clocked_ns = 750000000};
    prof_probes_take(r, paths, &p, 1, &terms);
    assert_true(fabs(list[0].waiting_s - 0.4) < 1e-6);
    assert_true(fabs(list[0].probed_s.value - 0.6) < 1e-4);
    assert_true(list[0].probed_s.low <= 0.5 && list[0].probed_s.high < 0.71); /* all of it may have been inside */
    prof_result_free(r);
}

static void test_open(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_PROCEDURE, 0x1100, 1, 0.5)};
    struct prof_result *r = result(list, 1);
    struct observed_probe p = {.module = 1, .cell = 1, .open = 1, .open_ticks = (uint64_t)HZ};
    prof_probes_take(r, paths, &p, 1, &terms);
    assert_true(fabs(list[0].probed_s.value - 0.5) < 1e-6); /* ran for half of the time */
    assert_true(list[0].probed_s.low <= 0 && list[0].probed_s.high >= 1);
    assert_int_equal(list[0].probed_entries, 1);
    prof_result_free(r);
}

static void test_warnings(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 100, 3), candidate(PROF_LOOP, 0x2, 100, 1),
                                    candidate(PROF_LOOP, 0x3, 100, 1), candidate(PROF_LOOP, 0x4, 1000000, 1)};
    struct prof_result *r = result(list, 4);
    struct observed_probe p[] = {{.module = 1, .cell = 1, .count = 100, .ticks = (uint64_t)HZ},
                                 {.module = 1, .cell = 2, .count = 80, .ticks = (uint64_t)HZ},
                                 {.module = 1, .cell = 3, .count = 0},
                                 {.module = 1, .cell = 4, .count = 1, .ticks = (uint64_t)HZ}};
    prof_probes_take(r, paths, p, 4, &terms);
    assert_int_equal(warnings(r, "probe-disagrees"), 1);
    assert_int_equal(warnings(r, "probe-counts-differ"), 2);
    assert_int_equal(warnings(r, "probe-silent"), 1);
    assert_true(list[1].probed_s.low < 0.8 && list[1].probed_s.high > 1.19); /* wider by what is unlike */
    assert_true(list[3].probed_s.low >= 0);
    assert_true(isnan(list[2].probed_s.value));
    prof_result_free(r);
}

/* The processor time of a program with one thread is known, so an interval without an end is too. */
static void test_open_of_one_thread(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_PROCEDURE, 0x1100, 1, 0.5)};
    struct prof_result *r = result(list, 1);
    struct observed_probe p = {.module = 1, .cell = 1, .open = 1, .open_ticks = (uint64_t)HZ, .open_ns = 700000000};
    prof_probes_take(r, paths, &p, 1, &terms);
    assert_true(fabs(list[0].probed_s.value - 0.7) < 1e-6);
    assert_true(list[0].probed_s.low > 0.68 && list[0].probed_s.high < 0.72);
    prof_result_free(r);
}

/* A program that takes 2 s where 1 s is predicted; one object of it takes 1.2 s where 0.5 s is predicted. */
static struct prof_result *two_seconds(struct prof_candidate *list, size_t count)
{
    struct prof_result *r = result(list, count);
    r->predicted_user_s = (struct prof_interval){1, 0.9, 1.2};
    r->actual_system_s = (struct prof_interval){0, 0, 0};
    r->coverage.memory_ops = 1000;
    r->coverage.instructions_counted_share = 1;
    r->replayed_share = 1;
    list[0].is_summed = true;
    list[0].memory_ops_all = 700;
    list[0].ideal_s = (struct prof_interval){0.5, 0.45, 0.55};
    return r;
}

static const struct observed_probe one_object = {.module = 1, .cell = 1, .count = 1, .ticks = (uint64_t)(1.2 * HZ)};

/* What is in no object is unexplained: of 2 - 1.2 s measured outside, 0.5 s are predicted. */
static void test_unexplained(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2)};
    struct prof_result *r = two_seconds(list, 1);
    prof_probes_take(r, paths, &one_object, 1, &terms);
    const struct prof_interval *u = &r->coverage.unexplained_overhead;
    assert_true(fabs(u->value - 0.3) < 1e-6);
    assert_true(u->low < 0.21 && u->low > 0.15 && u->high > 0.34 && u->high < 0.4);
    assert_true(fabs(r->coverage.memory_ops_probed - 0.7) < 1e-9);
    assert_true(fabs(r->probed_user_s - 2) < 1e-6);
    prof_result_free(r);
}

/* The same object twice over, as if it were two: nothing would be left. Only disjoint ones are added up. */
static void test_unexplained_disjoint(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2), candidate(PROF_PROCEDURE, 0x2, 1, 1.2)};
    struct prof_result *r = two_seconds(list, 2);
    struct observed_probe p[] = {one_object, one_object};
    p[1].cell = 2;
    prof_probes_take(r, paths, p, 2, &terms);
    assert_true(fabs(r->coverage.unexplained_overhead.value - 0.3) < 1e-6);
    assert_true(isfinite(list[1].probed_s.value));
    prof_result_free(r);
}

/* The kernel's time, and that of code that is not counted, is no overhead, in objects and outside. */
static void test_unexplained_system(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2)};
    struct prof_result *r = two_seconds(list, 1);
    const struct prof_probe_terms half = {HZ, 40, 80, 2000, 0.5, 1, 1, 0, 0, {1e-3, 1000, 0},
                                          0,  0,  0,  0}; /* half of it in the kernel, */
    r->actual_system_s = (struct prof_interval){1, 1, 1};
    r->actual_user_s = (struct prof_interval){1, 1, 1};
    list[0].system_s = (struct prof_interval){0.6, 0.6, 0.6}; /* 0.6 s of that in the object, */
    r->coverage.instructions_counted_share = 0.9;             /* 0.1 s in code that is not counted, */
    list[0].uncounted_s = 0.1;                                /* all of it there */
    r->predicted_user_s = (struct prof_interval){0.7, 0.7, 0.7};
    list[0].ideal_s = (struct prof_interval){0.2, 0.2, 0.2};
    prof_probes_take(r, paths, &one_object, 1, &half);
    assert_true(fabs(list[0].memory_s.value - (1.2 - 0.6 - 0.1 - 0.2)) < 1e-6);
    /* outside: 0.8 s, 0.4 s of it in the kernel; predicted 0.7 - 0.1 - 0.2 */
    assert_true(fabs(r->coverage.unexplained_overhead.value * 0.7) < 1e-6);
    prof_result_free(r);
}

/* What it takes to end the process is in no object, and nobody's overhead. */
static void test_unexplained_end(void **state)
{
    (void)state;
    static const double after_exit_s[] = {0, 0.3}, unexplained_s[] = {0.7, 0.4};
    for (size_t i = 0; i < ARRAY_LEN(after_exit_s); i++) {
        struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2)};
        struct prof_result *r = two_seconds(list, 1);
        const struct prof_probe_terms t = {HZ, 40, 80, 2000, 0.5, 2, 0.4, 0, after_exit_s[i], {1e-3, 400, 0},
                                           0,  0,  0,  0};
        list[0].system_s = (struct prof_interval){0.4, 0.4, 0.4}; /* all that samples see of the kernel */
        prof_probes_take(r, paths, &one_object, 1, &t);
        /* outside: 2.4 - 1.2 s, less what the end took; predicted 0.5 s */
        assert_true(fabs(r->coverage.unexplained_overhead.value * r->predicted_user_s.value - unexplained_s[i]) < 1e-6);
        prof_result_free(r);
    }
}

/* Nor is what it takes to begin, exec and the dynamic linker. The kernel's ticks may have told none of the two to be
 * its own, since a few milliseconds can be between them; what samples saw of the linker's code is the start's too, and
 * of the kernel's as much as fills the rest of it. */
static void test_unexplained_start(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2)};
    struct prof_result *r = two_seconds(list, 1);
    const struct prof_probe_terms t = {HZ, 40, 80, 2000, 0.5, 2, 0, 0.2, 0.1, {1e-3, 170, 40}, 0, 0, 0, 0};
    r->coverage.instructions_counted_share = 0.98; /* 0.04 s in the linker's code, part of what is predicted */
    r->predicted_user_s = (struct prof_interval){0.54, 0.54, 0.54};
    list[0].system_s = (struct prof_interval){0, 0, 0};
    list[0].uncounted_s = 0;
    prof_probes_take(r, paths, &one_object, 1, &t);
    /* outside: 2 - 0.2 - 0.1 - 1.2 s, where nothing is predicted; 0.17 - (0.2 - 0.04) s of it in the kernel */
    assert_true(fabs(r->coverage.unexplained_overhead.value * 0.54 - 0.49) < 1e-6);
    prof_result_free(r);
}

/* Nor is what mtool takes where exceptions come to. */
static void test_unexplained_landed(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2)};
    struct prof_result *r = two_seconds(list, 1);
    struct prof_probe_terms t = {HZ, 40, 80, 2000, 0.5, 2, 0.4, 0, 0, {1e-3, 400, 0}, 0, 0, 0, 0.3};
    list[0].system_s = (struct prof_interval){0.4, 0.4, 0.4};
    prof_probes_take(r, paths, &one_object, 1, &t);
    assert_true(fabs(r->coverage.unexplained_overhead.value * r->predicted_user_s.value - 0.4) < 1e-6);
    prof_result_free(r);
}

/* Of a few samples another run may have had a few more: what they say of the kernel outside of objects is no more exact
 * than that, and there is no more of it than there is outside at all. */
static void test_unexplained_seen(void **state)
{
    (void)state;
    static const struct {
        uint64_t kernel;
        double low, value, high;
    } seen[] = {{4, 0.787, 0.796, 0.799}, {1500, 0, 0, 0.8}};
    for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
        struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2)};
        struct prof_result *r = two_seconds(list, 1);
        const struct prof_probe_terms t = {HZ, 40, 80, 2000, 0.5, 2, 0, 0, 0, {1e-3, seen[i].kernel, 0}, 0, 0, 0, 0};
        r->predicted_user_s = (struct prof_interval){0.5, 0.5, 0.5}; /* all of it in the object */
        list[0].system_s = (struct prof_interval){0, 0, 0};
        list[0].uncounted_s = 0;
        prof_probes_take(r, paths, &one_object, 1, &t);
        const struct prof_interval *u = &r->coverage.unexplained_overhead;
        assert_true(fabs(u->value * 0.5 - seen[i].value) < 1e-3);
        assert_true(u->low * 0.5 < seen[i].low + 0.004 && u->low * 0.5 > seen[i].low - 0.004);
        assert_true(u->high * 0.5 > seen[i].high - 0.004 && u->high * 0.5 < seen[i].high + 0.004);
        prof_result_free(r);
    }
}

/* A look at the processor time is a system call outside of the interval. Those of objects that are not added up are in
 * the time of one that is. */
static void test_unexplained_looks(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2), candidate(PROF_LOOP, 0x2, 1, 0.6)};
    struct prof_result *r = two_seconds(list, 2);
    struct prof_probe_terms t = terms;
    struct observed_probe p[] = {one_object, one_object};
    t.look_ticks = 2e-6 * HZ;
    struct prof_pairs within = {.inner = 1, .outer = 0, .pairs = 1};
    r->pairs = &within;
    r->pairs_count = 1;
    p[0].looks = 50000;
    p[1].cell = 2, p[1].looks = 100000;
    prof_probes_take(r, paths, p, 2, &t);
    assert_true(fabs(r->coverage.unexplained_overhead.value - 0.2) < 1e-6); /* 0.3 without them */
    prof_result_free(r);
}

/* Nor are they all as fast as looks in a loop of their own: 4000 ticks there, 7000 by those that were seen here. */
static void test_unexplained_slow_looks(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2)};
    struct prof_result *r = two_seconds(list, 1);
    struct prof_probe_terms t = terms;
    struct observed_probe p = one_object;
    t.look_ticks = 4000;
    t.look_seen_ticks = 3000;
    p.looks = 50000;
    p.look_seen = 40000;
    p.look_ticks = 40000ull * 6000;
    prof_probes_take(r, paths, &p, 1, &t);
    assert_true(fabs(r->coverage.unexplained_overhead.value - (0.3 - 50000 * 7000 / HZ)) < 1e-6);
    prof_result_free(r);
}

/* No sample of what takes as long as one: nobody can tell. No sample of what takes as long as ten: they do not agree.
 */
static void test_crosschecks_unseen(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 0), candidate(PROF_LOOP, 0x2, 1, 0)};
    struct prof_result *r = two_seconds(list, 2);
    const struct observed_probe p[] = {{.module = 1, .cell = 1, .count = 1, .ticks = (uint64_t)(0.001 * HZ)},
                                       {.module = 1, .cell = 2, .count = 1, .ticks = (uint64_t)(0.01 * HZ)}};
    const struct prof_probe_terms t = {HZ, 40, 80, 2000, 0.5, 2, 0, 0, 0, {1e-3, 0, 0}, 0, 0, 0, 0};
    list[0].sampled_s.high = list[1].sampled_s.high = 0.003;
    list[0].system_s = list[1].system_s = (struct prof_interval){0, 0, 0};
    prof_probes_take(r, paths, p, 2, &t);
    assert_int_equal(list[0].agrees, ID_NONE);
    assert_int_equal(list[1].agrees, 0);
    prof_result_free(r);
}

static void test_crosschecks(void **state)
{
    (void)state;
    struct prof_candidate list[] = {candidate(PROF_LOOP, 0x1, 1, 1.2), candidate(PROF_LOOP, 0x2, 1, 0.5),
                                    candidate(PROF_LOOP, 0x3, 1, 0.5)};
    struct prof_result *r = two_seconds(list, 3);
    struct observed_probe p[] = {one_object, one_object, one_object};
    p[1].cell = 2, p[2].cell = 3;
    list[1].system_s = (struct prof_interval){0.7, 0.6, 0.8}; /* with it they agree */
    list[2].estimable = PROF_ESTIMABLE_NOT;                   /* its samples are shared out by a guess */
    prof_probes_take(r, paths, p, 3, &terms);
    assert_int_equal(list[0].agrees, 1);
    assert_int_equal(list[1].agrees, 1);
    assert_int_equal(list[2].agrees, ID_NONE);
    assert_true(fabs(list[1].sampled_all_s.value - 1.2) < 1e-9);
    list[1].system_s = (struct prof_interval){0.1, 0, 0.2};
    list[2].is_sampled_whole = true; /* by the calls that led there: no guess */
    prof_probes_take(r, paths, p, 3, &terms);
    assert_int_equal(list[1].agrees, 0);
    assert_int_equal(list[2].agrees, 0);
    assert_int_equal(warnings(r, "probe-disagrees"), 2);
    struct prof_crosschecks w = prof_crosschecks_of(r);
    assert_true(w.known == 3 && w.agree == 1);
    prof_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list),
                                       cmocka_unit_test(test_seconds),
                                       cmocka_unit_test(test_cost_in_place),
                                       cmocka_unit_test(test_cost_interval),
                                       cmocka_unit_test(test_waiting_between),
                                       cmocka_unit_test(test_open),
                                       cmocka_unit_test(test_open_of_one_thread),
                                       cmocka_unit_test(test_unexplained),
                                       cmocka_unit_test(test_unexplained_disjoint),
                                       cmocka_unit_test(test_unexplained_system),
                                       cmocka_unit_test(test_unexplained_end),
                                       cmocka_unit_test(test_unexplained_start),
                                       cmocka_unit_test(test_unexplained_landed),
                                       cmocka_unit_test(test_unexplained_seen),
                                       cmocka_unit_test(test_unexplained_looks),
                                       cmocka_unit_test(test_unexplained_slow_looks),
                                       cmocka_unit_test(test_crosschecks_unseen),
                                       cmocka_unit_test(test_crosschecks),
                                       cmocka_unit_test(test_warnings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
