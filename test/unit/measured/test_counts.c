/* SPDX-License-Identifier: Apache-2.0
 * Counts of hand-made modules against closed forms: nests, recursion, calls that do not return, loops entered by a
 * return. */
#include "toy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rewrite_flow solve(const struct toy *t)
{
    const struct cfg *c = t->map.cfg;
    struct rewrite_flow f = {.blocks = xmalloc_sparse(8 * (c->blocks.len + 1)),
                             .edges = xmalloc_sparse(8 * (c->edges.len + 1)),
                             .enter = xmalloc_sparse(8 * (c->blocks.len + 1))};
    rewrite_counts_solve(&t->map, t->counters.data, f.blocks, f.edges, f.enter);
    return f;
}

static struct prof_result *join(const struct toy *t, size_t count, bool is_solved)
{
    struct prof_input_module modules[4];
    struct rewrite_flow flows[4] = {{NULL, NULL, NULL, 0}};
    for (size_t i = 0; i < count; i++) {
        modules[i] = t[i].module;
        modules[i].flow = &flows[i];
        if (is_solved && t[i].module.counters)
            flows[i] = solve(&t[i]);
    }
    struct prof_input in = {.modules = modules, .module_count = count, .want_blocks = true};
    struct prof_result *r = prof_result_new();
    assert_int_equal(prof_join(r, &in), 0);
    for (size_t i = 0; i < count; i++) {
        assert_null(flows[i].blocks); /* taken over */
        xfree_sparse(flows[i].edges);
        xfree_sparse(flows[i].enter);
    }
    return r;
}

/* With counters, and with a solution of them that somebody hands on, a join says the same. */
static struct prof_result *join_toys(const struct toy *t, size_t count)
{
    struct prof_result *r = join(t, count, false), *solved = join(t, count, true);
    assert_int_equal(r->object_count, solved->object_count);
    for (size_t i = 0; i < r->object_count; i++) {
        const struct prof_object *a = &r->objects[i], *b = &solved->objects[i];
        assert_int_equal(a->address, b->address);
        assert_int_equal(a->entries, b->entries);
        assert_int_equal(a->iterations, b->iterations);
        assert_int_equal(a->instructions, b->instructions);
        assert_int_equal(a->memory_ops_incl, b->memory_ops_incl);
    }
    assert_int_equal(r->edge_count, solved->edge_count);
    for (size_t i = 0; i < r->edge_count; i++)
        assert_int_equal(r->edges[i].count, solved->edges[i].count);
    prof_result_free(solved);
    return r;
}

static const struct prof_object *object_at(const struct prof_result *r, uint64_t address, enum prof_kind kind)
{
    for (size_t i = 0; i < r->object_count; i++)
        if (r->objects[i].address == address && r->objects[i].kind == kind)
            return &r->objects[i];
    return NULL;
}

static void test_nest(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    toy_done(&t);
    struct prof_result *r = join_toys(&t, 1);
    const struct prof_object *inner = object_at(r, toy_addr(&t, 2), PROF_LOOP),
                             *outer = object_at(r, toy_addr(&t, 1), PROF_LOOP);
    const struct prof_object *proc = object_at(r, toy_addr(&t, 0), PROF_PROCEDURE);
    assert_int_equal(r->object_count, 3);
    assert_int_equal(inner->entries, 70);
    assert_int_equal(inner->iterations, 7000);
    assert_int_equal(inner->instructions, 35000);
    assert_int_equal(inner->memory_ops, 14000);
    assert_int_equal(inner->depth, 2);
    assert_int_equal(outer->entries, 7);
    assert_int_equal(outer->iterations, 70);
    assert_int_equal(outer->instructions, 350);
    assert_int_equal(outer->instructions_incl, 35350);
    assert_int_equal(outer->memory_ops_incl, 14070);
    assert_int_equal(proc->entries, 7);
    assert_true(proc->iterations == PROF_UNKNOWN);
    assert_int_equal(proc->instructions, 28);
    assert_int_equal(proc->instructions_incl, 35378);
    assert_int_equal(proc->memory_ops, 14);
    assert_ptr_equal(&r->objects[inner->parent], outer);
    assert_ptr_equal(&r->objects[outer->parent], proc);
    assert_int_equal(proc->parent, ID_NONE);
    assert_int_equal(r->coverage.instructions_counted, 35378);
    assert_int_equal(r->coverage.memory_ops, 14084);
    assert_true(fabs(inner->memory_share - 14000.0 / 14084) < 1e-12);
    assert_string_equal(proc->function, "0x1000");
    assert_int_equal(r->block_count, 5);
    assert_int_equal(r->edge_count, 6); /* the way out of the function is no edge between blocks */
    prof_result_free(r);
    toy_fini(&t);
}

