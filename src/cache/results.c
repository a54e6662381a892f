/* SPDX-License-Identifier: Apache-2.0
 * What was counted, as a reader wants it. */
#include "cache/hierarchy.h"

#include <stdlib.h>

static const char *const cause_names[CACHE_CAUSE_COUNT] = {"cold",   "capacity",     "conflict",     "inclusion",
                                                           "around", "true_sharing", "false_sharing"};

const char *cache_cause_name(enum cache_cause c) { return cause_names[c]; }

const struct cache_counts *cache_counts(const struct cache *c, unsigned level) { return &c->levels[level].counts; }

const struct cache_cell *cache_cells(const struct cache *c, unsigned level, size_t *count)
{
    const struct tally *t = &c->levels[level].tally;
    *count = t->cells.len;
    for (size_t i = 0; i < t->cells.len; i++)
        t->cells.data[i].references = t->references.data[i]; /* which are counted apart: most cells never miss */
    return t->cells.data;
}

static int by_cell_and_misses(const void *a, const void *b)
{
    const struct cache_evictor *x = a, *y = b;
    if (x->cell != y->cell)
        return x->cell < y->cell ? -1 : 1;
    if (x->misses != y->misses)
        return x->misses > y->misses ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by);
}

/* The pairs of a table. */
static struct cache_evictor *pairs_of(const struct map *m, struct arena *a, size_t *count)
{
    struct cache_evictor *out = ARENA_ARRAY(a, struct cache_evictor, m->len + 1);
    *count = 0;
    for (size_t i = 0; i < m->cap; i++)
        if (m->used[i] && m->vals[i])
            out[(*count)++] = (struct cache_evictor){(uint32_t)(m->keys[i] >> 32), (uint32_t)m->keys[i], m->vals[i]};
    return out;
}

const struct cache_evictor *cache_evictors(const struct cache *c, unsigned level, struct arena *a, size_t *count)
{
    struct cache_evictor *out = pairs_of(&c->levels[level].tally.evictors, a, count);
    qsort(out, *count, sizeof *out, by_cell_and_misses);
    return out;
}

static int by_cell_and_sharing(const void *a, const void *b)
{
    const struct cache_sharer *x = a, *y = b;
    uint64_t m = x->true_misses + x->false_misses, n = y->true_misses + y->false_misses;
    if (x->cell != y->cell)
        return x->cell < y->cell ? -1 : 1;
    if (m != n)
        return m > n ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by);
}

const struct cache_sharer *cache_sharers(const struct cache *c, unsigned level, struct arena *a, size_t *count)
{
    const struct tally *t = &c->levels[level].tally;
    size_t trues, falses;
    const struct cache_evictor *x = pairs_of(&t->true_sharers, a, &trues), *y = pairs_of(&t->false_sharers, a, &falses);
    struct cache_sharer *out = ARENA_ARRAY(a, struct cache_sharer, trues + falses + 1);
    *count = 0;
    for (size_t i = 0; i < trues; i++) {
        struct cache_sharer s = {x[i].cell, x[i].by, x[i].misses, 0};
        map_get(&t->false_sharers, (uint64_t)s.cell << 32 | s.by, &s.false_misses);
        out[(*count)++] = s;
    }
    for (size_t i = 0; i < falses; i++) {
        uint64_t also = 0;
        map_get(&t->true_sharers, (uint64_t)y[i].cell << 32 | y[i].by, &also);
        if (!also)
            out[(*count)++] = (struct cache_sharer){y[i].cell, y[i].by, 0, y[i].misses};
    }
    qsort(out, *count, sizeof *out, by_cell_and_sharing);
    return out;
}
