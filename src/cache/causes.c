/* SPDX-License-Identifier: Apache-2.0
 * Misses of one level into causes, cells and evictors. */
#include "cache/causes.h"

#include <assert.h>
#include <stdlib.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, AHEAD = 8 };

struct causes *causes_new(struct lines *of, uint64_t room)
{
    struct causes *k = xmalloc(sizeof *k);
    k->lines = of;
    k->room = room;
    return k;
}

void causes_free(struct causes *k)
{
    if (!k)
        return;
    book_fini(&k->book);
    VEC_FREE(&k->queue);
    VEC_FREE(&k->spare);
    VEC_FREE(&k->outside);
    free(k);
}

/* ---- the shadow ---- */

static uint32_t time_of(struct causes *k, uint64_t line)
{
    uint32_t at = lines_find(k->lines, line);
    return at != LINES_NONE ? k->lines->times[at] : book_note(&k->book, line)->time;
}

/* One pass of a radix sort, by the digit at `shift`. */
static void sort_digit(const struct causes_use *from, struct causes_use *to, size_t count, unsigned shift)
{
    size_t begin[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
        begin[from[i].time >> shift & (DIGITS - 1)]++;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t n = begin[d];
        begin[d] = sum;
        sum += n;
    }
    for (size_t i = 0; i < count; i++)
        to[begin[from[i].time >> shift & (DIGITS - 1)]++] = from[i];
}

