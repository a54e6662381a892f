/* SPDX-License-Identifier: Apache-2.0
 * Walks visit blocks as often as they were executed; loops of known cost get that cost; the same seed, the same
 * figures. */
#include "estimate/model/walks.h"
#include "toy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define assert_near(a, b, e) assert_true(fabs((a) - (b)) <= (e))

/* ---- walks without a model, over modules made by hand ---- */

static void walk_and_compare(struct join *j, uint64_t steps, double tolerance)
{
    struct paths p;
    uint64_t *visits = xmalloc((j->block_count + 1) * sizeof *visits), total = 0, all = 0;
    calls_resolve(j);
    paths_init(&p, j, 3);
    uint32_t at = paths_draw_start(&p);
    for (uint64_t i = 0; i < steps; i++) {
        bool opaque;
        visits[at]++;
        at = paths_next(&p, at, &opaque);
        if (at == ID_NONE)
            at = paths_draw_entry(&p);
    }
    for (uint32_t b = 0; b < j->block_count; b++)
        total += visits[b], all += j->counts[b];
    for (uint32_t b = 0; b < j->block_count; b++)
        assert_near((double)visits[b] / (double)total, (double)j->counts[b] / (double)all, tolerance);
    free(visits);
}

static void solve(struct join *j, struct toy *t, struct join_module *m, struct prof_input *in)
{
    *in = (struct prof_input){.modules = &t->module, .module_count = 1};
    *m = (struct join_module){.in = &in->modules[0], .path = t->path, .cfg = t->map.cfg};
    *j = (struct join){.r = prof_result_new(), .in = in, .scratch = arena_new(), .modules = m, .module_count = 1};
    counts_solve(j);
}

static void forget(struct join *j)
{
    arena_free(j->scratch);
    prof_result_free(j->r);
}

static void test_frequencies(void **state)
{
    (void)state;
    struct toy t;
    struct join j;
    struct join_module m;
    struct prof_input in;
    toy_init(&t, "/none/a");
    toy_nest(&t, 50, 6, 9);
    toy_done(&t);
    solve(&j, &t, &m, &in);
    walk_and_compare(&j, 2000000, 0.01);
    forget(&j);
    toy_fini(&t);
}

/* Two callers of one function, one ten times as often; a walk that starts inside the callee comes back to them so. */
static void test_callers(void **state)
{
    (void)state;
    struct toy t;
    struct join j;
    struct join_module m;
    struct prof_input in;
    uint32_t call[2];
    toy_init(&t, "/none/a");
    toy_func(&t);
    uint32_t callee = toy_block(&t, 20, 0, CFG_BLOCK_ENTRY, X86_RET, 1100, 1100);
    for (int i = 0; i < 2; i++) {
        uint64_t n = i ? 100 : 1000;
        toy_func(&t);
        uint32_t pre = toy_block(&t, 1, 0, CFG_BLOCK_ENTRY, X86_PLAIN, 1, 1);
        call[i] = toy_block(&t, 2, 0, 0, X86_CALL, n, 0);
        uint32_t back = toy_block(&t, 2, 0, CFG_BLOCK_RETURN_POINT, X86_JCC, n, n);
        uint32_t leave = toy_block(&t, 1, 0, 0, X86_RET, 1, 0);
        t.cfg.blocks.data[call[i]].call_target = toy_addr(&t, callee);
        toy_edge(&t, pre, call[i], CFG_EDGE_FALL, 1);
        toy_edge(&t, call[i], back, CFG_EDGE_RETURN, 0);
        toy_edge(&t, back, call[i], CFG_EDGE_TAKEN, n - 1);
        toy_edge(&t, back, leave, CFG_EDGE_FALL, 1);
    }
    toy_done(&t);
    solve(&j, &t, &m, &in);
    walk_and_compare(&j, 300000, 0.01);
    struct paths p;
    uint32_t path[64], seen[2] = {0};
    calls_resolve(&j);
    paths_init(&p, &j, 1);
    for (int i = 0; i < 1100; i++) {
        uint32_t n = paths_before(&p, callee, 3, path, 64);
        assert_true(n > 0);
        seen[0] += path[n - 1] == call[0], seen[1] += path[n - 1] == call[1];
    }
    assert_int_equal(seen[0] + seen[1], 1100);
    assert_near((double)seen[1], 100, 40);
    forget(&j);
    toy_fini(&t);
}

