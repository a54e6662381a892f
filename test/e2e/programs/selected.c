/* SPDX-License-Identifier: Apache-2.0
 * A hot loop that is entered 40 times; and a short one that two others call again and again. */
#include <stdio.h>
#include <stdlib.h>

enum { LONGS = 1 << 20, SHORT = 24, TIMES = 40, CALLS = 1500000 };
static long numbers[LONGS];

__attribute__((noipa)) static long sums(const long *v)
{
    long s = 0;
    for (long i = 0; i < LONGS; i++)
        s = s * 3 + v[i];
    return s;
}

__attribute__((noipa)) static long short_loop(const long *v)
{
    long s = 0;
    for (long i = 0; i < SHORT; i++)
        s = s * 5 + v[i];
    return s;
}

static inline long many(long i)
{
    const long *v = numbers + i % 2048;
    return v[0] + v[17] * v[31] + v[70] * v[101] + v[202] * v[303] + v[404] * v[505] + v[606];
}

__attribute__((noipa)) static long outer_a(long n)
{
    long s = 0;
    for (long i = 0; i < n; i++)
        s ^= short_loop(numbers + i % 1024) + many(i);
    return s;
}

__attribute__((noipa)) static long outer_b(long n)
{
    long s = 0;
    for (long i = 0; i < n; i++)
        s += short_loop(numbers + i % 512) + many(i);
    return s;
}

int main(void)
{
    long s = 0;
    for (long i = 0; i < LONGS; i++)
        numbers[i] = i;
    for (int t = 0; t < TIMES; t++)
        s += sums(numbers);
    s += outer_a(CALLS) + outer_b(CALLS);
    printf("%ld\n", s);
    return 0;
}
