/* SPDX-License-Identifier: Apache-2.0
 *
 * tls: thread-local variables by every model (global and local dynamic, descriptors, initial and local exec), in the
 * program and in a shared object made of this same file with -DLIBRARY, used by several threads, with values that must
 * not mix.
 */
#include "here.h"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))
#ifdef LIBRARY
#define NAME(x) library_##x
#else
#define NAME(x) program_##x
#endif

long NAME(bump)(long by);
__thread long NAME(global) = 5;
static __thread long local_a = 1, local_b;
static __thread char block[200];
#ifndef DYNAMIC_ONLY
__thread long NAME(initial) __attribute__((tls_model("initial-exec"))) = 7;
#else
__thread long NAME(initial) = 7;
#endif

NOINLINE long NAME(bump)(long by)
{
    NAME(global) += by;
    local_a += NAME(global);
    local_b ^= local_a;
    block[by % 200]++;
    NAME(initial) += block[by % 200];
    return local_a + local_b * 3 + NAME(initial);
}

#ifndef LIBRARY
long library_bump(long by);
extern __thread long library_global;

enum { THREADS = 4, TURNS = 500 };
static void *body(void *arg)
{
    long id = (long)(intptr_t)arg, sum = 0;
    for (long i = 0; i < TURNS; i++) {
        HERE(body);
        sum += program_bump(id + i) ^ library_bump(id * 2 + i);
        library_global += id;
    }
    long *out = malloc(sizeof *out);
    *out = sum;
    return out;
}

int main(void)
{
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, body, (void *)(intptr_t)(i + 1)))
            return 1;
    for (int i = 0; i < THREADS; i++) {
        long *sum;
        pthread_join(t[i], (void **)&sum);
        printf("%ld\n", *sum);
        free(sum);
    }
    printf("%ld %ld\n", program_global, library_global);
    expect("body", THREADS * TURNS);
    return 0;
}
#endif
