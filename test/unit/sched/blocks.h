/* SPDX-License-Identifier: Apache-2.0
 * Blocks drawn at random for tests of the scheduler, and what the processor makes of one in a given order. */
#ifndef TEST_SCHED_BLOCKS_H
#define TEST_SCHED_BLOCKS_H

#include "sched/sched.h"

struct drawn { /* a block, its instructions' bytes behind it */
    struct sched_block b;
    struct sched_insn insns[SCHED_MAX];
    uint8_t bytes[SCHED_MAX][15];
};
/* Arithmetic, moves, loads and stores of all widths over a few registers and overlapping memory: many dependences. */
void draw_block(struct rng *g, uint32_t count, struct drawn *out);

enum { STATE_MEMORY = 256 };
struct state { /* before or after a block */
    uint64_t gpr[16], flags;
    uint8_t xmm[16][16];
    uint8_t memory[STATE_MEMORY], stack[STATE_MEMORY];
};
void draw_state(struct rng *g, struct state *out);
/* Executes the block's instructions in that order on this processor. */
void execute(const struct drawn *d, const uint8_t *at, struct state *s);
/* Are two states the same to who reads these flags? */
bool is_same_state(const struct state *a, const struct state *b, uint8_t flags_live);

/* One of the orders that the graph allows, at random. */
void draw_order(struct rng *g, const struct sched_graph *graph, uint8_t at[SCHED_MAX]);
bool is_allowed(const struct sched_graph *graph, const uint8_t at[SCHED_MAX]);

#endif
