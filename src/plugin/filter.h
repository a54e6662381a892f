/* SPDX-License-Identifier: Apache-2.0
 *
 * A filter in front of simulated caches: by set of a nearest level the line that was used last in it. A hit on that
 * changes nothing in the caches, so they need not hear of it; that is most references. Of a side whose only level is
 * direct-mapped the filter holds all that the level does, and the caches need not hear of misses either. Used by
 * model.c and by each mapping of maps.c.
 *
 * It counts by block of sets how often another line came to be the last one. While the sum of these numbers over what
 * somebody reaches stays the same, what hit there hits again (filter_stamp).
 */
#ifndef MTOOL_PLUGIN_FILTER_H
#define MTOOL_PLUGIN_FILTER_H

#include <stdlib.h>

#include "base/base.h"
#include "cache/cache.h"

struct filter {        /* of a nearest level */
    uint64_t *last;    /* by set: (line + 1) << 1, and 1 if it is dirty; 0: unknown */
    uint64_t *changes; /* by block of sets */
    uint64_t mask;
    unsigned shift, block_shift;                 /* of an address, to its line; of a line, to its block */
    bool hides_reads, hides_writes, needs_dirty; /* what a hit on the last line may be kept from */
    unsigned level;
    bool is_whole; /* of this side there is no cache beside the filter */
};

enum { FILTER_BLOCK_SHIFT = 6 }; /* a block of sets is of so many bytes, or a line */

/* Of the nearest level of that side; `last` NULL: there is none. */
static inline struct filter filter_of(const struct cache_config *k, enum cache_side side)
{
    for (unsigned i = 0; i < k->count; i++) {
        const struct cache_level *l = &k->levels[i];
        if (!(l->side & side))
            continue;
        bool is_last = true;
        for (unsigned next = i + 1; next < k->count; next++)
            is_last &= !(k->levels[next].side & side);
        uint64_t sets = l->size_bytes / l->line_bytes / l->ways, part = sets & -sets;
        unsigned shift = (unsigned)__builtin_ctz(l->line_bytes);
        unsigned block = shift < FILTER_BLOCK_SHIFT ? FILTER_BLOCK_SHIFT - shift : 0;
        return (struct filter){.last = xmalloc(part * sizeof(uint64_t)),
                               .changes = xmalloc((((part - 1) >> block) + 1) * sizeof(uint64_t)),
                               .mask = part - 1,
                               .shift = shift,
                               .block_shift = block,
                               .level = i,
                               .hides_reads = true,
                               .hides_writes = !l->write_through || i + 1 == k->count,
                               .needs_dirty = !l->write_through,
                               .is_whole = is_last && l->side == side && l->ways == 1 && part == sets &&
                                           !l->no_allocate && l->inclusion == CACHE_NEITHER};
    }
    return (struct filter){.last = NULL};
}

static inline void filter_free(struct filter *f)
{
    free(f->last);
    free(f->changes);
}

static inline uint64_t *filter_block(const struct filter *f, uint64_t line)
{
    return &f->changes[(line & f->mask) >> f->block_shift];
}

/* A line of a further level that is inclusive may have taken some out. */
static inline void filter_forget(struct filter *f)
{
    if (!f->last)
        return;
    memset(f->last, 0, (f->mask + 1) * sizeof *f->last);
    for (uint64_t block = 0; block <= f->mask >> f->block_shift; block++)
        f->changes[block]++;
}

static inline bool filter_has(const struct filter *f, uint64_t line)
{
    return f->last[line & f->mask] >> 1 == line + 1;
}

/* The same of one that is_whole, whose lines are never dirty. */
static inline bool filter_is(const struct filter *f, uint64_t line)
{
    return f->last[line & f->mask] == (line + 1) << 1;
}

static inline bool filter_hits(const struct filter *f, uint64_t address, unsigned bytes, bool stores)
{
    uint64_t line = address >> f->shift, last = f->last[line & f->mask];
    if ((address + bytes - 1) >> f->shift != line || last >> 1 != line + 1)
        return false;
    return stores ? f->hides_writes && (!f->needs_dirty || last & 1) : f->hides_reads;
}

/* The line is there now, and of those of its set used last. */
static inline void filter_put(struct filter *f, uint64_t line, bool dirty)
{
    uint64_t key = (line + 1) << 1, *last = &f->last[line & f->mask];
    *filter_block(f, line) += *last >> 1 != line + 1;
    *last = key | (dirty || (*last == (key | 1)));
}

/* The caches were reached there. */
static inline void filter_used(struct filter *f, uint64_t address, uint64_t bytes, bool dirty)
{
    for (uint64_t line = address >> f->shift; line <= (address + bytes - 1) >> f->shift; line++)
        filter_put(f, line, dirty);
}

/* Of one that is_whole: reaches all these lines. Whether it lacked one. */
static inline bool filter_reach(struct filter *f, uint64_t address, uint64_t bytes)
{
    bool missed = false;
    for (uint64_t line = address >> f->shift; line <= (address + bytes - 1) >> f->shift; line++) {
        uint64_t *last = &f->last[line & f->mask];
        if (*last == (line + 1) << 1)
            continue;
        missed = true;
        *last = (line + 1) << 1;
        (*filter_block(f, line))++;
    }
    return missed;
}

#endif
