/* SPDX-License-Identifier: Apache-2.0
 * Chance: a counter stepped by an odd constant, then mixed: the family that Steele, Lea and Flood describe (2014). */
#include "base/base.h"

uint64_t rng_next(struct rng *g)
{
    uint64_t z = g->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *g, uint64_t n) { return (uint64_t)(((unsigned __int128)rng_next(g) * n) >> 64); }

double rng_fraction(struct rng *g) { return (double)(rng_next(g) >> 11) / (double)(1ull << 53); }
