/* SPDX-License-Identifier: Apache-2.0
 *
 * early: code that runs before main and after it: pre-initialisers, constructors by priority, IFUNC resolvers that the
 * dynamic linker or the start-up code calls, what they chose, and destructors.
 */
#include "here.h"
#include <stdlib.h>
#include <unistd.h>

static int order[8], order_len;
static long total;

static void step(int n)
{
    HERE(step);
    if (order_len < 8)
        order[order_len++] = n;
    for (volatile int i = 0; i < 10 * n; i++) {
        HERE(early);
        total += i;
    }
}

#ifndef NO_PREINIT /* not allowed in shared objects */
static void before_all(void) { step(1); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_all;
#endif
__attribute__((constructor(200))) static void second(void) { step(2); }
__attribute__((constructor(300))) static void third(void) { step(3); }
__attribute__((destructor)) static void last(void)
{
    HERE(last);
    if (write(1, "last\n", 5) != 5)
        abort();
}

static int asked; /* written by the resolver: relocations may not be done, so nothing but this file's own data */
static long one_way(long x)
{
    HERE(one_way);
    return x * 3 + 1;
}
static long other_way(long x) { return x; }
static long (*choose(void))(long)
{
    HERE(choose);
    asked++;
    return sizeof(long) == 8 ? one_way : other_way;
}
long chosen(long) __attribute__((ifunc("choose")));

static int compare(const void *a, const void *b) { return (int)(chosen(*(const int *)a) - chosen(*(const int *)b)); }

int main(void)
{
    long x = 1;
    for (int i = 0; i < 100; i++)
        x = chosen(x) & 0xffff;
    long (*volatile pointer)(long) = chosen;
    for (int i = 0; i < 50; i++)
        x = pointer(x) & 0xffff;
    int numbers[2] = {9, 4};
    qsort(numbers, 2, sizeof numbers[0], compare);
    printf("%ld %ld %d %d, asked %s\norder", x, total, numbers[0], numbers[1], asked ? "yes" : "no");
    for (int i = 0; i < order_len; i++)
        printf(" %d", order[i]);
    printf("\n");
    expect("step", (unsigned long)order_len);
    expect("early", 60);
    expect("choose", (unsigned long)asked);
    expect("one_way", 152);
    expect("last", 1);
    return 11;
}
