/* SPDX-License-Identifier: Apache-2.0
 *
 * named: memory that the source names (MTOOL_OBJECT): two parts of a pool, all of a variable and then nothing of it,
 * and what a function that is inlined names of two blocks. C and C++. Each stretch of 1 MB is written, line by line,
 * ten times.
 */
#include <mtool.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 1 << 20, ROUNDS = 10 };

static char table[BYTES];

__attribute__((noinline)) static long walk(char *p)
{
    long sum = 0;
    for (int r = 0; r < ROUNDS; r++)
        for (long i = 0; i < BYTES; i += 64)
            sum += p[i]++;
    return sum;
}

__attribute__((always_inline)) static inline char *arena(unsigned long bytes)
{
    char *p = (char *)calloc(bytes, 1);
    MTOOL_OBJECT(p, bytes, "arena of it");
    return p;
}

int main(void)
{
    char *pool = (char *)calloc(3, BYTES), *one = arena(BYTES), *two = arena(BYTES);
    long sum = 0;
    if (!pool || !one || !two)
        return 1;
    MTOOL_OBJECT(pool, BYTES, "nodes");
    MTOOL_OBJECT(pool + BYTES, BYTES, "edges");
    for (int part = 0; part < 3; part++)
        sum += walk(pool + part * (long)BYTES);
    MTOOL_OBJECT(table, sizeof table, "lookup");
    sum += walk(table);
    MTOOL_OBJECT(table, 0, "lookup");
    sum += walk(table);
    sum += walk(one) + walk(two);
    free(one);
    free(pool);
    pool = (char *)calloc(3, BYTES); /* has no name */
    sum += walk(pool);
    printf("%ld\n", sum);
    return 3;
}
