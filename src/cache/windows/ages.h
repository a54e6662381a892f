/* SPDX-License-Identifier: Apache-2.0
 *
 * Of windows, whose begin nothing is known of: how probably a reference misses that is the first to its line in a
 * window which is t references long so far (its age), while the line's set does not show yet that the line has left.
 *
 * The other references of windows tell. A hit whose line was used g references before would have been such a first one
 * in any window that begins less than g before it; so would a miss, if the line that it evicts was used g before. So
 * those that are there at age t end as a hit or as a miss at their g, or are not followed any longer (firsts, at their
 * age): a life table with two ends and what is censored (Aalen and Johansen 1978, by ages as actuaries have them).
 * What is left behind the oldest age is half of each. A cache that windows never fill shows hits alone, but then nearly
 * all are firsts, and near to half is told.
 *
 * Ages are told apart by their powers of two.
 */
#ifndef MTOOL_CACHE_AGES_H
#define MTOOL_CACHE_AGES_H

#include "base/base.h"

enum { AGES = 32 };
struct ages { /* by age, in references to the level */
    uint64_t hits[AGES], misses[AGES], firsts[AGES];
};

static inline unsigned age_of(uint32_t references) { return references ? 31 - (unsigned)__builtin_clz(references) : 0; }

/* out[age]: the part of the firsts of that age that misses. */
void ages_solve(const struct ages *a, double out[AGES]);

#endif
