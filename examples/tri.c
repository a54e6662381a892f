/* SPDX-License-Identifier: Apache-2.0
 *
 * tri [NX NY NZ REPEATS]: solves L x = b for the lower triangular matrix of a three-dimensional grid, where each
 * unknown depends on the 13 neighbours that come before it. Rows are solved in grid order in both forms. In the bad one
 * the unknowns are numbered at random, as a mesh generator or a hash table may leave them, so each x, b and row lies
 * somewhere else; fixed, they are numbered in the order in which they are solved.
 */
#include "example.h"

enum { NEIGHBOURS = 13 };

struct matrix { /* compressed rows; the diagonal apart */
    long n;
    uint32_t *row_start, *column;
    double *value, *diagonal;
};

KERNEL static void solve(const struct matrix *m, const uint32_t *order, const double *b, double *x)
{
    for (long k = 0; k < m->n; k++) {
        uint32_t row = order[k], end = m->row_start[row + 1];
        double s = b[row];
        for (uint32_t p = m->row_start[row]; p < end; p++) /* HOT */
            s -= m->value[p] * x[m->column[p]];
        x[row] = s / m->diagonal[row];
    }
}

int main(int argc, char **argv)
{
    long nx = example_arg(argc, argv, 1, 100), ny = example_arg(argc, argv, 2, 100),
         nz = example_arg(argc, argv, 3, 60);
    long repeats = example_arg(argc, argv, 4, 10), n = nx * ny * nz, xy = nx * ny;
    /* from the farthest to the nearest; rows of the grid follow each other like a screw, so there are no edges */
    long distance[NEIGHBOURS] = {xy + nx + 1, xy + nx,     xy + nx - 1, xy + 1, xy,     xy - 1, xy - nx + 1,
                                 xy - nx,     xy - nx - 1, nx + 1,      nx,     nx - 1, 1};
    uint32_t *order = example_shuffled(n);
#ifdef FIXED
    for (long k = 0; k < n; k++)
        order[k] = (uint32_t)k;
#endif
    struct matrix m = {n, example_alloc((size_t)n + 1, 4), example_alloc((size_t)n * NEIGHBOURS, 4),
                       example_alloc((size_t)n * NEIGHBOURS, 8), example_alloc((size_t)n, 8)};
    double *b = example_alloc((size_t)n, 8), *x = example_alloc((size_t)n + 1, 8); /* x[n] stays 0: outside */
    for (long k = 0; k <= n; k++)
        m.row_start[k] = (uint32_t)(k * NEIGHBOURS);
    for (long k = 0; k < n; k++) {
        long row = order[k];
        b[row] = (double)(k % 17);
        m.diagonal[row] = 30;
        for (long d = 0; d < NEIGHBOURS; d++) {
            m.column[row * NEIGHBOURS + d] = k >= distance[d] ? order[k - distance[d]] : (uint32_t)n;
            m.value[row * NEIGHBOURS + d] = -1 - (double)d / NEIGHBOURS;
        }
    }

    double start = example_seconds();
    for (long r = 0; r < repeats; r++)
        solve(&m, order, b, x);
    double seconds = example_seconds() - start, s = 0;
    for (long k = 0; k < n; k++)
        s += x[order[k]];
    return example_end(s, (double)n * NEIGHBOURS * (double)repeats, seconds);
}
