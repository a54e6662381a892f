/* SPDX-License-Identifier: Apache-2.0
 *
 * The levels, for the files that together simulate them. A level has a bank for each thread, or one for all that share
 * it; everything else of it stands once.
 */
#ifndef MTOOL_CACHE_HIERARCHY_H
#define MTOOL_CACHE_HIERARCHY_H

#include "cache/causes.h"
#include "cache/coherence.h"
#include "cache/lines.h"
#include "cache/streams.h"
#include "cache/windows/sample.h"

#define NO_LEVEL (-1)

struct bank { /* what a thread has of a level */
    struct lines lines;
    struct causes *causes; /* NULL: not wanted */
    struct streams streams;
};

struct level {
    struct cache_level config;
    struct bank *banks[CACHE_THREADS_MAX]; /* NULL before the first reference of the thread; shared: all are the same */
    struct tally tally;
    struct sample sample;
    unsigned shift;   /* of an address, to its line */
    int next;         /* the level below */
    bool is_quick[2]; /* a read, a write that hits changes nothing but the order of its set, and may make it dirty */
    bool is_coherent; /* private, and of lines that other threads' writes take away */
    struct cache_counts counts;
};

struct cache_window {
    double references, weight;
};
struct cache_windows { /* that ended, but for `references`: of the one that runs */
    uint64_t references, count;
    double seen, stands_for, all2; /* references; all2: the sum of the squares of what each stands for */
    VEC(struct cache_window) each;
    VEC(double) factor; /* by cell; of those behind 1 */
};

struct cache_sets { /* that alone are simulated */
    unsigned shift; /* of an address, to the bits that tell */
    uint64_t mask, taken;
    uint8_t *groups; /* [mask + 1] 0: not taken; else the group and 1; NULL: all are simulated */
    unsigned group_count;
    unsigned one_in; /* 0, or of all levels one line in so many comes */
};

struct plain; /* plain.h */

struct cache {
    struct level levels[CACHE_LEVELS_MAX];
    int count;
    int nearest_data, nearest_code;
    bool has_whole, with_causes;
    bool is_bare;     /* as bare_takes says */
    bool is_far;      /* what the last references needed lies far off: that of the next ones is fetched before */
    uint64_t threads; /* seen so far, a bit each */
    uint64_t evicted; /* from levels[0] by cache_reach: the line's address, and 1; 0: nothing */
    bool in_window;
    struct cache_windows windows;
    struct cache_sets sets;
    struct cache_lost *lost;     /* NULL: nobody wants it */
    struct coherence *coherence; /* NULL before the second thread, and where no level is coherent */
    struct plain *plain;         /* NULL: the levels are not plain, or what came was not */
    struct cache_curve *curve;   /* NULL: none is carried */
};

struct visit { /* of one reference */
    const struct cache_ref *ref;
    enum cache_kind kind;
    bool stores, is_modify;
    uint32_t cell;
    unsigned thread;
    unsigned reached, missed; /* levels, a bit each */
    unsigned lacks;           /* levels that are known to lack the line */
    unsigned unknown;         /* in a window: levels, a bit each, of which it is not known whether it missed them */
    unsigned handed;          /* levels that hand on lines which they have: the next is asked for the whole reference */
};

/* The group of the sets that an address goes through, and 1, where some sets alone are simulated. */
static inline unsigned group_of(const struct cache *c, uint64_t address)
{
    return c->sets.groups[address >> c->sets.shift & c->sets.mask];
}

/* A dirty line goes to the nearest level from `at` on that has it. */
void hierarchy_write_back(struct cache *c, int at, uint64_t address, unsigned thread);

void hierarchy_empty(struct cache *c); /* for a window, as if nothing had been; what was counted stays */

/* ---- plain/bare.c ---- */

bool bare_takes(const struct cache *c); /* levels of data that are asked for nothing but misses */
/* Of one thread: a reference to one line that the nearest of them lacks. */
void bare_miss(struct cache *c, const struct cache_ref *r, enum cache_kind kind, bool stores);

/* ---- ahead.c: fetches what references that will miss need, some time before ---- */

enum { AHEAD_BLOCK = 16, AHEAD_STEPS = 2 };

struct ahead {
    const struct cache_ref *misses[AHEAD_BLOCK];
    size_t count;
};
/* The references that will most likely miss the first level. */
void ahead_look(const struct cache *c, const struct cache_ref *refs, size_t count, struct ahead *out);
/* Steps 0 to AHEAD_STEPS - 1, between which time must pass. */
void ahead_step(const struct cache *c, const struct ahead *a, unsigned step);

#endif
