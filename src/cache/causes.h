/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a level misses, and whose doing it is. Beside the level stands its shadow, a fully associative LRU cache of the
 * same size and lines that is reached by the same references; and of each line that has left the level, how it left.
 * Each thread has its own of a private level; cells are counted for all threads together, in a tally.
 *
 * Each line that the level was ever asked for has a number, which stands beside it while it is in the level: so neither
 * what hits nor what is evicted has to be looked for. The shadow is a log of uses, in a ring, in which a bit says of
 * each place whether its line was used again since, or taken out: a use touches nothing of other lines.
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

#define CAUSES_PLACE_MAX (UINT32_MAX - 1)

struct causes_line {
    uint32_t place; /* of its last use in the log; before `oldest`: it is not in the shadow */
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
    uint64_t held, room;     /* lines of the shadow: now, at most */
    uint32_t newest, oldest; /* places in the log of the last use, and of the line that goes next */
    uint32_t *log;           /* [mask + 1] lines, by the low bits of places */
    uint64_t *live;          /* a bit each, of those from `oldest` to `newest`: its line's last use, and it is there */
    uint32_t mask;
    uint32_t clock; /* a use each; only differences count */
};

struct causes *causes_new(uint64_t room, bool in_window);
void causes_free(struct causes *k);
void causes_grow(struct causes *k, uint32_t x); /* so that number x has what is kept of a line */
void causes_tidy(struct causes *k);             /* room in the log; places change */

/* Of a line that the level is asked for. */
static inline uint32_t causes_number(struct causes *k, uint64_t line)
{
    uint32_t x = numbers_of(&k->numbers, line);
    if (x >= k->cap)
        causes_grow(k, x);
    return x;
}

static inline bool causes_holds(const struct causes *k, uint32_t x) { return k->of[x].place >= k->oldest; }

/* The first place from there on that lives; there is one. */
static inline uint32_t causes_next_live(const struct causes *k, uint32_t place)
{
    uint32_t bit = place & k->mask, word = bit / 64;
    uint64_t bits = k->live[word] >> bit % 64;
    if (bits)
        return place + (uint32_t)__builtin_ctzll(bits);
    place += 64 - bit % 64;
    for (;;) {
        word = (place & k->mask) / 64;
        if (k->live[word])
            return place + (uint32_t)__builtin_ctzll(k->live[word]);
        place += 64;
    }
}

static inline void causes_leave(struct causes *k, uint32_t place)
{
    k->live[(place & k->mask) / 64] &= ~(1ull << place % 64);
    if (place == k->oldest)
        k->oldest = k->held ? causes_next_live(k, place + 1) : k->newest + 1;
}

/* A use of a line; the shadow, if it lacks it, takes it in if `enters`. Whether it was in the shadow. */
static inline bool causes_use(struct causes *k, uint32_t x, bool enters)
{
    bool was_there = causes_holds(k, x);
    k->clock++;
    if (!was_there && !enters)
        return false;
    if (k->stays)
        k->stays[x].used = k->clock;
    if (was_there && k->of[x].place == k->newest)
        return true;
    if (k->newest - k->oldest == k->mask || k->newest == CAUSES_PLACE_MAX)
        causes_tidy(k);
    uint32_t was = k->of[x].place, place = ++k->newest;
    k->of[x].place = place;
    k->log[place & k->mask] = x;
    k->live[(place & k->mask) / 64] |= 1ull << place % 64;
    if (was_there)
        causes_leave(k, was);
    else if (++k->held > k->room)
        k->held--, causes_leave(k, k->oldest);
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
