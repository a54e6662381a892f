/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/replays/tlb.h: what misses of the first-level TLB cost, of replays that reach more pages than it holds.
 */
#ifndef MTOOL_ESTIMATE_REPLAYS_TLB_H
#define MTOOL_ESTIMATE_REPLAYS_TLB_H

#include "estimate/replays/fit.h"

/* Fills out[owner].tlb, and whether it is known; the rest of out is as fit_owners left it, but for a factor that wide
 * slices prove too large. `wide`: slices that reach more pages than any first-level TLB surely holds; `narrow`: slices
 * that reach fewer. Every second piece of a window is looked at for the former. */
void tlb_of_owners(const struct fit *narrow, const struct fit *wide, struct join_replay *out);

#endif
