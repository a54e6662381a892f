/* SPDX-License-Identifier: Apache-2.0
 * How much of the modelled branch part replays and the measured time leave. */
#include "estimate/branches.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h> /* needs the three above it */

enum { SAMPLES = 10000, HZ = 1000 }; /* of a program of 10 seconds: 10000 cycles */

struct bench {
    struct join j;
    struct branches_owner owners[2];
};

static void set_up(struct bench *b, double cycles, double branch, uint64_t samples)
{
    memset(b, 0, sizeof *b);
    b->j.r = prof_result_new();
    b->j.r->actual_user_s = (struct prof_interval){10, 10, 10};
    b->j.samples_all = SAMPLES;
    b->j.core_hz = HZ;
    b->owners[0] = (struct branches_owner){branch, cycles, samples, {.untrained_max = NAN}, 0, 0};
    b->owners[1] = (struct branches_owner){100, 100, SAMPLES / 10, {.untrained_max = NAN}, 0, 0};
}

static double measured(struct bench *b)
{
    branches_judge(&b->j, b->owners, 2);
    double branch = b->owners[0].part * b->owners[0].branch;
    prof_result_free(b->j.r);
    return branch;
}

static void what_has_room_stays(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 1000, 500, 3000);
    assert_true(fabs(measured(&b) - 500) < 1e-6);
    set_up(&b, 2500, 520, 3000); /* more than was measured, but within its error */
    assert_true(fabs(measured(&b) - 520) < 1e-6);
    assert_true(b.owners[1].part == 1);
}

static void no_more_than_measured_time_has_room_for(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 2000, 1200, 3000); /* room for 1000 */
    assert_true(fabs(measured(&b) - 1000) < 1);
    set_up(&b, 2000, 50000, 3000);
    assert_true(fabs(measured(&b) - 1000) < 1);
    set_up(&b, 4000, 1000, 3000); /* no room */
    assert_true(measured(&b) == 0);
    assert_true(b.owners[1].part == 1);
}

static void it_is_said_where_it_matters(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 2000, 1300, 3000);
    branches_judge(&b.j, b.owners, 2);
    assert_int_equal(b.j.r->warning_count, 0);
    b.owners[0].branch = 5000;
    branches_judge(&b.j, b.owners, 2);
    assert_int_equal(b.j.r->warning_count, 1);
    assert_string_equal(b.j.r->warnings[0].id, "branches-bounded");
    prof_result_free(b.j.r);
}

static void without_times_replays_alone_tell(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 2000, 5000, 3000);
    b.j.samples_all = 0;
    assert_true(fabs(measured(&b) - 5000) < 1e-6);
    set_up(&b, 2000, 5000, 3000);
    b.j.samples_all = 0;
    b.owners[0].replay.untrained_max = 0.25;
    b.owners[0].replay.windows = 20;
    assert_true(fabs(measured(&b) - 500) < 1e-6);
    set_up(&b, 2000, 900, SAMPLES);
    b.owners[0].replay.refuted = 0.25; /* of 2000: half of all 1000 that the model has */
    assert_true(fabs(measured(&b) - 450) < 1e-6);
    assert_true(fabs(b.owners[1].part - 0.5) < 1e-6); /* of all alike */
}

/* Two owners of 1000 cycles and 500 of mispredictions: replays leave nothing of one, all of the other. */
static void few_windows_say_what_all_say(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, 1000, 500, 3000);
    b.j.samples_all = 0;
    b.owners[1] = b.owners[0];
    b.owners[0].replay = (struct join_replay){.untrained_max = 0, .windows = 1};
    b.owners[1].replay = (struct join_replay){.untrained_max = 1, .windows = 1e9};
    branches_judge(&b.j, b.owners, 2);
    assert_true(fabs(b.owners[0].part - 0.4) < 1e-6);  /* one window of nothing, four of a half */
    assert_true(fabs(b.owners[0].error - 300) < 1e-6); /* all that was taken off */
    assert_true(fabs(b.owners[1].part - 1) < 1e-6 && b.owners[1].error < 1e-6);
    b.owners[0].replay.windows = 1e6;
    branches_judge(&b.j, b.owners, 2);
    assert_true(b.owners[0].part < 1e-5);
    assert_true(fabs(b.owners[0].error - 0.5) < 1e-3); /* 500 by the root of a million */
    prof_result_free(b.j.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_room_stays),          cmocka_unit_test(no_more_than_measured_time_has_room_for),
        cmocka_unit_test(it_is_said_where_it_matters),  cmocka_unit_test(without_times_replays_alone_tell),
        cmocka_unit_test(few_windows_say_what_all_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
