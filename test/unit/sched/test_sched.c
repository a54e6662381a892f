/* SPDX-License-Identifier: Apache-2.0
 * The scheduler against the processor itself, which must not tell allowed orders apart; against all orders of small
 * blocks; and against the core model, which must count what the scheduler's pipeline counts. */
#include "blocks.h"

#include <setjmp.h>

#include <cmocka.h> /* needs these above it */

#include "sim/sim.h"
#include "x86/x86.h"

static struct machine *shipped(const char *file)
{
    const char *name, *text;
    struct machine *m = NULL;
    for (size_t i = 0; (text = machine_shipped_text(i, &name)) != NULL; i++)
        if (strcmp(name, file) == 0)
            assert_int_equal(machine_parse(name, text, strlen(text), &m), 0);
    assert_non_null(m);
    return m;
}

static const char *const in_order[] = {"titan.machine", "decstation-3100.machine", "bonnell.machine"};

/* ---- what may change places ---- */

static void show(const struct drawn *d, const uint8_t *at)
{
    for (uint32_t i = 0; i < d->b.count; i++) {
        char text[96];
        x86_format(d->insns[at[i]].bytes, d->insns[at[i]].len, d->insns[at[i]].addr, text, sizeof text);
        print_message("# %2u %s\n", at[i], text);
    }
}

static void identity(uint8_t at[SCHED_MAX])
{
    for (uint32_t i = 0; i < SCHED_MAX; i++)
        at[i] = (uint8_t)i;
}

static void the_processor_tells_no_allowed_orders_apart(void **unused)
{
    (void)unused;
    struct rng g = {1};
    uint64_t changed = 0;
    for (unsigned round = 0; round < 4000; round++) {
        struct drawn d;
        struct sched_graph graph;
        struct state before, plain;
        uint8_t old[SCHED_MAX], at[SCHED_MAX];
        identity(old);
        draw_block(&g, (uint32_t)(2 + rng_below(&g, 14)), &d);
        assert_true(sched_depend(&d.b, &graph));
        draw_state(&g, &before);
        plain = before;
        execute(&d, old, &plain);
        for (unsigned k = 0; k < 8; k++) {
            struct state other = before;
            draw_order(&g, &graph, at);
            changed += memcmp(at, old, d.b.count) != 0;
            execute(&d, at, &other);
            if (is_same_state(&plain, &other, d.b.flags_live))
                continue;
            show(&d, old);
            show(&d, at);
            fail_msg("round %u: another order does something else", round);
        }
    }
    assert_true(changed > 20000); /* most of them are other orders */
}

/* An edge is there for a reason: without it some block would do something else. Of edges that only another edge
 * implies, nothing is asked. */
static void most_dependences_are_needed(void **unused)
{
    (void)unused;
    struct rng g = {2};
    unsigned swaps = 0, needed = 0;
    for (unsigned round = 0; round < 3000; round++) {
        struct drawn d;
        struct sched_graph graph;
        uint8_t old[SCHED_MAX], at[SCHED_MAX];
        identity(old);
        draw_block(&g, 2, &d);
        d.b.is_seen = false;
        assert_true(sched_depend(&d.b, &graph));
        if (!graph.before[1])
            continue;
        swaps++;
        identity(at);
        at[0] = 1, at[1] = 0;
        bool differs = false;
        for (unsigned k = 0; k < 20 && !differs; k++) {
            struct state a, b;
            draw_state(&g, &a);
            b = a;
            execute(&d, old, &a);
            execute(&d, at, &b);
            differs = !is_same_state(&a, &b, d.b.flags_live);
        }
        needed += differs;
    }
    print_message("# %u of %u pairs that must keep their order show it\n", needed, swaps);
    assert_true(swaps > 300 && needed * 10 > swaps * 7);
}

/* ---- what is seen by others ---- */

static bool may_swap(const char *first, unsigned first_len, const char *second, unsigned second_len, bool is_seen)
{
    struct sched_insn insns[] = {{.bytes = (const uint8_t *)first, .len = (uint8_t)first_len},
                                 {.bytes = (const uint8_t *)second, .len = (uint8_t)second_len}};
    struct sched_block b = {.insns = insns, .count = 2, .stack_is_private = true, .is_seen = is_seen};
    struct sched_graph g;
    assert_true(sched_depend(&b, &g));
    return !g.before[1];
}
#define MAY_SWAP(first, second, is_seen) may_swap(first, sizeof(first) - 1, second, sizeof(second) - 1, is_seen)

