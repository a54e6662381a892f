/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of a stream: what a level misses in them for certain and perhaps, summed with the weight of each window, and
 * with its square, for what lies between windows; and how long lines are of use, which tells of the misses that are
 * not certain. And groups of sets, where some alone are simulated.
 */
#ifndef MTOOL_CACHE_SAMPLE_H
#define MTOOL_CACHE_SAMPLE_H

#include "cache/cache.h"
#include "cache/windows/ages.h"
#include "cache/windows/met.h"

struct sample_now { /* of a cell, in the window that runs */
    uint64_t references_before;
    uint32_t known, unknown;
};

struct sample_sums {
    double references, known, unknown; /* weighted */
    double known2, known_all, most2,
        most_all;                  /* by squares of weights; most: known + unknown; all: references in all */
    double dead, live;             /* of generations, in references to the level */
    uint64_t generations, windows; /* windows: in which it missed */
};

enum { SAMPLE_GROUPS = CACHE_GROUPS };
struct sample_groups { /* misses by group of the sets that are simulated */
    uint64_t misses[SAMPLE_GROUPS];
};

struct sample_missed { /* by a cell in a window */
    uint32_t cell, window, known, unknown;
};

struct sample_unknown {       /* misses that may be none, in all windows */
    uint32_t firsts[2][AGES]; /* the set had room, by age; second: and a nearer level too */
    uint32_t full;            /* it would have been a miss, had a nearer level not had room */
};

struct sample {
    VEC(struct sample_missed) missed; /* by window */
    struct sample_groups all_groups;
    VEC(struct sample_groups) groups; /* by cell */
    struct sample_sums all;
    VEC(struct sample_sums) cells;
    VEC(struct sample_now) now;
    struct ages ages;
    struct met met; /* by windows, lines that were not there before in them */
    struct sample_unknown all_unknown;
    VEC(struct sample_unknown) unknown; /* by cell */
    /* As of the last window's end: of firsts by age, and of all that is unknown, the part that misses. */
    double first_misses[AGES], unknown_misses;
};

void sample_fini(struct sample *s);
/* A miss that is known. One that is not: since the level had room for its line `age` references after the window's
 * begin, or (`nearer`) a nearer level had, or both. */
void sample_count_miss(struct sample *s, uint32_t cell);
void sample_count_unknown(struct sample *s, uint32_t cell, bool has_room, uint32_t age, bool nearer);
/* A line that a reference of `cell` brought in was of use for `live` references, and not for `dead` more. */
void sample_count_generation(struct sample *s, uint32_t cell, uint32_t live, uint32_t dead);

/* sets.c: a miss in one of the sets that are simulated, of a group of them. */
void sets_count_miss(struct sample *s, uint32_t cell, unsigned group, bool by_cell);
struct sample_groups *sets_group_of(struct sample *s, uint32_t cell);
/* Of windows, which cache_windows_stand_for was told of. */
struct cache_estimate sample_estimate_cells(const struct cache *c, unsigned level, const uint32_t *cells, size_t count);
struct cache_estimate sets_estimate(const struct cache *c, unsigned level);

#endif
