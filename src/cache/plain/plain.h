/* SPDX-License-Identifier: Apache-2.0
 *
 * plain: the levels as most machines have them and most programs use them, faster: one thread, LRU, lines of one size,
 * nothing inclusive or exclusive, writes that allocate and stay. All counts are those of hierarchy.c, to which it hands
 * over what the levels hold when something comes that is not plain (a second thread, a fetch).
 *
 * Each line has one number for all levels, and what is known of it stands together, in half a line of this machine's
 * caches: in which way of its set it is, if it is there, whether it is dirty, and its places in the orders of use; so
 * neither hits nor what is evicted, or written back, is searched for. Lines of a page have numbers in a row: of a page
 * that was reached lately nothing else has to be looked up. A way has the time of its last use, the least of a set
 * goes. The shadow of the nearest level is one of the sizes of the stack that the miss-ratio curve needs too.
 */
#ifndef MTOOL_CACHE_PLAIN_H
#define MTOOL_CACHE_PLAIN_H

#include "cache/curve.h"
#include "cache/hierarchy.h"

enum { PLAIN_LEVELS_MAX = 3, PLAIN_WAYS_MAX = 32, PLAIN_WAY_BITS = 5 };
enum { PLAIN_LINES_MAX = 1 << 23 }; /* of a level: all its ways are there from the first reference on */

struct plain_line {
    uint32_t at[PLAIN_LEVELS_MAX]; /* its place in the order of use of the level's shadow; 0: it never came there */
    uint32_t by[PLAIN_LEVELS_MAX]; /* the cell that evicted it last from the level, and 1; 0: it never left */
    uint8_t way[PLAIN_LEVELS_MAX];
    uint8_t here, dirty; /* levels, a bit each */
};
enum { PLAIN_LINE_SPREAD = 3 }; /* log2 of how many times a place it is */
_Static_assert(sizeof(struct plain_line) == sizeof(uint32_t) << PLAIN_LINE_SPREAD, "they lie in a row");

struct plain_level {
    unsigned at;     /* among the cache's levels */
    uint32_t *used;  /* [sets * row] time of the last use << PLAIN_WAY_BITS | way; of no way: the greatest number */
    uint32_t *lines; /* [sets * row] numbers; 0: none */
    uint64_t mask, sets;
    uint32_t clock, row; /* row: ways, up to a multiple of 4 */
    struct stack shadow; /* of the nearest level plain.stack */
};

struct plain {
    struct plain_level levels[PLAIN_LEVELS_MAX];
    struct plain_line *of; /* [cap] by number, in `memory` */
    void *memory;
    struct numbers numbers;
    struct stack stack;
    unsigned shadow_size;                    /* of the stack's: the nearest level's shadow */
    uint8_t curve_size[STACK_SIZES_MAX + 1]; /* of the stack's, which of the curve's */
    struct cache_curve *curve;               /* NULL: there is none to carry */
    unsigned level_count;                    /* that data reach */
    uint32_t cap;
    unsigned thread;
    bool has_begun, is_far;
};

/* NULL: the levels are not plain. */
struct plain *plain_new(const struct cache *c);
void plain_free(struct plain *p);
/* Before the first reference: the curve is counted too. False: its lines are others. */
bool plain_carry(struct plain *p, const struct cache *c, struct cache_curve *k);
/* Returns how many of them are plain. */
size_t plain_run(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count);
/* over.c: what the levels hold goes to the banks of its thread, and the curve's order to the curve. */
void plain_hand_over(struct cache *c, const struct plain *p);

#endif
