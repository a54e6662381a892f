/* SPDX-License-Identifier: Apache-2.0
 * Calls of every plain kind, in numbers that differ: from several places, to itself, in turns with another, through the
 * linkage table, back from a library; and work that takes some tenths of a second with argument 1. */
#include <stdio.h>
#include <stdlib.h>

#define APART __attribute__((noinline, noclone))

static volatile long sink;

APART static void leaf(long n)
{
    for (long i = 0; i < n; i++)
        sink += i;
}

APART static void few(long n)
{
    for (int i = 0; i < 7; i++)
        leaf(n);
    leaf(1);
}

APART static void many(long n)
{
    for (int i = 0; i < 300; i++)
        leaf(n);
}

APART static long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

APART static int is_even(int n);
APART static int is_odd(int n) { return n != 0 && is_even(n - 1); }
APART static int is_even(int n) { return n == 0 || is_odd(n - 1); }

APART static int compare(const void *x, const void *y)
{
    leaf(2);
    return *(const int *)x - *(const int *)y;
}

int main(int argc, char **argv)
{
    int numbers[100], times = argc > 1 ? 200 * atoi(argv[1]) : 1;
    for (int i = 0; i < 100; i++)
        numbers[i] = i * 7919 % 101;
    qsort(numbers, 100, sizeof *numbers, compare);
    for (int i = 0; i < times; i++) {
        many(8000);
        few(1000);
    }
    few(3);
    printf("%ld %d %d\n", fibonacci(20), is_even(30), numbers[99]);
    return 0;
}
