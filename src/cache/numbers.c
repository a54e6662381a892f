/* SPDX-License-Identifier: Apache-2.0
 * Pages of numbers: open addressing, at most half full. */
#include "cache/numbers.h"

#include <assert.h>
#include <stdlib.h>

enum { SLOTS_FIRST = 256 };

void numbers_init(struct numbers *n)
{
    memset(n, 0, sizeof *n);
    n->mask = SLOTS_FIRST - 1;
    n->slots = xmalloc(SLOTS_FIRST * sizeof *n->slots);
    n->pages = xmalloc(SLOTS_FIRST * sizeof *n->pages);
    n->count = NUMBERS_PAGE;
}

void numbers_fini(struct numbers *n)
{
    free(n->slots);
    free(n->pages);
}

void numbers_empty(struct numbers *n)
{
    memset(n->recent, 0, sizeof n->recent);
    memset(n->slots, 0, (n->mask + 1) * sizeof *n->slots);
    n->count = NUMBERS_PAGE;
}

static struct numbers_page *slot_of(const struct numbers *n, uint64_t page)
{
    uint64_t at = (page * 0x9e3779b97f4a7c15u) >> 20 & n->mask;
    while (n->slots[at].key && n->slots[at].key != page + 1)
        at = (at + 1) & n->mask;
    return &n->slots[at];
}

static void grow(struct numbers *n)
{
    struct numbers_page *old = n->slots;
    uint64_t cap = n->mask + 1;
    n->slots = xmalloc(2 * cap * sizeof *n->slots);
    n->mask = 2 * cap - 1;
    n->pages = xrealloc(n->pages, 2 * cap * sizeof *n->pages);
    for (uint64_t i = 0; i < cap; i++)
        if (old[i].key)
            *slot_of(n, old[i].key - 1) = old[i];
    free(old);
}

uint32_t numbers_find(struct numbers *n, uint64_t page)
{
    if (n->count / (NUMBERS_PAGE / 2) > n->mask)
        grow(n);
    struct numbers_page *slot = slot_of(n, page);
    if (!slot->key) {
        assert(n->count < UINT32_MAX / 2);
        *slot = (struct numbers_page){page + 1, n->count};
        n->pages[n->count / NUMBERS_PAGE] = page;
        n->count += NUMBERS_PAGE;
    }
    n->recent[page % NUMBERS_RECENT] = *slot;
    return slot->first;
}
