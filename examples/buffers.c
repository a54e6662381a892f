/* SPDX-License-Identifier: Apache-2.0
 *
 * buffers [BYTES REPEATS]: fills a buffer and sums it up, again and again. The bad form takes a new one each time and
 * gives it back much later, so that each is cold; the fixed form uses one. The work is the same.
 */
#include "example.h"

enum { KEPT = 1024 };

KERNEL static double work(double *a, long n, long round)
{
    double s = 0;
    for (long i = 0; i < n; i++) /* HOT */
        a[i] = (double)((i ^ round) & 1023);
    for (long i = 0; i < n; i++)
        s += a[i];
    return s;
}

int main(int argc, char **argv)
{
    long bytes = example_arg(argc, argv, 1, 16384), repeats = example_arg(argc, argv, 2, 800000);
    long n = bytes / (long)sizeof(double);
    static double *kept[KEPT];
    double s = 0, start = example_seconds();
    for (long r = 0; r < repeats; r++) {
#ifdef FIXED
        double **slot = &kept[0];
#else
        double **slot = &kept[r % KEPT];
        free(*slot);
        *slot = NULL;
#endif
        if (!*slot)
            *slot = malloc((size_t)n * sizeof **slot);
        if (!*slot)
            return 1;
        s += work(*slot, n, r);
    }
    return example_end(s, (double)n * (double)repeats, example_seconds() - start);
}
