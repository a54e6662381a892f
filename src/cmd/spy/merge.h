/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks of several threads into one order that could have been: each entry at its part of the time that its chunk took
 * to be filled. Threads hand over chunks when they are full, so some are held back until others that were filled at the
 * same time have come.
 */
#ifndef MTOOL_CMD_SPY_MERGE_H
#define MTOOL_CMD_SPY_MERGE_H

#include "launch/launch.h"

typedef void (*merge_take)(void *ctx, const struct launch_chunk *piece); /* of a chunk: some of its entries, in order */

struct merge; /* opaque */
struct merge *merge_new(merge_take take, void *ctx);
void merge_add(struct merge *m, const struct launch_chunk *c); /* copied if it is held back */
void merge_end(struct merge *m);                               /* hands over what is held */
void merge_free(struct merge *m);

#endif
