/* SPDX-License-Identifier: Apache-2.0
 * Interprocedural register allocation against what must hold of it on drawn call graphs, register windows against
 * counts done by hand, and promotion against its definition and all that could be chosen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h> /* needs these above it */

#include "regs/regs.h"

enum { PROCEDURES = 24, VARIABLES = 60, ARCS = 40 };

struct drawn {
    struct regs_procedure procedures[PROCEDURES];
    struct regs_variable variables[VARIABLES];
    struct regs_arc arcs[ARCS];
    struct regs_program p;
};

static void draw(struct rng *g, bool has_circles, struct drawn *out)
{
    memset(out, 0, sizeof *out);
    for (unsigned v = 0; v < VARIABLES; v++)
        out->variables[v] = (struct regs_variable){rng_below(g, 6) ? (uint32_t)rng_below(g, PROCEDURES) : ID_NONE,
                                                   {(double)rng_below(g, 100), (double)rng_below(g, 100)},
                                                   {(double)rng_below(g, 50), (double)rng_below(g, 50)}};
    for (unsigned a = 0; a < ARCS; a++) {
        uint32_t from = (uint32_t)rng_below(g, PROCEDURES - 1),
                 to = from + 1 + (uint32_t)rng_below(g, PROCEDURES - 1 - from);
        bool is_back = has_circles && rng_below(g, 8) == 0;
        out->arcs[a] = (struct regs_arc){is_back ? to : from, is_back ? from : to, {1, (double)rng_below(g, 20)}};
    }
    out->p = (struct regs_program){out->procedures, out->variables, out->arcs, PROCEDURES, VARIABLES, ARCS};
}

static void find_ways(const struct drawn *d, bool reaches[PROCEDURES][PROCEDURES])
{
    memset(reaches, 0, sizeof(bool[PROCEDURES][PROCEDURES]));
    for (unsigned a = 0; a < ARCS; a++)
        reaches[d->arcs[a].caller][d->arcs[a].callee] = true;
    for (unsigned k = 0; k < PROCEDURES; k++)
        for (unsigned i = 0; i < PROCEDURES; i++)
            for (unsigned j = 0; j < PROCEDURES; j++)
                reaches[i][j] |= reaches[i][k] && reaches[k][j];
}

static void who_may_be_active_together_shares_nothing(void **unused)
{
    (void)unused;
    struct rng g = {1};
    unsigned shared = 0;
    for (unsigned round = 0; round < 400; round++) {
        struct drawn d;
        bool reaches[PROCEDURES][PROCEDURES];
        uint32_t in[VARIABLES];
        draw(&g, round % 2, &d);
        find_ways(&d, reaches);
        regs_allocate(&d.p, VARIABLES, REGS_MEASURED, in);
        for (unsigned x = 0; x < VARIABLES; x++)
            for (unsigned y = x + 1; y < VARIABLES; y++) {
                if (in[x] != in[y] || in[x] == ID_NONE)
                    continue;
                uint32_t a = d.variables[x].procedure, b = d.variables[y].procedure;
                assert_true(a != ID_NONE && b != ID_NONE && a != b); /* globals alone; two locals of one apart */
                assert_false(reaches[a][b] || reaches[b][a]);
                shared++;
            }
    }
    assert_true(shared > 1000);
}

/* What is inserted and removed, by the definition, from where the variables are. */
static void loads_and_stores_add_up(void **unused)
{
    (void)unused;
    struct rng g = {2};
    for (unsigned round = 0; round < 200; round++) {
        struct drawn d;
        bool reaches[PROCEDURES][PROCEDURES];
        uint32_t in[VARIABLES];
        draw(&g, true, &d);
        find_ways(&d, reaches);
        unsigned registers = 1 + (unsigned)rng_below(&g, 20);
        struct regs_allocation a = regs_allocate(&d.p, registers, REGS_ESTIMATED, in);
        double loads = 0, stores = 0, recursive = 0;
        for (unsigned v = 0; v < VARIABLES; v++) {
            loads += in[v] != ID_NONE ? d.variables[v].loads[REGS_MEASURED] : 0;
            stores += in[v] != ID_NONE ? d.variables[v].stores[REGS_MEASURED] : 0;
            assert_true(in[v] == ID_NONE || in[v] < a.registers);
        }
        for (unsigned k = 0; k < ARCS; k++)
            for (unsigned v = 0; v < VARIABLES && reaches[d.arcs[k].callee][d.arcs[k].caller]; v++)
                recursive += in[v] != ID_NONE && d.variables[v].procedure == d.arcs[k].caller
                                 ? d.arcs[k].calls[REGS_MEASURED]
                                 : 0;
        assert_true(a.registers <= registers);
        assert_true(loads == a.loads && stores == a.stores && recursive == a.recursive && a.indirect == 0);
    }
}

