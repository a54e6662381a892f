/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd/run/bursts.h: what mtool run and mtool dump window share: bursts are translated, and a predictor sees the
 * branches of all.
 */
#ifndef MTOOL_CMD_RUN_BURSTS_H
#define MTOOL_CMD_RUN_BURSTS_H

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
void bursts_finish(void *ctx, launch_place_of place, struct spaces *spaces); /* fills in places */

/* What the launcher gives, up to `references`: see trace_records. */
struct trace_window bursts_window(const struct bursts *s, const struct launch_burst *w, uint64_t references);
struct bursts_places {
    launch_place_of place;
    struct spaces *spaces;
};
uint64_t bursts_place(void *ctx, uint64_t address); /* of a struct bursts_places; see trace_place_of */

struct bursts_branches {
    uint64_t all, mispredicted;
};
/* Windows in order of time. wrong: a bit for each branch whose way is known from the first `marked` instructions, set
 * if mispredicted; NULL: not wanted. */
struct bursts_branches bursts_predict(struct bursts *s, const struct trace_window *w, uint8_t *wrong, uint64_t marked);

#endif