/* Blocks that faults ended count as entered, and what was not executed of them is in no sum. */
static void test_left(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    toy_done(&t);
    const struct rewrite_side_exit side_exits[2] = {{.before_counters = 2, .count = 3},
                                                    {.before_counters = 1, .count = -2}};
    const struct cfg_block *b = t.map.cfg->blocks.data;
    t.module.side_exits = side_exits;
    t.module.side_exit_count = 2;
    struct prof_result *r = join_toys(&t, 1);
    const struct prof_object *inner = object_at(r, toy_addr(&t, 2), PROF_LOOP),
                             *outer = object_at(r, toy_addr(&t, 1), PROF_LOOP);
    uint64_t in_inner = 3ull * (b[2].insn_count - 1), in_outer = 2ull * (b[1].insn_count - 1);
    assert_int_equal(inner->iterations, 7000);
    assert_int_equal(inner->instructions, 35000 - in_inner);
    assert_int_equal(inner->memory_ops, 14000 - 3ull * b[2].mem_ops);
    assert_int_equal(outer->instructions, 350 + in_outer);
    assert_int_equal(r->coverage.instructions_counted, 35378 - in_inner + in_outer);
    prof_result_free(r);
    toy_fini(&t);
}

/* Nothing measured: every time is unknown, no figure is 0 for that, and order is by instructions. */
static void test_counts_only(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 7, 10, 100);
    toy_done(&t);
    struct prof_result *r = join_toys(&t, 1);
    assert_true(isnan(r->actual_user_s.value) && isnan(r->predicted_user_s.value) && isnan(r->overhead.low));
    assert_true(isnan(r->coverage.instructions_counted_share) && isnan(r->coverage.unexplained_overhead.value));
    for (size_t i = 0; i < r->object_count; i++) {
        const struct prof_object *o = &r->objects[i];
        assert_int_equal(o->id, i);
        assert_true(isnan(o->ideal_s.value) && isnan(o->actual_s.high) && isnan(o->memory_s.low) && isnan(o->branch_s));
        assert_true(isnan(o->extra_cycles_per_memory_op) && !o->is_significant && !o->ideal_method &&
                    !o->actual_method);
        assert_true(i == 0 || r->objects[i - 1].instructions >= o->instructions);
    }
    prof_result_free(r);
    toy_fini(&t);
}

/* f(n) calls itself n deep: calls are all entries, the loop is none. */
static void test_recursion(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_func(&t);
    uint32_t entry = toy_block(&t, 4, 2, CFG_BLOCK_ENTRY, X86_JCC, 100, 100);
    uint32_t call = toy_block(&t, 2, 1, 0, X86_CALL, 90, 0);
    uint32_t leave = toy_block(&t, 2, 1, CFG_BLOCK_RETURN_POINT, X86_RET, 100, 0);
    t.cfg.blocks.data[call].call_target = toy_addr(&t, entry);
    toy_edge(&t, entry, call, CFG_EDGE_FALL, 90);
    toy_edge(&t, entry, leave, CFG_EDGE_TAKEN, 10);
    toy_edge(&t, call, leave, CFG_EDGE_RETURN, 90);
    toy_edge(&t, leave, ID_NONE, CFG_EDGE_OUT, 100);
    toy_done(&t);
    struct prof_result *r = join_toys(&t, 1);
    assert_int_equal(r->object_count, 1);
    assert_int_equal(r->objects[0].entries, 100);
    assert_int_equal(r->objects[0].instructions, 100 * 4 + 90 * 2 + 100 * 2);
    prof_result_free(r);
    toy_fini(&t);
}