/* ---- through the model, over a real program with counts made by hand ---- */

static struct image *img;

static uint64_t symbol(const struct image *of, const char *name)
{
    for (size_t i = 0; i < of->symbol_count; i++)
        if (strcmp(of->symbols[i].name, name) == 0)
            return of->symbols[i].addr;
    fail_msg("no %s in the fixture", name);
    return 0;
}

/* The generic core as if its self-test had found so much. */
static struct machine *tested_machine(double median, double p90)
{
    struct machine *m = machine_default();
    m->error_count = 0;
    machine_add_error(m, &(struct machine_error){.kernels = "all", .count = 30, .median = median, .p90 = p90});
    return m;
}

static struct prof_result *join_fixture(struct toy *t, const struct machine *m, const struct observed_sample *samples,
                                        size_t count)
{
    double user[] = {1, 1, 1};
    struct prof_input in = {.modules = &t->module,
                            .module_count = 1,
                            .machine = m,
                            .sim_budget_s = 0.1,
                            .samples = samples,
                            .sample_count = count,
                            .plain_user_s = user,
                            .plain_runs = 3,
                            .seed = 5};
    struct prof_result *r = prof_result_new();
    r->machine.tsc_hz = 1e9, r->machine.cycles_per_tsc = 1;
    assert_int_equal(prof_join(r, &in), 0);
    return r;
}

static const struct prof_object *object_in(const struct prof_result *r, const char *function, enum prof_kind kind)
{
    for (size_t i = 0; i < r->object_count; i++)
        if (strcmp(r->objects[i].function, function) == 0 && r->objects[i].kind == kind)
            return &r->objects[i];
    return NULL;
}

/* A million turns of three cycles; half a second of a core of 1 GHz was really taken. */
static void test_chain(void **state)
{
    (void)state;
    struct toy t;
    struct machine *machine = tested_machine(0.1, 0.3);
    const uint64_t n = 1000000;
    toy_read(&t, FIXTURE);
    uint32_t entry = cfg_block_start(t.map.cfg, symbol(img, "chain")), loop = entry + 1, leave = entry + 2;
    toy_set(&t, entry, 10), toy_set(&t, loop, n), toy_set(&t, leave, 10);
    toy_set_edge(&t, entry, loop, 10), toy_set_edge(&t, loop, loop, n - 10), toy_set_edge(&t, loop, leave, 10);
    struct observed_sample samples[] = {{0, toy_addr(&t, loop), 900}, {0, toy_addr(&t, leave), 100}};
    struct prof_result *r = join_fixture(&t, machine, samples, 2), *again = join_fixture(&t, machine, samples, 2);
    const struct prof_object *o = object_in(r, "chain", PROF_LOOP);
    assert_non_null(o);
    assert_int_equal(o->entries, 10);
    assert_int_equal(o->iterations, n);
    assert_near(o->ideal_s.value, 3e-3, 0.1e-3);
    assert_true(o->ideal_s.low < 3e-3 && o->ideal_s.high > 3e-3);
    assert_string_equal(o->bound_by, "chain");
    assert_string_equal(o->ideal_method, "simulated");
    assert_near(o->memory_s.value, 0.9 - o->ideal_s.value, 1e-9);
    assert_true(o->is_significant && o->id == 0);
    assert_near(r->predicted_user_s.value, 3e-3, 0.1e-3);
    assert_near(r->overhead.value, 1 / r->predicted_user_s.value - 1, 1e-6);
    /* of what another job would say: both widened, as in a loss of an object */
    double actual = log(r->actual_user_s.value / r->actual_user_s.low),
           predicted = log(1 + M_SQRT2 * (r->predicted_user_s.high / r->predicted_user_s.value - 1));
    assert_near(log((r->overhead.value + 1) / (r->overhead.low + 1)), hypot(actual, predicted), 1e-9);
    assert_true(isnan(r->coverage.unexplained_overhead.value)); /* without probes nobody knows */
    assert_true(r->objects[0].ideal_s.value == again->objects[0].ideal_s.value);
    prof_result_free(r);
    prof_result_free(again);
    toy_fini(&t);
    machine_free(machine);
}

