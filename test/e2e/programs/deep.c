/* SPDX-License-Identifier: Apache-2.0
 *
 * deep: calls with frames of several kilobytes, so that the copy of the stack that a sample has often ends below main:
 * outer (6 KB) calls middle, which works itself for a third of the time and has inner (4 KB) work for the rest. Beside
 * them main works as long as middle does.
 */
static volatile unsigned sink;

static __attribute__((noipa)) void work(unsigned turns)
{
    for (unsigned i = 0; i < turns; i++)
        sink += i * i;
}

static __attribute__((noipa)) void inner(unsigned turns)
{
    volatile char frame[4096];
    frame[turns % sizeof frame] = 1;
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
    volatile char frame[6144];
    frame[turns % sizeof frame] = 1;
    middle(turns);
    sink += (unsigned)frame[turns % sizeof frame];
}

int main(void)
{
    for (int i = 0; i < 2; i++) {
        outer(1000000);
        work(100000000);
    }
    return 0;
}
