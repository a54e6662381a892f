/* SPDX-License-Identifier: Apache-2.0
 * What the files of the core model share: ticks, the properties of a prepared instruction, the values of registers. */
#ifndef MTOOL_SIM_IMPL_H
#define MTOOL_SIM_IMPL_H

#include "sim/sim.h"

enum { QUEUE_SEVERAL = 254, QUEUE_NONE = 255 }; /* sim_use.queue: that of the unit, once it is chosen; none */

enum { TICK_SHIFT = 10, TICK = 1 << TICK_SHIFT }; /* ticks in a cycle */
_Static_assert(1 << TICK_SHIFT == (int)SIM_CYCLE, "one clock");

enum {
    INSN_LOAD = 1,
    INSN_STORE = 2,
    INSN_VEC_ACCESS = 4, /* the memory side belongs to a vector register */
    INSN_BRANCH = 8,
    INSN_CALL = 16,
    INSN_RET = 32,
    INSN_INDIRECT = 64,
    INSN_REP = 128,
    INSN_SERIAL = 256,
    INSN_STACK = 512,   /* the access is through rsp, moved by a stack engine */
    INSN_HAS_OP = 1024, /* something beyond the access */
    INSN_INT_RESULT = 2048,
    INSN_VEC_RESULT = 4096,
    INSN_INDEXED = 8192,
    INSN_CROSSES = 16384,     /* a branch that the fetch takes slowly */
    INSN_LOAD_RESULT = 32768, /* the result comes straight from memory */
    INSN_NOP = 65536,
    INSN_ZERO = 131072,  /* done in renaming: zero idiom ... */
    INSN_MOVED = 262144, /* ... or move */
};

static inline int64_t ticks(double cycles) { return (int64_t)(cycles * TICK + 0.5); }

/* In order: where the cycle begins whose next slot is at `at`; what is given a unit starts then. */
static inline int64_t cycle_of_slot(int64_t at) { return at & ~(int64_t)(TICK - 1); }
/* The slot behind that of what started at `start` when the next one was at `at`. */
static inline int64_t slot_behind(int64_t at, int64_t start, double max_issue)
{
    int64_t step = ticks(1 / max_issue), next = (at > start ? at : start) + step, rest = -next & (TICK - 1);
    return 2 * rest < step ? next + rest : next; /* a third of a cycle, three times, is a cycle */
}

/* ---- prepare.c ---- */

/* The scheduler that feeds these ports: an index, QUEUE_SEVERAL or QUEUE_NONE. */
uint8_t sim_queue_of(const struct machine *m, uint32_t ports);

/* ---- values.c: pseudo-values of the general registers, so that equal addresses are found equal ---- */

enum { VALUE_CACHE = 4096 };
struct sim_values {
    uint64_t reg[16];
    uint64_t state; /* of the generator of fresh values */
    struct {
        uint64_t addr, value;
    } memory[VALUE_CACHE];
};
void sim_values_init(struct sim_values *v, uint32_t seed);
/* The address that this instruction's operand has, before it is executed. */
uint64_t sim_values_address(const struct sim_values *v, const struct sim_insn *i);
/* Executes the instruction on the values; `addr` as from sim_values_address or the true one. */
void sim_values_step(struct sim_values *v, const struct sim_insn *i, uint64_t addr);

/* How much each unit is asked for by what the description says of all operations (issue.c); added to what is there. */
void sim_find_demand(const struct machine *m, float demand[MACHINE_PORT_MAX]);

#endif
