/* SPDX-License-Identifier: Apache-2.0
 * Misses of one level into causes, cells and evictors. */
#include "cache/causes.h"

#include <assert.h>
#include <stdlib.h>

enum { LINES_FIRST = 1 << 8, PLACE_SPREAD = 1 };
_Static_assert(sizeof(struct causes_line) == sizeof(uint32_t) << PLACE_SPREAD, "the place is the first of two");

struct causes *causes_new(uint64_t room, bool in_window)
{
    struct causes *k = xmalloc(sizeof *k);
    numbers_init(&k->numbers);
    shadow_init(&k->shadow, room);
    k->cap = LINES_FIRST;
    k->of = xmalloc(k->cap * sizeof *k->of);
    k->stays = in_window ? xmalloc(k->cap * sizeof *k->stays) : NULL;
    shadow_place_in(&k->shadow, &k->of->place, PLACE_SPREAD, k->cap);
    return k;
}

void causes_free(struct causes *k)
{
    if (!k)
        return;
    numbers_fini(&k->numbers);
    free(k->of);
    free(k->stays);
    shadow_fini(&k->shadow);
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
    shadow_place_in(&k->shadow, &k->of->place, PLACE_SPREAD, k->cap);
    if (k->stays)
        k->stays = more(k->stays, before * sizeof *k->stays, k->cap * sizeof *k->stays);
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
