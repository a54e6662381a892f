/* SPDX-License-Identifier: Apache-2.0
 * The core model against counts that can be done by hand. */
#include "help.h"

/* Four wide, four units for integers of which one shifts, two loads, one store a cycle; no limits in the front end. */
static const char small_machine[] =
    "mtool-machine 1\nname \"small\"\npipeline out-of-order\nmaximum-multiple-issue 4\nretire-width 4\n"
    "fetch-window 0\nfetch-ops 0\ntaken-interval 0\nindex-latency 1\nforward 5\nforward-fail 12\nreorder 64\n"
    "bind-at-dispatch 0\nscheduler all 32\n"
    "unit p0 scheduler all\nunit p1 scheduler all\nunit p2 multiplicity 2 scheduler all\nunit ld multiplicity 2 "
    "scheduler all\n"
    "unit st scheduler all\nunit div issue-latency 10 scheduler all\ngroup alu p0 p1 p2\n"
    "class other result-latency 1 on alu\nclass int result-latency 1 on alu\nclass shift result-latency 1 on p0\n"
    "class imul result-latency 3 on p1\nclass fadd result-latency 4 on p0\nclass div64 result-latency 20 on div\n"
    "class eliminated result-latency 0 on none\nclass load result-latency 4 on ld\nclass store result-latency 1 on st\n"
    "class branch result-latency 1 on p0\nform \"mov r64,r64\" eliminated\nend\n";

#define COST(...)                                                                                                      \
    loop_cost(small_machine, (const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__})), false)

static void chain_of_adds_takes_a_cycle_each(void **state)
{
    (void)state;
    NEAR(COST("4801d8"), 1); /* add rax,rbx */
    NEAR(COST("4801d8", "4801d8", "4801d8"), 3);
}

static void independent_adds_fill_the_width(void **state)
{
    (void)state;
    NEAR(COST("4801d8", "4801d9", "4801da", "4801de"), 1);
    NEAR(COST("488d4301", "488d4b01", "488d5301", "488d7301", "488d7b01", "4c8d4301", "4c8d4b01", "4c8d5301"),
         2); /* lea r,[rbx+1] */
}

static void latency_and_units_bind(void **state)
{
    (void)state;
    NEAR(COST("480fafc3"), 3);                         /* imul chain */
    NEAR(COST("480fafc3", "480fafcb", "480fafd3"), 3); /* three on one unit, each a chain of 3 */
    NEAR(COST("480fafc3", "480fafcb", "480fafd3", "480faff3"), 4);
    NEAR(COST("48d1e0", "48d1e1"), 2); /* two shifts, one shifter */
    NEAR(COST("48f7f1"), 20);          /* div chain through rax */
}

static void moves_and_zero_idioms_cost_slots_only(void **state)
{
    (void)state;
    NEAR(COST("4889d8", "4801c3"), 1);             /* mov rax,rbx; add rbx,rax */
    NEAR(COST("31c0", "31c9", "31d2", "31f6"), 1); /* xor r,r */
    NEAR(COST("480fafc3", "31c0"), 1);             /* the chain is cut: one unit, one a cycle */
}

static void loads_chain_and_fill_units(void **state)
{
    (void)state;
    NEAR(COST("488b00"), 4);                               /* mov rax,[rax] */
    NEAR(COST("488b0400"), 5);                             /* mov rax,[rax+rax]: indexed */
    NEAR(COST("488b03", "488b0b", "488b13", "488b33"), 2); /* four loads, two units */
    NEAR(COST("480303"), 1);                               /* add rax,[rbx]: the load is off the chain */
}

static void stores_forward_to_loads(void **state)
{
    (void)state;
    NEAR(COST("48890424", "488b0424"), 5);   /* mov [rsp],rax; mov rax,[rsp] */
    NEAR(COST("48830001"), 6);               /* add [rax],1: forward 5 and the add */
    NEAR(COST("880424", "488b0424"), 12);    /* byte store, wide load */
    NEAR(COST("50", "58"), 5);               /* push rax; pop rax */
    NEAR(COST("48890424", "488b442408"), 1); /* other slot: store unit binds */
}

