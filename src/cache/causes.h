/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a level misses, and whose doing it is. Beside the level stands its shadow, a fully associative LRU cache of the
 * same size and lines that is reached by the same references; and of each line that has left the level, how it left.
 * Each thread has its own of a private level; cells are counted for all threads together, in a tally.
 *
 * Each line that the level was ever asked for has a number, which stands beside it while it is in the level: so neither
 * what hits nor what is evicted has to be looked for.
 */
#ifndef MTOOL_CACHE_CAUSES_H
#define MTOOL_CACHE_CAUSES_H

#include "cache/cache.h"
#include "cache/shadow.h"
#include "cache/tables/numbers.h"

enum note_how {
    NOTE_NEVER, /* left the level */
    NOTE_EVICTED,
    NOTE_INVALIDATED, /* by an inclusive level behind */
    NOTE_AROUND,      /* a write went around the level */
    NOTE_TAKEN,       /* by another thread's write */
    NOTE_HOW_BITS = 3
};

struct causes_line {
    uint32_t place; /* the shadow's */
    uint32_t left;  /* cell << NOTE_HOW_BITS | enum note_how; in a window, of a line that is there, whose reference
                       brought it */
};
struct causes_stay { /* of a line, in a window: times of its last use, and of when it came for a known miss */
    uint32_t used, came;
    bool is_known;
};

struct causes {
    struct numbers numbers;
    struct causes_line *of;    /* [cap] by number */
    struct causes_stay *stays; /* likewise; NULL but for windows */
    uint64_t cap;
    struct shadow shadow;
    uint32_t clock; /* a use each; only differences count */
};

struct causes *causes_new(uint64_t room, bool in_window);
void causes_free(struct causes *k);
void causes_grow(struct causes *k, uint32_t x); /* so that number x has what is kept of a line */

/* Of a line that the level is asked for. */
static inline uint32_t causes_number(struct causes *k, uint64_t line)
{
    uint32_t x = numbers_of(&k->numbers, line);
    if (x >= k->cap)
        causes_grow(k, x);
    return x;
}

/* A use of a line; the shadow, if it lacks it, takes it in if `enters`. Whether it was in the shadow. */
static inline bool causes_use(struct causes *k, uint32_t x, bool enters)
{
    k->clock++;
    if (!enters && !shadow_holds(&k->shadow, x))
        return false;
    if (k->stays)
        k->stays[x].used = k->clock;
    return shadow_use(&k->shadow, x);
}

static inline void causes_note_left(struct causes *k, uint32_t x, uint32_t cell, enum note_how how)
{
    k->of[x].left = cell << NOTE_HOW_BITS | how;
}

/* Why the level missed the line, and whose doing it is: *by is left alone if nobody's. CACHE_FALSE_SHARING: sharing. */
enum cache_cause causes_of_miss(const struct causes *k, uint32_t x, bool in_shadow, uint32_t *by);

enum { TALLY_RECENT_BITS = 11 };
struct tally_pair {
    uint64_t pair, misses; /* misses 0: none */
};
struct tally_pairs {     /* cell << 32 | evicting cell -> misses */
    struct map evictors; /* the pairs that have most; at most so many: */
    size_t evictors_max;
    struct map others;                                /* cell -> misses of pairs that are no longer kept */
    struct tally_pair recent[1 << TALLY_RECENT_BITS]; /* what came lately, by hash: not yet above */
};
struct tally {
    VEC(uint64_t) references; /* by cell */
    VEC(struct cache_cell) cells;
    struct tally_pairs *pairs;
};

void tally_init(struct tally *t, size_t evictors_max);
void tally_fini(struct tally *t);
void tally_grow(struct tally *t, uint32_t cell);
void tally_add_evictor(struct tally *t, uint32_t cell, uint32_t by, uint64_t misses);
void tally_replace(struct tally *t, size_t recent, uint64_t pair);
const struct tally_pairs *tally_settled(const struct tally *t); /* what came lately too is in the maps */

static inline void tally_count_evictor(struct tally *t, uint32_t cell, uint32_t by)
{
    uint64_t pair = (uint64_t)cell << 32 | by;
    size_t at = pair * 0x9e3779b97f4a7c15u >> (64 - TALLY_RECENT_BITS);
    if (t->pairs->recent[at].pair != pair)
        tally_replace(t, at, pair);
    t->pairs->recent[at].misses++;
}

static inline void tally_count_reference(struct tally *t, uint32_t cell)
{
    if (cell >= t->references.len)
        tally_grow(t, cell);
    t->references.data[cell]++;
}

static inline struct cache_cell *tally_cell(struct tally *t, uint32_t cell)
{
    if (cell >= t->cells.len)
        tally_grow(t, cell);
    return &t->cells.data[cell];
}

#endif
