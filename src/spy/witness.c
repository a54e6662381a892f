/* SPDX-License-Identifier: Apache-2.0
 * A number for each line; of lines that several threads reach, who has them and who lost them. */
#include "spy/witness.h"
#include "cache/tables/table.h"

#include <stdlib.h>

enum { ROOM_FIRST = 1 << 12 };

struct witness *witness_new(uint32_t line_bytes)
{
    struct witness *w = xmalloc(sizeof *w);
    w->shift = (unsigned)__builtin_ctz(line_bytes);
    numbers_init(&w->numbers);
    w->room = ROOM_FIRST;
    w->states = table_new(w->room * sizeof *w->states);
    return w;
}

void witness_free(struct witness *w)
{
    if (!w)
        return;
    numbers_fini(&w->numbers);
    table_free(w->states, w->room * sizeof *w->states);
    VEC_FREE(&w->lines);
    free(w);
}

static void grow(struct witness *w, uint32_t number)
{
    size_t room = w->room;
    while (room <= number)
        room *= 2;
    w->states = table_grow(w->states, w->room * sizeof *w->states, room * sizeof *w->states);
    w->room = room;
}

static struct witness_line *line_of(struct witness *w, uint32_t *state)
{
    if (*state <= WITNESS_THREADS) {
        VEC_PUSH(&w->lines, ((struct witness_line){.holders = 1ull << (*state - 1)}));
        *state = (uint32_t)w->lines.len + WITNESS_THREADS;
    }
    return &w->lines.data[*state - WITNESS_THREADS - 1];
}

static uint32_t number_of(struct witness *w, uint64_t line)
{
    uint32_t number = numbers_of(&w->numbers, line);
    if (number >= w->room)
        grow(w, number);
    return number;
}

static void share(struct witness *w, uint32_t *state, unsigned thread, bool writes)
{
    if (!*state) {
        *state = thread + 1;
        return;
    }
    uint64_t own = 1ull << thread;
    struct witness_line *l = line_of(w, state);
    l->misses += (l->lost & own) != 0;
    l->lost &= ~own;
    l->holders |= own;
    if (!writes)
        return;
    l->lost |= l->holders & ~own;
    l->holders = own;
}

/* What many look at is far off: it is fetched for all of them first, step by step. */
void witness_settle(struct witness *w)
{
    uint32_t numbers[WITNESS_PENDING];
    const size_t count = w->pending_count;
    for (size_t i = 0; i < count; i++) {
        numbers[i] = number_of(w, w->pending[i].line);
        __builtin_prefetch(&w->states[numbers[i]], 1);
    }
    for (size_t i = 0; i < count; i++)
        if (w->states[numbers[i]] > WITNESS_THREADS)
            __builtin_prefetch(&w->lines.data[w->states[numbers[i]] - WITNESS_THREADS - 1], 1);
    for (size_t i = 0; i < count; i++) {
        const struct witness_ref *r = &w->pending[i];
        uint32_t *state = &w->states[numbers[i]];
        if (*state != r->thread + 1u)
            share(w, state, r->thread, r->writes);
    }
    w->pending_count = 0;
}

uint64_t witness_misses(const struct witness *w, uint64_t address)
{
    uint32_t number = numbers_get(&w->numbers, address >> w->shift), state = number < w->room ? w->states[number] : 0;
    return state > WITNESS_THREADS ? w->lines.data[state - WITNESS_THREADS - 1].misses : 0;
}
