/* SPDX-License-Identifier: Apache-2.0
 *
 * live KIND COUNT: makes a system call COUNT times and prints what it takes, in ns: the mean of its own time. Calls
 * that do not wait by the time stamp counter around each, less what two readings of it take with nothing between; calls
 * that took three times their median or more were interrupted and are left out. Calls that wait by the processor time
 * of the thread, all of them together.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { BYTES = 1 << 20, BLOCK = 1 << 16 };
static int file, null, ends[2], back[2];
static char buffer[BLOCK];
static volatile long sink;

static void call_getppid(void) { sink = syscall(SYS_getppid); }
static void call_fstat(void)
{
    struct stat st;
    sink = fstat(file, &st);
}
static void call_stat(void)
{
    struct stat st;
    sink = stat("/usr/bin/env", &st);
}
static void call_read_4k(void) { sink = pread(file, buffer, 4096, 8192); }
static void call_read_64k(void) { sink = pread(file, buffer, BLOCK, 0); }
static void call_write_null(void) { sink = write(null, buffer, 1); }
static void call_pipe(void)
{
    if (write(ends[1], buffer, 512) == 512)
        sink = read(ends[0], buffer, 512);
}
static void call_map(void)
{
    void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sink = munmap(p, 4096);
}
static void call_open(void) { close(open("/usr/bin/env", O_RDONLY)); }
static void call_sleep(void) { nanosleep(&(struct timespec){0, 50000}, NULL); }
static void call_ask(void) /* another process, which answers */
{
    if (write(ends[1], buffer, 1) == 1)
        sink = read(back[0], buffer, 1);
}

static const struct kind {
    const char *name;
    void (*call)(void);
    int calls; /* system calls that it is */
    int waits;
} kinds[] = {
    {"getppid", call_getppid, 1, 0}, {"fstat", call_fstat, 1, 0},
    {"stat", call_stat, 1, 0},       {"write-null", call_write_null, 1, 0},
    {"read-4k", call_read_4k, 1, 0}, {"read-64k", call_read_64k, 1, 0},
    {"pipe", call_pipe, 2, 0},       {"open-close", call_open, 2, 0},
    {"map-unmap", call_map, 2, 0},   {"nanosleep", call_sleep, 1, 1},
    {"ask", call_ask, 2, 1},
};

static void prepare(const struct kind *k)
{
    char path[] = "/tmp/mtool-bench-live-XXXXXX";
    file = mkstemp(path);
    unlink(path);
    for (int i = 0; i < BYTES / BLOCK; i++)
        if (write(file, buffer, BLOCK) != BLOCK)
            exit(2);
    null = open("/dev/null", O_WRONLY);
    if (null < 0 || pipe(ends) < 0 || pipe(back) < 0)
        exit(2);
    if (strcmp(k->name, "ask") != 0)
        return;
    if (fork() == 0) {
        char c;
        close(ends[1]);
        while (read(ends[0], &c, 1) == 1)
            if (write(back[1], &c, 1) != 1)
                break;
        _exit(0);
    }
    close(ends[0]);
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double mean_below_three_medians(uint64_t *t, long n)
{
    double sum = 0;
    long used = 0;
    qsort(t, (size_t)n, sizeof *t, by_size);
    for (long i = 0; i < n && t[i] < 3 * t[n / 2] + 1; i++, used++)
        sum += (double)t[i];
    return sum / (double)used;
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t begin_ticks(void)
{
    _mm_lfence();
    uint64_t t = __rdtsc();
    _mm_lfence();
    return t;
}

static uint64_t end_ticks(void)
{
    unsigned cpu;
    uint64_t t = __rdtscp(&cpu);
    _mm_lfence();
    return t;
}

static double time_calls(const struct kind *k, long count)
{
    uint64_t *t = malloc((size_t)count * sizeof *t), *none = malloc((size_t)count * sizeof *none);
    if (!t || !none)
        exit(2);
    memset(t, 0, (size_t)count * sizeof *t);
    memset(none, 0, (size_t)count * sizeof *none);
    double begin_s = seconds(CLOCK_MONOTONIC_RAW);
    uint64_t begin = begin_ticks();
    for (long i = 0; i < count; i++) {
        uint64_t a = begin_ticks(), b = end_ticks();
        none[i] = b - a;
        a = begin_ticks();
        k->call();
        t[i] = end_ticks() - a;
    }
    double hertz = (double)(end_ticks() - begin) / (seconds(CLOCK_MONOTONIC_RAW) - begin_s);
    return 1e9 * (mean_below_three_medians(t, count) - mean_below_three_medians(none, count)) / hertz;
}

static double time_waiting(const struct kind *k, long count)
{
    double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (long i = 0; i < count; i++)
        k->call();
    return 1e9 * (seconds(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)count;
}

int main(int argc, char **argv)
{
    if (argc == 1) /* what there is: kind, system calls of each turn, whether it waits */
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            printf("%s %d %d\n", kinds[i].name, kinds[i].calls, kinds[i].waits);
    for (size_t i = 0; argc == 3 && i < sizeof kinds / sizeof *kinds; i++) {
        const struct kind *k = &kinds[i];
        long count = atol(argv[2]);
        if (strcmp(k->name, argv[1]) != 0)
            continue;
        prepare(k);
        for (long n = 0; n < count / 10; n++)
            k->call();
        printf("%.2f\n", k->waits ? time_waiting(k, count) : time_calls(k, count));
        return 0;
    }
    return argc == 1 ? 0 : 2;
}
