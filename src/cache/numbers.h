/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines by small numbers, which stay theirs: what is kept of a line stands in arrays. Lines of a page have numbers in a
 * row, whether they are reached or not: programs go through memory in order more often than not, and of a page that was
 * reached lately nothing else has to be looked up.
 */
#ifndef MTOOL_CACHE_NUMBERS_H
#define MTOOL_CACHE_NUMBERS_H

#include "base/base.h"

enum { NUMBERS_PAGE_SHIFT = 6, NUMBERS_PAGE = 1 << NUMBERS_PAGE_SHIFT, NUMBERS_RECENT = 4096 };

struct numbers_page {
    uint64_t key;   /* line >> NUMBERS_PAGE_SHIFT, and 1; 0: none */
    uint32_t first; /* number of its first line */
};
struct numbers {
    struct numbers_page recent[NUMBERS_RECENT]; /* that were looked for lately, by their low bits */
    struct numbers_page *slots;                 /* all, by hash */
    uint64_t mask;
    uint64_t *pages; /* [count / NUMBERS_PAGE] line >> NUMBERS_PAGE_SHIFT, by number; [0] is none */
    uint32_t count;  /* of numbers; those below NUMBERS_PAGE are no line's */
};

void numbers_init(struct numbers *n);
void numbers_fini(struct numbers *n);
void numbers_empty(struct numbers *n);
static inline uint64_t numbers_line(const struct numbers *n, uint32_t number)
{
    return n->pages[number / NUMBERS_PAGE] << NUMBERS_PAGE_SHIFT | number % NUMBERS_PAGE;
}
uint32_t numbers_find(struct numbers *n, uint64_t page); /* its first line's */

static inline uint32_t numbers_of(struct numbers *n, uint64_t line)
{
    uint64_t page = line >> NUMBERS_PAGE_SHIFT;
    const struct numbers_page *recent = &n->recent[page % NUMBERS_RECENT];
    uint32_t first = recent->key == page + 1 ? recent->first : numbers_find(n, page);
    return first + (uint32_t)(line % NUMBERS_PAGE);
}

/* Of a page that was looked for lately; else 0. */
__attribute__((always_inline)) static inline uint32_t numbers_peek(const struct numbers *n, uint64_t line)
{
    uint64_t page = line >> NUMBERS_PAGE_SHIFT;
    const struct numbers_page *recent = &n->recent[page % NUMBERS_RECENT];
    return recent->key == page + 1 ? recent->first + (uint32_t)(line % NUMBERS_PAGE) : 0;
}

#endif
