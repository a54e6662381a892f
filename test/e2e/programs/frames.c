/* SPDX-License-Identifier: Apache-2.0
 *
 * frames [wait]: a thread calls qsort, which calls back three functions deep; then it ends, or waits to be looked at.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int total, waits;

__attribute__((noinline)) int deepest(int n)
{
    if (n == 7 && waits) {
        puts("waiting");
        fflush(stdout);
        while (waits)
            pause();
    }
    return n + total;
}

__attribute__((noinline)) int middle(int n)
{
    for (int i = 0; i < n; i++)
        total = deepest(i);
    return total + 1;
}

static int compare(const void *a, const void *b)
{
    total = middle(8);
    return *(const int *)a - *(const int *)b;
}

static void *work(void *arg)
{
    int two[2] = {2, 1};
    qsort(two, 2, sizeof *two, compare);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t t;
    waits = argc > 1 && !strcmp(argv[1], "wait");
    if (pthread_create(&t, NULL, work, NULL) || pthread_join(t, NULL))
        return 1;
    printf("%d\n", total);
    return 0;
}
