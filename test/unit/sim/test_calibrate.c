/* SPDX-License-Identifier: Apache-2.0
 * Calibration of simulated cores, in a tenth of its time: does it find the machine again that it was given, under the trouble of a shared
 * virtual machine, in a counter that moves in steps, from a tape? bench/zoo does the same in full, of all descriptions and of hundreds
 * of drawn ones. */
#include "help.h"

#include "zoo.h"

#include <stdlib.h>

static struct sim_streams *streams;

static struct machine *shipped(const char *file)
{
    const char *name, *text;
    for (size_t i = 0; (text = machine_shipped_text(i, &name)) != NULL; i++)
        if (strcmp(name, file) == 0)
            return machine_of(text);
    fail_msg("%s is not shipped", file);
    return NULL;
}

static struct machine *calibrated(const struct machine_bench *bench)
{
    struct machine *found = NULL;
    struct machine_calibrate_options how = {.bench = bench, .quick = true};
    assert_int_equal(machine_calibrate(&how, &found), 0);
    return found;
}

static struct machine *found_on(const struct machine *given, const struct sim_trouble *trouble)
{
    struct machine_bench bench = {.core = sim_bench_new(given, trouble)};
    assert_non_null(bench.core);
    struct machine *found = calibrated(&bench);
    sim_bench_free(bench.core);
    return found;
}

/* ---- what comes out again ---- */

/* Least shares of the forms whose latency and interval come out within 5 %, before the self-test fits anything; the most that kernels may
 * be off in the median. In full time bench/zoo finds, of all forms and after the fit, 92 and 94 % (zen4), 97 and 97 % (skylake), 87 and
 * 82 % (gracemont), kernels off by less than 1 % in the median. */
struct promise {
    const char *machine; /* NULL: drawn by the seed */
    uint32_t seed;       /* of the trouble, and of the drawn machine */
    double latency, interval, median;
};

static void check_sizes(const char *name, const struct zoo_match *m)
{
    if (m->width[1] != m->width[0])
        fail_msg("%s: %g wide, not %g", name, m->width[1], m->width[0]);
    if (!zoo_near(m->rob, 0.1))
        fail_msg("%s: reorder %g, not %g", name, m->rob[1], m->rob[0]);
    if (!zoo_near(m->queues, 0.1))
        fail_msg("%s: schedulers of %g, not %g", name, m->queues[1], m->queues[0]);
}

/* Have general and vector operations no unit in common? */
static bool are_apart(const struct machine *m)
{
    const struct machine_class *i = machine_class_named(m, "int"), *v = machine_class_named(m, "vlogic");
    assert_true(i && v && i->use_count && v->use_count);
    return !(i->uses[0].ports & v->uses[0].ports);
}

static void check(const struct promise *p)
{
    struct machine *given = p->machine ? shipped(p->machine) : zoo_random(p->seed);
    struct sim_trouble trouble = zoo_trouble(p->seed);
    struct machine *found = found_on(given, &trouble);
    struct zoo_match m = {0};
    zoo_compare(given, found, &m);
    zoo_compare_forms(given, found, &m, false);
    if (p->median < INFINITY)
        zoo_compare_kernels(given, found, streams, &m, false);
    print_message("# %s: %u forms, latencies %.1f %%, intervals %.1f %%, reorder %g of %g, schedulers %g of %g, kernels %.2f %%\n",
                  given->name, m.forms, 100 * m.latency, 100 * m.interval, m.rob[1], m.rob[0], m.queues[1], m.queues[0],
                  100 * m.median);
    check_sizes(given->name, &m);
    assert_true(m.forms > 80);
    if (!(m.latency >= p->latency && m.interval >= p->interval))
        fail_msg("%s: %.1f %% of the latencies, %.1f %% of the intervals", given->name, 100 * m.latency, 100 * m.interval);
    if (!(m.median <= p->median))
        fail_msg("%s: kernels are off by %.2f %% in the median", given->name, 100 * m.median);
    assert_true(found->fuse_nop == given->fuse_nop && are_apart(found) == are_apart(given));
    machine_free(found);
    machine_free(given);
}

static void machines_come_out_again_under_trouble(void **state)
{
    (void)state;
    static const struct promise promises[] = {
        {"generic-core.machine", 1, 0.9, 0.9, 0.03}, {"zen4.machine", 2, 0.9, 0.9, 0.03}, {"skylake.machine", 3, 0.9, 0.9, 0.03},
        {"gracemont.machine", 4, 0.9, 0.75, 0.03},   {NULL, 1, 0.9, 0.9, INFINITY},       {NULL, 5, 0.9, 0.9, 0.03},
        {NULL, 6, 0.9, 0.9, 0.03},
    };
    for (size_t i = 0; i < ARRAY_LEN(promises); i++)
        check(&promises[i]);
}

