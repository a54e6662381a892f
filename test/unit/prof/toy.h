/* SPDX-License-Identifier: Apache-2.0
 *
 * toy: modules made by hand for the tests of prof: functions, blocks, edges and loops with the counts that they are to
 * have, a counter for every one of them. Blocks follow each other in memory, each INSN_BYTES * instructions long.
 * toy.c stands in for rewrite_counts_solve: there is nothing to solve, and the real one reads maps of its own making
 * only.
 */
#ifndef MTOOL_TEST_TOY_H
#define MTOOL_TEST_TOY_H

#include "estimate/model/walks.h"
#include "prof/impl.h"

enum { TOY_INSN_BYTES = 4, TOY_BASE = 0x1000 };

struct toy_edge_count {
    struct cfg_edge edge;
    uint64_t count;
};
struct toy {
    const char *path;
    struct cfg cfg;
    struct rewrite_map map;
    struct image *img; /* of toy_read, and what it built; NULL in one made by hand */
    struct cfg *built;
    struct prof_input_module module;
    VEC(uint64_t) block_count;
    VEC(uint64_t) enter_count;
    VEC(struct toy_edge_count) edges;
    VEC(uint64_t) counters;
    uint64_t next;
};
void toy_init(struct toy *t, const char *path);
uint32_t toy_func(struct toy *t); /* begins a function; blocks and loops that follow are its own */
/* `enter`: times it is entered from outside (calls, returns that no RETURN edge counts). */
uint32_t toy_block(struct toy *t, uint16_t insns, uint16_t mem_ops, unsigned flags, unsigned term, uint64_t count,
                   uint64_t enter);
void toy_edge(struct toy *t, uint32_t from, uint32_t to, enum cfg_edge_kind kind, uint64_t count);
/* Members end with ID_NONE; blocks that belong to no deeper loop yet get this as their innermost, so make outer loops
 * first. */
uint32_t toy_loop(struct toy *t, uint32_t header, uint32_t parent, const uint32_t *members);
void toy_done(struct toy *t);
void toy_fini(struct toy *t);
/* A real program instead, its counts all 0 at first. */
void toy_read(struct toy *t, const char *path);
void toy_set(struct toy *t, uint32_t block, uint64_t count);
void toy_set_edge(struct toy *t, uint32_t from, uint32_t to, uint64_t count);
uint64_t toy_addr(const struct toy *t, uint32_t block);
/* for (i) for (k): blocks pre, outer header, inner header, outer latch, exit. Entered `calls` times, outer `n`, inner
 * `k`. */
void toy_nest(struct toy *t, uint64_t calls, uint64_t n, uint64_t k);

#endif
