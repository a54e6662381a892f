/* SPDX-License-Identifier: Apache-2.0
 * The selection on hand-made call graphs: who works for whom (Tot, TDES), the rules by which shared callees pass, what
 * is timable, what is covered, recursion, pointers, and pieces. */
#include "toy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A procedure of two blocks and a loop of one block between them: `calls` calls of `turns` turns, `ops` memory
 * operations a turn. `callee` (a block, or ID_NONE) is called once a call, by the first block. */
struct proc {
    uint32_t entry, loop, leave;
};

static struct proc put_proc(struct toy *t, uint64_t calls, uint64_t turns, uint16_t ops, uint32_t callee)
{
    struct proc p;
    bool has_call = callee != ID_NONE;
    toy_func(t);
    p.entry = toy_block(t, 2, 1, CFG_BLOCK_ENTRY, has_call ? X86_CALL : X86_PLAIN, calls, calls);
    p.loop = toy_block(t, ops, ops, has_call ? CFG_BLOCK_RETURN_POINT : 0, X86_JCC, calls * turns, 0);
    p.leave = toy_block(t, 1, 1, 0, X86_RET, calls, 0);
    if (has_call)
        t->cfg.blocks.data[p.entry].call_target = toy_addr(t, callee);
    toy_edge(t, p.entry, p.loop, has_call ? CFG_EDGE_RETURN : CFG_EDGE_FALL, calls);
    toy_edge(t, p.loop, p.loop, CFG_EDGE_TAKEN, calls * (turns - 1));
    toy_edge(t, p.loop, p.leave, CFG_EDGE_FALL, calls);
    toy_edge(t, p.leave, ID_NONE, CFG_EDGE_OUT, calls);
    toy_loop(t, p.loop, ID_NONE, (const uint32_t[]){p.loop, ID_NONE});
    return p;
}

/* A procedure whose loop does nothing but call: once a turn. */
static uint32_t put_caller(struct toy *t, uint64_t calls, uint64_t turns, uint32_t callee)
{
    toy_func(t);
    uint32_t entry = toy_block(t, 2, 1, CFG_BLOCK_ENTRY, X86_PLAIN, calls, calls),
             call = toy_block(t, 1, 0, 0, X86_CALL, calls * turns, 0),
             back = toy_block(t, 1, 0, CFG_BLOCK_RETURN_POINT, X86_JCC, calls * turns, 0),
             leave = toy_block(t, 1, 1, 0, X86_RET, calls, 0);
    t->cfg.blocks.data[call].call_target = toy_addr(t, callee);
    toy_edge(t, entry, call, CFG_EDGE_FALL, calls);
    toy_edge(t, call, back, CFG_EDGE_RETURN, calls * turns);
    toy_edge(t, back, call, CFG_EDGE_TAKEN, calls * (turns - 1));
    toy_edge(t, back, leave, CFG_EDGE_FALL, calls);
    toy_edge(t, leave, ID_NONE, CFG_EDGE_OUT, calls);
    toy_loop(t, call, ID_NONE, (const uint32_t[]){call, back, ID_NONE});
    return entry;
}

/* Seconds go to blocks; the program takes their sum. */
struct seconds {
    uint32_t block;
    double s;
};

static bool is_named(const char *function, const char *requested) { return strcmp(function, requested) == 0; }

static struct prof_result *select_with(struct toy *t, const struct seconds *seconds, size_t count, double probe_s,
                                       const char *function, const char *hide)
{
    struct prof_request requested = {.text = function, .function = function},
                        unprobed = {.text = hide, .function = hide};
    struct observed_sample samples[16];
    double all = 0;
    toy_done(t);
    for (size_t i = 0; i < count; i++) {
        samples[i] = (struct observed_sample){0, toy_addr(t, seconds[i].block), (uint64_t)(1000 * seconds[i].s)};
        all += seconds[i].s;
    }
    struct prof_input in = {.modules = &t->module,
                            .module_count = 1,
                            .samples = samples,
                            .sample_count = count,
                            .plain_user_s = &all,
                            .plain_runs = 1,
                            .probe_s = probe_s,
                            .requested = &requested,
                            .requested_count = function != NULL,
                            .unprobed = &unprobed,
                            .unprobed_count = hide != NULL,
                            .names = is_named};
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    return r;
}

