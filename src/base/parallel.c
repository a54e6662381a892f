/* SPDX-License-Identifier: Apache-2.0
 * Many independent items worked on by all processors. The threads live for one call; which of them does what is left to
 * chance, so that work whose result depends on it is wrong by definition. */
#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS_MOST 16
#define RANGES_LEAST 4 /* fewer are not worth a thread */

unsigned parallel_most;

struct job {
    atomic_size_t next; /* first item that nobody took */
    size_t n, grain;
    parallel_fn fn;
    void *ctx;
};

static void *work(void *arg)
{
    struct job *j = arg;
    size_t first;
    while ((first = atomic_fetch_add(&j->next, j->grain)) < j->n)
        j->fn(j->ctx, first, j->n - first < j->grain ? j->n : first + j->grain);
    return NULL;
}

static unsigned threads_for(size_t ranges)
{
    cpu_set_t cpus;
    unsigned most = parallel_most;
    if (!most)
        most = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
    if (ranges < RANGES_LEAST)
        return 1;
    return most < THREADS_MOST ? most : THREADS_MOST;
}

void parallel_for(size_t n, size_t grain, parallel_fn fn, void *ctx)
{
    struct job j = {.n = n, .grain = grain, .fn = fn, .ctx = ctx};
    pthread_t threads[THREADS_MOST];
    unsigned most = threads_for(n / grain), started = 0;
    while (started + 1 < most && pthread_create(&threads[started], NULL, work, &j) == 0)
        started++;
    work(&j);
    while (started)
        pthread_join(threads[--started], NULL);
}