/* The two that are used most, of which each would do with estimates the other way round. */
static void measured_use_chooses_better(void **unused)
{
    (void)unused;
    struct regs_procedure procedures[1] = {{1, false}};
    struct regs_variable variables[] = {
        {0, {100, 1}, {0, 0}}, {ID_NONE, {10, 50}, {1, 7}}, {0, {1, 90}, {0, 3}}, {ID_NONE, {0, 0}, {0, 0}}};
    struct regs_program p = {procedures, variables, NULL, 1, 4, 0};
    struct regs_allocation e = regs_allocate(&p, 1, REGS_ESTIMATED, NULL),
                           m = regs_allocate(&p, 1, REGS_MEASURED, NULL);
    assert_true(e.loads == 1 && e.stores == 0 && m.loads == 90 && m.stores == 3);
    m = regs_allocate(&p, 8, REGS_MEASURED, NULL);
    assert_true(m.registers == 3 && m.loads == 141 && m.stores == 10); /* none for what is not used */
}

static void calls_through_pointers_save_what_they_may_reach(void **unused)
{
    (void)unused;
    /* 0 calls through a pointer; 1 may be called so and calls 2; 3 is called by 0 */
    struct regs_procedure procedures[] = {{1, false}, {5, true}, {5, false}, {1, false}};
    struct regs_variable variables[] = {
        {1, {9, 9}, {0, 0}}, {2, {8, 8}, {0, 0}}, {0, {7, 7}, {0, 0}}, {ID_NONE, {6, 6}, {0, 0}}};
    struct regs_arc arcs[] = {{0, ID_NONE, {1, 5}}, {1, 2, {1, 5}}, {0, 3, {1, 1}}};
    struct regs_program p = {procedures, variables, arcs, 4, 4, 3};
    struct regs_allocation a = regs_allocate(&p, 8, REGS_MEASURED, NULL);
    assert_true(a.pseudo == 3 && a.registers == 3); /* 0's local shares with 2's: nobody calls 1 from 0 by name */
    assert_true(a.indirect == 5 * 2 && a.recursive == 0);
}

/* ---- windows ---- */

static struct regs_traffic chain(unsigned length, unsigned windows, unsigned at_once, double times)
{
    struct regs_procedure *procedures = calloc(length, sizeof *procedures);
    struct regs_arc *arcs = calloc(length, sizeof *arcs);
    for (unsigned i = 0; i < length; i++) {
        procedures[i].calls = i ? times : 1;
        if (i + 1 < length)
            arcs[i] = (struct regs_arc){i, i + 1, {1, times}};
    }
    struct regs_variable variables[] = {{1, {3, 3}, {2, 2}}, {1, {9, 9}, {1, 1}}, {ID_NONE, {50, 50}, {50, 50}}};
    struct regs_program p = {procedures, variables, arcs, length, 3, length - 1};
    struct regs_windows w = {windows, 1, at_once};
    struct regs_traffic t = regs_windows(&p, &w, 1);
    free(procedures);
    free(arcs);
    return t;
}

