/* SPDX-License-Identifier: Apache-2.0
 *
 * pad [ROWS COLUMNS REPEATS]: sums a few columns of a matrix whose rows are a power of two apart, so that all elements
 * of a column fall into the same sets of the first and second-level caches, though there are few of them. The fixed
 * form has one more line at the end of each row. The additions are the same.
 */
#include "example.h"

enum { USED = 8 }; /* columns: a line */

#ifdef FIXED
enum { PADDING = 8 };
#else
enum { PADDING = 0 };
#endif

KERNEL static double sum(const double *a, long rows, long stride)
{
    double s = 0;
    for (long j = 0; j < USED; j++)
        for (long i = 0; i < rows; i++) /* HOT */
            s += a[i * stride + j];
    return s;
}

int main(int argc, char **argv)
{
    long rows = example_arg(argc, argv, 1, 64), columns = example_arg(argc, argv, 2, 8192);
    long repeats = example_arg(argc, argv, 3, 1600000), stride = columns + PADDING;
    double *a = example_alloc((size_t)(rows * stride), sizeof *a);
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < USED; j++)
            a[i * stride + j] = (double)((i + j) % 1000);

    double s = 0, start = example_seconds();
    for (long r = 0; r < repeats; r++)
        s += sum(a, rows, stride);
    return example_end(s, (double)rows * USED * (double)repeats, example_seconds() - start);
}
