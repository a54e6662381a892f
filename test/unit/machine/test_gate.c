/* SPDX-License-Identifier: Apache-2.0
 * What is done about descriptions and clocks that cannot be relied on: the gate of the self-test, the overlay of what
 * was measured over a shipped description, readings of clocks. */
#include "machine/machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the three above it */

static struct machine *with_error(unsigned kernels, double median, double p90)
{
    struct machine *m = machine_new();
    machine_add_error(m, &(struct machine_error){.kernels = "all", .count = kernels, .median = median, .p90 = p90});
    return m;
}

static struct machine *parsed(const char *text)
{
    struct machine *m = NULL;
    assert_int_equal(machine_parse("text", text, strlen(text), &m), 0);
    return m;
}

static const char documents[] =
    "mtool-machine 1\nname \"a family\"\ndate \"\"\nsource \"documents\"\npipeline out-of-order\n"
    "maximum-multiple-issue 6\nreorder 320\nerror all kernels 0 median 0.15 p90 0.4 bias 0\n"
    "cache L1 data size 32K line 64 ways 8 latency 4\nunit alu multiplicity 4\nunit fp multiplicity 2\n"
    "class other result-latency 2 on alu\nclass int result-latency 1 on alu\nclass imul result-latency 4 on alu\n"
    "class div64 result-latency 12 to 40 on alu:8\nclass fadd result-latency 3 on fp\nclass gone result-latency 0 on "
    "none\n"
    "form \"mov r64,r64\" gone\nend\n";
static const char calibrated[] =
    "mtool-machine 1\nname \"A CPU\"\ndate \"2026-03-04\"\nsource \"calibrated\"\npipeline out-of-order\n"
    "tsc-ghz 2.6\ncore-per-tsc 1.4\nmaximum-multiple-issue 11\nreorder 90\nnop-cycles 0.1\nexperiments 7\n"
    "error all kernels 30 median 4.37 p90 9 bias 4\n"
    "cache L1 data size 48K line 64 ways 12 latency 4\ncache L2 both size 1M line 64 ways 8 latency 14\n"
    "unit p multiplicity 1\nclass other result-latency 2 on p\nclass x result-latency 1 slots 9 on p+p+p\n"
    "form \"add r64,r64\" x measured 1.01 3.1\nform \"mov r64,r64\" x measured 0.15 0.15\n"
    "form \"imul r64,r64\" x measured 2.97 1\nform \"div r64\" x measured 12.1 9\n"
    "form \"addpd x,x\" x measured 61 2\nform \"addps x,x\" x measured 4.52 2\nend\n";

static const struct machine_class *class_of(const struct machine *m, const char *form)
{
    const struct machine_form *f = machine_form_named(m, form);
    return f ? &m->classes[f->class_id] : NULL;
}

/* Clocks, caches and latencies are those measured; units, width and windows the documents'; what no core does is not
 * believed. */
static void an_overlay_takes_what_can_be_relied_on(void **state)
{
    (void)state;
    struct machine *shipped = parsed(documents), *measured = parsed(calibrated),
                   *m = machine_overlay(shipped, measured);
    assert_string_equal(m->name, "A CPU");
    assert_string_not_equal(m->source, "calibrated");
    assert_true(m->tsc_ghz == 2.6 && m->core_per_tsc == 1.4 && m->nop_cycles == 0.1 && m->experiments == 7);
    assert_true(m->max_issue == 6 && m->rob == 320 && machine_port_count(m) == 6);
    assert_true(m->cache_count == 2 && m->caches[0].size_bytes == 48 * 1024);
    const struct machine_class *imul = class_of(m, "imul r64,r64"), *adds = class_of(m, "addps x,x");
    assert_true(imul->latency == 3 && imul->slots == 1 && imul->uses[0].ports == machine_ports_named(m, "alu"));
    assert_true(adds->latency == 4.5 && adds->uses[0].ports == machine_ports_named(m, "fp"));
    assert_true(machine_class_named(m, "imul")->latency == 4); /* of forms that nobody timed */
    assert_string_equal(class_of(m, "mov r64,r64")->name, "gone");
    assert_true(!class_of(m, "addpd x,x") || class_of(m, "addpd x,x")->latency < 5);
    assert_true(!class_of(m, "div r64") || class_of(m, "div r64")->latency_high == 40);
    machine_free(shipped);
    machine_free(measured);
    machine_free(m);
}

enum { READINGS = MACHINE_CLOCK_READINGS + 3 };

