/* SPDX-License-Identifier: Apache-2.0
 * What plain levels hold, as hierarchy.c has it: lines by set in their order of use, shadows, and who evicted what. */
#include "cache/plain/plain.h"

#include <stdlib.h>

static void hand_over_left(const struct plain *p, const struct plain_bank *from, unsigned at, struct bank *b)
{
    for (uint32_t x = NUMBERS_PAGE; x < min_u64(p->numbers.count, from->cap); x++) {
        uint32_t left = from->of[x].left[at];
        if (left)
            causes_note_left(b->causes, causes_number(b->causes, numbers_line(&p->numbers, x)), left >> NOTE_HOW_BITS,
                             (enum note_how)(left & ((1u << NOTE_HOW_BITS) - 1)));
    }
}

/* Of the nearest level as long as there is one thread its part of the stack. */
static void hand_over_shadow(const struct plain *p, const struct plain_level *l, bool is_stack, struct bank *b)
{
    size_t held = is_stack ? p->stack.held : l->shadow.held;
    uint32_t *of = xmalloc((held + 1) * sizeof *of);
    if (is_stack)
        held = stack_lines(&p->stack, p->stack.oldest[p->shadow_size], of);
    else
        shadow_lines(&l->shadow, of);
    for (size_t n = 0; n < held; n++)
        causes_use(b->causes, causes_number(b->causes, numbers_line(&p->numbers, of[n])), true);
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

/* In a window. */
static void hand_over_stay(const struct plain_level *l, uint64_t at, struct causes *k, uint32_t number)
{
    const struct plain_stay *stay = &l->stays[at];
    k->stays[number] = (struct causes_stay){
        .used = (l->used[at] >> PLAIN_WAY_BITS) - l->begin, .came = stay->came - l->begin, .is_known = stay->came};
    if (stay->came)
        causes_note_left(k, number, stay->cell, NOTE_NEVER);
}

static void hand_over_set(const struct plain *p, const struct plain_bank *from, unsigned at, uint64_t set,
                          struct bank *b)
{
    const struct plain_level *l = &from->levels[at];
    const uint32_t *used = &l->used[set * l->row];
    for (uint32_t time = PLAIN_WAYS_MAX - 1; (time = next_way(used, l->row, time)) != UINT32_MAX;) {
        uint32_t x = l->lines[set * l->row + (time & (PLAIN_WAYS_MAX - 1))];
        uint64_t line = numbers_line(&p->numbers, x);
        uint32_t number = causes_number(b->causes, line);
        if (b->causes->stays)
            hand_over_stay(l, set * l->row + (time & (PLAIN_WAYS_MAX - 1)), b->causes, number);
        lines_add(&b->lines, line, from->of[x].dirty >> at & 1, &number);
    }
}

static void hand_over_level(const struct plain *p, const struct plain_bank *from, unsigned at, struct bank *b)
{
    const struct plain_level *l = &from->levels[at];
    hand_over_left(p, from, at, b);
    hand_over_shadow(p, l, !at && !p->is_several, b);
    for (uint64_t set = 0; set < l->sets; set++)
        hand_over_set(p, from, at, set, b);
    if (b->causes->stays)
        b->causes->clock = l->clock - l->begin;
}

/* Of several threads the curve has it already, by the numbers that lines have here. */
static void hand_over_curve(struct plain *p)
{
    struct cache_curve *k = p->curve;
    if (p->is_several) {
        numbers_fini(&k->numbers);
        k->numbers = p->numbers;
        numbers_init(&p->numbers);
        return;
    }
    uint32_t *of = xmalloc((p->stack.held + 1) * sizeof *of);
    size_t held = stack_lines(&p->stack, 0, of);
    for (size_t n = 0; n < held; n++)
        stack_use(&k->stack, numbers_of(&k->numbers, numbers_line(&p->numbers, of[n])));
    free(of);
}

void plain_hand_over(struct cache *c, struct plain *p)
{
    for (unsigned thread = 0; thread < CACHE_THREADS_MAX; thread++) {
        const struct plain_bank *from = p->banks[thread];
        for (unsigned at = 0; from && at < (from == p->home ? p->level_count : p->own); at++)
            hand_over_level(p, from, at, c->levels[p->at[at]].banks[thread]);
    }
    if (p->curve)
        hand_over_curve(p);
}
