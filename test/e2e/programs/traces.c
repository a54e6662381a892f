/* SPDX-License-Identifier: Apache-2.0
 *
 * traces: prints which functions backtrace() and dladdr() name: from deep inside, from a callback of libc, from a
 * signal handler, on another thread, before main, and through tail calls and frames of changing size. Linked with
 * -rdynamic, or built twice: a library (-DLIBRARY) and a program that only calls it (-DUSER).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

int traces(void);
#ifdef USER
int main(void) { return traces(); }
#else

/* "program(function+0x12) [0x1234]" to "function" */
static void put_name(const char *text)
{
    const char *open = strchr(text, '('), *end = open ? open + strcspn(open, "+)") : NULL;
    printf(" %.*s", open ? (int)(end - open - 1) : 1, open ? open + 1 : "?");
}

NOINLINE int look(const char *where);
NOINLINE int look(const char *where)
{
    void *frames[50];
    int n = backtrace(frames, 50);
    char **names = backtrace_symbols(frames, n);
    Dl_info info;
    printf("%s:", where);
    for (int i = 0; i < n; i++)
        put_name(names[i]);
    int found = dladdr(__builtin_return_address(0), &info);
    printf("\n  dladdr: %s\n", found && info.dli_sname ? info.dli_sname : "none");
    free(names);
    return n;
}

NOINLINE int recurse(int depth, const char *where);
NOINLINE int recurse(int depth, const char *where)
{
    char room[depth + 1];
    memset(room, depth, sizeof room);
    int n = depth ? recurse(depth - 1, where) : look(where);
    return n + room[depth];
}

NOINLINE int jumps_on(int n);
NOINLINE int jumps_on(int n) { return recurse(n, "tail"); }

int compare(const void *a, const void *b);
int compare(const void *a, const void *b)
{
    look("callback");
    return *(const int *)a - *(const int *)b;
}

void on_signal(int sig);
void on_signal(int sig)
{
    (void)sig;
    look("handler");
}

NOINLINE void interrupted(void);
NOINLINE void interrupted(void)
{
    for (volatile int i = 0; i < 3; i++)
        if (i == 1)
            raise(SIGUSR1);
}

void *on_thread(void *arg);
void *on_thread(void *arg)
{
    recurse(2, "thread");
    return arg;
}

__attribute__((constructor)) void before_main(void);
void before_main(void) { look("early"); }

int traces(void)
{
    int two[2] = {2, 1};
    pthread_t t;
    recurse(5, "deep");
    jumps_on(1);
    qsort(two, 2, sizeof two[0], compare);
    signal(SIGUSR1, on_signal);
    interrupted();
    if (pthread_create(&t, NULL, on_thread, NULL) || pthread_join(t, NULL))
        return 1;
    return 0;
}

#ifndef LIBRARY
int main(void) { return traces(); }
#endif
#endif