/* The same loop on the word of a model that failed its self-test: what it takes stands, but it is not said to lose
 * time, nor is the program. */
static void test_failed_model(void **state)
{
    (void)state;
    struct toy t;
    struct machine *passes = tested_machine(0.1, 0.3), *fails = tested_machine(0.5, 1.2);
    toy_read(&t, FIXTURE);
    uint32_t entry = cfg_block_start(t.map.cfg, symbol(img, "chain")), loop = entry + 1;
    toy_set(&t, entry, 10), toy_set(&t, loop, 1000000), toy_set(&t, entry + 2, 10);
    toy_set_edge(&t, entry, loop, 10), toy_set_edge(&t, loop, loop, 999990), toy_set_edge(&t, loop, entry + 2, 10);
    struct observed_sample samples[] = {{0, toy_addr(&t, loop), 1000}};
    struct prof_result *good = join_fixture(&t, passes, samples, 1), *bad = join_fixture(&t, fails, samples, 1);
    const struct prof_object *o = object_in(good, "chain", PROF_LOOP);
    assert_true(!prof_model_failed(good) && o->is_significant && o->memory_s.low > 0.5 && good->overhead.low > 1);
    o = object_in(bad, "chain", PROF_LOOP);
    assert_true(prof_model_failed(bad) && !o->is_significant && o->memory_s.low == 0 && bad->overhead.low == 0);
    assert_near(o->memory_s.value, object_in(good, "chain", PROF_LOOP)->memory_s.value, 1e-3);
    assert_string_equal(bad->warnings[0].id, "model-failed");
    assert_true(prof_is_validated(bad, 0.5) && !prof_is_validated(bad, 0.49) && !prof_is_validated(bad, NAN) &&
                prof_is_validated(good, 0));
    prof_result_free(good);
    prof_result_free(bad);
    toy_fini(&t);
    machine_free(passes);
    machine_free(fails);
}

/* A loop of calls: the walk follows them, so the chain goes on through the callee. */
static void test_calls(void **state)
{
    (void)state;
    struct toy t;
    struct machine *machine = machine_default();
    const uint64_t n = 1000000;
    toy_read(&t, FIXTURE);
    uint32_t leaf = cfg_block_start(t.map.cfg, symbol(img, "leaf")),
             entry = cfg_block_start(t.map.cfg, symbol(img, "caller"));
    toy_set(&t, leaf, n);
    toy_set(&t, entry, 1), toy_set(&t, entry + 1, n), toy_set(&t, entry + 2, n), toy_set(&t, entry + 3, 1);
    toy_set_edge(&t, entry, entry + 1, 1), toy_set_edge(&t, entry + 2, entry + 1, n - 1),
        toy_set_edge(&t, entry + 2, entry + 3, 1);
    struct prof_result *r = join_fixture(&t, machine, NULL, 0);
    const struct prof_object *loop = object_in(r, "caller", PROF_LOOP), *callee = object_in(r, "leaf", PROF_PROCEDURE);
    assert_non_null(loop);
    assert_int_equal(loop->entries, 1);
    assert_int_equal(callee->entries, n);
    assert_near(loop->ideal_s.value + callee->ideal_s.value, 6e-3, 0.6e-3);
    assert_true(isnan(loop->actual_s.value) && isnan(loop->memory_s.value));
    prof_result_free(r);
    toy_fini(&t);
    machine_free(machine);
}

