/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead: tables that are read in no order, each by one loop, where the next place is known ahead or is not.
 */
#include <stdint.h>
#include <stdio.h>

enum { SIZE = 1 << 16, TURNS = 100000 };
#define NOINLINE __attribute__((noinline, noclone))
#define TABLE static volatile uint64_t

static uint32_t list[TURNS + 64];
TABLE by_list[SIZE], by_hash[SIZE], beyond_call[SIZE], counted[SIZE];                     /* known */
TABLE by_chain[SIZE], by_search[SIZE], by_random[SIZE], prefetched[SIZE], in_order[SIZE]; /* not, or not to be told */

NOINLINE static uint64_t read_list(void)
{
    uint64_t sum = 0;
    for (long i = 0; i < TURNS; i++)
        sum += by_list[list[i]];
    return sum;
}

NOINLINE static uint64_t read_hash(void)
{
    uint64_t sum = 0;
    for (long i = 0; i < TURNS; i++)
        if (list[i] & 1)
            sum += by_hash[list[i] * 0x9e3779b97f4a7c15u >> 48];
    return sum;
}

__attribute__((noipa)) static void nothing(void) { __asm__ volatile("" ::: "memory"); }

NOINLINE static uint64_t read_beyond_call(void)
{
    uint64_t sum = 0;
    for (long i = 0; i < TURNS; i++) {
        uint32_t at = list[i];
        nothing();
        sum += beyond_call[at];
    }
    return sum;
}

NOINLINE static void count(void)
{
    for (long i = 0; i < TURNS; i++)
        counted[list[i]]++;
}

NOINLINE static uint64_t read_chain(void)
{
    uint64_t at = 0;
    for (long i = 0; i < TURNS; i++)
        at = by_chain[at];
    return at;
}

NOINLINE static uint64_t search(uint64_t key)
{
    uint64_t lo = 0, hi = SIZE;
    while (hi - lo > 1) {
        uint64_t mid = (lo + hi) / 2;
        if (by_search[mid] <= key)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

NOINLINE static uint64_t read_random(void)
{
    uint64_t sum = 0, state = 1;
    for (long i = 0; i < TURNS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sum += by_random[state >> 48];
    }
    return sum;
}

NOINLINE static uint64_t read_prefetched(void)
{
    uint64_t sum = 0;
    for (long i = 0; i < TURNS; i++) {
        __builtin_prefetch((const void *)&prefetched[list[i + 16]]);
        sum += prefetched[list[i]];
    }
    return sum;
}

NOINLINE static uint64_t read_in_order(void)
{
    uint64_t sum = 0;
    for (long i = 0; i < SIZE; i++)
        sum += in_order[i];
    return sum;
}

int main(void)
{
    uint64_t state = 88172645463325252u, sum = 0;
    for (long i = 0; i < TURNS + 64; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        list[i] = (uint32_t)(state >> 48);
    }
    for (uint64_t i = 0; i < SIZE; i++) {
        by_chain[i] = (i * 40503 + 7919) % SIZE;
        by_search[i] = i;
    }
    for (int k = 0; k < 3; k++) {
        sum += read_list() + read_hash() + read_beyond_call() + read_chain() + read_random() + read_prefetched() +
               read_in_order();
        count();
        for (long i = 0; i < TURNS / 10; i++)
            sum += search(list[i]);
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
