/* SPDX-License-Identifier: Apache-2.0
 *
 * A filter in front of simulated caches: by set of a nearest level the line that was used last in it. A hit on that
 * changes nothing in the caches, so they need not hear of it; that is most references. Used by model.c and by each
 * mapping of maps.c.
 */
#ifndef MTOOL_PLUGIN_FILTER_H
#define MTOOL_PLUGIN_FILTER_H

#include <stdlib.h>

#include "base/base.h"
#include "cache/cache.h"

struct filter {     /* of a nearest level */
    uint64_t *last; /* by set: (line + 1) << 1, and 1 if it is dirty; 0: unknown */
    uint64_t mask;
    unsigned shift;
    bool hides_reads, hides_writes, needs_dirty; /* what a hit on the last line may be kept from */
};

/* Of the nearest level of that side; `last` NULL: there is none. */
static inline struct filter filter_of(const struct cache_config *k, enum cache_side side)
{
    for (unsigned i = 0; i < k->count; i++) {
        const struct cache_level *l = &k->levels[i];
        if (!(l->side & side))
            continue;
        bool is_last = i + 1 == k->count;
        uint64_t sets = l->size_bytes / l->line_bytes / l->ways, part = sets & -sets;
        return (struct filter){.last = xmalloc(part * sizeof(uint64_t)),
                               .mask = part - 1,
                               .shift = (unsigned)__builtin_ctz(l->line_bytes),
                               .hides_reads = true,
                               .hides_writes = !l->write_through || is_last,
                               .needs_dirty = !l->write_through};
    }
    return (struct filter){.last = NULL};
}

/* A line of a further level that is inclusive may have taken some out. */
static inline void filter_forget(struct filter *f)
{
    if (f->last)
        memset(f->last, 0, (f->mask + 1) * sizeof *f->last);
}

static inline bool filter_hits(const struct filter *f, uint64_t address, unsigned bytes, bool stores)
{
    uint64_t line = address >> f->shift, last = f->last[line & f->mask];
    if ((address + bytes - 1) >> f->shift != line || last >> 1 != line + 1)
        return false;
    return stores ? f->hides_writes && (!f->needs_dirty || last & 1) : f->hides_reads;
}

/* The caches were reached there. */
static inline void filter_used(struct filter *f, uint64_t address, uint64_t bytes, bool dirty)
{
    for (uint64_t line = address >> f->shift; line <= (address + bytes - 1) >> f->shift; line++) {
        uint64_t key = (line + 1) << 1, *last = &f->last[line & f->mask];
        *last = key | (dirty || (*last == (key | 1)));
    }
}

#endif