/* A call through a linkage stub is followed into the library that defines the name, and known there as a caller. */
static void test_across_modules(void **state)
{
    (void)state;
    struct toy t[2];
    struct machine *machine = machine_default();
    toy_read(&t[0], FIXTURE);
    toy_read(&t[1], FIXTURE_LIB);
    uint32_t call = cfg_block_start(t[0].map.cfg, symbol(t[0].img, "far_call"));
    uint32_t leaf = cfg_block_start(t[1].map.cfg, symbol(t[1].img, "far_leaf"));
    while (t[0].map.cfg->blocks.data[call].term != X86_CALL)
        call++;
    toy_set(&t[0], call, 1000), toy_set(&t[0], call + 1, 1000);
    toy_set(&t[1], leaf, 1000);
    struct prof_input_module modules[] = {t[0].module, {.path = "/none/other"}, t[1].module};
    struct prof_input in = {.modules = modules, .module_count = 3};
    struct join_module m[] = {{.in = &modules[0], .cfg = t[0].map.cfg, .img = t[0].img},
                              {.in = &modules[1]},
                              {.in = &modules[2], .cfg = t[1].map.cfg, .img = t[1].img}};
    struct join j = {.r = prof_result_new(), .in = &in, .scratch = arena_new(), .modules = m, .module_count = 3};
    counts_solve(&j);
    calls_resolve(&j);
    assert_int_equal(j.calls->to[call], m[2].block_base + leaf);
    assert_int_equal(j.calls->sites[j.calls->from_first[m[2].block_base + leaf]].block, call);
    assert_ptr_equal(walk_module(&j, m[2].block_base + leaf), &m[2]);
    forget(&j);
    in.machine = machine, in.sim_budget_s = 0.02;
    struct prof_result *r = prof_result_new();
    r->machine.tsc_hz = 1e9, r->machine.cycles_per_tsc = 1;
    assert_int_equal(prof_join(r, &in), 0);
    const struct prof_object *o = object_in(r, "far_leaf", PROF_PROCEDURE);
    assert_int_equal(o->entries, 1000);
    assert_true(o->ideal_s.value > 0 && o->ideal_s.value < 1000 * 20e-9);
    prof_result_free(r);
    toy_fini(&t[0]);
    toy_fini(&t[1]);
    machine_free(machine);
}

/* The file has gone: counts stand, ideal times are unknown, and no time is spent on them. A machine without clock or
 * self-test says so. */
static void test_unknown(void **state)
{
    (void)state;
    struct toy t;
    struct machine *machine = machine_default();
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    toy_done(&t);
    struct prof_result *r = join_fixture(&t, machine, NULL, 0);
    assert_int_equal(r->object_count, 3);
    assert_true(isnan(r->objects[0].ideal_s.value) && isnan(r->predicted_user_s.value) && !r->objects[0].bound_by);
    prof_result_free(r);
    machine->error_count = 0;
    machine->tsc_ghz = 0;
    struct prof_input in = {.modules = &t.module, .module_count = 1, .machine = machine};
    r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    assert_int_equal(r->warning_count, 2);
    assert_string_equal(r->warnings[0].id, "clock-unknown");
    assert_string_equal(r->warnings[1].id, "model-not-calibrated");
    assert_true(isnan(r->objects[0].ideal_s.value));
    prof_result_free(r);
    toy_fini(&t);
    machine_free(machine);
}

struct asked {
    int times;
    bool multiplication, known;
};

