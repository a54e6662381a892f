/* SPDX-License-Identifier: Apache-2.0
 *
 * planted KIND [SCALE]: two threads that lose time in a known way, and how much by their own clocks. KIND:
 *   balanced   both do the same
 *   imbalance  thread 0 does three times the work of thread 1
 *   lock       most of the work is in a critical section
 *   memory     both read far apart in the same large table; the cost is memory's
 *   uneven     the same, but thread 1 reads in a small part of it, 32 times as often
 *   sharing    both write to one cache line
 *   serial     half of the work is done outside of the parallel region
 * Prints for each thread "thread N work S wait S": processor time in the region's work, without what it spun for
 * a lock; and wall time less that.
 */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 64, TABLE = 1 << 24 };
static double work_s[THREADS_MAX];
static uint64_t sinks[THREADS_MAX * 16];
static uint32_t *table;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static __attribute__((noinline)) uint64_t compute(long turns, uint64_t x)
{
    for (long i = 0; i < turns; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

static __attribute__((noinline)) uint64_t gather(long turns, uint32_t x, uint32_t max)
{
    uint64_t sum = 0;
    for (long i = 0; i < turns; i++) {
        x = x * 1664525u + 1013904223u + (uint32_t)(sum & 1);
        sum += table[(x >> 4) & (max - 1)];
    }
    return sum;
}

static __attribute__((noinline)) void share(long turns, volatile uint64_t *mine)
{
    for (long i = 0; i < turns; i++)
        *mine += 1;
}

static void region(const char *kind, long turns)
{
#pragma omp parallel
    {
        int me = omp_get_thread_num();
        double cpu = now(CLOCK_THREAD_CPUTIME_ID), asked, spun_s = 0;
        if (strcmp(kind, "imbalance") == 0) {
            sinks[me * 16] += compute(me == 0 ? 3 * turns : turns, 1);
        } else if (strcmp(kind, "lock") == 0) {
            for (int i = 0; i < 20; i++) {
                asked = now(CLOCK_THREAD_CPUTIME_ID);
#pragma omp critical
                {
                    spun_s += now(CLOCK_THREAD_CPUTIME_ID) - asked;
                    sinks[0] += compute(turns / 20, 1);
                }
                sinks[me * 16] += compute(turns / 200, 1);
            }
        } else if (strcmp(kind, "memory") == 0) {
            sinks[me * 16] += gather(turns / 16, (uint32_t)me, TABLE);
        } else if (strcmp(kind, "uneven") == 0) {
            sinks[me * 16] += me == 0 ? gather(turns / 16, 1, TABLE) : gather(2 * turns, 1, 1 << 10);
        } else if (strcmp(kind, "sharing") == 0) {
            share(turns / 2, &sinks[me]);
        } else {
            sinks[me * 16] += compute(turns, 1);
        }
        work_s[me] += now(CLOCK_THREAD_CPUTIME_ID) - cpu - spun_s;
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "balanced";
    long turns = (long)(3e6 * (argc > 2 ? atof(argv[2]) : 1));
    table = calloc(TABLE, sizeof *table);
    for (uint32_t i = 0; (strcmp(kind, "memory") == 0 || strcmp(kind, "uneven") == 0) && i < TABLE; i += 16)
        table[i] = i;
    double since = now(CLOCK_MONOTONIC);
    for (int round = 0; round < 40; round++) {
        region(kind, turns);
        if (strcmp(kind, "serial") == 0)
            sinks[0] += compute(turns, 1);
    }
    double all = now(CLOCK_MONOTONIC) - since;
    for (int i = 0; i < omp_get_max_threads() && i < THREADS_MAX; i++)
        printf("thread %d work %.4f wait %.4f\n", i, work_s[i], all - work_s[i]);
    return sinks[0] == 1;
}
