/* SPDX-License-Identifier: Apache-2.0
 *
 * waits HOW: two threads of known lives that wait in a known way, and what each took by the program's own clocks: lines
 * "thread N wall S cpu S". HOW: lock (one holds a mutex that the other wants), spin (the other watches a flag), sleep
 * (the other sleeps), pin (both want one processor).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int flag;
static const char *how;
static double begin_s;
static volatile unsigned long sum;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work(double seconds) /* of processor time */
{
    double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 10000; i++)
            sum += (unsigned long)i;
}

static void wait_for_flag(void)
{
    while (!flag)
        ;
}

static void say(int thread, double since)
{
    printf("thread %d wall %.4f cpu %.4f\n", thread, now(CLOCK_MONOTONIC) - since, now(CLOCK_THREAD_CPUTIME_ID));
}

static void take_turn(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void *other(void *unused)
{
    double since = now(CLOCK_MONOTONIC);
    if (strcmp(how, "lock") == 0)
        take_turn();
    else if (strcmp(how, "spin") == 0)
        wait_for_flag();
    else if (strcmp(how, "sleep") == 0)
        nanosleep(&(struct timespec){0, 300000000}, NULL);
    else
        work(0.25);
    work(0.15);
    say(1, since);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t t;
    how = argc > 1 ? argv[1] : "lock";
    begin_s = now(CLOCK_MONOTONIC);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (strcmp(how, "pin") == 0 && sched_setaffinity(0, sizeof one, &one) < 0)
        return 3;
    pthread_mutex_lock(&mutex);
    if (pthread_create(&t, NULL, other, NULL))
        return 3;
    work(0.25);
    flag = 1;
    pthread_mutex_unlock(&mutex);
    work(0.1);
    pthread_join(t, NULL);
    say(0, begin_s);
    return 0;
}
