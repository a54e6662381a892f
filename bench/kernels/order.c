/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of order: sorting, merging, searching, heaps, hash tables, permutations. */
#include "kernels.h"

#include <string.h>

KEEP static void insert_sort(struct data *d)
{
    for (size_t first = 0; first < 128; first += 16) {
        int32_t *a = d->j + first;
        memcpy(a, d->i + first, 64);
        for (int e = 1; e < 16; e++) {
            int32_t v = a[e];
            int k = e;
            for (; k > 0 && a[k - 1] > v; k--)
                a[k] = a[k - 1];
            a[k] = v;
        }
    }
}

static void order_two(int32_t *a, int32_t *b)
{
    int32_t low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low;
    *b = high;
}

KEEP static void sort_network(struct data *d)
{
    for (size_t first = 0; first < 256; first += 4) {
        int32_t *a = d->j + first;
        memcpy(a, d->i + first, 16);
        order_two(a, a + 1), order_two(a + 2, a + 3), order_two(a, a + 2), order_two(a + 1, a + 3),
            order_two(a + 1, a + 2);
    }
}

static void quick(int32_t *a, int low, int high)
{
    while (low < high) {
        int32_t pivot = a[(low + high) / 2];
        int l = low, h = high;
        while (l <= h) {
            while (a[l] < pivot)
                l++;
            while (a[h] > pivot)
                h--;
            if (l > h)
                break;
            int32_t t = a[l];
            a[l++] = a[h];
            a[h--] = t;
        }
        quick(a, low, h);
        low = l;
    }
}

KEEP static void quick_sort(struct data *d)
{
    memcpy(d->j, d->i, 128 * sizeof *d->j);
    quick(d->j, 0, 127);
}

KEEP static void merge(struct data *d) /* two runs, each in order, in steps of no pattern */
{
    size_t a = 0, b = 0, out = 0;
    uint64_t va = 0, vb = 0;
    while (a < 128 && b < 128) {
        if (va <= vb) {
            d->j[out++] = (int32_t)(va & 0xfffff);
            va += d->s[a++];
        } else {
            d->j[out++] = (int32_t)(vb & 0xfffff);
            vb += d->s[128 + b++];
        }
    }
    d->result = out;
}

KEEP static void radix_pass(struct data *d)
{
    uint32_t at[16] = {0};
    for (size_t e = 0; e < 256; e++)
        at[d->i[e] & 15]++;
    for (uint32_t k = 0, sum = 0; k < 16; k++) {
        uint32_t n = at[k];
        at[k] = sum;
        sum += n;
    }
    for (size_t e = 0; e < 256; e++)
        d->j[at[d->i[e] & 15]++] = d->i[e];
}

KEEP static void
binary_search(struct data *d) /* in 0, 3, 6 ... : found by halving, without branches if the compiler can */
{
    size_t s = 0;
    int32_t *sorted = d->j;
    for (int k = 0; k < 512; k++)
        sorted[k] = k * 2048;
    for (size_t e = 0; e < 64; e++) {
        const int32_t *base = sorted;
        for (size_t n = 512; n > 1; n -= n / 2)
            base = base[n / 2] <= d->i[e] ? base + n / 2 : base;
        s += (size_t)(base - sorted);
    }
    d->result = s;
}

KEEP static void binary_search_large(struct data *d)
{
    uint64_t s = 0, v = 1;
    for (size_t e = 0; e < 64; e++) {
        v = v * 6364136223846793005u + 1442695040888963407u;
        size_t low = 0, key = (v >> 20) & (d->n - 1);
        for (size_t n = d->n; n > 1; n /= 2) /* d->p stands for what is compared; the way depends on it only a little */
            low += low + n / 2 <= key ? n / 2 + (size_t)(d->p[low] < 0) : 0;
        s += low;
    }
    d->result = s;
}

KEEP static void sift(struct data *d)
{
    memcpy(d->j, d->i, 128 * sizeof *d->j);
    for (size_t root = 64; root-- > 0;) {
        size_t at = root;
        int32_t v = d->j[at];
        for (size_t child; (child = 2 * at + 1) < 128; at = child) {
            child += child + 1 < 128 && d->j[child + 1] > d->j[child];
            if (d->j[child] <= v)
                break;
            d->j[at] = d->j[child];
        }
        d->j[at] = v;
    }
}

KEEP static void hash_find(struct data *d)
{
    uint64_t found = 0;
    for (size_t e = 0; e < 256; e++) {
        uint64_t h = ((uint64_t)d->i[e] * 0x9e3779b97f4a7c15u >> 32) & (d->n - 1);
        for (int tries = 0; tries < 3; tries++, h = (h + 1) & (d->n - 1))
            if ((d->q[h] & 3) == 0) {
                found += h;
                break;
            }
    }
    d->result = found;
}

KEEP static void hash_insert(struct data *d)
{
    static uint32_t table[512];
    memset(table, 0, sizeof table);
    for (size_t e = 0; e < 200; e++) {
        uint32_t v = (uint32_t)d->i[e] + 1, h = v * 2654435761u >> 23;
        while (table[h] && table[h] != v)
            h = (h + 1) & 511;
        table[h] = v;
    }
    d->result = table[7];
}

KEEP static void reverse_prefixes(struct data *d) /* fannkuch's inner part */
{
    uint8_t a[16];
    unsigned flips = 0;
    for (unsigned start = 0; start < 8; start++) {
        for (unsigned k = 0; k < 12; k++)
            a[k] = (uint8_t)((k * 5 + start) % 12);
        while (a[0] && flips < 1000) {
            for (unsigned l = 0, h = a[0]; l < h; l++, h--) {
                uint8_t t = a[l];
                a[l] = a[h];
                a[h] = t;
            }
            flips++;
        }
    }
    d->result = flips;
}

const struct kernel order_kernels[] = {
    {"insert-sort", "sorting", insert_sort, 0},
    {"sort-network", "sorting", sort_network, 0},
    {"quick-sort", "sorting", quick_sort, 0},
    {"merge", "sorting", merge, 0},
    {"radix-pass", "sorting", radix_pass, 0},
    {"binary-search", "sorting", binary_search, 0},
    {"binary-search-large", "sorting", binary_search_large, LARGE},
    {"sift", "sorting", sift, 0},
    {"hash-find", "hashing", hash_find, LARGE},
    {"hash-insert", "hashing", hash_insert, 0},
    {"reverse-prefixes", "sorting", reverse_prefixes, 0},
    {0},
};
