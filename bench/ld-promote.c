/* SPDX-License-Identifier: Apache-2.0
 * For bench/ld-promote: a program whose hot values are global variables, each waiting for the one before. */
#include <stdio.h>
#include <stdlib.h>

static unsigned long a = 1, b = 2, d = 4;
static unsigned c = 3;

static __attribute__((noinline)) void mix(void)
{
    a = a * 3 + b;
    b ^= a >> 7;
    c += (unsigned)a;
    d += c ^ b;
}

static __attribute__((noinline)) void choose(void)
{
    a ^= d;
    b += a;
    if (c & 1)
        c = c * 5 + 1;
    else
        c >>= 1;
    d = (d << 3 | d >> 61) + a;
}

int main(int argc, char **argv)
{
    long turns = argc > 1 ? atol(argv[1]) : 30000000;
    for (long i = 0; i < turns; i++) {
        mix();
        choose();
    }
    printf("%lu %lu %u %lu\n", a, b, c, d);
    return 0;
}
