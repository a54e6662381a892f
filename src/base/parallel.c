/* SPDX-License-Identifier: Apache-2.0
 * Many independent items worked on by all processors. The threads live for one call; which of them does what is left to
 * chance, so that work whose result depends on it is wrong by definition. */
#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

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

/* ---- lists in order ---- */

enum { SLOTS = 4 * THREADS_MAX }; /* ranges under way; who is ahead by more waits */

struct lists {
    pthread_mutex_t lock;
    pthread_cond_t taken;
    size_t n, grain, next, done, slots; /* ranges that were begun, and taken */
    bool taking;
    parallel_list_fn make, take;
    void *ctx;
    struct {
        struct parallel_list list;
        bool is_made;
    } slot[SLOTS];
};

static size_t begin_of(const struct lists *l, size_t range) { return range * l->grain; }
static size_t end_of(const struct lists *l, size_t range)
{
    return l->n - begin_of(l, range) < l->grain ? l->n : begin_of(l, range) + l->grain;
}

/* Those that are made and come next, by whoever holds the lock and finds nobody at it. */
static void take_made(struct lists *l)
{
    if (l->taking)
        return;
    l->taking = true;
    for (size_t k; l->slot[k = l->done % l->slots].is_made; l->done++) {
        pthread_mutex_unlock(&l->lock);
        l->take(l->ctx, begin_of(l, l->done), end_of(l, l->done), &l->slot[k].list);
        pthread_mutex_lock(&l->lock);
        l->slot[k].is_made = false;
        pthread_cond_broadcast(&l->taken);
    }
    l->taking = false;
}

static void *make_lists(void *arg)
{
    struct lists *l = arg;
    pthread_mutex_lock(&l->lock);
    while (l->next * l->grain < l->n) {
        size_t range = l->next, k = range % l->slots;
        if (range - l->done >= l->slots) {
            pthread_cond_wait(&l->taken, &l->lock);
            continue;
        }
        l->next++;
        pthread_mutex_unlock(&l->lock);
        l->slot[k].list.len = 0;
        l->make(l->ctx, begin_of(l, range), end_of(l, range), &l->slot[k].list);
        pthread_mutex_lock(&l->lock);
        l->slot[k].is_made = true;
        take_made(l);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

void parallel_lists(size_t n, size_t grain, parallel_list_fn make, parallel_list_fn take, void *ctx)
{
    pthread_t threads[THREADS_MAX];
    unsigned started = 0, max = threads_for(n / grain, RANGES_MIN);
    struct lists l = {.n = n, .grain = grain, .slots = 4 * max, .make = make, .take = take, .ctx = ctx};
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.taken, NULL);
    while (started + 1 < max && pthread_create(&threads[started], NULL, make_lists, &l) == 0)
        started++;
    make_lists(&l);
    while (started)
        pthread_join(threads[--started], NULL);
    for (size_t k = 0; k < l.slots; k++)
        free(l.slot[k].list.data);
    pthread_cond_destroy(&l.taken);
    pthread_mutex_destroy(&l.lock);
}

/* ---- two at the same time ---- */

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

/* ---- something else, while one waits for it ---- */

#define MEANWHILE_NS 2000000

struct wait {
    void (*fn)(void *ctx);
    void *ctx;
    struct strbuf *held;
    atomic_bool is_done;
};

static void *work_alone(void *arg)
{
    struct wait *w = arg;
    diag_hold(w->held);
    w->fn(w->ctx);
    atomic_store(&w->is_done, true);
    return NULL;
}

void parallel_meanwhile(void (*fn)(void *ctx), void *ctx, void (*meanwhile)(void *ctx), void *meanwhile_ctx)
{
    struct wait w = {.fn = fn, .ctx = ctx, .held = diag_held()};
    pthread_t thread;
    if (pthread_create(&thread, NULL, work_alone, &w) != 0) {
        fn(ctx);
        return;
    }
    while (!atomic_load(&w.is_done)) {
        nanosleep(&(struct timespec){0, MEANWHILE_NS}, NULL);
        meanwhile(meanwhile_ctx);
    }
    pthread_join(thread, NULL);
}
