/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: counts what a program allocates, as mtool trace --form allocations does: blocks, and bytes asked for, of a
 * block that grows what it grew by. Written to the file that ALLOCATED names, when the program ends by exit. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { EARLY = 1 << 16, TABLE = 1 << 22 };

static struct {
    void *at;
    size_t bytes;
} table[TABLE]; /* by address; at 1: was given back */
static unsigned long blocks, bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char early[EARLY]; /* what dlsym allocates */
static size_t early_used;
static void *(*real_malloc)(size_t), *(*real_calloc)(size_t, size_t), *(*real_realloc)(void *, size_t);
static void *(*real_memalign)(size_t, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);
static void (*real_free)(void *);

static void start(void)
{
    static int is_busy;
    if (is_busy++)
        return;
    real_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    real_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    real_memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
    real_posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
}

static size_t slot_of(const void *p)
{
    size_t i = (size_t)p / 16 * 0x9e3779b97f4a7c15u >> 42;
    while (table[i].at && table[i].at != p)
        i = (i + 1) % TABLE;
    return i;
}

static void *note(void *p, size_t n)
{
    if (!p)
        return p;
    pthread_mutex_lock(&lock);
    blocks++;
    bytes += n;
    table[slot_of(p)].bytes = n;
    table[slot_of(p)].at = p;
    pthread_mutex_unlock(&lock);
    return p;
}

static void *take_early(size_t n)
{
    void *p = early + early_used;
    early_used += (n + 15) & ~15ul;
    return p;
}

static int is_early(const void *p) { return (const char *)p >= early && (const char *)p < early + EARLY; }

void *malloc(size_t n)
{
    start();
    return real_malloc ? note(real_malloc(n), n) : take_early(n);
}

void *calloc(size_t a, size_t b)
{
    start();
    return real_malloc ? note(real_calloc(a, b), a * b) : take_early(a * b);
}

void *memalign(size_t a, size_t n)
{
    start();
    return note(real_memalign(a, n), n);
}

void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }

int posix_memalign(void **p, size_t a, size_t n)
{
    start();
    int failed = real_posix_memalign(p, a, n);
    if (!failed)
        note(*p, n);
    return failed;
}

void *realloc(void *old, size_t n)
{
    start();
    if (!old || is_early(old))
        return malloc(n);
    size_t was = table[slot_of(old)].bytes;
    void *p = real_realloc(old, n);
    if (!p)
        return p;
    pthread_mutex_lock(&lock);
    bytes += n > was ? n - was : 0;
    table[slot_of(p)].bytes = n;
    table[slot_of(p)].at = p;
    pthread_mutex_unlock(&lock);
    return p;
}

void free(void *p)
{
    if (!is_early(p))
        real_free(p);
}

__attribute__((destructor)) static void end(void)
{
    unsigned long b = blocks, n = bytes;
    const char *path = getenv("ALLOCATED");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (f) {
        fprintf(f, "%lu allocations of %lu bytes\n", b, n);
        fclose(f);
    }
}
