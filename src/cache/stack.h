/* SPDX-License-Identifier: Apache-2.0
 *
 * Fully associative LRU caches of many sizes at a time: the grouped stack of Kim, Hill and Wood ("Implementing stack
 * simulation for highly-associative memories", SIGMETRICS 1991). All lines stand in one list, the last used first; of
 * each size the line is known that just fits, and of each line its group: how many of the sizes it no longer fits. A
 * line that is used goes to the front, and from each size that it was out of one line falls out in its place: no step
 * for most uses, wherever in its group the line stood.
 */
#ifndef MTOOL_CACHE_STACK_H
#define MTOOL_CACHE_STACK_H

#include "cache/numbers.h"

enum { STACK_SIZES_MAX = 20 };

struct stack_node {        /* of a line; 0: the list's ends */
    uint32_t newer, older; /* itself: it is not in the list */
    uint32_t group;
};

struct stack {
    struct stack_node *nodes;
    uint64_t count, held, cap; /* of nodes: with 0; in the list */
    unsigned sizes, first;     /* those below `first` hold no line */
    uint64_t lines[STACK_SIZES_MAX];
    uint32_t last[STACK_SIZES_MAX]; /* the line that just fits; 0: there are fewer */
    struct numbers numbers;
};

/* Lines that each size holds, ascending; of equal ones only 0. */
void stack_init(struct stack *k, const uint64_t *lines, unsigned sizes);
void stack_fini(struct stack *k);
uint32_t stack_new_node(struct stack *k);
/* x is out of sizes `first` to `group` - 1, and is the first of the list already. */
void stack_push_out(struct stack *k, unsigned group, bool is_new);

/* The line's place, for good. */
static inline uint32_t stack_node(struct stack *k, uint64_t line)
{
    uint32_t *x = numbers_at(&k->numbers, line);
    return *x ? *x : (*x = stack_new_node(k));
}

/* The line is used. How many of the sizes it did not fit; all of them if it was never used before. */
static inline unsigned stack_use(struct stack *k, uint32_t x)
{
    struct stack_node *n = k->nodes, was = n[x];
    uint32_t second = n[0].older;
    if (second == x)
        return was.group;
    if (was.group < k->sizes && k->last[was.group] == x)
        k->last[was.group] = was.newer;
    n[was.newer].older = was.older;
    n[was.older].newer = was.newer;
    n[x] = (struct stack_node){.older = second, .group = k->first};
    n[second].newer = x;
    n[0].older = x;
    if (was.group > k->first)
        stack_push_out(k, was.group, was.newer == x);
    return was.group;
}

#endif
