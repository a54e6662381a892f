/* SPDX-License-Identifier: Apache-2.0
 * Allocates so many blocks of known size at known lines, by each function of malloc's family, in two threads too. */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *kept[1000];
static unsigned long sum;

static void use(void *p)
{
    memset(p, 1, 1);
    sum += *(unsigned char *)p;
}

static __attribute__((noinline)) void *xmalloc(size_t n)
{
    void *p = malloc(n);
    use(p);
    return p;
}

static __attribute__((noinline)) void by_malloc(int n)
{
    for (int i = 0; i < n; i++)
        kept[i] = xmalloc(40); /* line: wrapped */
    for (int i = 0; i < n; i++)
        free(kept[i]);
}

static __attribute__((noinline)) void by_calloc(int n)
{
    for (int i = 0; i < n; i++) {
        char *p = calloc(3, (size_t)i + 1);
        use(p);
        free(p);
    }
}

static __attribute__((noinline)) void *by_realloc(void)
{
    char *p = NULL;
    for (size_t n = 100; n <= 100000; n *= 10)
        p = realloc(p, n);
    use(p);
    return p;
}

static __attribute__((noinline)) void aligned(void)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, 640) == 0)
        use(p);
    free(p);
    p = aligned_alloc(64, 128);
    use(p);
    free(p);
    p = memalign(32, 96);
    use(p);
    free(p);
}

static void *in_thread(void *arg)
{
    for (int i = 0; i < 500; i++) {
        void *p = malloc(64);
        use(p);
        free(p);
    }
    return arg;
}

static __attribute__((noinline)) void recurse(int depth)
{
    void *p = malloc(8);
    use(p);
    if (depth)
        recurse(depth - 1);
    free(p);
}

static jmp_buf back;

int main(void)
{
    pthread_t threads[2];
    by_malloc(300);
    by_calloc(50);
    void *grown = by_realloc();
    aligned();
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, in_thread, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    recurse(20);
    if (!setjmp(back)) {
        kept[0] = malloc(24);
        longjmp(back, 1);
    }
    use(kept[0]);
    char *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    use(mapped);
    munmap(mapped, 1 << 20);
    free(grown);
    printf("%s\n", sum ? "used" : "not used");
    return 0;
}
