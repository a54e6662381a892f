/* SPDX-License-Identifier: Apache-2.0
 *
 * prof/chains.h: the program's time in some code and on its behalf, by samples with the calls that led to them.
 */
#ifndef MTOOL_PROF_CHAINS_H
#define MTOOL_PROF_CHAINS_H

#include "prof/impl.h"

struct chains;
struct chained {                         /* samples */
    uint64_t user, kernel;               /* in the code, or in what it called */
    uint64_t uncounted;                  /* of user: in code that is not counted */
    uint64_t user_unsure, kernel_unsure; /* neither seen inside nor to the beginning */
    uint64_t user_all, kernel_all;       /* of the program */
};

/* In j->scratch; NULL: the calls that led to samples are not known (no sampler that tells, or several processes). */
const struct chains *chains_open(struct join *j);
struct chained chains_within(const struct chains *c, const uint8_t *inside /* by number of a block */);

#endif
