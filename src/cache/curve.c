/* SPDX-License-Identifier: Apache-2.0
 * The curve: one stack of all sizes. What straddles lines hits where the farthest of them does. Cells of which all
 * references hit in the smallest size have no counts. */
#include "cache/cache.h"
#include "cache/stack.h"

#include <assert.h>
#include <stdlib.h>

_Static_assert((int)CACHE_CURVE_SIZES_MAX == (int)STACK_SIZES_MAX, "a size of the one is one of the other");

struct cache_curve {
    struct stack stack;
    unsigned shift;
    uint64_t least;                          /* bytes of the smallest size */
    uint64_t met[CACHE_CURVE_SIZES_MAX + 1]; /* [i]: references that hit in the i-th size, in no smaller one */
    bool by_cell;
    VEC(uint32_t) counts_of; /* which of `counts`, plus 1; 0: none */
    VEC(uint64_t) counts;    /* as `met` from the second on, [sizes] each */
};

/* ---- by cell ---- */

static void make_counts(struct cache_curve *k, uint32_t cell)
{
    while (k->counts_of.len <= cell)
        VEC_PUSH(&k->counts_of, 0);
    if (k->counts_of.data[cell])
        return;
    for (unsigned i = 0; i < k->stack.sizes; i++)
        VEC_PUSH(&k->counts, 0);
    k->counts_of.data[cell] = (uint32_t)(k->counts.len / k->stack.sizes);
}

static uint64_t *counts_of(struct cache_curve *k, uint32_t cell)
{
    if (cell >= k->counts_of.len || !k->counts_of.data[cell])
        make_counts(k, cell);
    return &k->counts.data[(k->counts_of.data[cell] - 1ull) * k->stack.sizes];
}

static void run_one(struct cache_curve *k, const struct cache_ref *r)
{
    unsigned farthest = 0;
    uint64_t last = (r->address + r->bytes - 1) >> k->shift;
    for (uint64_t line = r->address >> k->shift; line <= last; line++) {
        unsigned group = stack_use(&k->stack, stack_node(&k->stack, line));
        farthest = group > farthest ? group : farthest;
    }
    k->met[farthest]++;
    if (farthest && k->by_cell)
        counts_of(k, r->cell)[farthest - 1]++;
}

void cache_curve_run(struct cache_curve *k, const struct cache_ref *refs, size_t count)
{
    for (const struct cache_ref *r = refs; r < refs + count; r++)
        if (r->kind != CACHE_FETCH)
            run_one(k, r);
}

/* ---- made and read ---- */

struct cache_curve *cache_curve_new(uint32_t line_bytes, uint64_t least_bytes, uint64_t max_bytes)
{
    struct cache_curve *k = xmalloc(sizeof *k);
    uint64_t lines[CACHE_CURVE_SIZES_MAX];
    unsigned sizes = 0;
    k->least = least_bytes;
    for (uint64_t bytes = k->least; sizes < CACHE_CURVE_SIZES_MAX && bytes <= max_bytes; bytes *= 2)
        lines[sizes++] = bytes / line_bytes;
    stack_init(&k->stack, lines, sizes);
    k->shift = (unsigned)__builtin_ctz(line_bytes);
    return k;
}

void cache_curve_free(struct cache_curve *k)
{
    if (!k)
        return;
    stack_fini(&k->stack);
    VEC_FREE(&k->counts_of);
    VEC_FREE(&k->counts);
    free(k);
}

void cache_curve_by_cell(struct cache_curve *k) { k->by_cell = true; }

/* Of all that fit it and no smaller one are those of the i-th size and up to it. */
static unsigned size_of(const struct cache_curve *k, uint64_t bytes)
{
    return bytes < k->least ? 0 : 64 - (unsigned)__builtin_clzll(bytes / k->least);
}

uint64_t cache_curve_references(const struct cache_curve *k)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i <= k->stack.sizes; i++)
        sum += k->met[i];
    return sum;
}

uint64_t cache_curve_lines(const struct cache_curve *k) { return k->stack.held; }

uint64_t cache_curve_misses(const struct cache_curve *k, uint64_t bytes)
{
    uint64_t misses = 0;
    for (unsigned i = size_of(k, bytes); i <= k->stack.sizes; i++)
        misses += k->met[i];
    return misses;
}

uint64_t cache_curve_cell_misses(const struct cache_curve *k, uint32_t cell, uint64_t bytes)
{
    uint32_t number = cell < k->counts_of.len ? k->counts_of.data[cell] : 0;
    uint64_t misses = 0;
    for (unsigned i = size_of(k, bytes); number && i <= k->stack.sizes; i++)
        misses += i ? k->counts.data[(number - 1ull) * k->stack.sizes + i - 1] : 0;
    return misses;
}

void cache_curve_absorb(struct cache_curve *k, const struct cache_curve *from, const uint32_t *cells)
{
    unsigned sizes = k->stack.sizes;
    assert(sizes == from->stack.sizes);
    for (unsigned i = 0; i <= sizes; i++)
        k->met[i] += from->met[i];
    for (uint32_t i = 0; i < from->counts_of.len; i++)
        for (unsigned n = 0; from->counts_of.data[i] && n < sizes; n++)
            counts_of(k, cells[i])[n] += from->counts.data[(from->counts_of.data[i] - 1ull) * sizes + n];
}
