/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/model/walks.h: paths through the program, drawn from its exact counts, and what they cost on the core model.
 */
#ifndef MTOOL_ESTIMATE_MODEL_WALKS_H
#define MTOOL_ESTIMATE_MODEL_WALKS_H

#include "estimate/estimate.h"
#include "sim/sim.h"

/* ---- paths.c: the random walk itself ---- */

enum { PATH_STACK = 256 };

struct paths {
    const struct join *j;
    const struct calls *calls;
    struct rng rng;
    uint32_t *in_first; /* by block: into in_edges; [block_count] is the end */
    struct path_in {
        uint32_t from;
        uint64_t count;
    } * in_edges;      /* executed ones */
    struct path_draw { /* blocks, and for each the sum of weights up to and with it */
        uint32_t *blocks;
        uint64_t *up_to;
        uint32_t count;
    } executed, entered;                    /* by instructions executed; by entries from code that is not known */
    uint64_t *outside;                      /* by block: its entries from code that is not known */
    uint32_t stack[PATH_STACK], top, depth; /* return points; the oldest fall off */
};
void paths_init(struct paths *p, struct join *j, uint64_t seed); /* arrays in j->scratch */
uint32_t
paths_draw_start(struct paths *p); /* a block, in proportion to the instructions it executed; ID_NONE: none did */
/* Where control comes in again after a way has ended: with an empty stack, in proportion to entries from the unknown.
 */
uint32_t paths_draw_entry(struct paths *p);
/* The way on from a block, in proportion to the counts; ID_NONE: it ends here. Keeps the stack of return points.
 * *opaque: code that is not known runs in between (a call that could not be followed). */
uint32_t paths_next(struct paths *p, uint32_t block, bool *opaque);
/* Blocks that led to `block`, drawn backwards until they hold `insns` instructions; in forward order, `block` not with
 * them. Returns how many; out has room for `max`. Empties the stack. */
uint32_t paths_before(struct paths *p, uint32_t block, uint32_t insns, uint32_t *out, uint32_t max);
/* As paths_next, for a way already drawn. */
void paths_follow(struct paths *p, uint32_t block, uint32_t next, bool *opaque);

/* ---- walks.c: random walks through the core model ---- */

struct walks; /* opaque */
/* Draws random walks, fills j->walks, j->cycles and the errors of loops and functions. Nothing if the machine gives no
 * clock, or nothing ran. */
void walks_run(struct join *j);
void walks_free(struct walks *w);
struct bound_sums {
    double by[SIM_BOUND_COUNT];
    double by_port[MACHINE_PORT_MAX]; /* of by[SIM_BOUND_UNIT] */
};
/* Adds what bound all executions of a block, in cycles; nothing for a block that was not walked. */
void walks_add_bound(const struct walks *w, uint32_t block, struct bound_sums *to);
/* The same of the block's n-th instruction alone. Returns its part of what one execution of the block takes; NAN: the
 * model never met it. */
double walks_add_bound_of(const struct walks *w, uint32_t block, uint32_t n, struct bound_sums *to);
/* "chain", "load", "unit NAME", "width", "front end"; NULL: unknown. Lives as long as `a`. */
const char *walks_bound_name(const struct walks *w, const struct bound_sums *s, struct arena *a);

#endif
