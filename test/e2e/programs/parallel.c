/* SPDX-License-Identifier: Apache-2.0
 *
 * parallel HOW: threads made in every way, all at work at once, and how often each place was passed by all of them.
 *   N            N threads
 *   short        10,000 that live for a moment, some of them detached
 *   nested       threads that make threads
 *   fork         processes made by threads, which make threads themselves
 *   exec         vfork, posix_spawn and programs that cannot be executed, by threads
 *   signals      handlers on threads
 *   affinity     threads that choose their processors
 *   clone        threads made by the bare system call
 *   many         more threads than have areas of their own, all alive
 *   plugin FILE  a shared object opened, used, closed and opened again by threads, while others work
 */
#define _GNU_SOURCE
#include "here.h"
#include <dlfcn.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS 200000

extern char **environ;
static atomic_ulong handled;

static __attribute__((noinline)) void work(unsigned long turns)
{
    for (unsigned long i = 0; i < turns; i++) {
        if (i % 3 == 0)
            HERE(third);
        else
            HERE(others);
        for (unsigned k = 0; k < 3; k++)
            HERE(inner);
    }
}

static void expect_work(unsigned long calls, unsigned long turns)
{
    expect("work", calls);
    expect("third", calls * ((turns + 2) / 3));
    expect("others", calls * (turns - (turns + 2) / 3));
    expect("inner", calls * turns * 3);
}

static void *worker(void *arg)
{
    work((unsigned long)(uintptr_t)arg);
    return arg;
}

static void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    printf("%s: %s\n", what, strerror(rc));
    exit(1);
}

static void crowd(int n, void *(*body)(void *), unsigned long arg)
{
    pthread_t t[64];
    for (int i = 0; i < n; i++)
        must(pthread_create(&t[i], NULL, body, (void *)(uintptr_t)arg), "pthread_create");
    for (int i = 0; i < n; i++)
        must(pthread_join(t[i], NULL), "pthread_join");
}

static void short_lived(void)
{
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 500; i++)
        crowd(16, worker, 10);
    for (int i = 0; i < 2000; i++) {
        pthread_t t;
        while (pthread_create(&t, &detached, worker, (void *)10))
            usleep(1000);
    }
    expect_work(10000, 10);
    fflush(stdout);
    pthread_exit(NULL); /* the process ends when the last of them has */
}

static void *parent_of_crowd(void *arg)
{
    crowd(3, worker, (unsigned long)(uintptr_t)arg);
    return worker(arg);
}

static void *forker(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            crowd(2, worker, 1000);
            work(1000);
            _exit(0);
        }
        int status;
        work(1000);
        waitpid(child, &status, 0);
        if (status)
            printf("child ended with %x\n", (unsigned)status);
    }
    return NULL;
}

static void *executor(void *arg)
{
    char *no_such[] = {(char *)"/no/such/program", NULL}, *yes[] = {(char *)"true", NULL};
    pid_t child;
    (void)arg;
    for (int i = 0; i < 10; i++) {
        if ((child = vfork()) == 0) {
            execv(no_such[0], no_such);
            _exit(3);
        }
        waitpid(child, NULL, 0);
        if (posix_spawn(&child, no_such[0], NULL, NULL, no_such, environ) == 0)
            printf("executed what does not exist\n");
        must(posix_spawnp(&child, yes[0], NULL, NULL, yes, environ), "posix_spawnp");
        waitpid(child, NULL, 0);
        if ((child = fork()) == 0) {
            execv(no_such[0], no_such);
            work(100);
            execvp(yes[0], yes);
        }
        work(100);
        waitpid(child, NULL, 0);
    }
    return NULL;
}

static void on_signal(int sig)
{
    (void)sig;
    HERE(handler);
    handled++;
}

static void signals(void)
{
    pthread_t t[4];
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &sa, NULL);
    for (int i = 0; i < 4; i++)
        must(pthread_create(&t[i], NULL, worker, (void *)TURNS), "pthread_create");
    for (int k = 0; k < 300; k++)
        pthread_kill(t[k % 4], SIGUSR1);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    expect_work(4, TURNS);
    expect("handler", handled);
}