/* A counter of 2.6 GHz in steps of 26, read each millisecond at first, then after a second, ten and ten more. */
static void read_even(struct machine_reading r[READINGS])
{
    static const double later[] = {1, 11, 21};
    for (size_t i = 0; i < READINGS; i++) {
        double s = i < MACHINE_CLOCK_READINGS ? 1e-3 * (double)i : later[i - MACHINE_CLOCK_READINGS];
        r[i] = (struct machine_reading){(uint64_t)(s * 1e8) * 26 + 1000000, 50 + s + 2e-7 * (double)(i % 3), 3e-7};
    }
}

static void a_counter_that_is_not_even_is_noticed(void **state)
{
    (void)state;
    const int64_t second = 2600000000;
    const struct {
        int64_t add; /* to the last two readings */
        enum machine_clock_fault fault;
        double off_s;
    } cases[] = {{0, MACHINE_CLOCK_GOOD, 0},
                 {second / 100, MACHINE_CLOCK_GOOD, 0}, /* slewed by a thousandth */
                 {second, MACHINE_CLOCK_JUMPS, 1},
                 {-second, MACHINE_CLOCK_STOPS, 1},
                 {-20 * second, MACHINE_CLOCK_BACKWARDS, 20},
                 {1000 * second, MACHINE_CLOCK_JUMPS, 1000}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct machine_reading r[READINGS];
        read_even(r);
        r[READINGS - 2].ticks += cases[i].add, r[READINGS - 1].ticks += cases[i].add;
        struct machine_clock c = machine_clock_judge(r, READINGS);
        assert_int_equal(c.fault, cases[i].fault);
        assert_true(fabs(c.hz / 2.6e9 - 1) < 0.001 && fabs(c.off_s - cases[i].off_s) < 0.01);
    }
    struct machine_reading stopped[3] = {{7, 1, 0}, {7, 2, 0}, {7, 3, 0}};
    assert_int_equal(machine_clock_judge(stopped, 3).fault, MACHINE_CLOCK_STOPS);
    assert_true(isnan(machine_clock_judge(stopped, 1).hz) &&
                machine_clock_judge(stopped, 0).fault == MACHINE_CLOCK_GOOD);
    /* Another had the processor for half a second between the two clocks: nothing can be told. */
    struct machine_reading r[READINGS];
    read_even(r);
    r[READINGS - 1].seconds += 0.25, r[READINGS - 1].error_s = 0.5;
    assert_int_equal(machine_clock_judge(r, READINGS).fault, MACHINE_CLOCK_GOOD);
}

static void processors_of_two_kinds_are_noticed(void **state)
{
    (void)state;
    size_t slowest, fastest;
    const struct machine_cpu_clock alike[] = {{0, 2.6e9, 3.9e9}, {1, 2.6e9, 4.0e9}, {5, 2.6001e9, 3.95e9}};
    assert_false(machine_cpus_differ(alike, 3, &slowest, &fastest));
    assert_false(machine_cpus_differ(alike, 1, &slowest, &fastest) ||
                 machine_cpus_differ(alike, 0, &slowest, &fastest));
    const struct machine_cpu_clock cores[] = {{0, 2.6e9, 3.9e9}, {1, 2.6e9, 2.7e9}, {2, 2.6e9, 4.1e9}};
    assert_true(machine_cpus_differ(cores, 3, &slowest, &fastest) && slowest == 1 && fastest == 2);
    const struct machine_cpu_clock counters[] = {{0, 2.6e9, 3.9e9}, {1, 2.4e9, 3.9e9}};
    assert_true(machine_cpus_differ(counters, 2, &slowest, &fastest));
}

/* At a limit is not over it; either of the two decides. */
static void the_self_test_is_a_gate(void **state)
{
    (void)state;
    static const struct {
        double median, p90;
        bool passes;
    } cases[] = {{0.05, 0.2, true},    {0.15, 0.4, true}, {0.151, 0.2, false},
                 {0.05, 0.401, false}, {4.37, 9, false},  {NAN, NAN, true}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct machine *m = with_error(30, cases[i].median, cases[i].p90);
        assert_int_equal(machine_passes(m), cases[i].passes);
        machine_free(m);
    }
    struct machine *untested = machine_new(), *good = with_error(30, 0.05, 0.2), *bad = with_error(30, 0.05, 0.5);
    assert_true(machine_passes(untested));
    assert_true(machine_is_outdated(bad) && !machine_is_outdated(good));
    bad->experiments = MACHINE_EXPERIMENTS;
    assert_false(machine_is_outdated(bad));
    assert_true(machine_is_better(good, bad) && !machine_is_better(bad, good));
    assert_true(machine_is_better(bad, untested) && !machine_is_better(untested, bad));
    machine_free(untested);
    machine_free(good);
    machine_free(bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_self_test_is_a_gate),
        cmocka_unit_test(an_overlay_takes_what_can_be_relied_on),
        cmocka_unit_test(a_counter_that_is_not_even_is_noticed),
        cmocka_unit_test(processors_of_two_kinds_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
