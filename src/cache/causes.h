/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a level misses, and whose doing it is. Beside the level stands its shadow, a fully associative LRU cache of the
 * same size and lines that is reached by the same references; and of each line that has left the level, how it left.
 * Each thread has its own of a private level; cells are counted for all threads together, in a tally.
 *
 * Each line that the level was ever asked for has a number, which stands beside it while it is in the level: so neither
 * what hits nor what is evicted has to be looked for. The shadow is a list of such lines, the last used first.
 */
#ifndef MTOOL_CACHE_CAUSES_H
#define MTOOL_CACHE_CAUSES_H

#include "cache/cache.h"
#include "cache/numbers.h"

enum note_how {
    NOTE_NEVER, /* left the level */
    NOTE_EVICTED,
    NOTE_INVALIDATED, /* by an inclusive level behind */
    NOTE_AROUND,      /* a write went around the level */
    NOTE_TAKEN,       /* by another thread's write */
    NOTE_HOW_BITS = 3
};

struct causes_line {       /* 0: the ends of the shadow's list */
    uint32_t newer, older; /* itself: it is not in the shadow */
    uint32_t left;         /* cell << NOTE_HOW_BITS | enum note_how; in a window, of a line that is there, whose
                              reference brought it */
};
struct causes_stay { /* of a line, in a window: times of its last use, and of when it came for a known miss */
    uint32_t used, came;
    bool is_known;
};

struct causes {
    struct numbers numbers;
    struct causes_line *of;    /* by number */
    struct causes_stay *stays; /* likewise; NULL but for windows */
    uint64_t count, cap;       /* of numbers, with 0 */
    uint64_t held, room;       /* lines of the shadow: now, at most */
    uint32_t clock;            /* a use each; only differences count */
};

struct causes *causes_new(uint64_t room, bool in_window);
void causes_free(struct causes *k);
uint32_t causes_new_number(struct causes *k);

/* Of a line that the level is asked for. */
static inline uint32_t causes_number(struct causes *k, uint64_t line)
{
    uint32_t *x = numbers_at(&k->numbers, line);
    return *x ? *x : (*x = causes_new_number(k));
}

static inline bool causes_holds(const struct causes *k, uint32_t x) { return k->of[x].newer != x; }
void causes_drop_oldest(struct causes *k);

/* A use of a line; the shadow, if it lacks it, takes it in if `enters`. Whether it was in the shadow. */
static inline bool causes_use(struct causes *k, uint32_t x, bool enters)
{
    struct causes_line *n = k->of, was = n[x];
    bool was_there = was.newer != x;
    k->clock++;
    if (!was_there && !enters)
        return false;
    if (k->stays)
        k->stays[x].used = k->clock;
    uint32_t second = n[0].older;
    if (second == x)
        return true;
    n[was.newer].older = was.older;
    n[was.older].newer = was.newer;
    n[x].newer = 0;
    n[x].older = second;
    n[second].newer = x;
    n[0].older = x;
    if (!was_there && ++k->held > k->room)
        causes_drop_oldest(k);
    return was_there;
}

static inline void causes_note_left(struct causes *k, uint32_t x, uint32_t cell, enum note_how how)
{
    k->of[x].left = cell << NOTE_HOW_BITS | how;
}

/* Out of the shadow. Whether it was there. */
bool causes_drop(struct causes *k, uint32_t x);
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
