/* SPDX-License-Identifier: Apache-2.0
 * A stream through 1 MB and work in 4 KB, whose misses in a simulated cache of 32 KB are known. */
enum { STREAM = 1 << 17, SMALL = 512 };

static double stream[STREAM] __attribute__((aligned(4096)));
static volatile long small[SMALL] __attribute__((aligned(4096)));

__attribute__((noinline)) static double sum_stream(volatile double *a)
{
    double s = 0;
    for (long i = 0; i < STREAM; i++)
        s += a[i];
    return s;
}

__attribute__((noinline)) static void fill_small(void)
{
    for (long i = 0; i < SMALL; i++)
        small[i] = small[i] + i;
}
