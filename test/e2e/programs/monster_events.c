/* SPDX-License-Identifier: Apache-2.0
 * N times one thing: a loop's turn, a system call, a random number, a megabyte, a first touch of a page, a process, a
 * repeated store, a sleep. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void touch(long n)
{
    volatile char *p = mmap(NULL, (size_t)n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < n; i++)
        p[i * 4096] = 1;
}

static void store(long n)
{
    for (long i = 0; i < n; i++) {
        char *q = malloc(4096);
        long count = 4096;
        __asm__ volatile("rep stosb" : "+D"(q), "+c"(count) : "a"(0) : "memory");
    }
}

static void children(long n)
{
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
}

__attribute__((noinline)) static void turns(long n) { __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(n)); }

int main(int argc, char **argv)
{
    long n = argc > 2 ? atol(argv[2]) : 1;
    struct timespec ms = {0, 1000000};
    switch (argc > 1 ? argv[1][0] : 0) {
    case 'l':
        turns(n);
        break;
    case 'c':
        for (long i = 0; i < n; i++)
            syscall(SYS_getppid);
        break;
    case 'r':
        for (long i = 0; i < n; i++)
            if (syscall(SYS_getrandom, &n, 0, 0) != 0)
                return 1;
        break;
    case 'm':
        for (long i = 0; i < n; i++)
            memset(malloc(1 << 20), 1, 1 << 20);
        break;
    case 't':
        touch(n);
        break;
    case 's':
        store(n);
        break;
    case 'f':
        children(n);
        break;
    case 'z':
        for (long i = 0; i < n; i++)
            nanosleep(&ms, NULL);
        break;
    case 'k':
        raise(9);
        break;
    case 'h':
        for (;;)
            pause();
    }
    printf("%ld done\n", n);
    fprintf(stderr, "to the other stream\n");
    return 7;
}
