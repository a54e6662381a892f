/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines by small numbers, which stay theirs: what is kept of a line stands in arrays. The numbers of neighbouring lines
 * stand together: programs go through memory in order more often than not, and the table by which they are found is
 * small.
 */
#ifndef MTOOL_CACHE_NUMBERS_H
#define MTOOL_CACHE_NUMBERS_H

#include "base/base.h"

enum { NUMBERS_PAGE_SHIFT = 6, NUMBERS_RECENT = 4096 };

struct numbers_page {
    uint64_t key; /* line >> NUMBERS_PAGE_SHIFT, and 1; 0: none */
    uint32_t *of; /* its lines' numbers; 0: none yet */
};
struct numbers {
    struct numbers_page recent[NUMBERS_RECENT]; /* that were looked for lately, by their low bits */
    struct numbers_page *slots;                 /* all, by hash */
    uint64_t mask, pages;
    struct arena *arena;
};

void numbers_init(struct numbers *n);
void numbers_fini(struct numbers *n);
uint32_t *numbers_page(struct numbers *n, uint64_t page);

/* Where its number stands, for good. */
static inline uint32_t *numbers_at(struct numbers *n, uint64_t line)
{
    uint64_t page = line >> NUMBERS_PAGE_SHIFT;
    const struct numbers_page *recent = &n->recent[page % NUMBERS_RECENT];
    uint32_t *of = recent->key == page + 1 ? recent->of : numbers_page(n, page);
    return &of[line % (1u << NUMBERS_PAGE_SHIFT)];
}

static inline uint64_t numbers_place(const struct numbers *n, uint64_t page)
{
    return (page * 0x9e3779b97f4a7c15u) >> 20 & n->mask;
}

/* Inline, as everything that does nothing but fetch: gcc takes a call for one without effect, and leaves it out. */
__attribute__((always_inline)) static inline void numbers_prefetch(const struct numbers *n, uint64_t line)
{
    uint64_t page = line >> NUMBERS_PAGE_SHIFT;
    if (n->recent[page % NUMBERS_RECENT].key == page + 1)
        __builtin_prefetch(&n->recent[page % NUMBERS_RECENT].of[line % (1u << NUMBERS_PAGE_SHIFT)]);
    else
        __builtin_prefetch(&n->slots[numbers_place(n, page)]);
}

/* When what that fetched is there. 0: not known. */
__attribute__((always_inline)) static inline uint32_t numbers_peek(const struct numbers *n, uint64_t line)
{
    uint64_t page = line >> NUMBERS_PAGE_SHIFT;
    const struct numbers_page *p = &n->recent[page % NUMBERS_RECENT];
    if (p->key != page + 1)
        p = &n->slots[numbers_place(n, page)];
    return p->key == page + 1 ? p->of[line % (1u << NUMBERS_PAGE_SHIFT)] : 0;
}

#endif
