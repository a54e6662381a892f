/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/replays/training.h: which of several slices that do the same are as the program is.
 */
#ifndef MTOOL_ESTIMATE_REPLAYS_TRAINING_H
#define MTOOL_ESTIMATE_REPLAYS_TRAINING_H

#include "estimate/replays/fit.h"

/* Leaves out slices that may learn and take longer than another of the same work. */
void training_drop_unfinished(struct fit *f);

#endif
