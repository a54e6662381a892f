/* SPDX-License-Identifier: Apache-2.0
 * Rounds that are all alike, for samples of them: a stream through 1 MB, of which each line misses in a simulated cache
 * of 32 KB, and work in 4 KB, which misses once a round. The argument: fork in the middle, threads, or signals. Ends
 * with status 7. */
#include "stream.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 300, SMALL_ROUNDS = 50 };

static volatile long ticks;

static double make_rounds(int n)
{
    double s = 0;
    for (int r = 0; r < n; r++) {
        for (int i = 0; i < SMALL_ROUNDS; i++)
            fill_small();
        s += sum_stream(stream);
    }
    return s;
}

static void *work(void *own)
{
    *(double *)own = make_rounds(ROUNDS / 10);
    return NULL;
}

static void make_threads(void)
{
    pthread_t t[4];
    double sums[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, work, &sums[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    printf("threads %g\n", sums[0] + sums[1] + sums[2] + sums[3]);
}

static void make_child(void)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        exit(make_rounds(ROUNDS / 10) == 0 ? 3 : 4);
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
}

static void tick(int number)
{
    (void)number;
    ticks++;
}

static void make_signals(void)
{
    struct itimerval often = {{0, 500}, {0, 500}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &often, NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "signals") == 0)
        make_signals();
    double s = make_rounds(ROUNDS / 2);
    if (strcmp(what, "fork") == 0)
        make_child();
    if (strcmp(what, "threads") == 0)
        make_threads();
    s += make_rounds(ROUNDS - ROUNDS / 2);
    printf("%g %s\n", s, strcmp(what, "signals") ? "none" : ticks ? "some" : "lost");
    return 7;
}
