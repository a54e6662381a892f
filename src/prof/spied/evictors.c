/* SPDX-License-Identifier: Apache-2.0
 * Whose references evicted what a data object then missed. */
#include "prof/spied/spied.h"

#include <math.h>
#include <stdlib.h>

enum { EVICTORS_MAX = 6 }; /* of an object in a level; the others are told together */

struct pair {
    uint32_t object, by; /* rows; `by` ID_NONE: of no row */
    uint64_t misses;
};

static int by_objects(const void *x, const void *y)
{
    const struct pair *a = x, *b = y;
    if (a->object != b->object)
        return a->object > b->object ? 1 : -1;
    return (a->by > b->by) - (a->by < b->by);
}

/* Those of no row last, however many. */
static int by_misses(const void *x, const void *y)
{
    const struct pair *a = x, *b = y;
    if ((a->by == ID_NONE) != (b->by == ID_NONE))
        return a->by == ID_NONE ? 1 : -1;
    if (a->misses != b->misses)
        return a->misses < b->misses ? 1 : -1;
    return (a->by > b->by) - (a->by < b->by);
}

static uint32_t row_of(const struct spied *s, uint32_t cell)
{
    return cell == CACHE_OTHERS ? ID_NONE : s->object[s->cells[cell].object];
}

/* Pairs of cells into pairs of rows, each once. */
static size_t read_pairs(const struct spied *s, const struct cache_evictor *e, size_t count, struct pair *out)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t object = s->object[s->cells[e[i].cell].object];
        if (object != ID_NONE)
            out[n++] =
                (struct pair){object, row_of(s, e[i].by), (uint64_t)llround(spied_scale(s) * (double)e[i].misses)};
    }
    qsort(out, n, sizeof *out, by_objects);
    for (size_t i = 0; i < n; i++)
        if (kept && by_objects(&out[kept - 1], &out[i]) == 0)
            out[kept - 1].misses += out[i].misses;
        else
            out[kept++] = out[i];
    return kept;
}

static void put_object(struct spied *s, uint32_t level, struct pair *p, size_t count)
{
    struct prof_result *r = s->j->r;
    uint64_t all = 0, rest = 0;
    qsort(p, count, sizeof *p, by_misses);
    for (size_t i = 0; i < count; i++) {
        all += p[i].misses;
        rest += i >= EVICTORS_MAX || p[i].by == ID_NONE ? p[i].misses : 0;
    }
    for (size_t i = 0; i < count && i < EVICTORS_MAX && p[i].by != ID_NONE; i++)
        r->data_evictors[r->data_evictor_count++] =
            (struct prof_data_evictor){p[0].object, level, p[i].by, p[i].misses, (double)p[i].misses / (double)all};
    if (rest)
        r->data_evictors[r->data_evictor_count++] =
            (struct prof_data_evictor){p[0].object, level, ID_NONE, rest, (double)rest / (double)all};
}

static void put_level(struct spied *s, uint32_t level)
{
    size_t count, end;
    const struct spied_level *l = &s->levels[level];
    const struct cache_evictor *e = cache_evictors(spy_cache(s->in->spy, l->config), l->level, s->j->scratch, &count);
    struct pair *p = ARENA_ARRAY(s->j->scratch, struct pair, count + 1);
    count = read_pairs(s, e, count, p);
    for (size_t i = 0; i < count; i = end) {
        for (end = i; end < count && p[end].object == p[i].object;)
            end++;
        put_object(s, level, p + i, end - i);
    }
}

static int by_object_then_level(const void *x, const void *y)
{
    const struct prof_data_evictor *a = x, *b = y;
    if (a->object != b->object)
        return a->object > b->object ? 1 : -1;
    if (a->cache != b->cache)
        return a->cache > b->cache ? 1 : -1;
    if ((a->by == ID_NONE) != (b->by == ID_NONE))
        return a->by == ID_NONE ? 1 : -1;
    return a->misses != b->misses ? (a->misses < b->misses ? 1 : -1) : (a->by > b->by) - (a->by < b->by);
}

/* Of the levels of the first configuration, but for those of code alone. */
void spied_evictors(struct spied *s)
{
    struct prof_result *r = s->j->r;
    uint32_t levels = 0;
    while (levels < s->level_count && s->levels[levels].config == 0)
        levels++;
    r->data_evictors = ARENA_ARRAY(r->arena, struct prof_data_evictor, r->data_count * levels * (EVICTORS_MAX + 1) + 1);
    for (uint32_t k = 0; k < levels; k++)
        put_level(s, k);
    qsort(r->data_evictors, r->data_evictor_count, sizeof *r->data_evictors, by_object_then_level);
}
