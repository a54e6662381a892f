/* SPDX-License-Identifier: Apache-2.0
 *
 * The curve's counts, for who keeps the order of use in its stead (plain.c).
 */
#ifndef MTOOL_CACHE_CURVE_H
#define MTOOL_CACHE_CURVE_H

#include "cache/cache.h"
#include "cache/stack.h"
#include "cache/tables/numbers.h"

_Static_assert((int)CACHE_CURVE_SIZES_MAX <= (int)STACK_SIZES_MAX, "a size of the one is one of the other");

struct cache_curve {
    struct stack stack; /* its own; unused while another one keeps the order */
    struct numbers numbers;
    uint32_t lines; /* reached so far */
    unsigned shift, sizes;
    uint64_t least;                          /* bytes of the smallest size */
    uint64_t met[CACHE_CURVE_SIZES_MAX + 1]; /* [i]: references that hit in the i-th size, in no smaller one */
    bool by_cell;
    VEC(uint32_t) counts_of; /* which of `counts`, plus 1; 0: none */
    VEC(uint64_t) counts;    /* as `met` from the second on, [sizes] each */
};

void curve_make_counts(struct cache_curve *k, uint32_t cell);
uint64_t curve_size_lines(const struct cache_curve *k, unsigned size); /* that it holds */

/* A reference of the cell found its farthest line in the so-many-th size, and in no smaller one. */
static inline void curve_count(struct cache_curve *k, unsigned farthest, uint32_t cell)
{
    k->met[farthest]++;
    if (!farthest || !k->by_cell)
        return;
    if (cell >= k->counts_of.len || !k->counts_of.data[cell])
        curve_make_counts(k, cell);
    k->counts.data[(k->counts_of.data[cell] - 1ull) * k->sizes + farthest - 1]++;
}

#endif