static void windows_overflow_where_calls_are_deep(void **unused)
{
    (void)unused;
    struct regs_traffic t = chain(10, 4, 1, 1);
    assert_true(t.calls == 10 && t.simulated == 10 && t.depth == 10);
    assert_true(t.overflows == 7 && t.underflows == 7); /* three of the ten fit */
    assert_true(t.stores_inserted == 7 && t.loads_inserted == 7);
    assert_true(t.loads == 9 && t.stores == 1); /* a window of one takes what is used most; no globals */
    t = chain(10, 11, 1, 1);
    assert_true(t.overflows == 0 && t.underflows == 0);
    t = chain(10, 4, 3, 1);
    assert_true(t.overflows == 3 && t.stores_inserted == 9);
    t = chain(2, 3, 1, 1000); /* a loop of calls: nothing is ever stored */
    assert_true(t.overflows == 0 && t.depth == 2 && t.simulated == 1001);
    t = chain(2, 2, 1, 1000); /* one window only: each call stores it, each return loads it */
    assert_true(t.overflows == 1000 && t.underflows == 1000);
}

/* ---- promotion ---- */

enum { FUNCTIONS = 20, CANDIDATES = 12, CALLS = 26 };

struct promotion {
    struct regs_promotion_function functions[FUNCTIONS];
    struct regs_arc arcs[CALLS];
    uint32_t users[CANDIDATES][2];
    struct regs_promotable variables[CANDIDATES];
    struct regs_promotion p;
};

static void draw_promotion(struct rng *g, struct promotion *d)
{
    memset(d, 0, sizeof *d);
    for (unsigned f = 0; f < FUNCTIONS; f++) {
        d->functions[f].uses = (uint16_t)(rng_next(g) & rng_next(g) & rng_next(g));
        d->functions[f].is_entered = rng_below(g, 12) == 0;
        d->functions[f].returns_twice = rng_below(g, 20) == 0;
        d->functions[f].is_unclear = rng_below(g, 30) == 0;
    }
    for (unsigned a = 0; a < CALLS; a++)
        d->arcs[a] = (struct regs_arc){(uint32_t)rng_below(g, FUNCTIONS), (uint32_t)rng_below(g, FUNCTIONS), {0}};
    for (unsigned v = 0; v < CANDIDATES; v++) {
        d->users[v][0] = (uint32_t)rng_below(g, FUNCTIONS);
        d->users[v][1] = (uint32_t)rng_below(g, FUNCTIONS);
        d->variables[v] = (struct regs_promotable){1 + (double)rng_below(g, 50), d->users[v], 1 + rng_below(g, 2)};
    }
    d->p = (struct regs_promotion){d->functions, d->arcs,    d->variables, FUNCTIONS,
                                   CALLS,        CANDIDATES, 0xf028,       (uint16_t)(rng_below(g, 2) << 9)};
}

/* Of variable v: registers that it may have by the definition; 0 and *why. */
static uint16_t may_have(const struct promotion *d, unsigned v, bool *has_refusal)
{
    bool is_in[FUNCTIONS] = {false};
    uint16_t uses = 0;
    for (size_t i = 0; i < d->variables[v].function_count; i++)
        is_in[d->users[v][i]] = true;
    for (unsigned turn = 0; turn < FUNCTIONS; turn++)
        for (unsigned a = 0; a < CALLS; a++)
            is_in[d->arcs[a].caller] |= is_in[d->arcs[a].callee];
    *has_refusal = false;
    for (unsigned f = 0; f < FUNCTIONS; f++) {
        const struct regs_promotion_function *fn = &d->functions[f];
        uses |= is_in[f] ? fn->uses : 0;
        *has_refusal |= is_in[f] && (fn->is_entered || fn->returns_twice || fn->is_unclear);
    }
    return *has_refusal ? 0 : (uint16_t)((d->p.kept | d->p.free) & ~uses);
}

/* The most weight that registers r.. can hold of what is not yet in one. */
static double best(const uint16_t *may, const struct promotion *d, unsigned v, uint16_t taken)
{
    if (v == CANDIDATES)
        return 0;
    double most = best(may, d, v + 1, taken);
    for (unsigned r = 0; r < REGS_PROMOTION_REGISTERS; r++)
        if ((may[v] & ~taken) >> r & 1) {
            double with = d->variables[v].weight + best(may, d, v + 1, taken | (uint16_t)(1u << r));
            most = with > most ? with : most;
        }
    return most;
}