static void what_others_may_see_keeps_its_order(void **unused)
{
    (void)unused;
    static const char load_rdi[] = "\x48\x8b\x07", load_rsi[] = "\x48\x8b\x0e", store_rdi[] = "\x48\x89\x17",
                      store_rdi_8[] = "\x48\x89\x57\x08", load_rsp[] = "\x48\x8b\x4c\x24\x08",
                      store_rsp[] = "\x48\x89\x54\x24\x10", div_rcx[] = "\x48\xf7\xf1",
                      store_far[] = "\x4c\x89\x47\x08";
    assert_true(MAY_SWAP(load_rdi, load_rsi, false));
    assert_false(MAY_SWAP(load_rdi, load_rsi, true)); /* acquire: x86 has no other instruction for it */
    assert_true(MAY_SWAP(store_rdi, store_rdi_8, false));
    assert_false(MAY_SWAP(store_rdi, store_rdi_8, true));
    assert_false(MAY_SWAP(store_rdi, load_rsi, false)); /* they may be the same */
    assert_true(MAY_SWAP(load_rdi, load_rsp, true));
    assert_true(MAY_SWAP(load_rdi, store_rsp, true)); /* nobody sees a private frame */
    assert_true(MAY_SWAP(store_far, div_rcx, false));
    assert_false(MAY_SWAP(store_far, div_rcx, true)); /* it may end in a handler */
}

