/* SPDX-License-Identifier: Apache-2.0
 *
 * touch [THREADS ELEMENTS REPEATS]: each thread sums its part of an array again and again. In the bad form the first
 * thread initialises all of it, so that on a machine with several memory nodes all of it lies with that thread; in the
 * fixed form each thread initialises the part that it will sum. The sums are the same.
 */
#include "example.h"

#include <pthread.h>

enum { THREADS_MAX = 64 };

struct part {
    double *data;
    long count, first;
    double sum;
};
static long repeats;

static void initialise(double *a, long first, long count)
{
    for (long i = 0; i < count; i++)
        a[i] = (double)((first + i) % 1000);
}

KERNEL static double sum(const double *a, long count)
{
    double s = 0;
    for (long i = 0; i < count; i++) /* HOT */
        s += a[i];
    return s;
}

static void *work(void *arg)
{
    struct part *p = arg;
#ifdef FIXED
    initialise(p->data, p->first, p->count);
#endif
    for (long r = 0; r < repeats; r++)
        p->sum += sum(p->data, p->count);
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = example_arg(argc, argv, 1, 2), count = example_arg(argc, argv, 2, 16000000);
    pthread_t thread[THREADS_MAX];
    struct part part[THREADS_MAX];
    repeats = example_arg(argc, argv, 3, 50);
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    long each = count / threads;
    double *all = example_alloc((size_t)count, sizeof *all), s = 0;
#ifndef FIXED
    initialise(all, 0, count);
#endif
    double start = example_seconds();
    for (long t = 0; t < threads; t++) {
        part[t] = (struct part){all + t * each, each, t * each, 0};
        if (pthread_create(&thread[t], NULL, work, &part[t]) != 0)
            return 1;
    }
    for (long t = 0; t < threads; t++) {
        pthread_join(thread[t], NULL);
        s += part[t].sum;
    }
    return example_end(s, (double)each * (double)threads * (double)repeats, example_seconds() - start);
}
