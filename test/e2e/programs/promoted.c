/* SPDX-License-Identifier: Apache-2.0
 *
 * promoted ROUNDS [alarm]: loops without calls that turn often to an entry: with several ways out, inside one another,
 * one that leads into the next, and such as a fault's handler jumps out of, at one block or another. Prints one value.
 * With alarm one of them turns for ever in the end, and SIGALRM ends the program.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { PAGE = 4096, SIDE = 12, LETTERS = 40, FAULT_EVERY = 10 };

static sigjmp_buf back;

static void on_fault(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

/* Three ways out. */
static __attribute__((noinline)) int find(const char *in, int n, int what, int stop)
{
    int i = 0;
    for (; i < n; i++) {
        if (in[i] == what)
            return i;
        if (in[i] == stop)
            break;
    }
    return -i;
}

/* One loop in another, with a choice in the inner one and a way out of both. */
static __attribute__((noinline)) long choose(int table[SIDE][SIDE], int least, int end)
{
    long sum = 0;
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) {
            if (table[i][j] == end)
                return -sum;
            if (table[i][j] > least)
                sum += table[i][j];
            else if (table[i][j] & 1)
                sum ^= j;
        }
        sum += i & 2 ? table[i][0] : 1;
    }
    return sum;
}

/* One loop behind another: the way out of the first is the way into the second. */
static __attribute__((noinline)) unsigned words(const char *at, const char *end)
{
    unsigned n = 0;
    while (at < end) {
        while (at < end && *at == ' ')
            at++;
        n += at < end;
        while (at < end && *at != ' ')
            at++;
    }
    return n;
}

/* Reads, in one block or in the other, into the page that cannot be read. */
static __attribute__((noinline)) long gather(const int *at, long n, const int *other)
{
    long sum = 0, odd = 0;
    for (long i = 0; i < n; i++) {
        if (at[i] & 1)
            odd += other[i] ^ 3;
        else
            sum += at[i] >> 1;
        if (sum > 1000000)
            sum -= odd;
    }
    return sum + odd;
}

struct node {
    struct node *next;
    int value;
};

static __attribute__((noinline)) long walk(const struct node *at)
{
    long sum = 0;
    for (; at; at = at->next) {
        if (at->value & 1)
            sum += at->value;
        else
            sum ^= 3;
    }
    return sum;
}

static __attribute__((noinline)) long guarded(const int *at, long n, const int *other)
{
    if (sigsetjmp(back, 1))
        return 7;
    return gather(at, n, other);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 5, sum = 0;
    char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char text[LETTERS + 1];
    struct node nodes[LETTERS];
    int table[SIDE][SIDE], *ints = (int *)(void *)page, n = PAGE / (int)sizeof *ints;
    for (int i = 0; i < LETTERS; i++)
        text[i] = i % 7 == 6 ? ' ' : (char)('a' + i % 26);
    text[LETTERS] = 0;
    for (int i = 0; i < LETTERS; i++)
        nodes[i] = (struct node){i + 1 < LETTERS ? &nodes[i + 1] : NULL, i / 3};
    for (int i = 0; i < SIDE * SIDE; i++)
        table[i / SIDE][i % SIDE] = i * 37 % 101;
    for (int i = 0; i < n; i++)
        ints[i] = i * 13;
    mprotect(page + PAGE, PAGE, PROT_NONE);
    signal(SIGSEGV, on_fault);
    for (long r = 0; r < rounds; r++) {
        sum += find(text, LETTERS, 'a' + (int)(r % 31), 'z' - (int)(r % 3));
        sum += choose(table, (int)(r % 100), r % 4 == 3 ? 50 : -1);
        sum += words(text, text + LETTERS);
        sum += walk(nodes);
        sum += guarded(ints + n - 60, 50, ints);
        if (r % FAULT_EVERY == 0) {
            sum += guarded(ints + n - 40, 100, ints); /* leaves it where it reads the one */
            sum += guarded(ints, 100, ints + n - 31); /* and the other */
        }
    }
    printf("%ld\n", sum);
    fflush(stdout);
    if (argc > 2) {
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 50000}, NULL);
        nodes[LETTERS - 1].next = nodes;
        walk(nodes);
    }
}
