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

struct lines {
    lines_entry *entries; /* [sets * ways] */
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

void lines_init(struct lines *l, uint64_t sets, uint32_t ways, enum cache_policy policy, uint64_t seed);
void lines_fini(struct lines *l);
bool lines_has(const struct lines *l, uint64_t line);
/* A reference: if the line is there, true, and it counts as used now; `dirty` (0 or LINES_DIRTY) sticks to it. */
bool lines_use(struct lines *l, uint64_t line, lines_entry dirty);
/* Brings in a line that is not there; what had to go for it, or 0. */
lines_entry lines_add(struct lines *l, uint64_t line, lines_entry dirty);
lines_entry lines_remove(struct lines *l, uint64_t line); /* what was there, or 0 */
/* The same of any of these lines; 0 if none of them is there. */
lines_entry lines_remove_any(struct lines *l, uint64_t first, uint64_t count);
bool lines_soil(struct lines *l, uint64_t line); /* dirty, if it is there; not used by that */

bool lines_clean(struct lines *l, uint64_t line); /* the other way: whether it was there, and dirty */

/* The most recently used line of its set; only of ordered ones. */
static inline lines_entry *lines_recent(const struct lines *l, uint64_t line)
{
    return &l->entries[(l->mask || l->sets == 1 ? line & l->mask : line % l->sets) * l->ways];
}

#endif