/* while (f()): the header is the return point of the call inside the loop. The solver may give what came back from the
 * call as the count of the edge or as an entry from outside; the last call does not return. */
static void return_loop(uint64_t edge, uint64_t enter)
{
    struct toy t;
    toy_init(&t, "/none/a");
    toy_func(&t);
    uint32_t pre = toy_block(&t, 1, 0, CFG_BLOCK_ENTRY, X86_JMP, 2, 2);
    uint32_t header = toy_block(&t, 3, 1, CFG_BLOCK_RETURN_POINT, X86_PLAIN, 50, enter);
    uint32_t call = toy_block(&t, 1, 1, 0, X86_CALL, 50, 0);
    toy_edge(&t, pre, header, CFG_EDGE_TAKEN, 2);
    toy_edge(&t, header, call, CFG_EDGE_FALL, 50);
    toy_edge(&t, call, header, CFG_EDGE_RETURN, edge);
    toy_loop(&t, header, ID_NONE, (const uint32_t[]){header, call, ID_NONE});
    toy_done(&t);
    struct prof_result *r = join_toys(&t, 1);
    const struct prof_object *loop = object_at(r, toy_addr(&t, header), PROF_LOOP);
    assert_int_equal(loop->entries, 2);
    assert_int_equal(loop->iterations, 50);
    assert_int_equal(r->edge_count, 2);
    prof_result_free(r);
    toy_fini(&t);
}

static void test_return_loop(void **state)
{
    (void)state;
    return_loop(48, 0);
    return_loop(0, 48);
}

/* Two modules number their blocks on their own; code that never ran is no object. */
static void test_modules(void **state)
{
    (void)state;
    struct toy t[2];
    toy_init(&t[0], "/none/a");
    toy_nest(&t[0], 0, 10, 100);
    toy_nest(&t[0], 1, 10, 100);
    toy_done(&t[0]);
    toy_init(&t[1], "/none/b");
    toy_nest(&t[1], 2, 10, 100);
    toy_done(&t[1]);
    struct prof_result *r = join_toys(t, 2);
    assert_int_equal(r->object_count, 6);
    assert_int_equal(r->module_count, 2);
    assert_int_equal(r->modules[1].instructions, 2 * r->modules[0].instructions);
    assert_int_equal(r->modules[0].functions, 2);
    assert_int_equal(r->coverage.functions, 3);
    assert_string_equal(r->objects[0].module, "/none/b");
    assert_int_equal(r->block_count, 10);
    prof_result_free(r);
    toy_fini(&t[0]);
    toy_fini(&t[1]);
}

/* A loop of less than a thousandth is part of what is around it; nothing is lost. */
static void test_small_loops(void **state)
{
    (void)state;
    struct toy t;
    toy_init(&t, "/none/a");
    toy_nest(&t, 1, 2, 5);
    toy_nest(&t, 1000, 10, 100);
    toy_done(&t);
    struct prof_result *r = join_toys(&t, 1);
    uint64_t sum = 0;
    assert_int_equal(r->object_count, 4);
    for (size_t i = 0; i < r->object_count; i++)
        sum += r->objects[i].instructions;
    assert_int_equal(sum, r->coverage.instructions_counted);
    const struct prof_object *proc = object_at(r, toy_addr(&t, 0), PROF_PROCEDURE);
    assert_int_equal(proc->instructions, proc->instructions_incl);
    prof_result_free(r);
    toy_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nest),        cmocka_unit_test(test_left),
                                       cmocka_unit_test(test_counts_only), cmocka_unit_test(test_recursion),
                                       cmocka_unit_test(test_return_loop), cmocka_unit_test(test_modules),
                                       cmocka_unit_test(test_small_loops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
