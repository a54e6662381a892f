/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd/bursts.h: what mtool run and mtool dump window share: bursts are translated, and a predictor sees the branches of
 * all.
 */
#ifndef MTOOL_CMD_BURSTS_H
#define MTOOL_CMD_BURSTS_H

#include "launch/launch.h"
#include "sim/sim.h"
#include "trace/trace.h"

struct bursts {
    struct trace *trace; /* NULL until the program runs */
    struct sim_predictor *predictor;
};
void bursts_init(struct bursts *s);
void bursts_fini(struct bursts *s);
/* For launch_burst_options; ctx: a struct that begins with struct bursts. */
void bursts_begin(void *ctx, const struct wire_bursts *file);
void bursts_answer(void *ctx, struct wire_bursts *file);
void bursts_finish(void *ctx, launch_place_of place, struct spaces *spaces); /* fills the blocks' places */

struct bursts_branches {
    uint64_t all, mispredicted;
};
/* Whole records, in order of time. wrong: a bit for each branch of the first `marked` bytes of records, set if
 * mispredicted; NULL: not wanted. Room for a bit for each 4 bytes. */
struct bursts_branches bursts_predict(struct bursts *s, const void *records, size_t bytes, uint8_t *wrong,
                                      size_t marked);

#endif
