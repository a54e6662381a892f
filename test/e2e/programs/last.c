/* SPDX-License-Identifier: Apache-2.0
 * last N: a loop of 20 N turns, and then another one of N, which takes a sixth of the time. */
#include <stdio.h>
#include <stdlib.h>

static volatile long table[512];

__attribute__((noinline)) static long first(long n)
{
    long s = 1;
    for (long i = 0; i < n; i++)
        s = s * 3 + table[i & 511];
    return s;
}

__attribute__((noinline)) static long last(long n)
{
    long s = 1;
    for (long i = 0; i < n; i++)
        s = (s ^ table[s & 511]) + 5;
    return s;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 1000000;
    for (int i = 0; i < 512; i++)
        table[i] = i * 7L;
    printf("%ld\n", first(20 * n) + last(n));
    return 0;
}
