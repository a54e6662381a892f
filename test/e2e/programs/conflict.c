/* SPDX-License-Identifier: Apache-2.0
 * Two variables a cache of 64 KB apart, and a third that is used with neither; each turn reaches the first and the
 * second. usage: conflict TURNS */
#include <stdio.h>
#include <stdlib.h>

enum { CACHE = 65536, LINE = 64 };

__attribute__((aligned(64))) long front[LINE / sizeof(long)] = {1};
__attribute__((aligned(64))) char between[CACHE - LINE] = {1};
__attribute__((aligned(64))) long back[LINE / sizeof(long)] = {1};
__attribute__((aligned(64))) long seldom[LINE / sizeof(long)] = {1};
static __attribute__((aligned(64))) long none[LINE / sizeof(long)];

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : 1000;
    for (int i = 0; i < turns; i++) {
        front[i % 8]++;
        __asm__ volatile("" ::: "memory");
        back[i % 8]++;
        __asm__ volatile("" ::: "memory");
        if (i % 100 == 0)
            none[i % 8] += seldom[1]++;
    }
    printf("%ld %ld %ld %d\n", front[1], back[2], none[0], between[turns % 7]);
    return 0;
}
