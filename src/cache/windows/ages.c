/* SPDX-License-Identifier: Apache-2.0
 * A life table of two ends, from the oldest age on. */
#include "cache/windows/ages.h"

enum { KNOWN_MIN = 100, PRIOR = 10 }; /* in full sets, of the oldest that there are; so many are known to begin with */

/* Of those that are older than all that was seen: as the oldest in sets that are full; but these are not as all are
 * where only some are full, so of the part of old hits that is in others, half. */
static double oldest(const struct ages *a)
{
    double misses = 0, hits = 0, full_hits = 0;
    for (unsigned age = AGES; age-- > 0 && misses + full_hits < KNOWN_MIN;) {
        misses += (double)a->misses[age];
        full_hits += (double)a->full_hits[age];
        hits += (double)a->hits[age];
    }
    double part = (misses + PRIOR / 2.0) / (misses + full_hits + PRIOR), full = (full_hits + 1) / (hits + 1);
    return full * part + (1 - full) * 0.5;
}

void ages_solve(const struct ages *a, double out[AGES])
{
    double part = oldest(a), older = 0;
    for (unsigned age = AGES; age-- > 0;) {
        double hit = (double)a->hits[age], missed = (double)a->misses[age], first = (double)a->firsts[age];
        double there = older + hit + missed + first / 2; /* firsts leave in the middle of their age */
        double hits = there > 0 ? hit / there : 0, misses = there > 0 ? missed / there : 0;
        out[age] = misses / 2 + (1 - (hits + misses) / 2) * part;
        part = misses + (1 - hits - misses) * part;
        older += hit + missed + first;
    }
}
