/* SPDX-License-Identifier: Apache-2.0
 * References that are not aligned, in one line or two, and such as are longer than a line of 16 bytes. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 1 << 14 };
static char from[BYTES + 128] __attribute__((aligned(64))), to[BYTES + 128] __attribute__((aligned(64)));

static __attribute__((noinline)) void copy(long offset)
{
    for (long i = 0; i < BYTES; i += 96) {
        __asm__ volatile("movups (%0), %%xmm0\n movups %%xmm0, (%1)\n mov 3(%0), %%rax\n add %%rax, 41(%1)"
                         :
                         : "r"(from + i + offset), "r"(to + i)
                         : "rax", "xmm0", "memory", "cc");
        to[i * 7 % BYTES]++;
    }
}

/* 28 bytes each. */
static __attribute__((noinline)) void environments(long offset)
{
    for (long i = 0; i < BYTES; i += 80) {
        __asm__ volatile("fnstenv (%0)\n fldenv (%0)" : : "r"(to + i + offset) : "memory");
        from[(i + 20) % BYTES]++;
        to[(i * 3 + offset) % BYTES]++;
    }
}

int main(void)
{
    for (long k = 0; k < 40; k++) {
        copy(k);
        environments(k * 4);
    }
    memset(to, 0, sizeof to);
    printf("%d\n", from[20]);
    return 0;
}
