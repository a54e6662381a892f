/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a level misses, and whose doing it is. Beside the level stands its shadow, a fully associative LRU cache of the
 * same size and lines that is reached by the same references; and of each line that has left the level, how it left.
 * Each thread has its own of a private level; cells are counted for all threads together, in a tally.
 */
#ifndef MTOOL_CACHE_CAUSES_H
#define MTOOL_CACHE_CAUSES_H

#include "cache/lines.h"

enum causes_left { CAUSES_EVICTED, CAUSES_INVALIDATED, CAUSES_AROUND, CAUSES_TAKEN /* by another thread's write */ };

struct causes {
    struct lines shadow;
    struct map history; /* line -> cell | enum causes_left << 32, of those that left it or went around it */
};

struct causes *causes_new(uint64_t lines);
void causes_free(struct causes *k);
/* A reference to a line of the shadow, which takes it in if `enters`. Whether it was there. */
bool causes_use(struct causes *k, uint64_t line, bool enters);
/* Why the level missed the line, and whose doing it is: *by is left alone if nobody's. CACHE_FALSE_SHARING: sharing. */
enum cache_cause causes_of_miss(const struct causes *k, uint64_t line, bool in_shadow, uint32_t *by);
void causes_note_left(struct causes *k, uint64_t line, uint32_t cell, enum causes_left how);

struct tally {
    struct map evictors;                    /* cell << 32 | evicting cell -> misses */
    struct map true_sharers, false_sharers; /* cell << 32 | cell of the write -> misses */
    VEC(struct cache_cell) cells;
};

void tally_fini(struct tally *t);
struct cache_cell *tally_cell(struct tally *t, uint32_t cell);
void tally_add_pair(struct map *pairs, uint32_t cell, uint32_t by, int64_t misses);

#endif
