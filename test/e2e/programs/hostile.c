/* SPDX-License-Identifier: Apache-2.0
 *
 * hostile HOW: a program that leaves little room for a guest.
 *   closed   blocks every signal, closes every descriptor and may open none, then makes a thread with the least stack,
 *            forks, and maps at fixed addresses
 *   gs       uses the gs register itself, on two threads
 *   strict   allows itself read, write and exit only
 */
#define _GNU_SOURCE
#include "here.h"
#include <asm/prctl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((noinline)) long work(int turns)
{
    long sum = 0;
    for (int i = 0; i < turns; i++) {
        HERE(turn);
        sum += i ^ sum;
    }
    return sum;
}
static void *on_thread(void *arg)
{
    (void)arg;
    return (void *)work(1000);
}

static int closed(void)
{
    static void *const places[] = {(void *)0x10000, (void *)0x10000000, (void *)0x200000000000};
    struct rlimit none = {0, 0};
    sigset_t all;
    pthread_attr_t attr;
    pthread_t thread;
    void *result = NULL;
    int status = -1;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    closefrom(3);
    setrlimit(RLIMIT_NOFILE, &none);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN);
    if (pthread_create(&thread, &attr, on_thread, NULL) || pthread_join(thread, &result))
        return 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(work(10) != 0);
    waitpid(child, &status, 0);
    printf("%ld %ld %x\n", work(1000), (long)result, (unsigned)status);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        printf("%p\n", mmap(places[i], 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    return 0;
}

static long area[2][8];
static __attribute__((noinline)) long read_gs(void)
{
    long v;
    __asm__ volatile("movq %%gs:8, %0" : "=r"(v));
    return v;
}
static void *with_gs(void *arg)
{
    long i = (long)(intptr_t)arg, sum = 0;
    syscall(SYS_arch_prctl, ARCH_SET_GS, area[i]);
    area[i][1] = 100 + i;
    for (int k = 0; k < 100000; k++) {
        HERE(gs);
        sum += read_gs();
    }
    return (void *)sum;
}

static int own_gs(void)
{
    pthread_t thread;
    void *there = NULL, *here = with_gs((void *)0);
    if (pthread_create(&thread, NULL, with_gs, (void *)1) || pthread_join(thread, &there))
        return 1;
    printf("%ld %ld %ld\n", (long)here, (long)there, read_gs());
    expect("gs", 200000);
    return 0;
}

static int strict(void)
{
    char text[2] = {(char)('0' + work(1000) % 10), '\n'};
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    text[0] = (char)('a' + work(3000) % 20);
    if (write(1, text, 2) != 2)
        text[0] = 0;
    syscall(SYS_exit, 7);
    return 1;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    return !strcmp(how, "closed") ? closed() : !strcmp(how, "gs") ? own_gs() : !strcmp(how, "strict") ? strict() : 2;
}
