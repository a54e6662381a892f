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
    if (x->misses != y->misses && x->by != CACHE_OTHERS && y->by != CACHE_OTHERS)
        return x->misses > y->misses ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by);
}

const struct cache_evictor *cache_evictors(const struct cache *c, unsigned level, struct arena *a, size_t *count)
{
    const struct tally_pairs *t = tally_settled(&c->levels[level].tally);
    const struct map *m = &t->evictors, *others = &t->others;
    struct cache_evictor *out = ARENA_ARRAY(a, struct cache_evictor, m->len + others->len + 1);
    *count = 0;
    for (size_t i = 0; i < m->cap; i++)
        if (m->used[i])
            out[(*count)++] = (struct cache_evictor){(uint32_t)(m->keys[i] >> 32), (uint32_t)m->keys[i], m->vals[i]};
    for (size_t i = 0; i < others->cap; i++)
        if (others->used[i])
            out[(*count)++] = (struct cache_evictor){(uint32_t)others->keys[i], CACHE_OTHERS, others->vals[i]};
    qsort(out, *count, sizeof *out, by_cell_and_misses);
    return out;
}
