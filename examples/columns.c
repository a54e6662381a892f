/* SPDX-License-Identifier: Apache-2.0
 *
 * columns [ROWS COLUMNS REPEATS]: sums a matrix that lies in memory row after row. Going down the columns touches a new
 * cache line and a new page with each element; going along the rows uses a line eight times and lets the hardware fetch
 * ahead. The additions are the same.
 */
#include "example.h"

KERNEL static double sum(const double *a, long rows, long columns)
{
    double s = 0;
#ifdef FIXED
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) /* HOT */
            s += a[i * columns + j];
#else
    for (long j = 0; j < columns; j++)
        for (long i = 0; i < rows; i++) /* HOT */
            s += a[i * columns + j];
#endif
    return s;
}

int main(int argc, char **argv)
{
    long rows = example_arg(argc, argv, 1, 4000), columns = example_arg(argc, argv, 2, 4000);
    long repeats = example_arg(argc, argv, 3, 8);
    double *a = example_alloc((size_t)(rows * columns), sizeof *a);
    for (long i = 0; i < rows * columns; i++)
        a[i] = (double)(i % 1000);

    double s = 0, start = example_seconds();
    for (long r = 0; r < repeats; r++)
        s += sum(a, rows, columns);
    return example_end(s, (double)rows * (double)columns * (double)repeats, example_seconds() - start);
}
