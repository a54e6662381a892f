/* SPDX-License-Identifier: Apache-2.0
 * Misses of one level into causes, cells and evictors. */
#include "cache/causes.h"

#include <stdlib.h>

struct causes *causes_new(uint64_t lines)
{
    struct causes *k = xmalloc(sizeof *k);
    lines_init(&k->shadow, 1, (uint32_t)lines, CACHE_LRU, 0);
    return k;
}

void causes_free(struct causes *k)
{
    if (!k)
        return;
    lines_fini(&k->shadow);
    map_fini(&k->history);
    free(k);
}

bool causes_use(struct causes *k, uint64_t line, bool enters)
{
    bool is_there = lines_use(&k->shadow, line, 0);
    if (!is_there && enters)
        lines_add(&k->shadow, line, 0);
    return is_there;
}

enum cache_cause causes_of_miss(const struct causes *k, uint64_t line, bool in_shadow, uint32_t *by)
{
    uint64_t how;
    if (!map_get(&k->history, line, &how))
        return CACHE_COLD;
    if (how >> 32 == CAUSES_AROUND)
        return CACHE_AROUND;
    *by = (uint32_t)how;
    if (how >> 32 == CAUSES_TAKEN)
        return CACHE_FALSE_SHARING;
    return !in_shadow ? CACHE_CAPACITY : how >> 32 == CAUSES_INVALIDATED ? CACHE_INCLUSION : CACHE_CONFLICT;
}

void causes_note_left(struct causes *k, uint64_t line, uint32_t cell, enum causes_left how)
{
    map_put(&k->history, line, (uint64_t)how << 32 | cell);
}

/* ---- by cell ---- */

void tally_fini(struct tally *t)
{
    map_fini(&t->evictors);
    map_fini(&t->true_sharers);
    map_fini(&t->false_sharers);
    VEC_FREE(&t->cells);
}

struct cache_cell *tally_cell(struct tally *t, uint32_t cell)
{
    if (cell >= t->cells.len) {
        VEC_RESERVE(&t->cells, (size_t)cell + 1);
        memset(t->cells.data + t->cells.len, 0, (cell + 1 - t->cells.len) * sizeof *t->cells.data);
        t->cells.len = (size_t)cell + 1;
    }
    return &t->cells.data[cell];
}

void tally_add_pair(struct map *pairs, uint32_t cell, uint32_t by, int64_t misses)
{
    uint64_t key = (uint64_t)cell << 32 | by, before = 0;
    map_get(pairs, key, &before);
    map_put(pairs, key, before + (uint64_t)misses);
}
