/* SPDX-License-Identifier: Apache-2.0
 * Cells put together by a key, and the rows of their misses. */
#include "prof/spied/spied.h"
#include "result/stats.h"

#include <math.h>
#include <stdlib.h>

struct keyed {
    uint64_t key;
    uint32_t cell;
};

static int by_key(const void *x, const void *y)
{
    const struct keyed *a = x, *b = y;
    if (a->key != b->key)
        return a->key > b->key ? 1 : -1;
    return (a->cell > b->cell) - (a->cell < b->cell);
}

static int by_stall(const void *x, const void *y)
{
    const struct spied_group *a = x, *b = y;
    if (a->stall != b->stall)
        return a->stall < b->stall ? 1 : -1;
    if (a->references != b->references)
        return a->references < b->references ? 1 : -1;
    return (a->key > b->key) - (a->key < b->key);
}

static size_t sort_cells(const struct spied *s, spied_key key, struct keyed *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->cell_count; i++) {
        uint64_t k = key(s, i);
        if (k != UINT64_MAX)
            out[n++] = (struct keyed){k, i};
    }
    qsort(out, n, sizeof *out, by_key);
    return n;
}

static void add_cell(const struct spied *s, struct spied_group *g, uint32_t cell)
{
    g->count++;
    if (g->references == PROF_UNKNOWN || s->cell_references[cell] == PROF_UNKNOWN)
        g->references = PROF_UNKNOWN;
    else
        g->references += s->cell_references[cell];
    g->stall += s->stall[cell];
    if (!s->memory_s)
        return;
    g->memory_s.value = prof_sum(g->memory_s.value, s->memory_s[cell].value);
    g->memory_s.low = prof_sum(g->memory_s.low, s->memory_s[cell].low);
    g->memory_s.high = prof_sum(g->memory_s.high, s->memory_s[cell].high);
}

struct spied_group *spied_groups(struct spied *s, spied_key key, size_t *count)
{
    struct keyed *sorted = ARENA_ARRAY(s->j->scratch, struct keyed, s->cell_count + 1);
    size_t n = sort_cells(s, key, sorted);
    uint32_t *cells = ARENA_ARRAY(s->j->scratch, uint32_t, n + 1);
    struct spied_group *out = ARENA_ARRAY(s->j->scratch, struct spied_group, n + 1), *g = out - 1;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || sorted[i].key != sorted[i - 1].key) {
            *++g = (struct spied_group){.key = sorted[i].key, .cells = cells + i, .memory_s = stats_unknown()};
        }
        cells[i] = sorted[i].cell;
        add_cell(s, g, sorted[i].cell);
    }
    *count = (size_t)(g + 1 - out);
    qsort(out, *count, sizeof *out, by_stall);
    return out;
}

/* ---- misses ---- */

void spied_add_miss(struct spied *s, const struct prof_data_miss *row)
{
    if (s->miss_count == s->miss_cap) {
        s->miss_cap = s->miss_cap ? 2 * s->miss_cap : 256;
        s->misses = xrealloc(s->misses, s->miss_cap * sizeof *s->misses);
    }
    s->misses[s->miss_count++] = *row;
}

void spied_add_causes(struct prof_data_miss *row, const uint64_t causes[CACHE_CAUSE_COUNT])
{
    row->cold += causes[CACHE_COLD];
    row->capacity += causes[CACHE_CAPACITY];
    row->conflict += causes[CACHE_CONFLICT];
    row->inclusion += causes[CACHE_INCLUSION];
    row->around += causes[CACHE_AROUND];
    row->true_sharing += causes[CACHE_TRUE_SHARING];
    row->false_sharing += causes[CACHE_FALSE_SHARING];
}

static void add_counts(struct prof_data_miss *row, const struct cache_cell *c)
{
    row->references += c->references;
    row->misses += c->misses;
    spied_add_causes(row, c->causes);
}

void spied_put_misses(struct spied *s, enum prof_data_owner owner, uint32_t id, const struct spied_group *g)
{
    for (uint32_t k = 0; k < s->level_count; k++) {
        struct prof_data_miss row = {.owner = owner, .owner_id = id, .cache = k};
        for (size_t i = 0; i < g->count; i++)
            if (g->cells[i] < s->levels[k].cell_count)
                add_counts(&row, &s->levels[k].cell[g->cells[i]]);
        spied_estimate(s, k, g->cells, g->count, &row);
        if (s->in->is_filtered && spied_is_nearest(&s->levels[k]))
            row.references = g->references;
        spied_add_miss(s, &row);
    }
}