static void what_cannot_move_is_passed_by_nothing(void **unused)
{
    (void)unused;
    static const char add[] = "\x48\x01\xc8", lea[] = "\x48\x8d\x42\x01";
    static const struct {
        const char *bytes;
        unsigned len;
    } fixed[] = {
        {"\xe8\0\0\0\0", 5},
        {"\x0f\x05", 2},
        {"\xf0\x48\xff\x06", 4},
        {"\x0f\xae\xf0", 3},
        {"\x50", 1},
        {"\x48\x83\xec\x08", 4},
        {"\xf3\xa4", 2},
        {"\x90", 1},
        {"\xd9\xe8", 2},
        {"\x0f\x31", 2},
        {"\x0f\xa2", 2},
        {"\xc5\xf8\x77", 3},
        {"\x0f\xae\x17", 3},
        {"\xfd", 1},
        {"\x9c", 1},
        {"\x87\x06", 2},
        {"\x0f\xc1\x06", 3},
        {"\x0f\x77", 2},
        {"\x8e\xd8", 2},
        {"\xf3\x0f\x1e\xfa", 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
        if (may_swap(fixed[i].bytes, fixed[i].len, lea, sizeof lea - 1, false) ||
            may_swap(add, sizeof add - 1, fixed[i].bytes, fixed[i].len, false))
            fail_msg("%zu passes or is passed", i);
    }
}

static void comparisons_stay_with_their_jumps(void **unused)
{
    (void)unused;
    struct sched_insn insns[] = {{.bytes = (const uint8_t *)"\x48\x8d\x42\x01", .len = 4},
                                 {.bytes = (const uint8_t *)"\x48\x39\xca", .len = 3},
                                 {.bytes = (const uint8_t *)"\x75\x00", .len = 2}};
    struct sched_block b = {.insns = insns, .count = 3};
    struct sched_graph g;
    assert_true(sched_depend(&b, &g));
    assert_true(g.before[1] == 1 && g.before[2] == 3);
}

static void data_is_told_apart_by_where_it_is(void **unused)
{
    (void)unused;
    static const char store[] = "\x89\x05\0\0\0\0", load[] = "\x8b\x0d\0\0\0\0"; /* [rip+..] */
    static const struct {
        uint8_t memory[2];
        uint32_t section[2];
        int64_t offset[2];
        bool may_swap;
    } cases[] = {
        {{SCHED_ANY, SCHED_ANY}, {0, 0}, {0, 0}, false},   {{SCHED_DATA, SCHED_DATA}, {1, 1}, {0, 4}, true},
        {{SCHED_DATA, SCHED_DATA}, {1, 1}, {0, 3}, false}, {{SCHED_DATA, SCHED_DATA}, {1, 2}, {0, 0}, true},
        {{SCHED_DATA, SCHED_ANY}, {1, 0}, {0, 0}, false},  {{SCHED_ANY, SCHED_CONSTANT}, {0, 0}, {0, 0}, true},
        {{SCHED_DATA, SCHED_DATA}, {1, 1}, {4, 0}, true},  {{SCHED_DATA, SCHED_DATA}, {1, 1}, {3, 0}, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sched_insn insns[2];
        for (unsigned k = 0; k < 2; k++)
            insns[k] = (struct sched_insn){.bytes = (const uint8_t *)(k ? load : store),
                                           .len = 6,
                                           .memory = cases[i].memory[k],
                                           .is_relocated = true,
                                           .section = cases[i].section[k],
                                           .offset = cases[i].offset[k]};
        struct sched_block b = {.insns = insns, .count = 2};
        struct sched_graph g;
        assert_true(sched_depend(&b, &g));
        if (!g.before[1] != cases[i].may_swap)
            fail_msg("case %zu", i);
    }
}

/* ---- the pipeline ---- */

static void the_core_model_counts_the_same(void **unused)
{
    (void)unused;
    struct rng g = {3};
    for (size_t i = 0; i < ARRAY_LEN(in_order); i++) {
        struct machine *m = shipped(in_order[i]);
        struct sched *s = sched_new(m);
        struct sim_shapes *shapes = sim_shapes_new();
        for (unsigned round = 0; round < 2000; round++) {
            struct drawn d;
            uint8_t at[SCHED_MAX];
            struct sim_insn table[SCHED_MAX];
            identity(at);
            draw_block(&g, (uint32_t)(1 + rng_below(&g, 40)), &d);
            d.b.repeats = false;
            for (uint32_t k = 0; k < d.b.count; k++)
                assert_int_equal(
                    sim_insn_prepare(m, shapes, d.insns[k].bytes, d.insns[k].len, d.insns[k].addr, &table[k]), 0);
            struct sim_core *core = sim_core_new(m, table, d.b.count, NULL);
            sim_core_reset_pipeline(core, 0);
            for (uint32_t k = 0; k < d.b.count; k++)
                sim_core_step(core, k, 0, 0);
            double counted = sim_core_cycles(core), said = sched_cost_of(s, &d.b, at).cycles;
            sim_core_free(core);
            if (counted - said > 1e-6 || said - counted > 1e-6) {
                show(&d, at);
                fail_msg("%s, round %u: %g cycles, not %g", in_order[i], round, said, counted);
            }
        }
        sim_shapes_free(shapes);
        sched_free(s);
        machine_free(m);
    }
}

/* ---- all orders ---- */

struct search {
    struct sched *s;
    struct sim_pipeline *old, *now;
    struct sim_insn insns[SCHED_MAX];
    int64_t slack;
    const struct drawn *d;
    const struct sched_graph *g;
    uint8_t at[SCHED_MAX];
    double best;
    uint64_t orders;
};

/* Nothing that could come behind is later: see sched_block. */
static bool is_no_worse(struct search *q)
{
    sim_pipeline_reset(q->now);
    for (uint32_t i = 0; i < q->g->count; i++)
        sim_pipeline_issue(q->now, &q->insns[q->at[i]]);
    int64_t end = sim_pipeline_ticks(q->old);
    for (unsigned r = 0; r < X86_REG_COUNT; r++) {
        int64_t is = sim_pipeline_ready(q->now, r);
        if (is > sim_pipeline_ready(q->old, r) && is + q->slack > end)
            return false;
    }
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (sim_pipeline_unit(q->now, unit) > end && sim_pipeline_unit(q->now, unit) > sim_pipeline_unit(q->old, unit))
            return false;
    return sim_pipeline_ticks(q->now) <= end;
}

static void try_all(struct search *q, uint32_t n, uint64_t done)
{
    if (n == q->g->count) {
        double c = sched_cost_of(q->s, &q->d->b, q->at).cycles;
        q->best = c < q->best && is_no_worse(q) ? c : q->best;
        q->orders++;
        return;
    }
    for (uint32_t i = 0; i < q->g->count; i++)
        if (!(done >> i & 1) && !(q->g->before[i] & ~done)) {
            q->at[n] = (uint8_t)i;
            try_all(q, n + 1, done | 1ull << i);
        }
}

static void small_blocks_come_near_the_best_of_all_orders(void **unused)
{
    (void)unused;
    struct rng g = {4};
    for (size_t i = 0; i < ARRAY_LEN(in_order); i++) {
        struct machine *m = shipped(in_order[i]);
        struct sched *s = sched_new(m);
        struct sim_shapes *shapes = sim_shapes_new();
        struct search q = {.s = s, .old = sim_pipeline_new(m), .now = sim_pipeline_new(m)};
        double before = 0, after = 0, best = 0;
        q.slack = (int64_t)((m->address_latency + m->address_latency_load + 1) * SIM_CYCLE);
        for (unsigned round = 0; round < 400; round++) {
            struct drawn d;
            struct sched_graph graph;
            struct sched_order o;
            draw_block(&g, (uint32_t)(3 + rng_below(&g, 4)), &d);
            d.b.repeats = false; /* else orders that leave more for behind the block may cost less */
            assert_true(sched_depend(&d.b, &graph));
            sched_block(s, &d.b, &o);
            assert_true(is_allowed(&graph, o.at));
            assert_true(o.after.cycles <= o.before.cycles);
            q.d = &d, q.g = &graph, q.best = o.before.cycles;
            sim_pipeline_reset(q.old);
            for (uint32_t k = 0; k < d.b.count; k++) {
                const struct sched_insn *x = &d.insns[k];
                assert_int_equal(sim_insn_prepare(m, shapes, x->bytes, x->len, x->addr, &q.insns[k]), 0);
                sim_pipeline_issue(q.old, &q.insns[k]);
            }
            try_all(&q, 0, 0);
            before += o.before.cycles, after += o.after.cycles, best += q.best;
        }
        print_message("# %s: %g cycles, scheduled %g, best of all orders %g\n", in_order[i], before, after, best);
        assert_true(before - best > 0.02 * before);
        assert_true(before - after > 0.9 * (before - best));
        sim_pipeline_free(q.old);
        sim_pipeline_free(q.now);
        sim_shapes_free(shapes);
        sched_free(s);
        machine_free(m);
    }
}

/* ---- never worse ---- */

/* Whatever comes behind a block, and however often it repeats: no cycle more than before. */
static void nothing_behind_a_block_comes_later(void **unused)
{
    (void)unused;
    struct rng g = {5};
    unsigned changed = 0;
    for (size_t i = 0; i < ARRAY_LEN(in_order); i++) {
        struct machine *m = shipped(in_order[i]);
        struct sched *s = sched_new(m);
        struct sim_shapes *shapes = sim_shapes_new();
        struct sim_pipeline *old = sim_pipeline_new(m), *now = sim_pipeline_new(m);
        for (unsigned round = 0; round < 1500; round++) {
            struct drawn d, behind;
            struct sched_order o;
            draw_block(&g, (uint32_t)(2 + rng_below(&g, 20)), &d);
            draw_block(&g, (uint32_t)(1 + rng_below(&g, 10)), &behind);
            sched_block(s, &d.b, &o);
            changed += o.is_new;
            sim_pipeline_reset(old);
            sim_pipeline_reset(now);
            for (unsigned k = 0; k < d.b.count + behind.b.count; k++) {
                bool is_first = k < d.b.count;
                struct sim_insn a, b;
                const struct sched_insn *x = is_first ? &d.insns[k] : &behind.insns[k - d.b.count];
                const struct sched_insn *y = is_first ? &d.insns[o.at[k]] : x;
                sim_insn_prepare(m, shapes, x->bytes, x->len, x->addr, &a);
                sim_insn_prepare(m, shapes, y->bytes, y->len, y->addr, &b);
                sim_pipeline_issue(old, &a);
                sim_pipeline_issue(now, &b);
            }
            if (sim_pipeline_ticks(now) > sim_pipeline_ticks(old)) {
                show(&d, o.at);
                fail_msg("%s, round %u: what comes behind comes later", in_order[i], round);
            }
        }
        sim_pipeline_free(old);
        sim_pipeline_free(now);
        sim_shapes_free(shapes);
        sched_free(s);
        machine_free(m);
    }
    assert_true(changed > 1000);
}

static void an_out_of_order_core_has_the_last_word(void **unused)
{
    (void)unused;
    struct rng g = {6};
    struct machine *m = shipped("zen4.machine");
    struct sched *s = sched_new(m);
    unsigned changed = 0;
    for (unsigned round = 0; round < 300; round++) {
        struct drawn d;
        struct sched_order o;
        draw_block(&g, (uint32_t)(2 + rng_below(&g, 20)), &d);
        sched_block(s, &d.b, &o);
        changed += o.is_new;
        assert_true(o.is_new ? o.after.cycles < o.before.cycles : o.after.cycles == o.before.cycles);
    }
    assert_true(changed > 0 && changed < 150);
    sched_free(s);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processor_tells_no_allowed_orders_apart),
        cmocka_unit_test(most_dependences_are_needed),
        cmocka_unit_test(what_others_may_see_keeps_its_order),
        cmocka_unit_test(what_cannot_move_is_passed_by_nothing),
        cmocka_unit_test(comparisons_stay_with_their_jumps),
        cmocka_unit_test(data_is_told_apart_by_where_it_is),
        cmocka_unit_test(the_core_model_counts_the_same),
        cmocka_unit_test(small_blocks_come_near_the_best_of_all_orders),
        cmocka_unit_test(nothing_behind_a_block_comes_later),
        cmocka_unit_test(an_out_of_order_core_has_the_last_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
