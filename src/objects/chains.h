/* SPDX-License-Identifier: Apache-2.0
 *
 * objects/chains.h: the program's time in some code and on its behalf, by samples with the calls that led to them.
 */
#ifndef MTOOL_OBJECTS_CHAINS_H
#define MTOOL_OBJECTS_CHAINS_H

#include "objects/objects.h"

struct chains;
struct chained {                         /* samples */
    uint64_t user, kernel;               /* in the code, or in what it called */
    uint64_t uncounted;                  /* of user: in code that is not counted */
    uint64_t user_unsure, kernel_unsure; /* neither seen inside nor to the beginning */
    uint64_t user_all, kernel_all;       /* of the program */
};

/* In j->scratch; NULL: the calls that led to samples are not known (no sampler that tells, or several processes). */
const struct chains *chains_open(struct join *j);
/* The innermost procedure that is called once and has all that the program does among its calls' work but what starts
 * and ends it: by number; ID_NONE: there is none. */
uint32_t chains_root(const struct join *j, const struct chains *c);
struct chained_share {                /* samples */
    uint64_t inside, all;             /* in its own code */
    uint64_t below_inside, below_all; /* or in what that called */
};
/* By node of the graph: of samples in its own code but for what is `inside`, and of those with what it called, how many
 * are on its behalf. Of the code that chains_within was asked about last; adds to out. */
void chains_by_node(const struct chains *c, const uint8_t *inside, const uint32_t *node_of, struct chained_share *out);
struct chained chains_within(const struct chains *c, const uint8_t *inside /* by number of a block */);

#endif
