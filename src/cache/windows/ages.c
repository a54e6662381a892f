/* SPDX-License-Identifier: Apache-2.0
 * Self-consistent: from the oldest on, each age by what is older. */
#include "cache/windows/ages.h"

void ages_solve(const struct ages *a, double out[AGES])
{
    double misses = 0.5, all = 1; /* of what is older; nothing known is one that half misses */
    for (unsigned age = AGES; age-- > 0;) {
        double hit = (double)a->hits[age], missed = (double)a->misses[age], first = (double)a->firsts[age];
        /* Of the same age half are older; firsts among them miss as they are found to. */
        out[age] = (misses + missed / 2) / (all + (hit + missed) / 2);
        misses += missed + first * out[age];
        all += hit + missed + first;
    }
}