static struct prof_result *select_in(struct toy *t, const struct seconds *seconds, size_t count, double probe_s)
{
    return select_with(t, seconds, count, probe_s, NULL, NULL);
}

static const char *name_of(const struct toy *t, uint32_t entry, char name[32])
{
    snprintf(name, 32, "0x%llx", (unsigned long long)toy_addr(t, entry));
    return name;
}

static bool is_taken(const struct prof_result *r, uint64_t procedure)
{
    for (size_t i = 0; i < r->candidate_count; i++)
        if (r->candidates[i].kind == PROF_PROCEDURE && r->candidates[i].address == procedure)
            return r->candidates[i].verdict == PROF_TAKEN;
    return false;
}

static const struct prof_candidate *candidate(const struct prof_result *r, enum prof_kind kind, uint64_t address)
{
    for (size_t i = 0; i < r->candidate_count; i++)
        if (r->candidates[i].kind == kind && r->candidates[i].address == address)
            return &r->candidates[i];
    fail_msg("no %s at 0x%llx among the candidates", prof_kind_name[kind], (unsigned long long)address);
    return NULL;
}

static bool has_warning(const struct prof_result *r, const char *id)
{
    for (size_t i = 0; i < r->warning_count; i++)
        if (strcmp(r->warnings[i].id, id) == 0)
            return true;
    return false;
}

static void test_inner_first(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    struct proc p = put_proc(&t, 10, 100000, 4, ID_NONE);
    struct prof_result *r = select_in(&t, (const struct seconds[]){{p.loop, 1}}, 1, 40e-9);
    const struct prof_candidate *loop = candidate(r, PROF_LOOP, toy_addr(&t, p.loop)),
                                *proc = candidate(r, PROF_PROCEDURE, toy_addr(&t, p.entry));
    assert_true(loop < proc); /* inner loops first */
    assert_int_equal(loop->verdict, PROF_TAKEN);
    assert_int_equal(loop->estimable, PROF_ESTIMABLE_LEAF);
    assert_int_equal(loop->entries, 10);
    assert_int_equal(loop->memory_ops, 4000000);
    assert_true(fabs(loop->time_s - 1) < 1e-9 && fabs(loop->probe_s - 400e-9) < 1e-15);
    assert_int_equal(proc->verdict, PROF_COVERED);
    assert_true(proc->tot == 1 && proc->tdes == 1);
    prof_result_free(r);
    toy_fini(&t);
}

/* A procedure with a hundredth of the memory operations is searched if it takes time, and is else passed over. */
static void test_takes_time(void **state)
{
    (void)state;
    static const double seconds[] = {0.05, 0.001};
    for (size_t i = 0; i < ARRAY_LEN(seconds); i++) {
        struct toy t;
        toy_init(&t, "/none/a");
        struct proc copy = put_proc(&t, 1, 10000, 4, ID_NONE), main = put_proc(&t, 1, 1000000, 4, copy.entry);
        struct prof_result *r =
            select_in(&t, (const struct seconds[]){{main.loop, 1}, {copy.loop, seconds[i]}}, 2, 40e-9);
        if (i == 0)
            assert_int_equal(candidate(r, PROF_LOOP, toy_addr(&t, copy.loop))->verdict, PROF_TAKEN);
        else
            assert_int_equal(candidate(r, PROF_PROCEDURE, toy_addr(&t, copy.entry))->verdict, PROF_DROPPED);
        assert_int_equal(candidate(r, PROF_LOOP, toy_addr(&t, main.loop))->verdict, PROF_TAKEN);
        prof_result_free(r);
        toy_fini(&t);
    }
}

