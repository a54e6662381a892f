/* SPDX-License-Identifier: Apache-2.0
 * What several caches of the same configuration counted, together: of processes, each of which has its own. What is in
 * them is not looked at, nor lines that threads share. */
#include "cache/hierarchy.h"

#include <assert.h>

static void add_counts(struct cache_counts *to, const struct cache_counts *from)
{
    for (int k = 0; k < CACHE_KIND_COUNT; k++) {
        to->references[k] += from->references[k];
        to->misses[k] += from->misses[k];
        to->streamed[k] += from->streamed[k];
        for (int cause = 0; cause < CACHE_CAUSE_COUNT; cause++)
            to->causes[k][cause] += from->causes[k][cause];
    }
    to->write_backs += from->write_backs;
    to->write_throughs += from->write_throughs;
}

static void add_cells(struct tally *to, const struct tally *from, const uint32_t *cells)
{
    for (uint32_t i = 0; i < from->cells.len; i++) {
        const struct cache_cell *f = &from->cells.data[i];
        struct cache_cell *t = tally_cell(to, cells[i]);
        to->references.data[cells[i]] += from->references.data[i];
        t->misses += f->misses;
        t->streamed += f->streamed;
        for (int cause = 0; cause < CACHE_CAUSE_COUNT; cause++)
            t->causes[cause] += f->causes[cause];
    }
}

static void add_evictors(struct tally *to, const struct tally_pairs *from, const uint32_t *cells)
{
    const struct map *m = &from->evictors, *others = &from->others;
    for (size_t i = 0; i < m->cap; i++)
        if (m->used[i])
            tally_add_evictor(to, cells[m->keys[i] >> 32], cells[(uint32_t)m->keys[i]], m->vals[i]);
    for (size_t i = 0; i < others->cap; i++)
        if (others->used[i])
            *map_place(&to->pairs->others, cells[others->keys[i]]) += others->vals[i];
}

static void add_groups(struct sample *to, const struct sample *from, const uint32_t *cells)
{
    for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
        to->all_groups.misses[g] += from->all_groups.misses[g];
    for (uint32_t i = 0; i < from->groups.len; i++)
        for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
            sets_group_of(to, cells[i])->misses[g] += from->groups.data[i].misses[g];
}

void cache_absorb(struct cache *c, const struct cache *from, const uint32_t *cells)
{
    assert(c->count == from->count);
    for (int i = 0; i < c->count; i++) {
        struct level *to = &c->levels[i];
        const struct level *f = &from->levels[i];
        add_counts(&to->counts, &f->counts);
        add_cells(&to->tally, &f->tally, cells);
        add_evictors(&to->tally, tally_settled(&f->tally), cells);
        add_groups(&to->sample, &f->sample, cells);
    }
}
