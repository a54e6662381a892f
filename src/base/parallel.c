/* SPDX-License-Identifier: Apache-2.0
 * Many independent items worked on by all processors. The threads live for one call; which of them does what is left to
 * chance, so that work whose result depends on it is wrong by definition. */
#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS_MAX 16
#define RANGES_MIN 4 /* fewer are not worth a thread */

unsigned parallel_max;

struct job {
    atomic_size_t next; /* first item that nobody took */
    size_t n, grain;
    parallel_fn fn;
    void *ctx;
    struct strbuf *held; /* where errors go */
};

static void *work(void *arg)
{
    struct job *j = arg;
    size_t first;
    diag_hold(j->held);
    while ((first = atomic_fetch_add(&j->next, j->grain)) < j->n)
        j->fn(j->ctx, first, j->n - first < j->grain ? j->n : first + j->grain);
    return NULL;
}

unsigned parallel_processors(void)
{
    cpu_set_t cpus;
    unsigned max = parallel_max;
    if (!max)
        max = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
    return max < THREADS_MAX ? max : THREADS_MAX;
}

static unsigned threads_for(size_t ranges, size_t min) { return ranges < min ? 1 : parallel_processors(); }

static void share_out(struct job *j, unsigned max)
{
    pthread_t threads[THREADS_MAX];
    unsigned started = 0;
    while (started + 1 < max && pthread_create(&threads[started], NULL, work, j) == 0)
        started++;
    work(j);
    while (started)
        pthread_join(threads[--started], NULL);
}

void parallel_for(size_t n, size_t grain, parallel_fn fn, void *ctx)
{
    struct job j = {.n = n, .grain = grain, .fn = fn, .ctx = ctx, .held = diag_held()};
    share_out(&j, threads_for(n / grain, RANGES_MIN));
}

void parallel_each(size_t n, parallel_fn fn, void *ctx)
{
    struct job j = {.n = n, .grain = 1, .fn = fn, .ctx = ctx, .held = diag_held()};
    unsigned threads = threads_for(n, 2);
    share_out(&j, n < threads ? (unsigned)n : threads);
}

struct both {
    void (*fn[2])(void *ctx);
    void *ctx;
};

static void one_of_both(void *arg, size_t first, size_t end)
{
    struct both *b = arg;
    for (; first < end; first++)
        b->fn[first](b->ctx);
}

void parallel_both(void (*one)(void *ctx), void (*other)(void *ctx), void *ctx)
{
    struct both b = {{one, other}, ctx};
    struct job j = {.n = 2, .grain = 1, .fn = one_of_both, .ctx = &b, .held = diag_held()};
    share_out(&j, threads_for(2, 2) > 1 ? 2 : 1);
}
