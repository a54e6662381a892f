/* SPDX-License-Identifier: Apache-2.0
 *
 * example.h: what the examples share and what is not their point: numbers from the command line, repeatable random
 * numbers, a clock around the loops in question, and the last line. With EXAMPLE_TIME in the environment a program says
 * on stderr how many units of work its loops did and in how many seconds; bench/main-job takes the truth from there.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined __has_attribute && __has_attribute(noipa)
#define KERNEL __attribute__((noipa)) /* a function of its own, called as often as it says */
#else
#define KERNEL __attribute__((noinline))
#endif

/* The i-th number of the command line, or the preset one. */
static inline long example_arg(int argc, char **argv, int i, long preset)
{
    long n = argc > i ? strtol(argv[i], NULL, 10) : preset;
    if (n < 1) {
        fprintf(stderr, "%s: argument %d must be a positive number\n", argv[0], i);
        exit(2);
    }
    return n;
}

static inline void *example_alloc(size_t count, size_t size_bytes)
{
    void *p = calloc(count, size_bytes);
    if (!p) {
        fprintf(stderr, "no memory for %zu times %zu bytes; give smaller sizes\n", count, size_bytes);
        exit(1);
    }
    return p;
}

/* xorshift64*: the same numbers on every machine. */
static inline uint64_t example_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717u;
}

/* A random order of 0..n-1. */
static inline uint32_t *example_shuffled(long n)
{
    uint32_t *order = example_alloc((size_t)n, sizeof *order);
    for (long i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (long i = n - 1; i > 0; i--) {
        long j = (long)(example_random() % (uint64_t)(i + 1));
        uint32_t keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    return order;
}

static inline double example_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int example_end(double checksum, double units, double seconds)
{
    printf("checksum %.12g\n", checksum);
    if (getenv("EXAMPLE_TIME"))
        fprintf(stderr, "units %.0f seconds %.6f\n", units, seconds);
    return 0;
}

#endif