static void *mover(void *arg)
{
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        work((unsigned long)(uintptr_t)arg);
        sched_setaffinity(0, sizeof all, &all);
    }
    return NULL;
}

/* A thread without libc's help: it may only use its own stack. */
static int bare(void *arg)
{
    work((unsigned long)(uintptr_t)arg);
    return 0;
}

static void clones(void)
{
    enum { N = 4, STACK = 64 << 10 };
    static pid_t alive[N];
    for (int i = 0; i < N; i++) {
        char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        alive[i] = 1;
        int flags =
            CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
        if (clone(bare, stack + STACK, flags, (void *)TURNS, NULL, NULL, &alive[i]) < 0)
            must(1, "clone");
    }
    for (int i = 0; i < N; i++)
        for (pid_t now; (now = __atomic_load_n(&alive[i], __ATOMIC_ACQUIRE)) != 0;)
            syscall(SYS_futex, &alive[i], FUTEX_WAIT, now, NULL, NULL, 0);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t child = clone(bare, stack + STACK, SIGCHLD, (void *)TURNS); /* memory of its own, and shared */
    pid_t other = clone(bare, stack + STACK, CLONE_VM | SIGCHLD, (void *)TURNS);
    work(TURNS);
    waitpid(child, NULL, 0);
    waitpid(other, NULL, 0);
    expect_work(N + 3, TURNS);
}

static pthread_barrier_t all_alive;

static void *waiter(void *arg)
{
    pthread_barrier_wait(&all_alive);
    return worker(arg);
}

static void many(void)
{
    enum { N = 600 };
    static pthread_t t[N];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all_alive, NULL, N);
    for (int i = 0; i < N; i++)
        must(pthread_create(&t[i], &small, waiter, (void *)1000), "pthread_create");
    for (int i = 0; i < N; i++)
        pthread_join(t[i], NULL);
    expect_work(N, 1000);
}

static const char *plugin_path;

static void *opener(void *arg)
{
    long sum = 0;
    (void)arg;
    for (int i = 0; i < 20; i++) {
        void *h = dlopen(plugin_path, RTLD_NOW);
        if (!h) {
            printf("%s\n", dlerror());
            exit(1);
        }
        long (*f)(long) = (long (*)(long))(uintptr_t)dlsym(h, "plugin_sum");
        sum += f(1000);
        dlclose(h);
        work(1000);
    }
    return (void *)(uintptr_t)sum;
}

static void plugin(const char *path)
{
    pthread_t t[3];
    void *sum;
    plugin_path = path;
    for (int i = 0; i < 3; i++)
        must(pthread_create(&t[i], NULL, i ? opener : worker, (void *)TURNS), "pthread_create");
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &sum);
        printf("%lu\n", (unsigned long)(uintptr_t)sum);
    }
    expect("work", 41);
    expect("inner", 3 * (TURNS + 40 * 1000));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int n = atoi(how);
    if (n) {
        crowd(n, worker, TURNS);
        expect_work((unsigned long)n, TURNS);
    } else if (!strcmp(how, "short")) {
        short_lived();
    } else if (!strcmp(how, "nested")) {
        crowd(4, parent_of_crowd, 10000);
        expect_work(16, 10000);
    } else if (!strcmp(how, "fork")) {
        crowd(4, forker, 0);
        expect_work(80, 1000);
    } else if (!strcmp(how, "exec")) {
        crowd(4, executor, 0);
        expect_work(80, 100);
    } else if (!strcmp(how, "signals")) {
        signals();
    } else if (!strcmp(how, "affinity")) {
        cpu_set_t allowed;
        sched_getaffinity(0, sizeof allowed, &allowed);
        crowd(8, mover, 50000);
        expect_work(8 * (unsigned long)CPU_COUNT(&allowed), 50000);
    } else if (!strcmp(how, "clone")) {
        clones();
    } else if (!strcmp(how, "many")) {
        many();
    } else if (!strcmp(how, "plugin") && argc > 2) {
        plugin(argv[2]);
    } else {
        return 2;
    }
    return 0;
}