/* A counter in steps of 26 ticks, as hosts give it whose counter is scaled. */
static void a_counter_in_steps_hides_nothing(void **state)
{
    (void)state;
    static const double steps[] = {1, 26};
    struct machine *given = shipped("zen4.machine");
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct sim_trouble trouble = {.step = steps[i]};
        struct machine *found = found_on(given, &trouble);
        struct zoo_match m;
        zoo_compare(given, found, &m);
        zoo_compare_forms(given, found, &m, false);
        print_message("# steps of %g: latencies %.1f %%, intervals %.1f %%\n", steps[i], 100 * m.latency, 100 * m.interval);
        check_sizes(given->name, &m);
        assert_true(m.latency >= 0.9 && m.interval >= 0.9);
        machine_free(found);
    }
    machine_free(given);
}

static void units_of_two_files_are_told_apart(void **state)
{
    (void)state;
    static const char *const names[] = {"zen2.machine", "zen5.machine"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct machine *given = shipped(names[i]), *found = found_on(given, NULL);
        assert_true(are_apart(given) && are_apart(found));
        assert_true(found->fuse_nop == given->fuse_nop);
        machine_free(found);
        machine_free(given);
    }
}

/* ---- tapes ---- */

static char *text_of(const struct machine *m, struct strbuf *s)
{
    machine_format(m, s);
    return s->data;
}

/* On a tape whatever was timed: what plays it makes the same description of it. */
static void a_tape_gives_the_same_description(void **state)
{
    (void)state;
    struct strbuf recorded = {0}, played = {0}, tape = {0};
    struct machine *given = shipped("zen4.machine");
    struct machine_bench bench = {.core = sim_bench_new(given, NULL), .record = machine_tape_new()};
    struct machine *first = calibrated(&bench);
    machine_tape_format(bench.record, &tape);
    struct machine_bench again = {0};
    assert_int_equal(machine_tape_parse("the tape", tape.data, tape.len, &again.play), 0);
    struct machine *second = calibrated(&again);
    struct machine_tape_gaps g;
    machine_tape_gaps(again.play, &g);
    assert_string_equal(text_of(first, &recorded), text_of(second, &played));
    assert_int_equal(g.missing + g.changed, 0);
    assert_true(g.used > 500);
    machine_tape_free(bench.record);
    machine_tape_free(again.play);
    sim_bench_free(bench.core);
    machine_free(first);
    machine_free(second);
    machine_free(given);
    str_free(&recorded);
    str_free(&played);
    str_free(&tape);
}

/* What real processors told: no result is absurd, and what is known of each comes out. */
static void kept_tapes_pass_their_self_test(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        double width, median;
        bool fuses_nops;
    } tapes[] = {{"zen4.tape", 6, 0.2, true}};
    for (size_t i = 0; i < ARRAY_LEN(tapes); i++) {
        char path[512];
        snprintf(path, sizeof path, TAPES_DIR "/%s", tapes[i].file);
        struct machine_bench bench = {0};
        assert_int_equal(machine_tape_read(path, &bench.play), 0);
        struct machine *m = calibrated(&bench);
        assert_true(m->max_issue == tapes[i].width && (m->fuse_nop > 0) == tapes[i].fuses_nops);
        struct sim_selftest_options o = {.bench = &bench, .streams = streams};
        assert_int_equal(sim_selftest(m, &o, NULL, NULL), 0);
        const struct machine_error *e = machine_error_of(m, "all");
        print_message("# %s: kernels are off by %.1f %% in the median\n", tapes[i].file, 100 * e->median);
        if (!(e->median < tapes[i].median))
            fail_msg("%s: kernels are off by %.1f %% in the median", tapes[i].file, 100 * e->median);
        machine_free(m);
        machine_tape_free(bench.play);
    }
}

static int open_streams(void **state)
{
    (void)state;
    streams = sim_streams_new();
    return 0;
}

static int close_streams(void **state)
{
    (void)state;
    sim_streams_free(streams);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_come_out_again_under_trouble),
        cmocka_unit_test(a_counter_in_steps_hides_nothing),
        cmocka_unit_test(units_of_two_files_are_told_apart),
        cmocka_unit_test(a_tape_gives_the_same_description),
        cmocka_unit_test(kept_tapes_pass_their_self_test),
    };
    return cmocka_run_group_tests(tests, open_streams, close_streams);
}
