/* SPDX-License-Identifier: Apache-2.0
 *
 * handed BLOCKS FORKS: one thread allocates, another one gives back; in between the first one forks children, in
 * which one thread does both.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 256, OF_A_CHILD = 100 };

static _Atomic(char *) slot[SLOTS];
static long blocks;

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE static char *make(long i)
{
    char *p = malloc((size_t)(16 + i % 200));
    p[0] = (char)i;
    return p;
}

NOINLINE static void give_back(char *p) { free(p); }

static void *consume(void *unused)
{
    (void)unused;
    for (long i = 0; i < blocks; i++) {
        char *p;
        while (!(p = atomic_exchange(&slot[i % SLOTS], NULL)))
            sched_yield();
        give_back(p);
    }
    return NULL;
}

static void hand_over(long i)
{
    char *p = make(i), *none = NULL;
    while (!atomic_compare_exchange_strong(&slot[i % SLOTS], &none, p)) {
        none = NULL;
        sched_yield();
    }
}

static int child(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        for (long i = 0; i < OF_A_CHILD; i++)
            give_back(make(i));
        _exit(7);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

int main(int argc, char **argv)
{
    blocks = argc > 1 ? atol(argv[1]) : 80000;
    long forks = argc > 2 ? atol(argv[2]) : 0, good = 0;
    pthread_t thread;
    if (pthread_create(&thread, NULL, consume, NULL) != 0)
        return 1;
    for (long i = 0; i < blocks; i++) {
        hand_over(i);
        if (forks && i % (blocks / forks) == 0)
            good += child();
    }
    pthread_join(thread, NULL);
    printf("%ld children\n", good);
    return 0;
}
