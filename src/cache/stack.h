/* SPDX-License-Identifier: Apache-2.0
 *
 * Fully associative LRU caches of many sizes at a time, for lines that the caller has numbered: as the grouped stack of
 * Kim, Hill and Wood ("Implementing stack simulation for highly-associative memories", SIGMETRICS 1991) one order of
 * use for all sizes, of each of which the line is known that just fits. The order is a log of uses, in which a bit says
 * of each place whether its line was used again since. So a use of a line writes at the end of the log, and clears a
 * bit; how many sizes the line did not fit is how many of those places lie behind its own; and these move on to the
 * next bit, in words that are read in order.
 */
#ifndef MTOOL_CACHE_STACK_H
#define MTOOL_CACHE_STACK_H

#include "base/base.h"

enum { STACK_SIZES_MAX = 22 };

struct stack {
    uint32_t *of; /* [x << spread] of line x: its place in the log; 0: it was never used */
    unsigned spread;
    bool is_own;           /* of: [cap], not the caller's */
    uint32_t *log;         /* [room] lines; from place 1 on */
    uint64_t *live;        /* [room / 64] a bit each; set of places to come, too */
    uint32_t room, newest; /* places; the last one */
    uint64_t cap, held;    /* held: lines that were ever used */
    unsigned sizes, first; /* those below `first` hold no line */
    uint64_t lines[STACK_SIZES_MAX];
    uint32_t oldest[STACK_SIZES_MAX + 1]; /* the place that just fits; 0: there are fewer lines */
};

/* Lines that each size holds, ascending; of equal ones only 0. */
void stack_init(struct stack *k, const uint64_t *lines, unsigned sizes);
/* From now on, and before the first use, places stand where the caller has them, for all lines that will come. */
void stack_place_in(struct stack *k, uint32_t *of, unsigned spread);
void stack_fini(struct stack *k);
void stack_grow(struct stack *k, uint32_t x); /* so that x has a place */
void stack_tidy(struct stack *k);             /* room in the log */
/* The line is the newest already, and was never used before, or stood at that place: the sizes that it did not fit. */
unsigned stack_add(struct stack *k);
unsigned stack_move(struct stack *k, uint32_t was);
/* The lines that stand from a place on, the oldest first. Returns how many; out: [held]. */
size_t stack_lines(const struct stack *k, uint32_t from, uint32_t *out);

/* What a use of the line will change, some time before; where its place stands is near. */
__attribute__((always_inline)) static inline void stack_fetch(const struct stack *k, uint32_t x)
{
    if (x < k->cap)
        __builtin_prefetch(&k->live[k->of[(uint64_t)x << k->spread] / 64], 1);
}

static inline void stack_append(struct stack *k, uint32_t x)
{
    uint32_t place = ++k->newest;
    k->of[(uint64_t)x << k->spread] = place;
    k->log[place] = x;
}

/* The line is used. How many of the sizes it did not fit; all of them if it was never used before. */
static inline unsigned stack_use(struct stack *k, uint32_t x)
{
    if (x >= k->cap)
        stack_grow(k, x);
    if (k->newest + 1 == k->room)
        stack_tidy(k);
    uint32_t was = k->of[(uint64_t)x << k->spread];
    if (was == k->newest && was)
        return k->first;
    stack_append(k, x);
    if (!was)
        return stack_add(k);
    k->live[was / 64] &= ~(1ull << was % 64);
    return was > k->oldest[k->first] ? k->first : stack_move(k, was);
}

#endif
