/* SPDX-License-Identifier: Apache-2.0
 * What is made of sums, samples and accounts: parts that add up, unknown as NAN, corrections by what watching costs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "live/impl.h"

struct bench {
    struct live_sums *sums;
    struct live_sampled sampled;
    struct live_symbols *symbols;
    struct live_result *r;
    struct live_found f;
};

static struct bench start(enum live_scope scope)
{
    struct bench b = {.sums = xmalloc(sizeof *b.sums)};
    struct arena *a = arena_new();
    b.r = ARENA_NEW(a, struct live_result);
    b.r->arena = a;
    b.sampled.period_s = 1e-3;
    b.f = (struct live_found){.scope = scope, .wall_s = 2, .sums = b.sums, .accounts = live_accounts_none()};
    return b;
}

static void end(struct bench *b)
{
    live_sums_fini(b->sums);
    free(b->sums);
    map_fini(&b->sampled.functions);
    live_symbols_free(b->symbols);
    live_result_free(b->r);
}

static void read_symbols(struct bench *b)
{
    FILE *f = fopen("symbols.txt", "w");
    const char *why;
    assert_non_null(f);
    fputs("ffffffff81000000 t clear_page_rep\nffffffff81001000 t vfs_read\n", f);
    fclose(f);
    b->symbols = live_symbols_read("symbols.txt", b->r->arena, &why);
    remove("symbols.txt");
    assert_non_null(b->symbols);
    b->f.symbols = b->symbols;
}

static void add_task(struct bench *b, uint32_t pid, uint64_t user_ms, uint64_t call_ms, uint64_t interrupt_ms,
                     uint32_t calls)
{
    struct live_task t = {.tid = pid, .tgid = pid, .comm = "x", .calls = calls};
    t.user_ns = 1000000 * user_ms;
    t.call_ns = 1000000 * call_ms;
    t.interrupt_ns = 1000000 * interrupt_ms;
    t.faults_user = 3;
    t.faults_kernel = 1;
    VEC_PUSH(&b->sums->tasks, t);
}

static void near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9))
        fail_msg("%.9f instead of %.9f", got, wanted);
}

static void samples_part_what_events_measured(void **state)
{
    struct bench b = start(LIVE_COMMAND);
    (void)state;
    read_symbols(&b);
    b.f.has_events = b.f.has_turns = true;
    b.f.samples = &b.sampled;
    add_task(&b, 10, 800, 300, 20, 0);
    add_task(&b, 11, 200, 100, 10, 0);
    b.sums->idle_ns = 500000000;
    b.sampled.parts[LIVE_PART_USER] = 750;
    b.sampled.parts[LIVE_PART_FAULT] = 250;
    b.sampled.parts[LIVE_PART_CALL] = 400;
    b.sampled.all = 1400;
    map_put(&b.sampled.functions, 0, 100);
    map_put(&b.sampled.functions, 1, 300);
    live_result_fill(&b.f, b.r);
    near(b.r->parts[LIVE_PART_USER].s, 0.75);
    near(b.r->parts[LIVE_PART_FAULT].s, 0.25);
    near(b.r->parts[LIVE_PART_CALL].s, 0.4);
    near(b.r->parts[LIVE_PART_INTERRUPT].s, 0.03);
    near(b.r->parts[LIVE_PART_IDLE].s, 0.5);
    near(b.r->cpu_s, 1.43);
    near(b.r->kernel_s, 0.68);
    assert_true(b.r->parts[LIVE_PART_FAULT].off_s > 0.02 && b.r->parts[LIVE_PART_FAULT].off_s < 0.03);
    assert_int_equal(b.r->faults_user, 6);
    assert_int_equal(b.r->process_count, 2);
    assert_int_equal(b.r->processes[0].pid, 10);
    double regions_s = 0;
    for (size_t i = 0; i < b.r->region_count; i++)
        regions_s += b.r->regions[i].time.s;
    near(regions_s, b.r->kernel_s);
    end(&b);
}

static void watching_is_taken_off(void **state)
{
    struct bench b = start(LIVE_COMMAND);
    (void)state;
    b.f.has_events = b.f.has_turns = true;
    add_task(&b, 10, 800, 300, 0, 1000000);
    b.sums->table.calls[5] = (struct live_call_sum){1000000, 2, 300000000, 7000000};
    b.f.cost = (struct live_cost){.plain = 100, .watched = 400, .timed = 250, .is_known = true};
    live_result_fill(&b.f, b.r);
    near(b.r->calls[0].own_s, 0.15);
    near(b.r->calls[0].waited_s, 0.007);
    assert_int_equal(b.r->calls[0].errors, 2);
    near(b.r->parts[LIVE_PART_CALL].s, 0.15);
    near(b.r->parts[LIVE_PART_USER].s, 0.65);
    near(b.r->probes_s, 0.3);
    near(b.r->processes[0].cpu_s, 0.8);
    end(&b);
}

static void without_events_samples_share_out_processor_time(void **state)
{
    struct bench b = start(LIVE_COMMAND);
    (void)state;
    read_symbols(&b);
    b.f.samples = &b.sampled;
    b.f.accounts = (struct live_accounts){0.5, 1.5, NAN, 7, 8, 9, 1};
    b.sampled.all = 100;
    b.sampled.parts[LIVE_PART_USER] = 50;
    b.sampled.parts[LIVE_PART_CALL] = 25;
    b.sampled.parts[LIVE_PART_KERNEL] = 25;
    live_result_fill(&b.f, b.r);
    near(b.r->cpu_s, 2);
    near(b.r->parts[LIVE_PART_USER].s, 1);
    near(b.r->parts[LIVE_PART_CALL].s, 0.5);
    near(b.r->kernel_s, 1);
    assert_true(isnan(b.r->parts[LIVE_PART_IDLE].s));
    assert_int_equal(b.r->faults_user, UINT64_MAX);
    assert_int_equal(b.r->faults_minor, 7);
    assert_int_equal(b.r->call_count, 0);
    end(&b);
}

static void samples_of_user_mode_leave_the_rest_to_the_kernel(void **state)
{
    struct bench b = start(LIVE_COMMAND);
    (void)state;
    b.f.samples = &b.sampled;
    b.f.has_turns = true;
    add_task(&b, 10, 1000, 0, 0, 0);
    b.sampled.is_user_only = true;
    b.sampled.all = b.sampled.parts[LIVE_PART_USER] = 600;
    live_result_fill(&b.f, b.r);
    near(b.r->parts[LIVE_PART_USER].s, 0.6);
    near(b.r->kernel_s, 0.4);
    assert_true(isnan(b.r->parts[LIVE_PART_CALL].s));
    near(b.r->processes[0].cpu_s, 1);
    assert_true(isnan(b.r->processes[0].user_s));
    end(&b);
}

static void without_anything_nothing_is_known(void **state)
{
    struct bench b = start(LIVE_PROCESS);
    (void)state;
    live_result_fill(&b.f, b.r);
    for (int p = 0; p < LIVE_PARTS; p++)
        assert_true(isnan(b.r->parts[p].s));
    assert_true(isnan(b.r->kernel_s) && isnan(b.r->cpu_s) && isnan(b.r->probes_s));
    assert_int_equal(b.r->switches, UINT64_MAX);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_part_what_events_measured),
        cmocka_unit_test(watching_is_taken_off),
        cmocka_unit_test(without_events_samples_share_out_processor_time),
        cmocka_unit_test(samples_of_user_mode_leave_the_rest_to_the_kernel),
        cmocka_unit_test(without_anything_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
