/* SPDX-License-Identifier: Apache-2.0
 * A life table of two ends, from the oldest age on. */
#include "cache/windows/ages.h"

void ages_solve(const struct ages *a, double out[AGES])
{
    double part = 0.5, older = 0; /* of those that are older than all that was seen, nothing is known */
    for (unsigned age = AGES; age-- > 0;) {
        double hit = (double)a->hits[age], missed = (double)a->misses[age], first = (double)a->firsts[age];
        double there = older + hit + missed + first / 2; /* firsts leave in the middle of their age */
        double hits = there > 0 ? hit / there : 0, misses = there > 0 ? missed / there : 0;
        out[age] = misses / 2 + (1 - (hits + misses) / 2) * part;
        part = misses + (1 - hits - misses) * part;
        older += hit + missed + first;
    }
}
