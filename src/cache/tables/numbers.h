/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines by small numbers, which stay theirs: what is kept of a line stands in arrays. Lines of a page have numbers in a
 * row, whether they are reached or not: programs go through memory in order more often than not. Where a page's begin
 * stands in tables by its own number, four bytes each: what a program reaches here and there of many megabytes is found
 * in few kilobytes, which stay near.
 */
#ifndef MTOOL_CACHE_TABLES_NUMBERS_H
#define MTOOL_CACHE_TABLES_NUMBERS_H

#include "base/base.h"

enum { NUMBERS_PAGE_SHIFT = 6, NUMBERS_PAGE = 1 << NUMBERS_PAGE_SHIFT };
enum { NUMBERS_PART_SHIFT = 12, NUMBERS_PART = 1 << NUMBERS_PART_SHIFT, NUMBERS_RECENT = 64 };

struct numbers_part { /* of all pages */
    uint64_t key;     /* page >> NUMBERS_PART_SHIFT, and 1; 0: none */
    uint32_t *first;  /* [NUMBERS_PART] numbers of the first lines of pages; 0: it has none yet */
};
struct numbers {
    struct numbers_part recent[NUMBERS_RECENT]; /* by their low bits */
    struct map parts;                           /* all: key -> first, as a number */
    uint64_t *pages; /* [count / NUMBERS_PAGE] line >> NUMBERS_PAGE_SHIFT, by number; [0] is none */
    uint32_t count;  /* of numbers; those below NUMBERS_PAGE are no line's */
    uint32_t room;   /* of pages */
};

void numbers_init(struct numbers *n);
void numbers_fini(struct numbers *n);
void numbers_empty(struct numbers *n);
static inline uint64_t numbers_line(const struct numbers *n, uint32_t number)
{
    return n->pages[number / NUMBERS_PAGE] << NUMBERS_PAGE_SHIFT | number % NUMBERS_PAGE;
}
uint32_t numbers_find(struct numbers *n, uint64_t page);      /* its first line's */
uint32_t numbers_get(const struct numbers *n, uint64_t line); /* 0: its page never came */

/* Its first line's; 0: it has none yet, or nothing near it was looked for lately. */
__attribute__((always_inline)) static inline uint32_t numbers_known(const struct numbers *n, uint64_t page)
{
    uint64_t key = page >> NUMBERS_PART_SHIFT;
    const struct numbers_part *recent = &n->recent[key % NUMBERS_RECENT];
    return recent->key == key + 1 ? recent->first[page % NUMBERS_PART] : 0;
}

static inline uint32_t numbers_of(struct numbers *n, uint64_t line)
{
    uint32_t first = numbers_known(n, line >> NUMBERS_PAGE_SHIFT);
    if (__builtin_expect(!first, 0))
        first = numbers_find(n, line >> NUMBERS_PAGE_SHIFT);
    return first + (uint32_t)(line % NUMBERS_PAGE);
}

/* Of a page near which something was looked for lately; else 0. */
__attribute__((always_inline)) static inline uint32_t numbers_peek(const struct numbers *n, uint64_t line)
{
    uint32_t first = numbers_known(n, line >> NUMBERS_PAGE_SHIFT);
    return first ? first + (uint32_t)(line % NUMBERS_PAGE) : 0;
}

#endif
