/* SPDX-License-Identifier: Apache-2.0
 * See help.h. */
#include "help.h"

static uint8_t digit(char c) { return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

struct machine *machine_of(const char *text)
{
    struct machine *m = NULL;
    assert_int_equal(machine_parse("test", text, strlen(text), &m), 0);
    return m;
}

struct sim_core *core_of(const struct machine *m, struct sim_insn *table, const char *const *hex, size_t n)
{
    uint64_t at = 0x1000;
    static struct sim_shapes *shapes;
    shapes = shapes ? shapes : sim_shapes_new(); /* they outlive every core */
    for (size_t i = 0; i < n; i++) {
        uint8_t bytes[15];
        size_t len = strlen(hex[i]) / 2;
        for (size_t k = 0; k < len; k++)
            bytes[k] = (uint8_t)(digit(hex[i][2 * k]) << 4 | digit(hex[i][2 * k + 1]));
        assert_int_equal(sim_insn_prepare(m, shapes, bytes, len, at, &table[i]), 0);
        at += len;
    }
    return sim_core_new(m, table, n, NULL);
}

double loop_cost(const char *machine, const char *const *hex, size_t n, bool jumps)
{
    struct machine *m = machine_of(machine);
    struct sim_insn table[32];
    struct sim_core *c = core_of(m, table, hex, n);
    enum { ITERATIONS = 4000 };
    sim_core_reset_pipeline(c, 200 * (uint32_t)n);
    for (int t = 0; t < ITERATIONS + 200; t++)
        for (uint32_t i = 0; i < n; i++)
            sim_core_step(c, i, 0, jumps && i == n - 1 ? SIM_TAKEN : 0);
    double all = sim_core_cycles(c), sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += sim_core_costs(c)[i].cycles;
    assert_true(fabs(all - sum) < 1e-6 * all);
    assert_int_equal(sim_core_costs(c)[0].count, ITERATIONS);
    sim_core_free(c);
    machine_free(m);
    return all / ITERATIONS;
}
