/* SPDX-License-Identifier: Apache-2.0
 * Numbers of pages, in parts that are made when the first of their pages comes. */
#include "cache/tables/numbers.h"

#include <assert.h>
#include <stdlib.h>

enum { ROOM_FIRST = 256 };

void numbers_init(struct numbers *n)
{
    memset(n, 0, sizeof *n);
    n->room = ROOM_FIRST;
    n->pages = xmalloc(ROOM_FIRST * sizeof *n->pages);
    n->count = NUMBERS_PAGE;
}

void numbers_fini(struct numbers *n)
{
    for (size_t i = 0; i < n->parts.cap; i++)
        if (n->parts.used[i])
            free((uint32_t *)(uintptr_t)n->parts.vals[i]);
    map_fini(&n->parts);
    free(n->pages);
}

static uint32_t *part_of(struct numbers *n, uint64_t page)
{
    uint64_t key = page >> NUMBERS_PART_SHIFT, *at = map_place(&n->parts, key);
    if (!*at)
        *at = (uint64_t)(uintptr_t)(uint32_t *)xmalloc(NUMBERS_PART * sizeof(uint32_t));
    uint32_t *first = (uint32_t *)(uintptr_t)*at;
    n->recent[key % NUMBERS_RECENT] = (struct numbers_part){key + 1, first};
    return first;
}

/* Parts stay, for their memory. */
void numbers_empty(struct numbers *n)
{
    for (uint32_t i = 1; i < n->count / NUMBERS_PAGE; i++)
        part_of(n, n->pages[i])[n->pages[i] % NUMBERS_PART] = 0;
    n->count = NUMBERS_PAGE;
}

uint32_t numbers_find(struct numbers *n, uint64_t page)
{
    uint32_t *first = &part_of(n, page)[page % NUMBERS_PART], known = *first;
    if (known)
        return known;
    assert(n->count < UINT32_MAX / 2);
    if (n->count / NUMBERS_PAGE == n->room) {
        n->room *= 2;
        n->pages = xrealloc(n->pages, n->room * sizeof *n->pages);
    }
    *first = n->count;
    n->pages[n->count / NUMBERS_PAGE] = page;
    n->count += NUMBERS_PAGE;
    return *first;
}

uint32_t numbers_get(const struct numbers *n, uint64_t line)
{
    uint64_t page = line >> NUMBERS_PAGE_SHIFT, part;
    if (!map_get(&n->parts, page >> NUMBERS_PART_SHIFT, &part))
        return 0;
    uint32_t first = ((const uint32_t *)(uintptr_t)part)[page % NUMBERS_PART];
    return first ? first + (uint32_t)(line % NUMBERS_PAGE) : 0;
}
