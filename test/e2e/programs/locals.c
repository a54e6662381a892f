/* SPDX-License-Identifier: Apache-2.0
 *
 * locals: thread-local arrays of 64 KB that the first thread and two others go through ten times each, of the program
 * and, made of this same file with -DLIBRARY, of a library; and one variable of a thread that another one writes too.
 */
#include <pthread.h>
#include <stdio.h>

#ifndef BYTES
#define BYTES (1 << 16)
#endif
enum { ROUNDS = 10 };

#ifdef LIBRARY
__thread char of_library[BYTES] = {1};
static __thread _Alignas(256) char aligned[300] = {1};

__attribute__((noinline)) long walk_library(void)
{
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < BYTES; i += 64)
            of_library[i]++;
    for (int r = 0; r < 1000; r++)
        aligned[r % 300]++;
    return of_library[0] + aligned[0];
}
#else
static __thread char early[100] = {1};
static __thread _Alignas(64) char own[BYTES];
static __thread _Alignas(64) long turns[2];

#ifdef WITH_LIBRARY
long walk_library(void);
#elif defined OPENS
#include <dlfcn.h>
static long walk_library(void) /* first by one thread */
{
    static long (*walk)(void);
    void *library = walk ? NULL : dlopen(OPENS, RTLD_NOW);
    if (library)
        walk = (long (*)(void))dlsym(library, "walk_library");
    return walk();
}
#else
static long walk_library(void) { return 0; }
#endif

__attribute__((noinline)) static long walk(void)
{
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < BYTES; i += 64)
            own[i]++;
    early[own[0]]++;
    return own[0] + walk_library();
}

enum { THREADS = 3, STRETCHES = 2 };
static pthread_barrier_t stretch_ends;

/* One after the other, and again, so that each comes back to what the others have written. */
static void count(volatile long *at, int self)
{
    for (int turn = 0; turn < STRETCHES * THREADS; turn++) {
        for (int i = 0; turn % THREADS == self && i < 100000; i++)
            ++*at;
        pthread_barrier_wait(&stretch_ends);
    }
}

static volatile long *shared;

static void *other(void *self)
{
    count(shared + 1, (int)(long)self);
    return (void *)walk();
}

int main(void)
{
    pthread_t threads[THREADS - 1];
    long sum = walk();
    void *got = NULL;
    shared = turns;
    pthread_barrier_init(&stretch_ends, NULL, THREADS);
    for (long i = 0; i < THREADS - 1; i++)
        if (pthread_create(&threads[i], NULL, other, (void *)(i + 1)))
            return 1;
    count(turns, 0);
    for (int i = 0; i < THREADS - 1; i++) {
        pthread_join(threads[i], &got);
        sum += (long)got;
    }
    printf("%ld %ld\n", sum, turns[0]);
    return 4;
}
#endif
