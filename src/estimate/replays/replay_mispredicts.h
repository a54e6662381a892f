/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/replays/replay_mispredicts.h: branches that a replay may mispredict where the program does not.
 */
#ifndef MTOOL_ESTIMATE_REPLAYS_REPLAY_MISPREDICTS_H
#define MTOOL_ESTIMATE_REPLAYS_REPLAY_MISPREDICTS_H

#include "estimate/replays/trained.h"

/* Of a slice that is replayed from its begin each time: how many, of the steps that count. */
uint32_t replay_mispredicts_in(const struct window_player *p, const struct trained_slice *s);

#endif
