/* SPDX-License-Identifier: Apache-2.0
 * Misses of one level into causes, cells and evictors. */
#include "cache/causes.h"

#include <stdlib.h>

static const char *const cause_names[CACHE_CAUSE_COUNT] = {"cold", "capacity", "conflict", "inclusion", "around"};

const char *cache_cause_name(enum cache_cause c) { return cause_names[c]; }

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
    map_fini(&k->pairs);
    VEC_FREE(&k->cells);
    free(k);
}

static struct cache_cell *cell_of(struct causes *k, uint32_t cell)
{
    if (cell >= k->cells.len) {
        VEC_RESERVE(&k->cells, (size_t)cell + 1);
        memset(k->cells.data + k->cells.len, 0, (cell + 1 - k->cells.len) * sizeof *k->cells.data);
        k->cells.len = (size_t)cell + 1;
    }
    return &k->cells.data[cell];
}

void causes_count_reference(struct causes *k, uint32_t cell) { cell_of(k, cell)->references++; }

bool causes_use(struct causes *k, uint64_t line, bool enters)
{
    bool is_there = lines_use(&k->shadow, line, 0);
    if (!is_there && enters)
        lines_add(&k->shadow, line, 0);
    return is_there;
}

static void count_pair(struct causes *k, uint32_t cell, uint32_t by)
{
    uint64_t key = (uint64_t)cell << 32 | by, misses = 0;
    map_get(&k->pairs, key, &misses);
    map_put(&k->pairs, key, misses + 1);
}

enum cache_cause causes_count_miss(struct causes *k, uint64_t line, uint32_t cell, bool in_shadow)
{
    enum cache_cause cause = CACHE_COLD;
    uint64_t how;
    if (map_get(&k->history, line, &how)) {
        bool is_around = how >> 32 == CAUSES_AROUND;
        if (!is_around)
            count_pair(k, cell, (uint32_t)how);
        cause = is_around                         ? CACHE_AROUND
                : !in_shadow                      ? CACHE_CAPACITY
                : how >> 32 == CAUSES_INVALIDATED ? CACHE_INCLUSION
                                                  : CACHE_CONFLICT;
    }
    struct cache_cell *c = cell_of(k, cell);
    c->misses++;
    c->causes[cause]++;
    return cause;
}

void causes_note_left(struct causes *k, uint64_t line, uint32_t cell, enum causes_left how)
{
    map_put(&k->history, line, (uint64_t)how << 32 | cell);
}
