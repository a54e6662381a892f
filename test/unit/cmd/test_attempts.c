/* SPDX-License-Identifier: Apache-2.0
 * What becomes of calibrations whose self-test fails: one more, then the shipped description with what was measured,
 * the best of all. */
#include "cmd/machine/attempts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the three above it */

static const char shipped_text[] =
    "mtool-machine 1\nname \"family\"\ndate \"\"\nsource \"documents\"\npipeline out-of-order\n"
    "maximum-multiple-issue 6\nunit alu multiplicity 4\nclass other result-latency 1 on alu\nend\n";

struct laboratory {
    double calibrated[3], overlaid; /* medians that the self-test finds; NAN: it cannot be measured, or tested */
    bool has_shipped;
    unsigned measured, tested, shipped;
    unsigned kept; /* the calibration that was kept last */
};

static int measure(void *ctx, struct machine **out)
{
    struct laboratory *l = ctx;
    double median = l->calibrated[l->measured++];
    if (isnan(median))
        return -1;
    *out = machine_new();
    (*out)->source = "calibrated";
    (*out)->core_per_tsc = 1.5;
    (*out)->max_issue = median; /* which of them it is */
    return 0;
}

static int test(void *ctx, struct machine *m)
{
    struct laboratory *l = ctx;
    double median = strcmp(m->source, "calibrated") == 0 ? m->max_issue : l->overlaid;
    l->tested++;
    machine_add_error(m, &(struct machine_error){.kernels = "all", .count = 30, .median = median, .p90 = 2 * median});
    return isnan(median) ? -1 : 0;
}

static struct machine *shipped(void *ctx)
{
    struct laboratory *l = ctx;
    struct machine *m = NULL;
    l->shipped++;
    if (l->has_shipped)
        assert_int_equal(machine_parse("shipped", shipped_text, sizeof shipped_text - 1, &m), 0);
    return m;
}

static void keep(void *ctx)
{
    struct laboratory *l = ctx;
    l->kept = l->measured;
}

/* The median of what was taken; NAN: nothing. */
static double taken(struct laboratory *l)
{
    const struct attempts a = {.measure = measure, .test = test, .shipped = shipped, .keep = keep, .ctx = l, .max = 2};
    struct machine *m = NULL;
    if (attempts_make(&a, &m) < 0)
        return NAN;
    double median = machine_error_of(m, "all")->median;
    assert_true(m->core_per_tsc == 1.5); /* the clock of this machine, whatever was taken */
    machine_free(m);
    return median;
}

static void the_first_that_passes_is_taken(void **state)
{
    (void)state;
    struct laboratory first = {.calibrated = {0.04, 0.01}, .has_shipped = true, .overlaid = 0.01};
    assert_true(taken(&first) == 0.04);
    assert_true(first.measured == 1 && first.tested == 1 && !first.shipped);
    struct laboratory second = {.calibrated = {4.37, 0.12}, .has_shipped = true, .overlaid = 0.01};
    assert_true(taken(&second) == 0.12);
    assert_true(second.measured == 2 && !second.shipped);
    assert_true(first.kept == 1 && second.kept == 2);
}

static void the_shipped_one_stands_in(void **state)
{
    (void)state;
    struct laboratory passes = {.calibrated = {4.37, 5.68}, .has_shipped = true, .overlaid = 0.1};
    assert_true(taken(&passes) == 0.1);
    assert_true(passes.measured == 2 && passes.tested == 3 && passes.shipped == 1);
    struct laboratory interrupted = {.calibrated = {4.37, NAN}, .has_shipped = true, .overlaid = 0.1};
    assert_true(taken(&interrupted) == 0.1);
}

static void the_best_of_those_that_fail_is_kept(void **state)
{
    (void)state;
    struct laboratory worse = {.calibrated = {4.37, 0.3}, .has_shipped = true, .overlaid = 0.5};
    assert_true(taken(&worse) == 0.3 && worse.kept == 2);
    struct laboratory better = {.calibrated = {0.3, 0.4}, .has_shipped = true, .overlaid = 0.25};
    assert_true(taken(&better) == 0.25 && better.kept == 1); /* what the shipped one was put over */
    struct laboratory untested = {.calibrated = {0.3, 0.4}, .has_shipped = true, .overlaid = NAN};
    assert_true(taken(&untested) == 0.3);
    struct laboratory unknown = {.calibrated = {0.4, 0.3}};
    assert_true(taken(&unknown) == 0.3 && unknown.shipped == 1);
}

static void nothing_measured_is_nothing(void **state)
{
    (void)state;
    struct laboratory l = {.calibrated = {NAN}, .has_shipped = true};
    assert_true(isnan(taken(&l)));
    assert_int_equal(l.measured, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_passes_is_taken),
        cmocka_unit_test(the_shipped_one_stands_in),
        cmocka_unit_test(the_best_of_those_that_fail_is_kept),
        cmocka_unit_test(nothing_measured_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
