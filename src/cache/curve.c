/* SPDX-License-Identifier: Apache-2.0
 * Stack distances (Mattson et al. 1970): how many other lines were used since a line was used last. A fully associative
 * LRU cache of n lines misses where that is n or more. The lines used last stand in a list of their own; all others in
 * the order in which they fell out of it, each at a place in a row; a tree of partial sums (Fenwick 1994) tells how
 * many places behind one are taken. When the row is full, the taken places move together. By cell only sizes that are
 * powers of two are told, and cells of which all references hit in the smallest have no counts. */
#include "cache/cache.h"

#include <stdlib.h>

enum { RECENT_MAX = 64, ROW_FIRST = 1 << 16 };

struct cell_counts { /* of misses: [i]: that hit in the next larger size than the i-th; of the last size, of all */
    uint64_t at[CACHE_CURVE_SIZES_MAX];
};

struct cache_curve {
    unsigned shift;
    uint64_t recent[RECENT_MAX]; /* lines, the last used first */
    size_t recent_count;
    struct map place; /* line -> place + 1 in the row; 0: it is among the recent */
    uint64_t *row;    /* [row_cap] the line at each place, plus 1; 0: taken by none */
    uint32_t *sums;   /* [row_cap + 1] */
    size_t row_len, row_cap, taken;
    uint64_t *distances; /* [max_lines] how often each was met */
    uint64_t max_lines, farther, cold, references;
    uint64_t least;          /* by cell: bytes of the smallest size; 0: not wanted */
    unsigned sizes;          /* by cell */
    VEC(uint32_t) counts_of; /* by cell: which of `counts`, plus 1; 0: none */
    VEC(struct cell_counts) counts;
};

/* ---- the row ---- */

static void add_at(struct cache_curve *k, size_t place, uint32_t what)
{
    for (size_t i = place + 1; i <= k->row_cap; i += i & -i)
        k->sums[i] += what;
}

static size_t taken_up_to(const struct cache_curve *k, size_t place)
{
    size_t sum = 0;
    for (size_t i = place + 1; i > 0; i -= i & -i)
        sum += k->sums[i];
    return sum;
}

/* Sums of a row whose first `taken` places are taken and no other. */
static void sum_anew(struct cache_curve *k)
{
    for (size_t i = 1; i <= k->row_cap; i++) {
        size_t low = i - (i & -i), high = i < k->taken ? i : k->taken;
        k->sums[i] = (uint32_t)(high > low ? high - low : 0);
    }
}

static void make_room(struct cache_curve *k)
{
    size_t to = 0;
    for (size_t from = 0; from < k->row_len; from++) {
        if (!k->row[from])
            continue;
        k->row[to] = k->row[from];
        map_put(&k->place, k->row[to] - 1, to + 1);
        to++;
    }
    memset(k->row + to, 0, (k->row_len - to) * sizeof *k->row);
    k->row_len = to;
    if (to * 2 > k->row_cap) {
        size_t cap = k->row_cap * 2;
        k->row = xrealloc(k->row, cap * sizeof *k->row);
        memset(k->row + k->row_cap, 0, (cap - k->row_cap) * sizeof *k->row);
        k->sums = xrealloc(k->sums, (cap + 1) * sizeof *k->sums);
        k->row_cap = cap;
    }
    sum_anew(k);
}

static void put_in_row(struct cache_curve *k, uint64_t line)
{
    if (k->row_len == k->row_cap)
        make_room(k);
    k->row[k->row_len] = line + 1;
    add_at(k, k->row_len, 1);
    map_put(&k->place, line, ++k->row_len);
    k->taken++;
}

static void take_from_row(struct cache_curve *k, size_t place)
{
    k->row[place] = 0;
    add_at(k, place, UINT32_MAX);
    k->taken--;
}

/* ---- the recent ---- */

static void put_first(struct cache_curve *k, uint64_t line)
{
    if (k->recent_count == RECENT_MAX)
        put_in_row(k, k->recent[RECENT_MAX - 1]);
    else
        k->recent_count++;
    memmove(k->recent + 1, k->recent, (k->recent_count - 1) * sizeof *k->recent);
    k->recent[0] = line;
}

#define COLD UINT64_MAX

