/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks of several threads into one order that could have been. Of a chunk is known when it began and when it ended;
 * when its entries were made is not. Spread: each at its part of that time. Early: one after the other from the
 * beginning, at the pace that chunks of its area usually have, if that is faster; so what waited in the middle of a
 * chunk, where nobody knows, waits behind its entries. Threads hand over chunks when they are full, so some are held
 * back until others that were filled at the same time have come.
 */
#ifndef MTOOL_CMD_SPY_MERGE_H
#define MTOOL_CMD_SPY_MERGE_H

#include "launch/launch.h"

enum merge_order { MERGE_SPREAD, MERGE_EARLY };
typedef void (*merge_take)(void *ctx, const struct launch_chunk *piece); /* of a chunk: some of its entries, in order */

struct merge; /* opaque */
struct merge *merge_new(enum merge_order order, merge_take take, void *ctx);
void merge_add(struct merge *m, const struct launch_chunk *c); /* copied if it is held back */
/* To both, the first one first; what they hold is copied, and looked through for times, once. `second` may be NULL. */
void merge_add_both(struct merge *m, struct merge *second, const struct launch_chunk *c);
void merge_until(struct merge *m, uint64_t time); /* hands over what is held and was made before */
void merge_end(struct merge *m);                  /* hands over what is held */
void merge_free(struct merge *m);

#endif
