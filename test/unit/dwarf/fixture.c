/* SPDX-License-Identifier: Apache-2.0
 * Code with inlined functions, locals that move between registers, cold parts and several functions: so that compilers
 * write lists of ranges and locations for it. */
#include <stdint.h>

static int table[64];

static inline int mix(int a, int b)
{
    int c = a * 31 + b;
    if (c & 1)
        c ^= table[b & 63];
    return c;
}

__attribute__((noinline)) int walk(int n, int (*next)(int))
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        int x = next(i), y = mix(x, sum);
        if (__builtin_expect(y < 0, 0))
            sum += mix(y, i) / (n | 1);
        else
            sum += y;
    }
    return sum;
}

__attribute__((cold, noinline)) int rarely(int n) { return mix(n, table[n & 63]); }

int last(int argc)
{
    uint64_t wide = (uint64_t)argc << 32;
    int x = walk(argc, rarely);
    switch (x & 7) {
    case 0:
        return rarely(argc);
    case 1:
        return mix(x, 3);
    case 2:
        return mix(3, x);
    case 3:
        return walk(x, rarely) + (int)(wide >> 7);
    case 4:
        return mix(x, x);
    default:
        return mix(x, (int)(wide >> 33));
    }
}
