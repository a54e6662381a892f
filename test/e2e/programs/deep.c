/* SPDX-License-Identifier: Apache-2.0
 *
 * deep: calls with frames of many kilobytes, so that the copy of the stack that a sample has often ends below main:
 * outer (24 KB) calls middle, which works itself for a third of the time and has inner (16 KB) work for the rest.
 * Beside them main works as long as middle does. `deep N`: works below N calls of a function that calls itself.
 */
#include <stdlib.h>

static volatile unsigned sink;

static __attribute__((noipa)) void work(unsigned turns)
{
    for (unsigned i = 0; i < turns; i++)
        sink += i * i;
}

/* All of it is there: the kernel copies no page that is not. */
static void touch(volatile char *frame, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 1024)
        frame[i] = 1;
}

static __attribute__((noipa)) void inner(unsigned turns)
{
    volatile char frame[16 << 10];
    touch(frame, sizeof frame);
    work(2 * turns);
    sink += (unsigned)frame[turns % sizeof frame];
}

static __attribute__((noipa)) void middle(unsigned turns)
{
    for (int i = 0; i < 100; i++) {
        work(turns);
        inner(turns);
    }
    sink++;
}

static __attribute__((noipa)) void outer(unsigned turns)
{
    volatile char frame[24 << 10];
    touch(frame, sizeof frame);
    middle(turns);
    sink += (unsigned)frame[turns % sizeof frame];
}

static __attribute__((noipa)) void down(int calls)
{
    if (calls > 1)
        down(calls - 1);
    else
        work(200000000);
    sink++;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        down(atoi(argv[1]));
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        outer(1000000);
        work(100000000);
    }
    return 0;
}
