/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of tables: dynamic programming, sparse matrices, gathering and scattering, lists and trees. */
#include "kernels.h"

#include <string.h>

KEEP static void common_subsequence(struct data *d)
{
    uint16_t row[33] = {0};
    for (int a = 0; a < 32; a++) {
        uint16_t corner = 0;
        for (int b = 0; b < 32; b++) {
            uint16_t up = row[b + 1];
            row[b + 1] = d->s[a] == d->s[64 + b] ? corner + 1 : up > row[b] ? up : row[b];
            corner = up;
        }
    }
    d->result = row[32];
}

KEEP static void edit_distance(struct data *d)
{
    int row[33];
    for (int b = 0; b <= 32; b++)
        row[b] = b;
    for (int a = 0; a < 32; a++) {
        int corner = row[0]++;
        for (int b = 0; b < 32; b++) {
            int cost = corner + (d->s[a] != d->s[64 + b]), up = row[b + 1] + 1, left = row[b] + 1;
            corner = row[b + 1];
            cost = up < cost ? up : cost;
            row[b + 1] = left < cost ? left : cost;
        }
    }
    d->result = (uint64_t)row[32];
}

KEEP static void knapsack(struct data *d)
{
    int32_t best[256] = {0};
    for (int item = 0; item < 8; item++) {
        int weight = 5 + (d->i[item] & 31), value = d->j[item] & 255;
        for (int room = 255; room >= weight; room--) {
            int32_t with = best[room - weight] + value;
            best[room] = with > best[room] ? with : best[room];
        }
    }
    d->result = (uint64_t)best[255];
}

KEEP static void shortest_ways(struct data *d) /* Floyd and Warshall's */
{
    int32_t way[12][12];
    memcpy(way, d->i, sizeof way);
    for (int k = 0; k < 12; k++)
        for (int a = 0; a < 12; a++)
            for (int b = 0; b < 12; b++)
                if (way[a][k] + way[k][b] < way[a][b])
                    way[a][b] = way[a][k] + way[k][b];
    d->result = (uint64_t)way[3][7];
}

KEEP static void likeliest_states(struct data *d) /* Viterbi's */
{
    float score[8] = {0}, next[8];
    for (int step = 0; step < 32; step++) {
        for (int to = 0; to < 8; to++) {
            float best = -1e30f;
            for (int from = 0; from < 8; from++) {
                float s = score[from] + d->u[from * 8 + to];
                best = s > best ? s : best;
            }
            next[to] = best - d->v[step * 8 + to];
        }
        memcpy(score, next, sizeof score);
    }
    d->result = (uint64_t)score[3];
}

KEEP static void sparse_product(struct data *d) /* rows of eight, columns at random */
{
    for (size_t row = 0; row < d->n / 8; row++) {
        double s = 0;
        for (size_t e = row * 8; e < row * 8 + 8; e++)
            s += d->y[e] * d->x[d->p[e]];
        d->z[row] = s;
    }
}

KEEP static void histogram(struct data *d)
{
    uint32_t bins[64] = {0};
    for (size_t e = 0; e < d->n; e++)
        bins[d->s[e] & 63]++;
    d->result = bins[10];
}

KEEP static void scatter(struct data *d)
{
    for (size_t e = 0; e < d->n; e++)
        d->z[d->p[e]] += 0.001;
}

KEEP static void gather(struct data *d)
{
    double s = 0;
    for (size_t e = 0; e < d->n; e++)
        s += d->x[d->p[e]];
    d->result = (uint64_t)s;
}

KEEP static void gather_ints(struct data *d)
{
    const int32_t *restrict p = d->p, *restrict i = d->i;
    int32_t *restrict j = d->j;
    for (size_t e = 0, n = d->n; e < n; e++)
        j[e] = i[p[e]];
}

KEEP static void follow_list(struct data *d)
{
    int32_t at = 0;
    for (size_t e = 0; e < d->n; e++)
        at = d->p[at];
    d->result = (uint64_t)at;
}

KEEP static void follow_and_sum(struct data *d)
{
    int32_t at = 0;
    double s = 0;
    for (size_t e = 0; e < d->n; e++) {
        s += d->x[at];
        at = d->p[at];
    }
    d->result = (uint64_t)s;
}

KEEP static void interpolate(struct data *d)
{
    float s = 0;
    for (size_t e = 0; e < d->n; e++) {
        float at = (d->u[e] - 0.5f) * 60;
        int k = (int)at;
        s += d->v[k] + (at - (float)k) * (d->v[k + 1] - d->v[k]);
    }
    d->result = (uint64_t)s;
}

KEEP static void relax_edges(struct data *d)
{
    for (size_t e = 0; e < 256; e++) {
        int32_t a = d->p[e], b = d->p[a], way = (d->j[a] & 0xfff) + 3;
        if (way < d->j[b])
            d->j[b] = way;
    }
}

KEEP static void tree_descend(struct data *d) /* a tree in an array: children of e at 2e + 1 and 2e + 2 */
{
    uint64_t s = 0, v = 1;
    for (int k = 0; k < 64; k++) {
        v = v * 6364136223846793005u + 1442695040888963407u;
        size_t at = 0;
        for (uint64_t way = v; at < d->n; way >>= 1) {
            s += d->q[at] & 15;
            at = 2 * at + 1 + (way & 1);
        }
    }
    d->result = s;
}

KEEP static void life(struct data *d)
{
    for (int row = 1; row < 15; row++)
        for (int col = 1; col < 31; col++) {
            const uint8_t *at = d->s + row * 32 + col;
            int n = (at[-33] & 1) + (at[-32] & 1) + (at[-31] & 1) + (at[-1] & 1) + (at[1] & 1) + (at[31] & 1) +
                    (at[32] & 1) + (at[33] & 1);
            d->t[row * 32 + col] = (uint8_t)(n == 3 || (n == 2 && (*at & 1)));
        }
}

KEEP static void sieve(struct data *d)
{
    uint8_t composite[512] = {0};
    unsigned primes = 0;
    for (unsigned a = 2; a < 512; a++) {
        if (composite[a])
            continue;
        primes++;
        for (unsigned b = a * a; b < 512; b += a)
            composite[b] = 1;
    }
    d->result = primes;
}

const struct kernel table_kernels[] = {
    {"common-subsequence", "dynamic", common_subsequence, 0},
    {"edit-distance", "dynamic", edit_distance, 0},
    {"knapsack", "dynamic", knapsack, 0},
    {"shortest-ways", "dynamic", shortest_ways, 0},
    {"likeliest-states", "dynamic", likeliest_states, 0},
    {"sparse-product", "sparse", sparse_product, LARGE},
    {"histogram", "sparse", histogram, LARGE},
    {"scatter", "sparse", scatter, LARGE},
    {"gather", "gather", gather, LARGE},
    {"gather-ints", "gather", gather_ints, LARGE},
    {"follow-list", "gather", follow_list, LARGE},
    {"follow-and-sum", "gather", follow_and_sum, LARGE},
    {"interpolate", "gather", interpolate, LARGE},
    {"relax-edges", "sparse", relax_edges, 0},
    {"tree-descend", "gather", tree_descend, LARGE},
    {"life", "integer", life, 0},
    {"sieve", "integer", sieve, 0},
    {0},
};
