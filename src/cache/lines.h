/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that a cache holds, and which of a set goes next. Two forms: sets of few ways under LRU keep their lines in
 * the order of use, the most recent first; all others give each line a fixed slot, with links (LRU), a tree of bits, or
 * chance, and find it by a hash where a set has many ways.
 */
#ifndef MTOOL_CACHE_LINES_H
#define MTOOL_CACHE_LINES_H

#include "cache/cache.h"

/* A line's number (address / line bytes, below 2^62) and whether it is dirty; 0: none. */
typedef uint64_t lines_entry;
#define LINES_DIRTY ((lines_entry)1)
static inline lines_entry lines_entry_of(uint64_t line) { return (line + 1) << 1; }
static inline uint64_t lines_line_of(lines_entry e) { return (e >> 1) - 1; }
static inline bool lines_is(lines_entry e, lines_entry key) { return (e ^ key) <= LINES_DIRTY; }

struct lines_links { /* of a slot, in the order of use of its set */
    uint32_t newer, older;
};

struct lines_fill {           /* of a set */
    uint32_t used, free_from; /* slots that hold a line; no slot below this one is free */
};

#define LINES_NONE UINT32_MAX /* no place */

struct lines {
    lines_entry *entries; /* [sets * ways] */
    uint32_t *marks;      /* [sets * ways] the caller's, moved with the entries; NULL unless wanted */
    uint64_t sets, mask;  /* mask: sets - 1 if that is a power of two, else 0 */
    uint32_t ways;
    enum cache_policy policy;
    bool is_ordered;         /* the first form; nothing below is used */
    struct lines_fill *fill; /* [sets] */
    struct lines_links *links;
    uint32_t *newest, *oldest; /* [sets] slots */
    uint8_t *tree;             /* [sets * ways] of each set nodes 1 to ways - 1: the side to go next */
    uint32_t *index;           /* slot + 1 by hash of the line, 0: none; NULL: sets are searched */
    uint64_t index_mask, random;
};

bool lines_are_ordered(enum cache_policy policy, uint32_t ways); /* whether they take the first form */
void lines_init(struct lines *l, uint64_t sets, uint32_t ways, enum cache_policy policy, uint64_t seed,
                bool with_marks);
void lines_fini(struct lines *l);
/* Places are those of entries and marks, valid until the next call that changes something. */
uint32_t lines_find(const struct lines *l, uint64_t line);
/* A reference: if the line is there, its place, and it counts as used now; `dirty` (0 or LINES_DIRTY) sticks to it. */
uint32_t lines_use(struct lines *l, uint64_t line, lines_entry dirty);
/* Brings in a line that is not there; what had to go for it, or 0. *mark becomes that one's. */
lines_entry lines_add(struct lines *l, uint64_t line, lines_entry dirty, uint32_t *mark);
lines_entry lines_remove(struct lines *l, uint64_t line, uint32_t *mark); /* what was there, or 0 */
/* The same of any of these lines; 0 if none of them is there. */
lines_entry lines_remove_any(struct lines *l, uint64_t first, uint64_t count, uint32_t *mark);
bool lines_soil(struct lines *l, uint64_t line); /* dirty, if it is there; not used by that */

bool lines_clean(struct lines *l, uint64_t line); /* the other way: whether it was there, and dirty */

static inline uint64_t lines_set(const struct lines *l, uint64_t line)
{
    return l->mask || l->sets == 1 ? line & l->mask : line % l->sets;
}
__attribute__((always_inline)) static inline void lines_prefetch(const struct lines *l, uint64_t line)
{
    const lines_entry *set = &l->entries[lines_set(l, line) * l->ways];
    __builtin_prefetch(set, 1);
    if (l->ways > 8)
        __builtin_prefetch(set + 8, 1);
    if (l->marks)
        __builtin_prefetch(&l->marks[lines_set(l, line) * l->ways], 1);
}
static inline bool lines_set_is_full(const struct lines *l, uint64_t line)
{
    uint64_t set = lines_set(l, line);
    return l->is_ordered ? l->entries[(set + 1) * l->ways - 1] != 0 : l->fill[set].used == l->ways;
}

/* Which way of a set has it; LINES_NONE: none. */
static inline uint32_t lines_way(const struct lines *l, const lines_entry *set, lines_entry key)
{
    for (uint32_t w = 0; w < l->ways; w++)
        if (lines_is(set[w], key))
            return w;
    return LINES_NONE;
}

/* Of an ordered set that begins at `first`: the entry comes first, those before the way move up, and so do their marks.
 * What was at the way is lost. */
static inline void lines_bring_forward(struct lines *l, uint64_t first, uint32_t way, lines_entry e, uint32_t mark)
{
    lines_entry *set = &l->entries[first];
    for (uint32_t w = way; w > 0; w--)
        set[w] = set[w - 1];
    set[0] = e;
    if (!l->marks)
        return;
    uint32_t *marks = &l->marks[first];
    for (uint32_t w = way; w > 0; w--)
        marks[w] = marks[w - 1];
    marks[0] = mark;
}

/* The mark of the line that goes next of the set of this one; 0: none is known. Of ordered ones alone. */
static inline uint32_t lines_mark_next_out(const struct lines *l, uint64_t line)
{
    return l->is_ordered && l->marks ? l->marks[(lines_set(l, line) + 1) * l->ways - 1] : 0;
}

#endif
