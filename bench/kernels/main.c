/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels                        lists the kernels: name, kind, flags
 * kernels NAME n SECONDS         finds how often NAME must be called on n elements to run so long; prints the number
 * kernels NAME n CALLS calls     calls it so often and prints the time of a call in ticks of the time stamp counter:
 * the least of 16 parts of the run kernels NAME n CALLS cycles W  the same in cycles of the core: the median of short
 * parts that nobody else on the core disturbed, and how many there were: those beside which two nops took W times what
 * an addition took n is 512 (all data in the first-level cache) or a larger power of two. Data are the same at every
 * run. */
#define _GNU_SOURCE
#include "kernels.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

static const struct kernel *const all[] = {float_kernels,   integer_kernels, text_kernels,
                                           order_kernels,   table_kernels,   control_kernels,
                                           library_kernels, cxx_kernels,     fortran_kernels};
enum { TABLES = sizeof all / sizeof *all, PARTS = 16 };

static uint64_t state = 20261121;
static uint64_t random_bits(void)
{
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void *room(size_t n, size_t bytes)
{
    void *p = aligned_alloc(4096, ((n + 64) * bytes + 4095) & ~(size_t)4095);
    if (!p)
        exit((fprintf(stderr, "kernels: out of memory\n"), 2));
    return memset(p, 0, (n + 64) * bytes);
}

/* Sattolo's algorithm: one cycle through all. */
static void make_cycle(int32_t *p, size_t n)
{
    for (size_t e = 0; e < n; e++)
        p[e] = (int32_t)e;
    for (size_t e = n - 1; e > 0; e--) {
        size_t k = random_bits() % e;
        int32_t t = p[e];
        p[e] = p[k];
        p[k] = t;
    }
}

static void make_data(struct data *d, size_t n)
{
    *d = (struct data){.n = n};
    d->x = room(n, 8), d->y = room(n, 8), d->z = room(n, 8), d->q = room(n, 8);
    d->u = room(n, 4), d->v = room(n, 4), d->w = room(n, 4);
    d->i = room(n, 4), d->j = room(n, 4), d->p = room(n, 4), d->s = room(n, 1), d->t = room(n, 1);
    for (size_t e = 0; e < n; e++) {
        uint64_t r = random_bits();
        d->q[e] = r;
        d->x[e] = d->z[e] = 0.5 + (double)(r >> 40) / (1 << 24);
        d->y[e] = 0.5 + (double)(r & 0xffffff) / (1 << 24);
        d->u[e] = (float)d->x[e];
        d->v[e] = (float)d->y[e];
        d->i[e] = (int32_t)(r >> 44);
        d->j[e] = (int32_t)(r & 0xfffff);
        d->s[e] = d->t[e] = (r & 15) == 0 ? ' ' : (uint8_t)('a' + (r >> 8) % 26);
    }
    make_cycle(d->p, n);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned long calls_for(const struct kernel *k, struct data *d, double wanted)
{
    k->run(d);
    for (unsigned long calls = 1;; calls *= 2) {
        double begun = seconds();
        for (unsigned long c = 0; c < calls; c++)
            k->run(d);
        double took = seconds() - begun;
        if (took > wanted / 8)
            return (unsigned long)((double)calls * wanted / took) + 1;
    }
}

static double least_ticks(const struct kernel *k, struct data *d, unsigned long calls)
{
    double least = 0;
    unsigned long part = calls / PARTS + 1, done = 0;
    while (done < calls) {
        unsigned long n = calls - done < part ? calls - done : part;
        uint64_t begun = __rdtsc();
        for (unsigned long c = 0; c < n; c++)
            k->run(d);
        double ticks = (double)(__rdtsc() - begun) / (double)n;
        if (done == 0 || ticks < least)
            least = ticks;
        done += n;
    }
    return least;
}

/* ---- cycles ---- */

enum { SHORT_PARTS = 8192, CHAIN = 8000, NOPS = 16000, PATIENCE = 8 /* parts beside a neighbour */ };
#define ALIKE 1.03

/* Additions that wait for each other tell the clock; nops, which need the whole width of the core, whether it is
 * shared: in a loop of the same shape as the calibration's, since how long they are matters on some cores. */
static uint64_t additions(uint64_t turns)
{
    uint64_t x = 0, begun = __rdtsc();
    _mm_lfence();
    __asm__ volatile("1: .rept 16\n add %1, %0\n .endr\n dec %1\n jnz 1b" : "+r"(x), "+r"(turns)::"cc");
    _mm_lfence();
    return __rdtsc() - begun;
}

static uint64_t nops(uint64_t turns)
{
    uint64_t begun = __rdtsc();
    _mm_lfence();
    __asm__ volatile(".p2align 6\n1: .rept 160\n nopl 64(%%rax,%%rax,1)\n .endr\n dec %0\n jnz 1b" : "+r"(turns)::"cc");
    _mm_lfence();
    return __rdtsc() - begun;
}

/* Without what reading the clock takes, and the end of the loop. */
static double ticks_of(uint64_t (*run)(uint64_t turns), uint64_t turns)
{
    uint64_t few = run(turns / 2);
    return (double)(int64_t)(run(turns + turns / 2) - few);
}

struct look {
    double chain, width; /* ticks; nops by chain */
};
static struct look look(void)
{
    struct look l = {ticks_of(additions, CHAIN / 16), ticks_of(nops, NOPS / 160)};
    l.width /= l.chain;
    return l;
}

struct part {
    double cycles, width; /* the worse of before and behind */
};

static int by_cycles(const void *a, const void *b)
{
    double x = ((const struct part *)a)->cycles, y = ((const struct part *)b)->cycles;
    return (x > y) - (x < y);
}

static struct part take_part(const struct kernel *k, struct data *d, unsigned long calls)
{
    struct look before = look();
    uint64_t begun = __rdtsc();
    for (unsigned long c = 0; c < calls; c++)
        k->run(d);
    double ticks = (double)(__rdtsc() - begun) / (double)calls;
    struct look after = look();
    struct part p = {ticks * CHAIN * 2 / (before.chain + after.chain),
                     before.width > after.width ? before.width : after.width};
    if (before.chain > after.chain * ALIKE || after.chain > before.chain * ALIKE)
        p.width *= 2; /* the clock changed */
    return p;
}

/* To the next processor that this program may use: nobody may be beside it there. */
static void move_on(const cpu_set_t *allowed)
{
    cpu_set_t one;
    int next = sched_getcpu();
    do
        next = (next + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(next, allowed));
    CPU_ZERO(&one);
    CPU_SET(next, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void print_cycles(const struct kernel *k, struct data *d, unsigned long calls, double width)
{
    static struct part parts[SHORT_PARTS + 1];
    unsigned quiet = 0, disturbed = 0;
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int i = 0; i < SHORT_PARTS; i++) {
        parts[quiet] = take_part(k, d, calls / SHORT_PARTS + 1);
        bool is_quiet = parts[quiet].width <= width * ALIKE && parts[quiet].width >= width / ALIKE;
        quiet += is_quiet;
        disturbed = is_quiet ? 0 : disturbed + 1;
        if (disturbed && disturbed % PATIENCE == 0) {
            move_on(&allowed);
            k->run(d); /* its data are in another core's cache */
        }
    }
    qsort(parts, quiet, sizeof *parts, by_cycles);
    printf("%.3f %u\n", parts[quiet / 2].cycles, quiet);
}

static const struct kernel *find(const char *name)
{
    for (int t = 0; t < TABLES; t++)
        for (const struct kernel *k = all[t]; k->name; k++)
            if (strcmp(k->name, name) == 0)
                return k;
    exit((fprintf(stderr, "kernels: no kernel %s\n", name), 2));
}

int main(int argc, char **argv)
{
    struct data d;
    if (argc < 4) {
        for (int t = 0; t < TABLES; t++)
            for (const struct kernel *k = all[t]; k->name; k++)
                printf("%s %s%s%s%s%s\n", k->name, k->kind, k->flags & LARGE ? " large" : "",
                       k->flags & BRANCH ? " branch" : "", k->flags & COMPUTE ? " compute" : "",
                       k->flags & LEARNED ? " learned" : "");
        return argc != 1 ? 2 : 0;
    }
    const struct kernel *k = find(argv[1]);
    make_data(&d, strtoul(argv[2], NULL, 10));
    if (argc == 4)
        printf("%lu\n", calls_for(k, &d, strtod(argv[3], NULL)));
    else if (strcmp(argv[4], "cycles") == 0)
        print_cycles(k, &d, strtoul(argv[3], NULL, 10), argc > 5 ? strtod(argv[5], NULL) : 0.5);
    else
        printf("%.3f\n", least_ticks(k, &d, strtoul(argv[3], NULL, 10)));
    return 0;
}
