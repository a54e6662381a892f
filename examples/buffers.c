/* SPDX-License-Identifier: Apache-2.0
 *
 * buffers [BYTES REPEATS]: fills a buffer, a word of each line in an order that no prefetcher foresees, and sums it up,
 * again and again. The bad form takes a new one each time and gives it back much later, so that each is cold; the fixed
 * form uses one. The work is the same. BYTES is a power of two.
 */
#include "example.h"

enum { KEPT = 1024, LINE_WORDS = 8 };

KERNEL static double work(double *a, long n, long round)
{
    double s = 0;
    uint64_t at = (uint64_t)round, mask = (uint64_t)n - 1;
    for (long i = 0; i < n; i++) { /* HOT: each once */
        at = at * 1664525 + 1013904223;
        a[(at & mask) * LINE_WORDS] = (double)((i ^ round) & 1023);
    }
    for (long i = 0; i < n; i++)
        s += a[i * LINE_WORDS];
    return s;
}

int main(int argc, char **argv)
{
    long bytes = example_arg(argc, argv, 1, 16384), repeats = example_arg(argc, argv, 2, 800000);
    long n = bytes / (LINE_WORDS * (long)sizeof(double));
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
            *slot = malloc((size_t)bytes);
        if (!*slot)
            return 1;
        s += work(*slot, n, r);
    }
    return example_end(s, (double)n * (double)repeats, example_seconds() - start);
}