static void on_time_forms(void *ctx, const char *const *forms, size_t count)
{
    struct asked *a = ctx;
    a->times++;
    for (size_t i = 0; i < count; i++) {
        a->multiplication |= !strcmp(forms[i], "imul r64,r64");
        a->known |= !strcmp(forms[i], "mov r64,r64");
    }
}

/* The forms that are executed and that the machine lacks are asked for, once. */
static void test_learns(void **state)
{
    (void)state;
    struct toy t;
    struct machine *machine = machine_default();
    struct machine_form mov = {.form = "mov r64,r64"}, imul = {.form = "imul r64,r64"};
    struct prof_input in = {.module_count = 1, .machine = machine, .sim_budget_s = 0.02, .time_forms = on_time_forms};
    machine_add_form(machine, &mov);
    toy_read(&t, FIXTURE);
    uint32_t entry = cfg_block_start(t.map.cfg, symbol(img, "chain"));
    toy_set(&t, entry, 10), toy_set(&t, entry + 1, 100), toy_set(&t, entry + 2, 10);
    toy_set_edge(&t, entry, entry + 1, 10), toy_set_edge(&t, entry + 1, entry + 1, 90),
        toy_set_edge(&t, entry + 1, entry + 2, 10);
    in.modules = &t.module;
    for (int known = 0; known < 2; known++) {
        struct asked asked = {0};
        struct prof_result *r = prof_result_new();
        in.time_forms_ctx = &asked;
        assert_int_equal(prof_join(r, &in), 0);
        assert_int_equal(asked.times, 1);
        assert_true(asked.multiplication == !known && !asked.known);
        prof_result_free(r);
        machine_add_form(machine, &imul);
    }
    toy_fini(&t);
    machine_free(machine);
}

/* Half of the core's width was left: code may rightly take twice as long; a clock measured beside the runs counts. */
static void test_shared_core(void **state)
{
    (void)state;
    struct toy t;
    struct machine *machine = machine_default();
    toy_read(&t, FIXTURE);
    uint32_t entry = cfg_block_start(t.map.cfg, symbol(img, "chain")), loop = entry + 1, leave = entry + 2;
    toy_set(&t, entry, 10), toy_set(&t, loop, 1000000), toy_set(&t, leave, 10);
    toy_set_edge(&t, entry, loop, 10), toy_set_edge(&t, loop, loop, 999990), toy_set_edge(&t, loop, leave, 10);
    struct prof_interval ideal[2];
    for (int shared = 0; shared < 2; shared++) {
        struct prof_input in = {.modules = &t.module, .module_count = 1, .machine = machine, .seed = 5};
        in.core_share = shared ? 0.5 : 1, in.core_per_tsc = 2;
        struct prof_result *r = prof_result_new();
        r->machine.tsc_hz = 1e9;
        assert_int_equal(prof_join(r, &in), 0);
        ideal[shared] = object_in(r, "chain", PROF_LOOP)->ideal_s;
        bool said = false;
        for (size_t i = 0; i < r->warning_count; i++)
            said |= strcmp(r->warnings[i].id, "smt-contention") == 0;
        assert_int_equal(said, shared);
        prof_result_free(r);
    }
    assert_near(ideal[0].value, 1.5e-3, 0.05e-3);
    assert_true(ideal[1].value == ideal[0].value && ideal[1].low == ideal[0].low);
    assert_near(ideal[1].high, 2 * ideal[0].high, 1e-9);
    toy_fini(&t);
    machine_free(machine);
}

/* Two threads took as long in one loop, of which one did three quarters of the turns: so of its time less is memory's.
 */
