/* SPDX-License-Identifier: Apache-2.0
 *
 * family HOW: a process that writes every line of an array of 1 MB and makes three by fork; each reads the first half
 * of the array, and a quarter of a heap block that only it still has: its parent has given it back by then, and has got
 * others in its place.
 *   fork     they are made one behind the other
 *   thread   by a second thread, while the first one allocates
 *   tree     each by the one before it
 *   killed   they kill themselves when they have read
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, LINE = 64, CHILDREN = 3, ROUNDS = 3000 };
static volatile char array[BYTES] __attribute__((aligned(4096)));
static volatile char *block;
static int go[2];
static const char *how;

static __attribute__((noinline)) void fill(void)
{
    for (int i = 0; i < BYTES; i += LINE)
        array[i] = 1;
}

static __attribute__((noinline)) int look(const volatile char *at, int bytes)
{
    int sum = 0;
    for (int i = 0; i < bytes; i += LINE)
        sum += at[i];
    return sum;
}

static __attribute__((noinline)) volatile char *make(void)
{
    char *p = aligned_alloc(4096, BYTES);
    __asm__ volatile("" : "+r"(p)); /* it calls, and does not jump */
    return p;
}

static __attribute__((noinline)) volatile char *make_others(void)
{
    char *p = aligned_alloc(4096, BYTES);
    __asm__ volatile("" : "+r"(p));
    return p;
}

static void wait_for_parent(void)
{
    char byte;
    close(go[1]);
    if (read(go[0], &byte, 1) != 0)
        _exit(9);
}

static int make_child(int nth)
{
    pid_t child = fork();
    if (child)
        return 0;
    if (!strcmp(how, "tree") && nth + 1 < CHILDREN)
        make_child(nth + 1);
    wait_for_parent();
    int sum = look(array, BYTES / 2) + look(block, BYTES / 4);
    if (!strcmp(how, "killed"))
        raise(SIGKILL);
    while (wait(NULL) > 0)
        continue;
    _exit(sum == BYTES / 2 / LINE ? nth : 9);
}

static void *make_all(void *ctx)
{
    for (int i = 0; i < (strcmp(how, "tree") ? CHILDREN : 1); i++)
        make_child(i);
    return ctx;
}

static __attribute__((noinline)) int be_busy(void)
{
    int sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        volatile char *p = malloc(100);
        sum += p[0] = 0;
        free((void *)p);
    }
    return sum;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int status, sum = 0;
    how = argc > 1 ? argv[1] : "fork";
    block = make();
    fill();
    if (!block || pipe(go))
        return 8;
    if (strcmp(how, "thread")) {
        make_all(NULL);
    } else {
        pthread_create(&thread, NULL, make_all, NULL);
        be_busy();
        pthread_join(thread, NULL);
    }
    free((void *)block);
    block = make_others();
    be_busy();
    close(go[1]);
    close(go[0]);
    while (wait(&status) > 0)
        sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
    free((void *)block);
    printf("%d\n", sum);
    return 3;
}