static int by_time(const void *a, const void *b)
{
    const struct causes_use *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

static void sort_queue(struct causes *k)
{
    size_t count = k->queue.len;
    uint32_t differ = k->clock ^ k->frontier; /* times lie between */
    if (count < DIGITS / 16) {
        if (count)
            qsort(k->queue.data, count, sizeof *k->queue.data, by_time);
        return;
    }
    VEC_RESERVE(&k->spare, count);
    for (unsigned shift = 0; shift < 32 && differ >> shift; shift += DIGIT_BITS) {
        __typeof__(k->queue) sorted;
        sort_digit(k->queue.data, k->spare.data, count, shift);
        memcpy(&sorted, &k->spare, sizeof sorted);
        memcpy(&k->spare, &k->queue, sizeof k->spare);
        memcpy(&k->queue, &sorted, sizeof k->queue);
        k->queue.len = count;
    }
}

/* Of the uses of lines outside the level those that are still their last, and in the shadow. */
static void keep_outside(struct causes *k)
{
    size_t kept = 0;
    for (size_t i = 0; i < k->outside.len; i++) {
        struct causes_use u = k->outside.data[i];
        if (i + AHEAD < k->outside.len)
            book_prefetch(&k->book, k->outside.data[i + AHEAD].line);
        if (causes_holds(k, u.time) && book_note(&k->book, u.line)->time == u.time)
            k->outside.data[kept++] = u;
    }
    k->outside.len = kept;
}

static void make_queue(struct causes *k)
{
    const struct lines *l = k->lines;
    keep_outside(k);
    k->queue.len = k->next = 0;
    VEC_RESERVE(&k->queue, k->held);
    for (uint64_t i = 0; i < l->sets * l->ways; i++)
        if (l->entries[i] && causes_holds(k, l->times[i]))
            VEC_PUSH(&k->queue, ((struct causes_use){lines_line_of(l->entries[i]), l->times[i]}));
    for (size_t i = 0; i < k->outside.len; i++)
        VEC_PUSH(&k->queue, k->outside.data[i]);
    sort_queue(k);
}

static void add_outside(struct causes *k, uint64_t line, uint32_t time)
{
    if (k->outside.len >= 2 * k->room + 64)
        keep_outside(k);
    VEC_PUSH(&k->outside, ((struct causes_use){line, time}));
}

/* For what comes to be dropped after this. Inline, as everything that does nothing but fetch: gcc takes a call for one
 * without effect, and leaves it out. */
__attribute__((always_inline)) static inline void look_ahead(const struct causes *k)
{
    if (k->next + AHEAD >= k->queue.len)
        return;
    lines_prefetch(k->lines, k->queue.data[k->next + AHEAD].line);
    book_prefetch(&k->book, k->queue.data[k->next + AHEAD].line);
    book_prefetch_note(&k->book, k->queue.data[k->next + AHEAD / 2].line);
}

static void drop_oldest(struct causes *k)
{
    for (;;) {
        if (k->next == k->queue.len)
            make_queue(k);
        assert(k->queue.len && "the shadow holds more than it can");
        struct causes_use u = k->queue.data[k->next++];
        look_ahead(k);
        if (time_of(k, u.line) != u.time)
            continue; /* used again since, or taken out */
        k->frontier = u.time;
        k->held--;
        return;
    }
}

void causes_enter(struct causes *k)
{
    if (++k->held > k->room)
        drop_oldest(k);
}

/* Times begin at one again, in the same order. */
void causes_restart_clock(struct causes *k)
{
    make_queue(k);
    k->outside.len = 0;
    memset(k->lines->times, 0, k->lines->sets * k->lines->ways * sizeof *k->lines->times);
    book_forget_times(&k->book);
    for (size_t i = 0; i < k->queue.len; i++) {
        struct causes_use *u = &k->queue.data[i];
        uint32_t at = lines_find(k->lines, u->line);
        u->time = (uint32_t)i + 1;
        if (at != LINES_NONE) {
            k->lines->times[at] = u->time;
        } else {
            book_note(&k->book, u->line)->time = u->time;
            VEC_PUSH(&k->outside, *u);
        }
    }
    k->frontier = 0;
    k->clock = (uint32_t)k->queue.len;
}

/* ---- lines ---- */

bool causes_miss(struct causes *k, struct note *n, uint64_t line, bool enters)
{
    uint32_t now = causes_now(k);
    bool was_there = causes_holds(k, n->time);
    if (!was_there && !enters)
        return false;
    n->time = now;
    if (!enters)
        add_outside(k, line, now);
    if (!was_there)
        causes_enter(k);
    return was_there;
}

void causes_note_left(struct causes *k, uint64_t line, uint32_t time, uint32_t cell, enum note_how how)
{
    struct note *n = book_note(&k->book, line);
    n->left = cell << NOTE_HOW_BITS | how;
    if (how == NOTE_AROUND)
        return;
    n->time = time;
    if (causes_holds(k, time))
        add_outside(k, line, time);
}

bool causes_drop(struct causes *k, uint64_t line, uint32_t time)
{
    struct note *n = book_peek(&k->book, line);
    bool was_there = causes_holds(k, time || !n ? time : n->time);
    k->held -= was_there;
    if (n)
        n->time = 0;
    return was_there;
}

enum cache_cause causes_of_miss(const struct note *n, bool in_shadow, uint32_t *by)
{
    enum note_how how = n->left & ((1u << NOTE_HOW_BITS) - 1);
    if (how == NOTE_NEVER)
        return CACHE_COLD;
    if (how == NOTE_AROUND)
        return CACHE_AROUND;
    *by = n->left >> NOTE_HOW_BITS;
    if (how == NOTE_TAKEN)
        return CACHE_FALSE_SHARING;
    return !in_shadow ? CACHE_CAPACITY : how == NOTE_INVALIDATED ? CACHE_INCLUSION : CACHE_CONFLICT;
}

/* ---- by cell ---- */

void tally_fini(struct tally *t)
{
    map_fini(&t->evictors);
    map_fini(&t->others);
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
static void forget_rare(struct tally *t)
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

void tally_add_evictor(struct tally *t, uint32_t cell, uint32_t by, uint64_t misses)
{
    uint64_t pair = (uint64_t)cell << 32 | by;
    if (t->evictors.len >= t->evictors_max && !map_has(&t->evictors, pair))
        forget_rare(t);
    *map_place(&t->evictors, pair) += misses;
}
