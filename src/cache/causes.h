/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a level misses, and whose doing it is. Beside the level stands its shadow, a fully associative LRU cache of the
 * same size and lines that is reached by the same references; and of each line that has left the level, how it left.
 * Each thread has its own of a private level; cells are counted for all threads together, in a tally.
 *
 * The shadow is no list of lines but a time: it holds what was used since its frontier, as many lines as there are. So
 * a use is a number stored beside the line (in the level, else in the book), and only a line that enters has to find
 * which one leaves: in a queue of all lines of the shadow in the order of their times, made anew when it is used up.
 * Of n lines each was used again or left since it was made: that pays for it.
 */
#ifndef MTOOL_CACHE_CAUSES_H
#define MTOOL_CACHE_CAUSES_H

#include "cache/book.h"
#include "cache/lines.h"

enum note_how {
    NOTE_NEVER, /* left the level */
    NOTE_EVICTED,
    NOTE_INVALIDATED, /* by an inclusive level behind */
    NOTE_AROUND,      /* a write went around the level */
    NOTE_TAKEN,       /* by another thread's write */
    NOTE_HOW_BITS = 3
};

struct causes_use {
    uint64_t line;
    uint32_t time;
};

struct causes {
    struct lines *lines; /* the level; its times too */
    struct book book;
    uint64_t held, room;                          /* lines of the shadow: now, at most */
    uint32_t clock, frontier;                     /* a use each; what was used after the frontier is in the shadow */
    VEC(struct causes_use) queue, spare, outside; /* outside: uses of lines that are not in the level */
    size_t next;                                  /* of the queue */
};

struct causes *causes_new(struct lines *of, uint64_t room);
void causes_free(struct causes *k);

void causes_enter(struct causes *k); /* a line was used now that was not in the shadow */
void causes_restart_clock(struct causes *k);
static inline uint32_t causes_now(struct causes *k)
{
    if (k->clock == UINT32_MAX)
        causes_restart_clock(k);
    return ++k->clock;
}
static inline bool causes_holds(const struct causes *k, uint32_t time) { return time > k->frontier; }

/* A use of the line at a place of the level; the shadow, if it lacks it, takes it in if `enters`. */
static inline void causes_hit(struct causes *k, uint32_t at, bool enters)
{
    uint32_t now = causes_now(k), last = k->lines->times[at];
    bool is_there = causes_holds(k, last);
    if (is_there || enters)
        k->lines->times[at] = now;
    if (!is_there && enters)
        causes_enter(k);
}

/* A use of a line that the level lacks; the shadow takes it in if `enters`. Whether it was in the shadow. */
bool causes_miss(struct causes *k, struct note *n, uint64_t line, bool enters);
/* Of a line that left the level; `time`: of its last use, where it was in the level. */
void causes_note_left(struct causes *k, uint64_t line, uint32_t time, uint32_t cell, enum note_how how);
/* Out of the shadow; `time` as above, 0: it was not in the level. Whether it was there. */
bool causes_drop(struct causes *k, uint64_t line, uint32_t time);
/* Why the level missed the line, and whose doing it is: *by is left alone if nobody's. CACHE_FALSE_SHARING: sharing. */
enum cache_cause causes_of_miss(const struct note *n, bool in_shadow, uint32_t *by);

struct tally {
    VEC(uint64_t) references; /* by cell */
    VEC(struct cache_cell) cells;
    struct map evictors; /* cell << 32 | evicting cell -> misses, the pairs that have most; at most so many: */
    size_t evictors_max;
    struct map others; /* cell -> misses of pairs that are no longer kept */
};

void tally_fini(struct tally *t);
void tally_grow(struct tally *t, uint32_t cell);
void tally_add_evictor(struct tally *t, uint32_t cell, uint32_t by, uint64_t misses);

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
