/* SPDX-License-Identifier: Apache-2.0
 *
 * promoted ROUNDS [alarm | threads]: loops without calls that turn often to an entry: with several ways out, inside one
 * another, one that leads into the next, one around another that turns a constant number of times, and such as a
 * fault's handler jumps out of, at one block or another. Prints
 * one value. With alarm one of them turns for ever in the end, and SIGALRM ends the program; with threads, which leave
 * out the faults, two more do the same.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
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

/* The inner loop turns 24 times to each entry, as its code says. */
static __attribute__((noinline)) long rows(const char *at, long n, long apart)
{
    long sum = 0;
    for (long i = 0; i < n; i++, at += apart) {
        __asm__ volatile("xor %%ecx, %%ecx\n"
                         "1: add (%1,%%rcx,8), %0\n"
                         "add $1, %%rcx\n"
                         "cmp $24, %%rcx\n"
                         "jne 1b"
                         : "+r"(sum)
                         : "r"(at)
                         : "rcx", "cc", "memory");
        if (sum & 4)
            sum ^= i;
    }
    return sum;
}

static __attribute__((noinline)) long guarded_rows(const char *at, long n, long apart)
{
    if (sigsetjmp(back, 1))
        return 11;
    return rows(at, n, apart);
}

static __attribute__((noinline)) long guarded(const int *at, long n, const int *other)
{
    if (sigsetjmp(back, 1))
        return 7;
    return gather(at, n, other);
}

struct data {
    char text[LETTERS + 1];
    struct node nodes[LETTERS];
    int table[SIDE][SIDE];
    long rounds, sum;
    bool has_faults;
};

static void make(struct data *d)
{
    for (int i = 0; i < LETTERS; i++)
        d->text[i] = i % 7 == 6 ? ' ' : (char)('a' + i % 26);
    d->text[LETTERS] = 0;
    for (int i = 0; i < LETTERS; i++)
        d->nodes[i] = (struct node){i + 1 < LETTERS ? &d->nodes[i + 1] : NULL, i / 3};
    for (int i = 0; i < SIDE * SIDE; i++)
        d->table[i / SIDE][i % SIDE] = i * 37 % 101;
}

static int *ints; /* a page of them, and one behind it that cannot be read */

static void *run(void *data)
{
    struct data *d = data;
    int n = PAGE / (int)sizeof *ints;
    long sum = 0;
    for (long r = 0; r < d->rounds; r++) {
        sum += find(d->text, LETTERS, 'a' + (int)(r % 31), 'z' - (int)(r % 3));
        sum += choose(d->table, (int)(r % 100), r % 4 == 3 ? 50 : -1);
        sum += words(d->text, d->text + LETTERS);
        sum += walk(d->nodes);
        sum += gather(ints + n - 60, 50, ints);
        sum += rows((const char *)ints, 30, 64);
        if (d->has_faults && r % FAULT_EVERY == 0) {
            sum += guarded_rows((const char *)ints, 90, 48); /* leaves it in the middle of the inner one */
            sum += guarded(ints + n - 40, 100, ints);        /* leaves it where it reads the one */
            sum += guarded(ints, 100, ints + n - 31);        /* and the other */
        }
    }
    d->sum = sum;
    return NULL;
}

int main(int argc, char **argv)
{
    static struct data d[3];
    pthread_t thread[2];
    bool with_alarm = argc > 2 && !strcmp(argv[2], "alarm"), with_threads = argc > 2 && !with_alarm;
    char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ints = (int *)(void *)page;
    for (int i = 0; i < PAGE / (int)sizeof *ints; i++)
        ints[i] = i * 13;
    mprotect(page + PAGE, PAGE, PROT_NONE);
    signal(SIGSEGV, on_fault);
    for (int t = 0; t < 3; t++) {
        make(&d[t]);
        d[t].rounds = (argc > 1 ? atol(argv[1]) : 5) + t;
        d[t].has_faults = !with_threads;
    }
    for (int t = 0; t < 2 && with_threads; t++)
        pthread_create(&thread[t], NULL, run, &d[t + 1]);
    run(&d[0]);
    for (int t = 0; t < 2 && with_threads; t++)
        pthread_join(thread[t], NULL);
    printf("%ld\n", d[0].sum + d[1].sum + d[2].sum);
    fflush(stdout);
    if (with_alarm) {
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 50000}, NULL);
        d[0].nodes[LETTERS - 1].next = d[0].nodes;
        walk(d[0].nodes);
    }
}
