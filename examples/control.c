/* SPDX-License-Identifier: Apache-2.0
 *
 * control [LENGTH REPEATS]: the control. All data fit the first-level cache, so memory costs nothing, however slow the
 * loop is; mtool must say so of both forms. What is wrong in the bad form is arithmetic: it divides, and the fixed
 * form multiplies by what was divided by beforehand.
 */
#include "example.h"

KERNEL static void scale(double *restrict y, const double *restrict x, const double *restrict by, long length)
{
    for (long i = 0; i < length; i++) /* HOT */
#ifdef FIXED
        y[i] = (x[i] + y[i]) * by[i];
#else
        y[i] = (x[i] + y[i]) / by[i];
#endif
}

int main(int argc, char **argv)
{
    long length = example_arg(argc, argv, 1, 512), repeats = example_arg(argc, argv, 2, 1500000);
    double *x = example_alloc((size_t)length, 8), *y = example_alloc((size_t)length, 8),
           *by = example_alloc((size_t)length, 8);
    for (long i = 0; i < length; i++) {
        x[i] = (double)(i % 13);
        by[i] = 2;
#ifdef FIXED
        by[i] = 1 / by[i];
#endif
    }

    double start = example_seconds();
    for (long r = 0; r < repeats; r++)
        scale(y, x, by, length);
    double seconds = example_seconds() - start, s = 0;
    for (long i = 0; i < length; i++)
        s += y[i];
    return example_end(s, (double)length * (double)repeats, seconds);
}
