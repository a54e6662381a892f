/* SPDX-License-Identifier: Apache-2.0
 * References to the line that was used just before: of a variable, of a heap block, of a frame. Ends with status 0. */
#include <stdlib.h>

enum { TURNS = 100000 };

static struct {
    volatile long first, second[7];
} line __attribute__((aligned(64)));

__attribute__((noinline)) static void turn(volatile long *block)
{
    for (long i = 0; i < TURNS; i++) {
        line.first = i;
        line.second[0] = i;
        block[0] = i;
        block[1] = i;
    }
}

int main(void)
{
    long *block = aligned_alloc(64, 64);
    if (!block)
        return 1;
    turn(block);
    free(block);
    return 0;
}
