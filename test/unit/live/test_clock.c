/* SPDX-License-Identifier: Apache-2.0
 * The clock of a thread, moved by hand: each nanosecond on a processor is in exactly one sum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "live/clock.h"

static struct live_table table;

static int fresh(void **state)
{
    (void)state;
    memset(&table, 0, sizeof table);
    return 0;
}

static uint64_t all_of(const struct live_task *t)
{
    return t->user_ns + t->call_ns + t->kernel_ns + t->idle_ns + t->interrupt_ns + t->pending_ns;
}

static void a_call_is_timed_without_who_preempted_it(void **state)
{
    struct live_task t = {.tid = 1};
    (void)state;
    clock_run(&t, 100);
    clock_enter(&t, 7, 150, &table);
    clock_stop(&t, 160, 1, &table);
    clock_run(&t, 1000);
    clock_stop(&t, 1005, 0, &table);
    clock_run(&t, 3005);
    clock_leave(&t, 1, 3020, &table);
    clock_stop(&t, 3030, 0, &table);
    assert_int_equal(table.calls[7].count, 1);
    assert_int_equal(table.calls[7].errors, 1);
    assert_int_equal(table.calls[7].own_ns, 10 + 5 + 15);
    assert_int_equal(table.calls[7].waited_ns, 840 + 2000);
    assert_int_equal(t.ready_ns, 840);
    assert_int_equal(t.waited_ns, 2000);
    assert_int_equal(t.user_ns, 50 + 10);
    assert_int_equal(t.switches, 3);
    assert_int_equal(t.preemptions, 1);
    assert_int_equal(all_of(&t), 60 + 5 + 25);
}

/* A region that is left for an interrupt, within which comes another, and re-entered behind them. */
static void interrupts_are_in_no_call(void **state)
{
    struct live_task t = {.tid = 1};
    (void)state;
    clock_run(&t, 0 + 10);
    clock_enter(&t, 3, 20, &table);
    clock_interrupt(&t, 5, 30, &table);
    clock_interrupt(&t, LIVE_SOFT + 9, 40, &table);
    clock_resume(&t, 47, &table);
    clock_resume(&t, 50, &table);
    clock_leave(&t, 0, 65, &table);
    clock_interrupt(&t, 5, 70, &table);
    clock_resume(&t, 71, &table);
    clock_charge(&t, 80, &table);
    assert_int_equal(table.calls[3].own_ns, 10 + 15);
    assert_int_equal(table.vectors[5].count, 2);
    assert_int_equal(table.vectors[5].ns, 10 + 3 + 1);
    assert_int_equal(table.vectors[LIVE_SOFT + 9].ns, 7);
    assert_int_equal(t.interrupt_ns, 21);
    assert_int_equal(all_of(&t), 70);
}

static void a_nest_too_deep_is_forgotten_at_the_next_switch(void **state)
{
    struct live_task t = {.tid = 1};
    (void)state;
    clock_run(&t, 10);
    clock_enter(&t, 1, 10, &table);
    for (int i = 0; i < 3 * LIVE_NEST; i++)
        clock_interrupt(&t, 2, 11, &table);
    clock_stop(&t, 12, 0, &table);
    clock_run(&t, 20);
    clock_leave(&t, 0, 25, &table);
    assert_int_equal(table.calls[1].own_ns, 1 + 5);
    clock_resume(&t, 26, &table); /* one whose begin was lost */
    clock_charge(&t, 30, &table);
    assert_int_equal(t.user_ns, 5);
}

/* A thread that was there before: the first event says what it did until then. */
static void what_came_before_the_first_event(void **state)
{
    struct live_task enters = {.tid = 1}, leaves = {.tid = 2};
    (void)state;
    clock_run(&enters, 10);
    clock_enter(&enters, 1, 30, &table);
    assert_int_equal(enters.user_ns, 20);
    clock_run(&leaves, 10);
    clock_leave(&leaves, 0, 30, &table);
    assert_int_equal(leaves.call_ns, 20);
    assert_int_equal(leaves.calls, 0);
    assert_int_equal(leaves.context, LIVE_USER);
}

static void who_was_not_told_to_leave_is_not_charged(void **state)
{
    struct live_task t = {.tid = 1};
    (void)state;
    clock_run(&t, 10);
    clock_charge(&t, 20, &table);
    clock_lose(&t);
    clock_run(&t, 500);
    clock_charge(&t, 510, &table);
    assert_int_equal(all_of(&t), 20);
}

static void numbers_beyond_the_table_share_its_last_place(void **state)
{
    struct live_task t = {.tid = 1};
    (void)state;
    clock_run(&t, 10);
    clock_enter(&t, 100000, 20, &table);
    clock_leave(&t, 0, 30, &table);
    assert_int_equal(table.calls[LIVE_CALLS - 1].count, 1);
}

/* Any order of events, as a ring with losses may give it: no sum runs away. */
static void any_order_keeps_the_whole(void **state)
{
    struct rng g = {42};
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct live_task t = {.tid = 1};
        uint64_t now = 1000;
        for (int i = 0; i < 500; i++) {
            now += rng_below(&g, 100);
            switch (rng_below(&g, 7)) {
            case 0:
                clock_run(&t, now);
                break;
            case 1:
                clock_stop(&t, now, rng_below(&g, 2) == 1, &table);
                break;
            case 2:
                clock_enter(&t, (__u32)rng_below(&g, 600), now, &table);
                break;
            case 3:
                clock_leave(&t, 0, now, &table);
                break;
            case 4:
                clock_interrupt(&t, (__u32)rng_below(&g, LIVE_VECTORS), now, &table);
                break;
            case 5:
                clock_resume(&t, now, &table);
                break;
            default:
                clock_lose(&t);
                break;
            }
            assert_true(t.depth <= LIVE_NEST);
        }
        assert_true(all_of(&t) + t.ready_ns + t.waited_ns <= now - 1000);
    }
}

/* An interrupt that was told before the call in whose telling it came, and a processor whose clock is behind. */
static void events_out_of_order_charge_nothing_twice(void **state)
{
    struct live_task t = {.tid = 1};
    (void)state;
    clock_run(&t, 100);
    clock_interrupt(&t, 5, 210, &table);
    clock_resume(&t, 230, &table);
    clock_enter(&t, 7, 200, &table);
    clock_leave(&t, 0, 240, &table);
    assert_int_equal(t.interrupt_ns, 20);
    assert_int_equal(table.calls[7].own_ns, 10);
    assert_int_equal(all_of(&t), 140);
    clock_stop(&t, 250, 1, &table);
    clock_run(&t, 245);
    clock_stop(&t, 260, 1, &table);
    assert_int_equal(t.ready_ns, 0);
    assert_int_equal(all_of(&t), 160);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_call_is_timed_without_who_preempted_it, fresh),
        cmocka_unit_test_setup(interrupts_are_in_no_call, fresh),
        cmocka_unit_test_setup(a_nest_too_deep_is_forgotten_at_the_next_switch, fresh),
        cmocka_unit_test_setup(what_came_before_the_first_event, fresh),
        cmocka_unit_test_setup(who_was_not_told_to_leave_is_not_charged, fresh),
        cmocka_unit_test_setup(numbers_beyond_the_table_share_its_last_place, fresh),
        cmocka_unit_test_setup(any_order_keeps_the_whole, fresh),
        cmocka_unit_test_setup(events_out_of_order_charge_nothing_twice, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
