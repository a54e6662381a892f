/* SPDX-License-Identifier: Apache-2.0
 * Misses of one level into causes, cells and evictors. */
#include "cache/causes.h"

#include <assert.h>
#include <stdlib.h>

enum { LINES_FIRST = 1 << 8, LOG_FIRST = 1 << 10, PLACES_LEFT = 3000 };

struct causes *causes_new(uint64_t room, bool in_window)
{
    struct causes *k = xmalloc(sizeof *k);
    numbers_init(&k->numbers);
    k->room = room;
    k->cap = LINES_FIRST;
    k->of = xmalloc(k->cap * sizeof *k->of);
    k->stays = in_window ? xmalloc(k->cap * sizeof *k->stays) : NULL;
    k->mask = LOG_FIRST - 1;
    k->log = xmalloc(LOG_FIRST * sizeof *k->log);
    k->live = xmalloc(LOG_FIRST / 64 * sizeof *k->live);
    k->newest =
        CAUSES_PLACE_MAX - PLACES_LEFT; /* so that they begin anew in each run that is not short, and in tests */
    k->oldest = k->newest + 1;
    return k;
}

void causes_free(struct causes *k)
{
    if (!k)
        return;
    numbers_fini(&k->numbers);
    free(k->of);
    free(k->stays);
    free(k->log);
    free(k->live);
    free(k);
}

static void *more(void *p, uint64_t before, uint64_t now)
{
    char *grown = xrealloc(p, now);
    memset(grown + before, 0, now - before);
    return grown;
}

void causes_grow(struct causes *k, uint32_t x)
{
    uint64_t before = k->cap;
    while (k->cap <= x)
        k->cap *= 2;
    k->of = more(k->of, before * sizeof *k->of, k->cap * sizeof *k->of);
    if (k->stays)
        k->stays = more(k->stays, before * sizeof *k->stays, k->cap * sizeof *k->stays);
}

/* Places begin at 1 again. */
static void forget_places(struct causes *k)
{
    for (uint64_t x = 0; x < k->cap; x++)
        if (!causes_holds(k, (uint32_t)x))
            k->of[x].place = 0;
}

/* The lines of the shadow one behind the other, at the log's end; in a longer log if they are many. */
void causes_tidy(struct causes *k)
{
    uint64_t room = k->mask + 1ull, last = k->newest;
    while (room / 4 < k->held)
        room *= 2;
    assert(room <= UINT32_MAX / 4);
    uint32_t mask = (uint32_t)room - 1, *log = xmalloc(room * sizeof *log);
    uint64_t *live = xmalloc(room / 64 * sizeof *live);
    bool begins_anew = last + 2 * room >= CAUSES_PLACE_MAX;
    if (begins_anew)
        forget_places(k);
    uint32_t newest = begins_anew ? 0 : k->newest, first = newest + 1, at = k->oldest;
    for (uint64_t n = 0; n < k->held; n++, at++) {
        at = causes_next_live(k, at);
        uint32_t x = k->log[at & k->mask];
        k->of[x].place = ++newest;
        log[newest & mask] = x;
        live[(newest & mask) / 64] |= 1ull << newest % 64;
    }
    free(k->log);
    free(k->live);
    k->log = log;
    k->live = live;
    k->mask = mask;
    k->newest = newest;
    k->oldest = first;
}

bool causes_drop(struct causes *k, uint32_t x)
{
    uint32_t place = k->of[x].place;
    if (!causes_holds(k, x))
        return false;
    k->of[x].place = 0;
    k->held--;
    causes_leave(k, place);
    return true;
}

enum cache_cause causes_of_miss(const struct causes *k, uint32_t x, bool in_shadow, uint32_t *by)
{
    enum note_how how = k->of[x].left & ((1u << NOTE_HOW_BITS) - 1);
    if (how == NOTE_NEVER)
        return CACHE_COLD;
    if (how == NOTE_AROUND)
        return CACHE_AROUND;
    *by = k->of[x].left >> NOTE_HOW_BITS;
    if (how == NOTE_TAKEN)
        return CACHE_FALSE_SHARING;
    return !in_shadow ? CACHE_CAPACITY : how == NOTE_INVALIDATED ? CACHE_INCLUSION : CACHE_CONFLICT;
}

/* ---- by cell ---- */

void tally_init(struct tally *t, size_t evictors_max)
{
    t->pairs = xmalloc(sizeof *t->pairs);
    t->pairs->evictors_max = evictors_max;
}

void tally_fini(struct tally *t)
{
    map_fini(&t->pairs->evictors);
    map_fini(&t->pairs->others);
    free(t->pairs);
    VEC_FREE(&t->references);
    VEC_FREE(&t->cells);
}

/* Both, so that they are as long as each other. */
void tally_grow(struct tally *t, uint32_t cell)
{
    size_t len = (size_t)cell + 1;
    assert(cell < CACHE_CELLS_MAX);
    VEC_RESERVE(&t->references, len);
    VEC_RESERVE(&t->cells, len);
    memset(t->references.data + t->references.len, 0, (len - t->references.len) * sizeof *t->references.data);
    memset(t->cells.data + t->cells.len, 0, (len - t->cells.len) * sizeof *t->cells.data);
    t->references.len = t->cells.len = len;
}

static unsigned bits_of(uint64_t n) { return n ? 64 - (unsigned)__builtin_clzll(n) : 0; }

/* The half of the pairs that has fewest misses becomes others. Pairs that come again begin anew. */
static void forget_rare(struct tally_pairs *t)
{
    const struct map *all = &t->evictors;
    size_t of_bits[65] = {0}, too_many = all->len / 2 + 1;
    unsigned bits = 0;
    struct map kept = {0};
    for (size_t i = 0; i < all->cap; i++)
        of_bits[all->used[i] ? bits_of(all->vals[i]) : 0]++;
    for (of_bits[0] = 0; of_bits[bits] < too_many; bits++)
        too_many -= of_bits[bits];
    for (size_t i = 0; i < all->cap; i++) {
        if (!all->used[i])
            continue;
        unsigned own = bits_of(all->vals[i]);
        bool stays = own > bits || (own == bits && !too_many);
        too_many -= own == bits && !stays;
        if (stays)
            map_put(&kept, all->keys[i], all->vals[i]);
        else
            *map_place(&t->others, all->keys[i] >> 32) += all->vals[i];
    }
    map_fini(&t->evictors);
    t->evictors = kept;
}

static void add_evictor(struct tally_pairs *t, uint64_t pair, uint64_t misses)
{
    if (t->evictors.len >= t->evictors_max && !map_has(&t->evictors, pair))
        forget_rare(t);
    *map_place(&t->evictors, pair) += misses;
}

static void settle(struct tally_pairs *t, struct tally_pair *p)
{
    if (p->misses)
        add_evictor(t, p->pair, p->misses);
    p->misses = 0;
}

void tally_add_evictor(struct tally *t, uint32_t cell, uint32_t by, uint64_t misses)
{
    add_evictor(t->pairs, (uint64_t)cell << 32 | by, misses);
}

void tally_replace(struct tally *t, size_t recent, uint64_t pair)
{
    settle(t->pairs, &t->pairs->recent[recent]);
    t->pairs->recent[recent].pair = pair;
}

const struct tally_pairs *tally_settled(const struct tally *t)
{
    for (size_t i = 0; i < ARRAY_LEN(t->pairs->recent); i++)
        settle(t->pairs, &t->pairs->recent[i]);
    return t->pairs;
}
