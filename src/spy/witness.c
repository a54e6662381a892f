/* SPDX-License-Identifier: Apache-2.0
 * A number for each line, in groups; of lines that several threads reach, who has them and who lost them. */
#include "spy/witness.h"

#include <stdlib.h>

struct witness *witness_new(uint32_t line_bytes)
{
    struct witness *w = xmalloc(sizeof *w);
    w->shift = (unsigned)__builtin_ctz(line_bytes);
    w->arena = arena_new();
    return w;
}

void witness_free(struct witness *w)
{
    if (!w)
        return;
    map_fini(&w->groups);
    VEC_FREE(&w->lines);
    arena_free(w->arena);
    free(w);
}

static uint32_t *find(struct witness *w, unsigned thread, uint64_t group)
{
    uint64_t *at = map_place(&w->groups, group);
    if (!*at)
        *at = (uint64_t)(uintptr_t)ARENA_ARRAY(w->arena, uint32_t, WITNESS_LINES);
    uint32_t *lines = (uint32_t *)(uintptr_t)*at;
    w->recent[thread][group % WITNESS_SLOTS] = (struct witness_slot){group + 1, lines};
    return lines;
}

static struct witness_line *line_of(struct witness *w, uint32_t *state)
{
    if (*state <= WITNESS_THREADS) {
        VEC_PUSH(&w->lines, ((struct witness_line){.holders = 1ull << (*state - 1)}));
        *state = (uint32_t)w->lines.len + WITNESS_THREADS;
    }
    return &w->lines.data[*state - WITNESS_THREADS - 1];
}

static uint32_t *state_of(struct witness *w, const struct witness_ref *r)
{
    uint64_t group = r->line / WITNESS_LINES;
    const struct witness_slot *slot = &w->recent[r->thread][group % WITNESS_SLOTS];
    return (slot->group == group + 1 ? slot->lines : find(w, r->thread, group)) + r->line % WITNESS_LINES;
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
    uint32_t *states[WITNESS_PENDING];
    for (size_t i = 0; i < w->pending_count; i++) {
        states[i] = state_of(w, &w->pending[i]);
        __builtin_prefetch(states[i], 1);
    }
    for (size_t i = 0; i < w->pending_count; i++)
        if (*states[i] > WITNESS_THREADS)
            __builtin_prefetch(&w->lines.data[*states[i] - WITNESS_THREADS - 1], 1);
    for (size_t i = 0; i < w->pending_count; i++) {
        const struct witness_ref *r = &w->pending[i];
        if (*states[i] != r->thread + 1u)
            share(w, states[i], r->thread, r->writes);
    }
    w->pending_count = 0;
}

uint64_t witness_misses(const struct witness *w, uint64_t address)
{
    uint64_t line = address >> w->shift, at;
    if (!map_get(&w->groups, line / WITNESS_LINES, &at))
        return 0;
    uint32_t state = ((const uint32_t *)(uintptr_t)at)[line % WITNESS_LINES];
    return state > WITNESS_THREADS ? w->lines.data[state - WITNESS_THREADS - 1].misses : 0;
}
