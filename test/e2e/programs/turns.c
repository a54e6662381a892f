/* SPDX-License-Identifier: Apache-2.0
 *
 * turns: two threads that count by turns, a hundred steps each, so that neither is ever far ahead of the other, however
 * busy the processors are. What they count in are neighbours in an array (with -DFIXED each has a line to itself), or
 * with the argument "blocks" two heap blocks in one line.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 2000, STEPS = 100, LINE = 64 };

struct counter {
#ifdef FIXED
    _Alignas(128)
#endif
        volatile long count;
};
static _Alignas(128) struct counter counters[2];
static _Alignas(LINE) volatile long *left;
static _Alignas(LINE) volatile long *right;
static _Alignas(LINE) atomic_long turn;

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE static void count(volatile long *c)
{
    for (long i = 0; i < STEPS; i++)
        *c += i & 3;
}

static void *work(void *me)
{
    for (long k = 0; k < TURNS; k++) {
        while (atomic_load(&turn) % 2 != (me != NULL))
            sched_yield();
        count(me ? right : left);
        atomic_fetch_add(&turn, 1);
    }
    return NULL;
}

NOINLINE static void make_left(void) { left = calloc(1, 16); }

NOINLINE static void make_right(void) { right = calloc(1, 16); }

static void make_blocks(void)
{
    do {
        make_left();
        make_right();
        if (!left || !right || !malloc(8))
            exit(1);
    } while ((uintptr_t)left / LINE != (uintptr_t)right / LINE);
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    left = &counters[0].count;
    right = &counters[1].count;
    if (argc > 1 && strcmp(argv[1], "blocks") == 0)
        make_blocks();
    if (pthread_create(&threads[0], NULL, work, NULL) != 0 || pthread_create(&threads[1], NULL, work, counters) != 0)
        return 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%ld\n", *left + *right);
    return 0;
}