static void compare_and_jump_are_one_slot(void **state)
{
    (void)state;
    const char *const loop[] = {"4883c001", "4883c101", "4883c201", "4839fe", "75ee"};
    double fused = loop_cost(small_machine, loop, ARRAY_LEN(loop), true);
    NEAR(fused, 1);
}

static void the_window_limits_overlap(void **state)
{
    (void)state;
    /* Two chained divisions an iteration apart by more than the reorder buffer cannot overlap with what follows. */
    const char *hex[32];
    hex[0] = "48f7f1";
    for (int i = 1; i < 32; i++)
        hex[i] = "90";
    double cost = loop_cost(small_machine, hex, 32, false);
    assert_true(cost >= 20 && cost < 21.5);
}

static void what_binds_is_told(void **state)
{
    (void)state;
    struct machine *m = machine_of(small_machine);
    struct sim_insn table[4];
    const char *const hex[] = {"480fafc3", "4801d9"};
    struct sim_core *c = core_of(m, table, hex, 2);
    for (int t = 0; t < 1000; t++)
        for (uint32_t i = 0; i < 2; i++)
            sim_core_step(c, i, 0, 0);
    const struct sim_cost *k = sim_core_costs(c);
    assert_true(k[0].bound[SIM_BOUND_CHAIN] + k[1].bound[SIM_BOUND_CHAIN] > 0.95 * sim_core_cycles(c));
    sim_core_free(c);
    machine_free(m);
}

static void mispredictions_are_waited_for(void **state)
{
    (void)state;
    struct machine *m = machine_of(small_machine);
    struct sim_insn table[4];
    const char *const hex[] = {"4839fe", "75fb"};
    struct sim_core *c = core_of(m, table, hex, 2);
    for (int t = 0; t < 100; t++) {
        sim_core_step(c, 0, 0, 0);
        sim_core_step(c, 1, 0, SIM_TAKEN | SIM_MISPREDICTED);
    }
    double each = sim_core_cycles(c) / 100;
    assert_true(each > m->mispredict && each < m->mispredict + 6);
    sim_core_free(c);
    machine_free(m);
}

static double decstation(const char *const *hex, size_t n)
{
    struct machine *m = NULL;
    assert_int_equal(machine_read(MACHINES_DIR "/decstation-3100.machine", &m), 0);
    struct strbuf text = {0};
    machine_format(m, &text);
    double cost = loop_cost(text.data, hex, n, true);
    str_free(&text);
    machine_free(m);
    return cost;
}
#define DEC(...) decstation((const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

static void in_order_machine_gives_the_textbook_count(void **state)
{
    (void)state;
    /* sum of an array: load, (delay slot) add pointer, add value, compare and branch: nothing waits */
    NEAR(DEC("488b03", "4883c308", "4801c1", "4839fb", "75ef"), 5);
    /* the same with the use in the delay slot: one interlock */
    NEAR(DEC("488b03", "4801c1", "4883c308", "4839fb", "75ef"), 6);
    /* double precision: addsd waits 1 behind a load, mulsd 5, then the add 2 more */
    NEAR(DEC("f20f1003", "f20f59c1", "f20f58d0", "4883c308", "4839fb", "75ea"), 11);
    /* a multiplication, and its result at once: 12 */
    NEAR(DEC("480fafc3", "4801c1"), 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_of_adds_takes_a_cycle_each),
        cmocka_unit_test(independent_adds_fill_the_width),
        cmocka_unit_test(latency_and_units_bind),
        cmocka_unit_test(moves_and_zero_idioms_cost_slots_only),
        cmocka_unit_test(loads_chain_and_fill_units),
        cmocka_unit_test(stores_forward_to_loads),
        cmocka_unit_test(compare_and_jump_are_one_slot),
        cmocka_unit_test(the_window_limits_overlap),
        cmocka_unit_test(what_binds_is_told),
        cmocka_unit_test(mispredictions_are_waited_for),
        cmocka_unit_test(in_order_machine_gives_the_textbook_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
