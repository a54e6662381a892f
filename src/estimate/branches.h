/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/branches.h: how much of what the model says of mispredicted branches is told of the program.
 */
#ifndef MTOOL_ESTIMATE_BRANCHES_H
#define MTOOL_ESTIMATE_BRANCHES_H

#include "estimate/estimate.h"

struct branches_owner { /* a loop's or function's own code */
    double branch;      /* cycles of mispredicted branches, by the model */
    double cycles;      /* the others, as they are told */
    uint64_t samples;
    struct join_replay replay;
    double part;  /* out: of `branch`, what is told: 0 ... 1 */
    double error; /* out: standard error of what replays of few windows took off, in cycles */
};
void branches_judge(struct join *j, struct branches_owner *owners, size_t count);

#endif
