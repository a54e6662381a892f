/* SPDX-License-Identifier: Apache-2.0
 * whole [N]: goes N times through records of 256 bytes. Of those in whole it reads all 256 bytes, eight bytes an
 * instruction; of those in some it reads sixteen bytes, in two lines. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { RECORDS = 4000, WORDS = 32 };
static uint64_t whole[RECORDS][WORDS], some[RECORDS][WORDS];

__attribute__((noinline)) static uint64_t read_whole(uint64_t x)
{
    for (int i = 0; i < RECORDS; i++)
#pragma GCC unroll 32
        for (int k = 0; k < WORDS; k++)
            x = (x ^ whole[i][k]) + (x >> 3);
    return x;
}

__attribute__((noinline)) static uint64_t read_some(uint64_t x)
{
    for (int i = 0; i < RECORDS; i++)
        x = ((x ^ some[i][3]) + (x >> 3)) ^ some[i][17];
    return x;
}

int main(int argc, char **argv)
{
    uint64_t x = 0;
    volatile int one = argc; /* by the word, not by the vector */
    for (int i = 0; i < RECORDS; i++)
        for (int k = 0; k < WORDS; k++)
            whole[i][k] = some[i][k] = (uint64_t)(i * one);
    for (int n = argc > 1 ? atoi(argv[1]) : 20; n > 0; n--)
        x = read_some(read_whole(x));
    printf("%lu\n", x);
    return 0;
}
