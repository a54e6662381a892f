/* SPDX-License-Identifier: Apache-2.0
 * Calls whose numbers are known: direct, at the end of a function, each other in turn, through pointers (so often that
 * interrupts come between a call and its callee), through pointers on pages that were not touched before; and two
 * functions 64 KB apart, that call each other as in Figure 12 of the paper.
 * usage: monster_calls TURNS */
#include <stdio.h>
#include <stdlib.h>

#define OUTSIDE __attribute__((noinline, noclone, aligned(64)))
enum { CACHE = 65536, TABLES = 20, PAGE = 4096 };

OUTSIDE int leaf(int x)
{
    __asm__ volatile("" ::: "memory");
    return x + 1;
}

OUTSIDE int first(int x);
OUTSIDE int second(int x)
{
    __asm__ volatile("" ::: "memory");
    return x ^ 5;
}

/* Never executed: keeps `first` and `second` a cache apart. */
OUTSIDE void apart(void) { __asm__ volatile(".skip 65408, 0x90"); }

OUTSIDE int first(int x)
{
    int y = second(x);
    __asm__ volatile("" : "+r"(y));
    return y + 1;
}

OUTSIDE int ends(int x)
{
    __asm__ volatile("" ::: "memory");
    return leaf(x); /* a jump */
}

OUTSIDE int odd(int n);
OUTSIDE int even(int n)
{
    int x = n ? odd(n - 1) : 0;
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}
OUTSIDE int odd(int n)
{
    int x = n ? even(n - 1) : 0;
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

typedef int (*function)(int);
function volatile pointer = leaf;
static struct table {
    function volatile at;
    char rest[PAGE - sizeof(function)];
} tables[TABLES] = {[0 ... TABLES - 1] = {.at = leaf}}; /* each on a page that the file has: the call itself faults */

OUTSIDE int through_pointer(int turns)
{
    int sum = 0;
    for (int i = 0; i < turns; i++)
        sum += pointer(i);
    return sum;
}

OUTSIDE int through_pages(void)
{
    int sum = 0;
    for (int i = 0; i < TABLES; i++)
        sum += tables[i].at(i);
    return sum;
}

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : 1000, sum = even(100);
    for (int i = 0; i < turns; i++)
        sum += ends(first(i));
    sum += through_pointer(100 * turns) + through_pages();
    printf("%d\n", sum);
    return 0;
}
