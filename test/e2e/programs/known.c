/* SPDX-License-Identifier: Apache-2.0
 * Data whose misses are known in closed form, for a simulated cache of 32 KB. Ends with status 7. */
#include "stream.h"
#include <stdint.h>
#include <stdio.h>

enum { ROWS = 16, STRIDE = 4096 / 8, ROUNDS = 10, SMALL_ROUNDS = 1000 };

static volatile double rows[ROWS * STRIDE] __attribute__((aligned(4096)));

__attribute__((noinline)) static double sum_rows(void)
{
    double s = 0;
    for (long i = 0; i < ROWS; i++)
        s += rows[i * STRIDE];
    return s;
}

int main(void)
{
    double s = 0;
    if (((uintptr_t)__builtin_frame_address(0) & 4095) < 1024) /* no frame lies in the set of the rows */
        *(volatile char *)__builtin_alloca(2048) = 0;
    for (int r = 0; r < SMALL_ROUNDS; r++)
        fill_small();
    for (int r = 0; r < ROUNDS; r++)
        s += sum_stream(stream);
    for (int r = 0; r < SMALL_ROUNDS; r++)
        s += sum_rows();
    printf("%g %ld\n", s, small[5]);
    return 7;
}