static void test_threads_apart(void **state)
{
    (void)state;
    struct toy t;
    struct machine *machine = machine_default();
    toy_read(&t, FIXTURE);
    uint32_t entry = cfg_block_start(t.map.cfg, symbol(img, "chain")), loop = entry + 1;
    uint64_t *parts[2], **modules[2] = {&parts[0], &parts[1]};
    for (unsigned k = 0; k < 3; k++) { /* the counters of each thread, then of both */
        uint64_t n = (const uint64_t[]){250000, 750000, 1000000}[k], entries = k < 2 ? 5 : 10;
        toy_set(&t, entry, entries), toy_set(&t, loop, n), toy_set(&t, entry + 2, entries);
        toy_set_edge(&t, entry, loop, entries), toy_set_edge(&t, loop, loop, n - entries),
            toy_set_edge(&t, loop, entry + 2, entries);
        if (k < 2) {
            parts[k] = xmalloc(t.counters.len * sizeof *parts[k]);
            memcpy(parts[k], t.counters.data, t.counters.len * sizeof *parts[k]);
        }
    }
    const double user[] = {0.012};
    struct observed_sample samples[] = {{0, toy_addr(&t, loop), 2000}};
    struct observed_thread threads[] = {{10, false, 0, 1, 1, 0}, {11, true, 0, 1, 1, 0}};
    struct observed_frame frames[] = {{ID_NONE, 0, toy_addr(&t, loop)}};
    struct observed_thread_sample activity[] = {{0, OBSERVED_RUNS, -1, 0, 1000}, {1, OBSERVED_RUNS, -1, 0, 1000}};
    struct prof_input in = {.modules = &t.module,
                            .module_count = 1,
                            .thread_counters = (uint64_t *const *const *)modules,
                            .thread_counters_len = 2,
                            .machine = machine,
                            .sim_budget_s = 0.1,
                            .samples = samples,
                            .sample_count = 1,
                            .sample_period_s = 0.001,
                            .plain_user_s = user,
                            .plain_runs = 1,
                            .threads = threads,
                            .thread_count = 2,
                            .frames = frames,
                            .frame_count = 1,
                            .activity = activity,
                            .activity_count = 2,
                            .seed = 5};
    struct prof_result *r = prof_result_new();
    r->machine.tsc_hz = 1e9, r->machine.cycles_per_tsc = 1;
    assert_int_equal(prof_join(r, &in), 0);
    assert_int_equal(r->thread_object_count, 2);
    const struct prof_thread_object *a = &r->thread_objects[0], *b = &r->thread_objects[1];
    assert_int_equal(b->instructions, 3 * a->instructions);
    assert_near(a->compute_s, 0.125,
                0.02); /* a quarter of 1 s is compute, and it did half of what it would have to do then */
    assert_near(b->compute_s, 3 * a->compute_s, 1e-6);
    assert_near(a->compute_s + a->memory_s, 1, 1e-9);
    assert_near(r->thread[1].memory_s, b->memory_s, 1e-9);
    in.thread_counters_len = 1; /* not those of the sampled run: one proportion for all */
    struct prof_result *unlike = prof_result_new();
    unlike->machine.tsc_hz = 1e9, unlike->machine.cycles_per_tsc = 1;
    assert_int_equal(prof_join(unlike, &in), 0);
    assert_true(unlike->thread_objects[0].instructions == PROF_UNKNOWN);
    assert_near(unlike->thread_objects[0].compute_s, unlike->thread_objects[1].compute_s, 1e-9);
    prof_result_free(r);
    prof_result_free(unlike);
    free(parts[0]);
    free(parts[1]);
    toy_fini(&t);
    machine_free(machine);
}

static int open_fixture(void **state)
{
    (void)state;
    return image_open(FIXTURE, &img);
}

static int close_fixture(void **state)
{
    (void)state;
    image_close(img);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_frequencies), cmocka_unit_test(test_callers),
                                       cmocka_unit_test(test_chain),       cmocka_unit_test(test_failed_model),
                                       cmocka_unit_test(test_calls),       cmocka_unit_test(test_across_modules),
                                       cmocka_unit_test(test_unknown),     cmocka_unit_test(test_learns),
                                       cmocka_unit_test(test_shared_core), cmocka_unit_test(test_threads_apart)};
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
