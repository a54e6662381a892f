/* SPDX-License-Identifier: Apache-2.0
 * What plain levels hold, as hierarchy.c has it: lines by set in their order of use, shadows, and who evicted what. */
#include "cache/plain/plain.h"

#include <stdlib.h>

/* The lines by number. */
static uint64_t *lines_of(const struct plain *p)
{
    uint64_t *lines = xmalloc(p->numbers.count * sizeof *lines);
    for (uint64_t i = 0; i <= p->numbers.mask; i++) {
        const struct numbers_page *page = &p->numbers.slots[i];
        for (uint32_t k = 0; page->key && k < NUMBERS_PAGE; k++)
            lines[page->first + k] = (page->key - 1) << NUMBERS_PAGE_SHIFT | k;
    }
    return lines;
}

static void hand_over_evictors(const struct plain *p, unsigned at, struct bank *b, const uint64_t *lines)
{
    for (uint32_t x = NUMBERS_PAGE; x < p->numbers.count; x++) {
        if (!p->of[x].at[at])
            continue;
        uint32_t number = causes_number(b->causes, lines[x]);
        if (p->of[x].by[at])
            causes_note_left(b->causes, number, p->of[x].by[at] - 1, NOTE_EVICTED);
    }
}

static void hand_over_shadow(const struct stack *k, unsigned size, struct bank *b, const uint64_t *lines)
{
    uint32_t *of = xmalloc((k->held + 1) * sizeof *of);
    size_t held = stack_lines(k, k->oldest[size], of);
    for (size_t n = 0; n < held; n++)
        causes_use(b->causes, causes_number(b->causes, lines[of[n]]), true);
    free(of);
}

static uint32_t next_way(const uint32_t *used, uint32_t row, uint32_t after)
{
    uint32_t next = UINT32_MAX;
    for (uint32_t way = 0; way < row; way++)
        if (used[way] > after && used[way] < next)
            next = used[way];
    return next;
}

static void hand_over_set(const struct plain *p, unsigned at, uint64_t set, struct bank *b, const uint64_t *lines)
{
    const struct plain_level *l = &p->levels[at];
    const uint32_t *used = &l->used[set * l->row];
    for (uint32_t time = PLAIN_WAYS_MAX - 1; (time = next_way(used, l->row, time)) != UINT32_MAX;) {
        uint32_t x = l->lines[set * l->row + (time & (PLAIN_WAYS_MAX - 1))];
        uint32_t number = causes_number(b->causes, lines[x]);
        lines_add(&b->lines, lines[x], p->of[x].dirty >> at & 1, &number);
    }
}

static void hand_over_curve(const struct plain *p, const uint64_t *lines)
{
    struct cache_curve *k = p->curve;
    uint32_t *of = xmalloc((p->stack.held + 1) * sizeof *of);
    size_t held = stack_lines(&p->stack, 0, of);
    for (size_t n = 0; n < held; n++)
        stack_use(&k->stack, numbers_of(&k->numbers, lines[of[n]]));
    free(of);
}

void plain_hand_over(struct cache *c, const struct plain *p)
{
    uint64_t *lines = lines_of(p);
    for (unsigned at = 0; at < p->level_count; at++) {
        const struct plain_level *l = &p->levels[at];
        struct bank *b = c->levels[l->at].banks[p->thread];
        hand_over_evictors(p, at, b, lines);
        hand_over_shadow(at ? &l->shadow : &p->stack, at ? 0 : p->shadow_size, b, lines);
        for (uint64_t set = 0; set < l->sets; set++)
            hand_over_set(p, at, set, b, lines);
    }
    if (p->curve)
        hand_over_curve(p, lines);
    free(lines);
}