static void promotion_is_allowed_and_best(void **unused)
{
    (void)unused;
    struct rng g = {11};
    unsigned promoted = 0, refused[REGS_REFUSAL_COUNT] = {0};
    for (unsigned turn = 0; turn < 300; turn++) {
        struct promotion d;
        struct regs_promoted out[CANDIDATES];
        uint16_t may[CANDIDATES], taken = 0;
        double weight = 0;
        draw_promotion(&g, &d);
        regs_promote(&d.p, out);
        for (unsigned v = 0; v < CANDIDATES; v++) {
            bool has_refusal;
            may[v] = may_have(&d, v, &has_refusal);
            refused[out[v].refusal]++;
            if (out[v].refusal == REGS_PROMOTED) {
                assert_true(may[v] >> out[v].reg & 1);
                assert_false(taken >> out[v].reg & 1);
                taken |= (uint16_t)(1u << out[v].reg);
                weight += d.variables[v].weight;
                promoted++;
            } else if (out[v].refusal == REGS_REFUSED_BUSY) {
                assert_true(!may[v] && !has_refusal);
                assert_true(out[v].culprit == ID_NONE || d.functions[out[v].culprit].uses);
            } else if (out[v].refusal == REGS_REFUSED_FEW) {
                assert_true(may[v]);
            } else {
                const struct regs_promotion_function *fn = &d.functions[out[v].culprit];
                assert_true(has_refusal);
                assert_true(out[v].refusal == REGS_REFUSED_ENTERED ? fn->is_entered
                            : out[v].refusal == REGS_REFUSED_TWICE ? fn->returns_twice
                                                                   : fn->is_unclear);
            }
        }
        assert_true(weight == best(may, &d, 0, 0));
    }
    assert_true(promoted > 100);
    for (unsigned k = 0; k < REGS_REFUSAL_COUNT; k++)
        assert_true(refused[k] > 10);
}

/* main calls work and a library's print; print uses all registers, and saves them. */
static void who_saves_a_register_is_no_reason_unless_it_leads_to_the_variable(void **unused)
{
    (void)unused;
    enum { MAIN, WORK, PRINT, HELP };
    struct regs_promotion_function f[] = {{0x0001, false, false, false},
                                          {0x0003, false, false, false},
                                          {0xffff, false, false, false},
                                          {0xffff, true, false, false}};
    const struct regs_arc arcs[] = {{MAIN, WORK, {0}}, {WORK, PRINT, {0}}, {PRINT, HELP, {0}}, {PRINT, WORK, {0}}};
    const uint32_t users[] = {WORK}, others[] = {PRINT};
    const struct regs_promotable v[] = {{10, users, 1}, {20, others, 1}};
    struct regs_promotion p = {f, arcs, v, 4, 3, 2, 0xf000, 0};
    struct regs_promoted out[2];
    regs_promote(&p, out);
    assert_true(out[0].refusal == REGS_PROMOTED && out[0].reg == 15);
    assert_true(out[1].refusal == REGS_REFUSED_BUSY && out[1].culprit == PRINT);
    p.arc_count = 4; /* it calls back */
    regs_promote(&p, out);
    assert_true(out[0].refusal == REGS_REFUSED_BUSY && out[0].culprit == PRINT);
    p.arc_count = 3;
    f[MAIN].returns_twice = true;
    regs_promote(&p, out);
    assert_true(out[0].refusal == REGS_REFUSED_TWICE && out[0].culprit == MAIN);
    p.kept = 0;
    f[MAIN].returns_twice = false;
    regs_promote(&p, out);
    assert_true(out[0].refusal == REGS_REFUSED_BUSY && out[0].culprit == ID_NONE);
    p.free = 1 << 9; /* nobody uses it, says the caller */
    regs_promote(&p, out);
    assert_true(out[0].refusal == REGS_PROMOTED && out[0].reg == 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_may_be_active_together_shares_nothing),
        cmocka_unit_test(loads_and_stores_add_up),
        cmocka_unit_test(measured_use_chooses_better),
        cmocka_unit_test(calls_through_pointers_save_what_they_may_reach),
        cmocka_unit_test(windows_overflow_where_calls_are_deep),
        cmocka_unit_test(promotion_is_allowed_and_best),
        cmocka_unit_test(who_saves_a_register_is_no_reason_unless_it_leads_to_the_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