/* A loop that is entered too often leaves the procedure to be timed, or nothing. */
static void test_timable(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    struct proc p = put_proc(&t, 1000000, 4, 4, ID_NONE), main = put_proc(&t, 1, 2, 1, p.entry);
    struct prof_result *r = select_in(&t, (const struct seconds[]){{p.loop, 1}, {main.loop, 0.0001}}, 2, 40e-9);
    const struct prof_candidate *loop = candidate(r, PROF_LOOP, toy_addr(&t, p.loop)),
                                *proc = candidate(r, PROF_PROCEDURE, toy_addr(&t, p.entry));
    assert_int_equal(loop->verdict, PROF_SAMPLED);
    assert_non_null(strstr(loop->reason, "not timable"));
    assert_int_equal(proc->verdict, PROF_SAMPLED);
    prof_result_free(r);
    toy_fini(&t);
}

/* main calls x and y; both call c: by how many calls decides whether x is estimable. */
static struct prof_result *shared(struct toy *t, uint64_t of_x, uint64_t of_y, double c_seconds, struct proc *x)
{
    toy_init(t, "/none/a");
    struct proc c = put_proc(t, of_x + of_y, 100, 2, ID_NONE);
    *x = put_proc(t, of_x, 100000, 4, c.entry);
    struct proc y = put_proc(t, of_y, 10000, 4, c.entry);
    return select_in(t, (const struct seconds[]){{x->loop, 1}, {y.loop, 0.5}, {c.loop, c_seconds}}, 3, 40e-9);
}