/* The line's distance; it is the last used now. */
static uint64_t distance_of(struct cache_curve *k, uint64_t line)
{
    for (size_t i = 0; i < k->recent_count; i++) {
        if (k->recent[i] != line)
            continue;
        memmove(k->recent + 1, k->recent, i * sizeof *k->recent);
        k->recent[0] = line;
        return i;
    }
    uint64_t place, distance = COLD;
    if (map_get(&k->place, line, &place)) {
        distance = k->recent_count + k->taken - taken_up_to(k, place - 1);
        take_from_row(k, place - 1);
    }
    map_put(&k->place, line, 0);
    put_first(k, line);
    return distance;
}

/* ---- by cell ---- */

static struct cell_counts *counts_of(struct cache_curve *k, uint32_t cell)
{
    while (k->counts_of.len <= cell)
        VEC_PUSH(&k->counts_of, 0);
    uint32_t *number = &k->counts_of.data[cell];
    if (!*number) {
        VEC_PUSH(&k->counts, ((struct cell_counts){{0}}));
        *number = (uint32_t)k->counts.len;
    }
    return &k->counts.data[*number - 1];
}

static unsigned power_below(uint64_t n) { return 63 - (unsigned)__builtin_clzll(n | 1); }

/* A size that is a power of two hits if it is larger than all bytes of the lines used since, and of this one, but one;
 * so too where it is less than a line. */
static void count_of_cell(struct cache_curve *k, uint32_t cell, uint64_t distance)
{
    uint64_t bytes = distance < k->max_lines ? ((distance + 1) << k->shift) - 1 : UINT64_MAX;
    if (bytes >= k->least)
        counts_of(k, cell)->at[min_u64(power_below(bytes / k->least), k->sizes - 1)]++;
}

static void run_one(struct cache_curve *k, const struct cache_ref *r)
{
    uint64_t farthest = 0, last = (r->address + r->bytes - 1) >> k->shift;
    for (uint64_t line = r->address >> k->shift; line <= last; line++)
        farthest = max_u64(farthest, distance_of(k, line));
    k->references++;
    if (k->least)
        count_of_cell(k, r->cell, farthest);
    if (farthest == COLD)
        k->cold++;
    else if (farthest < k->max_lines)
        k->distances[farthest]++;
    else
        k->farther++;
}

void cache_curve_run(struct cache_curve *k, const struct cache_ref *refs, size_t count)
{
    for (const struct cache_ref *r = refs; r < refs + count; r++)
        if (r->kind != CACHE_FETCH)
            run_one(k, r);
}

/* ---- made and read ---- */

struct cache_curve *cache_curve_new(uint32_t line_bytes, uint64_t max_bytes)
{
    struct cache_curve *k = xmalloc(sizeof *k);
    k->shift = (unsigned)__builtin_ctz(line_bytes);
    k->max_lines = max_u64(max_bytes / line_bytes, 1);
    k->distances = xmalloc_sparse(k->max_lines * sizeof *k->distances);
    k->row_cap = ROW_FIRST;
    k->row = xmalloc(k->row_cap * sizeof *k->row);
    k->sums = xmalloc((k->row_cap + 1) * sizeof *k->sums);
    return k;
}

void cache_curve_free(struct cache_curve *k)
{
    if (!k)
        return;
    map_fini(&k->place);
    free(k->row);
    free(k->sums);
    free(k->distances);
    VEC_FREE(&k->counts_of);
    VEC_FREE(&k->counts);
    free(k);
}

uint64_t cache_curve_references(const struct cache_curve *k) { return k->references; }
uint64_t cache_curve_lines(const struct cache_curve *k) { return k->place.len; }

uint64_t cache_curve_misses(const struct cache_curve *k, uint64_t bytes)
{
    uint64_t lines = bytes >> k->shift, misses = k->cold + k->farther;
    for (uint64_t d = min_u64(lines, k->max_lines); d < k->max_lines; d++)
        misses += k->distances[d];
    return misses;
}

void cache_curve_by_cell(struct cache_curve *k, uint64_t least_bytes)
{
    k->least = least_bytes;
    while (k->sizes < CACHE_CURVE_SIZES_MAX && least_bytes << k->sizes <= k->max_lines << k->shift)
        k->sizes++;
    k->sizes = k->sizes ? k->sizes : 1;
}

uint64_t cache_curve_cell_misses(const struct cache_curve *k, uint32_t cell, uint64_t bytes)
{
    uint32_t number = cell < k->counts_of.len ? k->counts_of.data[cell] : 0;
    uint64_t misses = 0;
    for (unsigned i = power_below(bytes / k->least); number && i < k->sizes; i++)
        misses += k->counts.data[number - 1].at[i];
    return misses;
}
