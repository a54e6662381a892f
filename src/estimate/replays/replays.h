/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/replays/replays.h: warm replays correct the model.
 */
#ifndef MTOOL_ESTIMATE_REPLAYS_REPLAYS_H
#define MTOOL_ESTIMATE_REPLAYS_REPLAYS_H

#include "estimate/model/windows.h"
#include "estimate/replays/fit.h"

struct replays; /* opaque */
/* owner_of: loop or function, by number, whose own code is at a place; called for places that the player knows only. */
struct replays *replays_new(uint32_t (*owner_of)(void *ctx, uint64_t place), void *ctx);
void replays_free(struct replays *r);
/* Core cycles in a tick beside the replays; 0: there were none. */
double replays_clock(const struct prof_input_window *w, size_t n);
/* All windows, before any is added. */
void replays_see(struct replays *r, const struct prof_input_window *w, size_t n);
/* How much longer replays may have taken since a neighbour was on the core beside nearly all; 1: not longer. */
double replays_shared(const struct replays *r);
void replays_add(struct replays *r, const struct window_player *p,
                 const struct prof_input_window *w); /* a window's slices */
/* out[owner]. core: what instructions cost in the model. */
void replays_tell(struct replays *r, const struct sim_core *core, const struct fit_known *known, size_t owner_count,
                  struct join_replay *out);

#endif
