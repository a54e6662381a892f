/* SPDX-License-Identifier: Apache-2.0
 *
 * matmat [ROWS INNER COLUMNS REPEATS]: C = A * B for an A of ROWS x INNER and a B of INNER x COLUMNS. The plain triple
 * loop walks down a column of B for each element of C: thousands of lines and pages, gone again before they are of use
 * to the next row. Fixed: in blocks, so that a block of B stays in the first-level cache for all rows. The sums are
 * added up in the same order, so the results are the same to the last bit.
 */
#include "example.h"

enum { BLOCK_INNER = 64, BLOCK_COLUMNS = 32 }; /* 16 KB of B */

#ifdef FIXED
static long min(long a, long b) { return a < b ? a : b; }

KERNEL static void multiply(double *c, const double *a, const double *b, long rows, long inner, long columns)
{
    for (long kk = 0; kk < inner; kk += BLOCK_INNER)
        for (long jj = 0; jj < columns; jj += BLOCK_COLUMNS)
            for (long i = 0; i < rows; i++)
                for (long j = jj; j < min(jj + BLOCK_COLUMNS, columns); j++) {
                    double s = c[i * columns + j];
                    long end = min(kk + BLOCK_INNER, inner);
                    for (long k = kk; k < end; k++) /* HOT */
                        s += a[i * inner + k] * b[k * columns + j];
                    c[i * columns + j] = s;
                }
}
#else
KERNEL static void multiply(double *c, const double *a, const double *b, long rows, long inner, long columns)
{
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            double s = c[i * columns + j];
            for (long k = 0; k < inner; k++) /* HOT */
                s += a[i * inner + k] * b[k * columns + j];
            c[i * columns + j] = s;
        }
}
#endif

int main(int argc, char **argv)
{
    long rows = example_arg(argc, argv, 1, 100), inner = example_arg(argc, argv, 2, 4000);
    long columns = example_arg(argc, argv, 3, 1000), repeats = example_arg(argc, argv, 4, 1);
    double *a = example_alloc((size_t)(rows * inner), sizeof *a),
           *b = example_alloc((size_t)(inner * columns), sizeof *b);
    double *c = example_alloc((size_t)(rows * columns), sizeof *c);
    for (long i = 0; i < rows * inner; i++)
        a[i] = (double)(i % 7) / 7;
    for (long i = 0; i < inner * columns; i++)
        b[i] = (double)(i % 11) / 11;

    double start = example_seconds();
    for (long r = 0; r < repeats; r++)
        multiply(c, a, b, rows, inner, columns);
    double seconds = example_seconds() - start, s = 0;
    for (long i = 0; i < rows * columns; i++)
        s += c[i];
    return example_end(s, (double)rows * (double)inner * (double)columns * (double)repeats, seconds);
}
