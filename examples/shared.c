/* SPDX-License-Identifier: Apache-2.0
 *
 * shared [THREADS REPEATS]: each thread counts in a word of its own. In the bad form the words lie side by side in one
 * line, which the threads' writes take from each other; in the fixed form each has a line to itself. The counting is
 * the same.
 */
#include "example.h"

#include <pthread.h>

enum { THREADS_MAX = 64 };

struct counter {
#ifdef FIXED
    _Alignas(128)
#endif
        volatile long count;
};
static struct counter counters[THREADS_MAX];
static long repeats;

KERNEL static void count(struct counter *c, long n)
{
    for (long i = 0; i < n; i++) /* HOT */
        c->count += i & 3;
}

static void *work(void *c)
{
    count(c, repeats);
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = example_arg(argc, argv, 1, 2);
    pthread_t thread[THREADS_MAX];
    repeats = example_arg(argc, argv, 2, 1000000000);
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    double s = 0, start = example_seconds();
    for (long t = 0; t < threads; t++)
        if (pthread_create(&thread[t], NULL, work, &counters[t]) != 0)
            return 1;
    for (long t = 0; t < threads; t++)
        pthread_join(thread[t], NULL);
    for (long t = 0; t < threads; t++)
        s += (double)counters[t].count;
    return example_end(s, (double)repeats * (double)threads, example_seconds() - start);
}
