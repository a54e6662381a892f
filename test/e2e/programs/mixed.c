/* SPDX-License-Identifier: Apache-2.0
 * Two parts that call one function, `sum`: in the first, whose calls of malloc take long to tell, of 4 KB that stay in
 * the cache; in the second, of as many pages as it has calls, each once in 4 MB, which do not. */
#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 4096, PAGES = 1024, ROUNDS = 800 };
static volatile char *keep[64];

__attribute__((noinline)) static long sum(const long *at)
{
    long s = 0;
    for (int i = 0; i < PAGE / (int)sizeof *at; i += 8)
        s += at[i];
    return s;
}

__attribute__((noinline)) static long first(const long *page)
{
    long s = 0;
    for (int i = 0; i < ROUNDS * PAGES; i++) {
        for (int k = 0; k < 8; k++) {
            free((void *)keep[(i + k * 7) % 64]);
            keep[(i + k * 7) % 64] = malloc(16 + (size_t)(i * 37 + k) % 900);
        }
        s += sum(page);
    }
    return s;
}

__attribute__((noinline)) static long second(const long *pages)
{
    long s = 0;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < PAGES; i++)
            s += sum(pages + (size_t)i * (PAGE / sizeof *pages));
    return s;
}

int main(void)
{
    long *pages = calloc(PAGES, PAGE);
    long s = first(pages) + second(pages);
    printf("%ld\n", s);
    return 0;
}