static void test_shared_callee(void **state)
{
    (void)state;
    static const struct {
        uint64_t x, y;
        double c_seconds;
        enum prof_estimable how;
        const char *warning;
    } cases[] = {{100, 100, 1, PROF_ESTIMABLE_NOT, NULL},
                 {990, 10, 1, PROF_ESTIMABLE_MOST, "most-calls"},
                 {100, 100, 0.015, PROF_ESTIMABLE_NEGLIGIBLE, "negligible-calls"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct toy t;
        struct proc x;
        struct prof_result *r = shared(&t, cases[i].x, cases[i].y, cases[i].c_seconds, &x);
        const struct prof_candidate *proc = candidate(r, PROF_PROCEDURE, toy_addr(&t, x.entry));
        double share = (double)cases[i].x / (double)(cases[i].x + cases[i].y);
        assert_int_equal(proc->estimable, cases[i].how);
        assert_true(fabs(proc->tot - (1 + share)) < 1e-9);
        assert_true(proc->tdes == 2);
        assert_true(fabs(proc->time_s - (1 + share * cases[i].c_seconds)) < 0.01);
        assert_int_equal(candidate(r, PROF_LOOP, toy_addr(&t, x.loop))->verdict, PROF_TAKEN); /* calls nothing */
        prof_result_free(r);
        toy_fini(&t);
    }
}

/* The rules say so where an object that is taken rests on them. */
static void test_rules_warn(void **state)
{
    (void)state;
    for (int max = 0; max < 2; max++) {
        struct toy t;
        toy_init(&t, "/none/a");
        uint64_t of_x = max ? 990 : 100, of_y = max ? 10 : 100;
        struct proc c = put_proc(&t, of_x + of_y, 2, 2, ID_NONE);
        toy_func(&t); /* x: nothing but straight code, so that only the procedure can be taken */
        uint32_t entry = toy_block(&t, 300, 300, CFG_BLOCK_ENTRY, X86_CALL, of_x, of_x);
        uint32_t leave = toy_block(&t, 1, 1, CFG_BLOCK_RETURN_POINT, X86_RET, of_x, 0);
        t.cfg.blocks.data[entry].call_target = toy_addr(&t, c.entry);
        toy_edge(&t, entry, leave, CFG_EDGE_RETURN, of_x);
        toy_edge(&t, leave, ID_NONE, CFG_EDGE_OUT, of_x);
        struct proc y = put_proc(&t, of_y, 2, 1, c.entry);
        struct prof_result *r =
            select_in(&t, (const struct seconds[]){{entry, 1}, {y.loop, 0.1}, {c.loop, max ? 0.5 : 0.011}}, 3, 40e-9);
        assert_int_equal(candidate(r, PROF_PROCEDURE, toy_addr(&t, entry))->verdict, PROF_TAKEN);
        assert_true(has_warning(r, "most-calls") == (max == 1));
        assert_true(has_warning(r, "negligible-calls") == (max == 0));
        prof_result_free(r);
        toy_fini(&t);
    }
}

/* Asked for although it takes no time to speak of: taken, with the rule that it rests on. */
static void test_requested(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    struct proc c = put_proc(&t, 1000, 10, 2, ID_NONE), x = put_proc(&t, 990, 10, 4, c.entry);
    struct proc y = put_proc(&t, 10, 10000, 4, c.entry);
    char name[32];
    struct prof_result *r =
        select_with(&t, (const struct seconds[]){{y.loop, 1}}, 1, 40e-9, name_of(&t, x.entry, name), NULL);
    const struct prof_candidate *proc = candidate(r, PROF_PROCEDURE, toy_addr(&t, x.entry));
    assert_int_equal(proc->verdict, PROF_TAKEN);
    assert_int_equal(proc->estimable, PROF_ESTIMABLE_MOST);
    assert_non_null(strstr(proc->reason, "requested, though not timable: entered every"));
    assert_true(has_warning(r, "most-calls"));
    prof_result_free(r);
    toy_fini(&t);
}

/* f and g call each other, and only f is called from elsewhere: timing f times both. */
static void test_recursion(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    struct proc f = put_proc(&t, 50, 1000, 4, 0), g = put_proc(&t, 40, 1000, 4, f.entry);
    t.cfg.blocks.data[f.entry].call_target = toy_addr(&t, g.entry);
    t.enter_count.data[f.entry] = 50;
    struct proc main = put_proc(&t, 10, 2, 1, f.entry);
    struct prof_result *r =
        select_in(&t, (const struct seconds[]){{f.loop, 1}, {g.loop, 1}, {main.loop, 0.1}}, 3, 40e-9);
    const struct prof_candidate *pf = candidate(r, PROF_PROCEDURE, toy_addr(&t, f.entry)),
                                *pg = candidate(r, PROF_PROCEDURE, toy_addr(&t, g.entry));
    assert_true(pf->tot == 2 && pf->tdes == 2);
    assert_true(fabs(pf->time_s - 2) < 0.01);
    assert_int_not_equal(pf->estimable, PROF_ESTIMABLE_NOT);
    assert_int_equal(pg->estimable, PROF_ESTIMABLE_NOT); /* part of its work is f's */
    prof_result_free(r);
    toy_fini(&t);
}

/* A call through a pointer, which may lead anywhere. */
static void test_pointer(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    struct proc reached = put_proc(&t, 100, 1000, 4, ID_NONE), other = put_proc(&t, 100, 1000, 4, ID_NONE);
    struct proc callers[2];
    for (int i = 0; i < 2; i++) {
        callers[i] = put_proc(&t, 100, 1000, 4, reached.entry);
        t.cfg.blocks.data[callers[i].entry].call_target = 0;
        t.cfg.blocks.data[callers[i].entry].term = X86_CALL_IND;
    }
    struct prof_result *r = select_in(
        &t, (const struct seconds[]){{reached.loop, 1}, {other.loop, 1}, {callers[0].loop, 1}, {callers[1].loop, 1}}, 4,
        40e-9);
    const struct prof_candidate *caller = candidate(r, PROF_PROCEDURE, toy_addr(&t, callers[0].entry));
    assert_int_equal(caller->estimable, PROF_ESTIMABLE_NOT);
    assert_int_equal(candidate(r, PROF_LOOP, toy_addr(&t, callers[0].loop))->verdict, PROF_TAKEN);
    prof_result_free(r);
    toy_fini(&t);
}

/* Straight code of 960 instructions in blocks of 48, entered rarely: pieces of two blocks each. */
static void test_pieces(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_func(&t);
    uint32_t blocks[20];
    for (unsigned i = 0; i < 20; i++)
        blocks[i] = toy_block(&t, 48, 50, i ? 0 : CFG_BLOCK_ENTRY, i < 19 ? X86_PLAIN : X86_RET, 1000, i ? 0 : 1000);
    for (unsigned i = 0; i < 19; i++)
        toy_edge(&t, blocks[i], blocks[i + 1], CFG_EDGE_FALL, 1000);
    toy_edge(&t, blocks[19], ID_NONE, CFG_EDGE_OUT, 1000);
    struct prof_result *r = select_in(&t, (const struct seconds[]){{blocks[0], 0.5}, {blocks[19], 0.5}}, 2, 40e-9);
    const struct prof_candidate *first = candidate(r, PROF_PIECE, toy_addr(&t, blocks[0])),
                                *last = candidate(r, PROF_PIECE, toy_addr(&t, blocks[18]));
    assert_int_equal(candidate(r, PROF_PROCEDURE, toy_addr(&t, blocks[0]))->pieces, 10);
    assert_int_equal(first->own_instructions, 96);
    assert_int_equal(last->own_instructions, 96);
    assert_int_equal(first->entries, 1000);
    assert_int_equal(last->entries, 1000);
    assert_true(first->address_end == toy_addr(&t, blocks[2]));
    prof_result_free(r);
    toy_fini(&t);
}

/* Probes of all objects together may cost a hundredth of the program's time: the heaviest first. */
static void test_budget(void **state)
{
    (void)state;
    struct toy t;
    struct proc p[3];
    toy_init(&t, "/none/a");
    for (unsigned i = 0; i < 3; i++)
        p[i] = put_proc(&t, 60000, 100, (uint16_t)(10 - i), ID_NONE);
    struct prof_result *r =
        select_in(&t, (const struct seconds[]){{p[0].loop, 0.3}, {p[1].loop, 0.3}, {p[2].loop, 0.3}}, 3, 45e-9);
    assert_int_equal(candidate(r, PROF_LOOP, toy_addr(&t, p[0].loop))->verdict, PROF_TAKEN);
    double cost = 0;
    for (size_t i = 0; i < r->candidate_count; i++)
        cost += r->candidates[i].verdict == PROF_TAKEN ? r->candidates[i].probe_s : 0;
    assert_true(cost > 0 && cost <= 0.009);
    prof_result_free(r);
    toy_fini(&t);
}

/* What is entered too often is measured by the nearest caller that can be timed, though that has no memory operations
 * of its own to speak of; who calls that has nothing left to measure. */
static void test_move_up(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    struct proc c = put_proc(&t, 1000000, 4, 4, ID_NONE);
    uint32_t mid = put_caller(&t, 1, 1000000, c.entry), top = put_caller(&t, 1, 1, mid);
    struct prof_result *r = select_in(&t, (const struct seconds[]){{c.loop, 1}}, 1, 40e-9);
    const struct prof_candidate *proc = candidate(r, PROF_PROCEDURE, toy_addr(&t, mid));
    assert_int_equal(candidate(r, PROF_LOOP, toy_addr(&t, c.loop))->verdict, PROF_SAMPLED);
    assert_int_equal(proc->verdict, PROF_TAKEN);
    assert_true(proc->is_summed && fabs(proc->memory_ops_all - 18e6) < 10 && proc->pairs_inside == 0);
    assert_false(is_taken(r, toy_addr(&t, top)));
    prof_result_free(r);
    toy_fini(&t);
}

/* Neither what is excluded from probes is taken, nor what it is a part of the time of. */
static void test_unprobed(void **state)
{
    (void)state;
    struct toy t;
    char name[32];
    toy_init(&t, "/none/a");
    struct proc c = put_proc(&t, 10, 100000, 4, ID_NONE), d = put_proc(&t, 10, 100000, 4, ID_NONE);
    uint32_t mid = put_caller(&t, 10, 1, c.entry), top = put_caller(&t, 1, 10, mid);
    struct prof_result *r =
        select_with(&t, (const struct seconds[]){{c.loop, 1}, {d.loop, 1}}, 2, 40e-9, NULL, name_of(&t, c.entry, name));
    const struct prof_candidate *unprobed = candidate(r, PROF_LOOP, toy_addr(&t, c.loop));
    assert_int_equal(unprobed->verdict, PROF_SAMPLED);
    assert_non_null(strstr(unprobed->reason, "excluded from probes"));
    assert_false(is_taken(r, toy_addr(&t, mid)) || is_taken(r, toy_addr(&t, top)));
    assert_int_equal(candidate(r, PROF_LOOP, toy_addr(&t, d.loop))->verdict, PROF_TAKEN);
    prof_result_free(r);
    toy_fini(&t);
}

/* An object within another is part of its time: only one of them is added up, and its probes are taken off. */
static void test_disjoint(void **state)
{
    (void)state;
    struct toy t;
    char name[32];
    toy_init(&t, "/none/a");
    struct proc c = put_proc(&t, 100, 100000, 4, ID_NONE), d = put_proc(&t, 10, 100000, 4, ID_NONE);
    uint32_t mid = put_caller(&t, 10, 10, c.entry);
    struct prof_result *r =
        select_with(&t, (const struct seconds[]){{c.loop, 1}, {d.loop, 0.1}}, 2, 40e-9, name_of(&t, mid, name), NULL);
    const struct prof_candidate *inner = candidate(r, PROF_LOOP, toy_addr(&t, c.loop)),
                                *outer = candidate(r, PROF_PROCEDURE, toy_addr(&t, mid)),
                                *other = candidate(r, PROF_LOOP, toy_addr(&t, d.loop));
    assert_true(inner->verdict == PROF_TAKEN && outer->verdict == PROF_TAKEN && other->verdict == PROF_TAKEN);
    assert_true(!inner->is_summed && outer->is_summed && other->is_summed);
    assert_true(outer->pairs_inside == 100 && inner->pairs_inside == 0 && other->pairs_inside == 0);
    prof_result_free(r);
    toy_fini(&t);
}

/* The result of samples with chains of calls, of one thread that ran for two seconds. */
static struct prof_result *join_chains(struct toy *t, struct prof_input in)
{
    const struct observed_thread thread = {.tid = 1, .wall_s = 2, .cpu_s = 2};
    const double user_s = 1, system_s = 0.2;
    in.modules = &t->module;
    in.module_count = 1;
    in.threads = &thread;
    in.thread_count = 1;
    in.plain_user_s = &user_s;
    in.plain_system_s = &system_s;
    in.plain_runs = 1;
    in.names = is_named;
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    return r;
}

/* x and y call c equally often, but c works nine times as long for x: counts cannot tell, samples with their calls do.
 */
static void test_chains(void **state)
{
    (void)state;
    struct toy t;
    char name[32];
    toy_init(&t, "/none/a");
    struct proc c = put_proc(&t, 200, 100000, 4, ID_NONE);
    uint32_t x = put_caller(&t, 1, 100, c.entry), y = put_caller(&t, 1, 100, c.entry);
    toy_done(&t);
    const struct observed_sample samples[] = {{0, toy_addr(&t, c.loop), 1000}};
    const struct observed_frame frames[] = {
        {ID_NONE, 0, toy_addr(&t, x + 1)}, {0, 0, toy_addr(&t, c.loop)}, {ID_NONE, 0, toy_addr(&t, y + 1)},
        {2, 0, toy_addr(&t, c.loop)},      {ID_NONE, ID_NONE, 0},        {4, 0, toy_addr(&t, c.loop)}};
    const struct observed_thread_sample activity[] = {{0, OBSERVED_RUNS, -1, 1, 880},
                                                      {0, OBSERVED_RUNS, -1, 3, 100},
                                                      {0, OBSERVED_RUNS, -1, 5, 20},
                                                      {0, OBSERVED_IN_KERNEL, -1, 1, 75},
                                                      {0, OBSERVED_IN_KERNEL, -1, 3, 25}};
    const struct prof_request requested = {.text = "x", .function = name_of(&t, x, name)};
    struct prof_result *r = join_chains(&t, (struct prof_input){.samples = samples,
                                                                .sample_count = ARRAY_LEN(samples),
                                                                .frames = frames,
                                                                .frame_count = ARRAY_LEN(frames),
                                                                .activity = activity,
                                                                .activity_count = ARRAY_LEN(activity),
                                                                .sample_period_s = 2e-3,
                                                                .requested = &requested,
                                                                .requested_count = 1});
    const struct prof_candidate *o = candidate(r, PROF_PROCEDURE, toy_addr(&t, x));
    assert_true(o->verdict == PROF_TAKEN && o->is_sampled_whole);
    /* its part of the work of c is that of the samples, too */
    assert_true(fabs(o->memory_ops_all - (2 + 0.898 * (double)r->coverage.memory_ops)) < 0.001 * o->memory_ops_all);
    assert_int_equal(o->samples, 880);
    assert_true(fabs(o->sampled_s.value - 0.88) < 1e-9);
    assert_true(o->sampled_s.high > 0.9 && o->sampled_s.high < 1.2); /* the cut chains may be its own */
    assert_true(fabs(o->system_s.value - 0.15) < 1e-9 &&
                o->uncounted_s == 0); /* 75 samples, whatever the kernel says */
    assert_true(o->system_s.low < 0.12 && o->system_s.high > 0.18 && o->system_s.high < 0.3);
    prof_result_free(r);
    toy_fini(&t);
}

/* Calls x, then y. */
static uint32_t put_both(struct toy *t, uint32_t x, uint32_t y)
{
    toy_func(t);
    uint32_t first = toy_block(t, 2, 1, CFG_BLOCK_ENTRY, X86_CALL, 1, 1),
             second = toy_block(t, 1, 0, CFG_BLOCK_RETURN_POINT, X86_CALL, 1, 0),
             leave = toy_block(t, 1, 1, CFG_BLOCK_RETURN_POINT, X86_RET, 1, 0);
    t->cfg.blocks.data[first].call_target = toy_addr(t, x);
    t->cfg.blocks.data[second].call_target = toy_addr(t, y);
    toy_edge(t, first, second, CFG_EDGE_RETURN, 1);
    toy_edge(t, second, leave, CFG_EDGE_RETURN, 1);
    toy_edge(t, leave, ID_NONE, CFG_EDGE_OUT, 1);
    return first;
}

/* Nearly all calls of c are x's, but half of c's time is y's: by counts of calls x holds nearly all that the program
 * does, by samples half of it, and so the root of the calls is taken. */
static void test_root_by_samples(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    struct proc c = put_proc(&t, 1000000, 4, 4, ID_NONE);
    uint32_t x = put_caller(&t, 1, 990000, c.entry), y = put_caller(&t, 1, 10000, c.entry), main = put_both(&t, x, y);
    toy_done(&t);
    const struct observed_sample samples[] = {{0, toy_addr(&t, c.loop), 1000}};
    const struct observed_frame frames[] = {{ID_NONE, 0, 0}, /* what calls main is not counted */
                                            {0, 0, toy_addr(&t, main)},
                                            {1, 0, toy_addr(&t, x + 1)},
                                            {2, 0, toy_addr(&t, c.loop)},
                                            {1, 0, toy_addr(&t, y + 1)},
                                            {4, 0, toy_addr(&t, c.loop)}};
    const struct observed_thread_sample activity[] = {{0, OBSERVED_RUNS, -1, 3, 500}, {0, OBSERVED_RUNS, -1, 5, 500}};
    struct prof_result *r = join_chains(&t, (struct prof_input){.samples = samples,
                                                                .sample_count = ARRAY_LEN(samples),
                                                                .frames = frames,
                                                                .frame_count = ARRAY_LEN(frames),
                                                                .activity = activity,
                                                                .activity_count = ARRAY_LEN(activity)});
    const struct prof_candidate *root = candidate(r, PROF_PROCEDURE, toy_addr(&t, main));
    assert_true(root->verdict == PROF_TAKEN && root->is_summed);
    assert_true(root->memory_ops_all >= (double)r->coverage.memory_ops - 1);
    prof_result_free(r);
    toy_fini(&t);
}

/* What is entered once is worth a probe however short it is: such loops fill arrays, and of a short program's overhead
 * they are a good part together. */
static void test_short(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    struct proc fill = put_proc(&t, 1, 100000, 4, ID_NONE), main = put_proc(&t, 1, 1000000, 4, fill.entry);
    toy_done(&t);
    const struct observed_sample samples[] = {{0, toy_addr(&t, fill.loop), 1}, {0, toy_addr(&t, main.loop), 1999}};
    struct prof_result *r =
        join_chains(&t, (struct prof_input){.samples = samples, .sample_count = ARRAY_LEN(samples)});
    const struct prof_candidate *o = candidate(r, PROF_LOOP, toy_addr(&t, fill.loop));
    assert_true(o->time_s < 1e-3 && o->entries == 1);
    assert_int_equal(o->verdict, PROF_TAKEN);
    prof_result_free(r);
    toy_fini(&t);
}

static struct proc put_pointer_caller(struct toy *t, uint64_t calls)
{
    struct proc p = put_proc(t, calls, 1000, 4, 0);
    t->cfg.blocks.data[p.entry].call_target = 0;
    t->cfg.blocks.data[p.entry].term = X86_CALL_IND;
    return p;
}

/* x calls a once through a pointer, others call 1000 times through pointers: nobody knows whom. Samples in what a calls
 * tell that all of a is within x, though none of them is in a's own code. */
static void test_chains_of_callees(void **state)
{
    (void)state;
    struct toy t;
    char names[2][32];
    toy_init(&t, "/none/a");
    struct proc c = put_proc(&t, 100, 1000000, 4, ID_NONE), d = put_proc(&t, 1000, 1000, 4, ID_NONE);
    uint32_t a = put_caller(&t, 1, 100, c.entry);
    struct proc x = put_pointer_caller(&t, 1);
    put_pointer_caller(&t, 1000);
    toy_done(&t);
    const struct observed_sample samples[] = {{0, toy_addr(&t, c.loop), 900}, {0, toy_addr(&t, d.loop), 100}};
    const struct observed_frame frames[] = {{ID_NONE, 0, toy_addr(&t, x.entry)},
                                            {0, 0, toy_addr(&t, a + 1)},
                                            {1, 0, toy_addr(&t, c.loop)},
                                            {ID_NONE, 0, toy_addr(&t, d.loop)}};
    const struct observed_thread_sample activity[] = {{0, OBSERVED_RUNS, -1, 2, 900}, {0, OBSERVED_RUNS, -1, 3, 100}};
    const struct prof_request requested[] = {{.text = "x", .function = name_of(&t, x.entry, names[0])},
                                             {.text = "a", .function = name_of(&t, a, names[1])}};
    struct prof_result *r = join_chains(&t, (struct prof_input){.samples = samples,
                                                                .sample_count = ARRAY_LEN(samples),
                                                                .frames = frames,
                                                                .frame_count = ARRAY_LEN(frames),
                                                                .activity = activity,
                                                                .activity_count = ARRAY_LEN(activity),
                                                                .requested = requested,
                                                                .requested_count = ARRAY_LEN(requested)});
    const struct prof_candidate *outer = candidate(r, PROF_PROCEDURE, toy_addr(&t, x.entry)),
                                *inner = candidate(r, PROF_PROCEDURE, toy_addr(&t, a));
    assert_true(outer->verdict == PROF_TAKEN && inner->verdict == PROF_TAKEN);
    assert_true(fabs(outer->pairs_inside - 101) < 0.1); /* c by its own samples, a by those of c */
    prof_result_free(r);
    toy_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inner_first),
        cmocka_unit_test(test_takes_time),
        cmocka_unit_test(test_timable),
        cmocka_unit_test(test_shared_callee),
        cmocka_unit_test(test_rules_warn),
        cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_pointer),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_requested),
        cmocka_unit_test(test_move_up),
        cmocka_unit_test(test_unprobed),
        cmocka_unit_test(test_disjoint),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_chains_of_callees),
        cmocka_unit_test(test_root_by_samples),
        cmocka_unit_test(test_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
