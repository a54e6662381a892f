/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a level misses, and whose doing it is. Beside the level stands its shadow, a fully associative LRU cache of the
 * same size and lines that is reached by the same references; and of each line that has left the level, how it left.
 */
#ifndef MTOOL_CACHE_CAUSES_H
#define MTOOL_CACHE_CAUSES_H

#include "cache/lines.h"

enum causes_left { CAUSES_EVICTED, CAUSES_INVALIDATED, CAUSES_AROUND };

struct causes {
    struct lines shadow;
    struct map history; /* line -> cell | enum causes_left << 32, of those that left it or went around it */
    struct map pairs;   /* cell << 32 | evicting cell -> misses */
    VEC(struct cache_cell) cells;
};

struct causes *causes_new(uint64_t lines);
void causes_free(struct causes *k);
void causes_count_reference(struct causes *k, uint32_t cell);
/* A reference to a line of the shadow, which takes it in if `enters`. Whether it was there. */
bool causes_use(struct causes *k, uint64_t line, bool enters);
/* Why the level missed the line; counted for the cell. */
enum cache_cause causes_count_miss(struct causes *k, uint64_t line, uint32_t cell, bool in_shadow);
void causes_note_left(struct causes *k, uint64_t line, uint32_t cell, enum causes_left how);

#endif
