/* SPDX-License-Identifier: Apache-2.0
 * The curve: one stack of all sizes. What straddles lines hits where the farthest of them does. Cells of which all
 * references hit in the smallest size have no counts. */
#include "cache/curve.h"

#include <assert.h>
#include <stdlib.h>

uint64_t curve_size_lines(const struct cache_curve *k, unsigned size) { return (k->least << size) >> k->shift; }

void curve_make_counts(struct cache_curve *k, uint32_t cell)
{
    while (k->counts_of.len <= cell)
        VEC_PUSH(&k->counts_of, 0);
    if (k->counts_of.data[cell])
        return;
    for (unsigned i = 0; i < k->sizes; i++)
        VEC_PUSH(&k->counts, 0);
    k->counts_of.data[cell] = (uint32_t)(k->counts.len / k->sizes);
}

static void run_one(struct cache_curve *k, const struct cache_ref *r)
{
    unsigned farthest = 0;
    uint64_t last = (r->address + r->bytes - 1) >> k->shift;
    for (uint64_t line = r->address >> k->shift; line <= last; line++) {
        unsigned group = stack_use(&k->stack, numbers_of(&k->numbers, line));
        farthest = group > farthest ? group : farthest;
    }
    curve_count(k, farthest, r->cell);
}

void cache_curve_run(struct cache_curve *k, const struct cache_ref *refs, size_t count)
{
    for (const struct cache_ref *r = refs; r < refs + count; r++)
        if (r->kind == CACHE_USE)
            stack_use(&k->stack, numbers_of(&k->numbers, r->address >> k->shift));
        else if (r->kind != CACHE_FETCH)
            run_one(k, r);
    k->lines = (uint32_t)k->stack.held;
}

/* ---- made and read ---- */

struct cache_curve *cache_curve_new(uint32_t line_bytes, uint64_t least_bytes, uint64_t max_bytes)
{
    struct cache_curve *k = xmalloc(sizeof *k);
    uint64_t lines[CACHE_CURVE_SIZES_MAX];
    unsigned sizes = 0;
    k->least = least_bytes;
    k->shift = (unsigned)__builtin_ctz(line_bytes);
    for (uint64_t bytes = k->least; sizes < CACHE_CURVE_SIZES_MAX && bytes <= max_bytes; bytes *= 2)
        lines[sizes++] = bytes / line_bytes;
    k->sizes = sizes;
    stack_init(&k->stack, lines, sizes);
    numbers_init(&k->numbers);
    return k;
}

void cache_curve_free(struct cache_curve *k)
{
    if (!k)
        return;
    stack_fini(&k->stack);
    numbers_fini(&k->numbers);
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
    for (unsigned i = 0; i <= k->sizes; i++)
        sum += k->met[i];
    return sum;
}

uint64_t cache_curve_lines(const struct cache_curve *k) { return k->lines; }

uint64_t cache_curve_misses(const struct cache_curve *k, uint64_t bytes)
{
    uint64_t misses = 0;
    for (unsigned i = size_of(k, bytes); i <= k->sizes; i++)
        misses += k->met[i];
    return misses;
}

uint64_t cache_curve_cell_misses(const struct cache_curve *k, uint32_t cell, uint64_t bytes)
{
    uint32_t number = cell < k->counts_of.len ? k->counts_of.data[cell] : 0;
    uint64_t misses = 0;
    for (unsigned i = size_of(k, bytes); number && i <= k->sizes; i++)
        misses += i ? k->counts.data[(number - 1ull) * k->sizes + i - 1] : 0;
    return misses;
}

static uint64_t *curve_cell_count(struct cache_curve *k, uint32_t cell, unsigned size)
{
    curve_make_counts(k, cell);
    return &k->counts.data[(k->counts_of.data[cell] - 1ull) * k->sizes + size];
}

void cache_curve_absorb(struct cache_curve *k, const struct cache_curve *from, const uint32_t *cells)
{
    unsigned sizes = k->sizes;
    assert(sizes == from->sizes);
    for (unsigned i = 0; i <= sizes; i++)
        k->met[i] += from->met[i];
    for (uint32_t i = 0; i < from->counts_of.len; i++)
        for (unsigned n = 0; from->counts_of.data[i] && n < sizes; n++)
            *curve_cell_count(k, cells[i], n) += from->counts.data[(from->counts_of.data[i] - 1ull) * sizes + n];
}
