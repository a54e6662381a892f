/* SPDX-License-Identifier: Apache-2.0
 * Arenas: what a sparse array takes of the memory, and that it leaves the chunk that is being filled as it is; the heap
 * of our programs; files that are mapped, and rest. */
#include "base/base.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h> /* needs the three above it */

enum { PAGE = 4096, LARGE = 64 << 20 };

static size_t resident(uint8_t *p, size_t len)
{
    static unsigned char in[LARGE / PAGE];
    uintptr_t from = ALIGN_UP((uintptr_t)p, (uintptr_t)PAGE);
    size_t pages = (len - PAGE) / PAGE, n = 0;
    assert_int_equal(mincore(p + (from - (uintptr_t)p), pages * PAGE, in), 0);
    for (size_t i = 0; i < pages; i++)
        n += in[i] & 1;
    return n;
}

static void test_sparse(void **state)
{
    (void)state;
    mallopt(M_PERTURB, 0); /* as meson would have it */
    struct arena *a = arena_new();
    uint64_t *first = ARENA_SPARSE(a, uint64_t, 3), *before = ARENA_NEW(a, uint64_t);
    uint8_t *sparse = ARENA_SPARSE(a, uint8_t, LARGE);
    uint64_t *behind = ARENA_NEW(a, uint64_t);
    assert_ptr_equal(behind, before + 2); /* aligned to 16 */
    *before = *behind = first[0] = first[2] = UINT64_MAX;
    assert_int_equal((uintptr_t)sparse % 16, 0);
    assert_int_equal(sparse[0] | sparse[LARGE - 1], 0);
    sparse[LARGE / 2] = 1;
#ifdef __SANITIZE_ADDRESS__ /* which fills what it allocates */
    assert_true(resident(sparse, LARGE) > 0);
#else
    assert_true(resident(sparse, LARGE) <= 16);
#endif
    assert_int_equal(sparse[LARGE / 2 - 1] + sparse[LARGE / 2 + 1], 0);
    arena_free(a);
}

static void test_sparse_alone(void **state)
{
    (void)state;
    uint8_t *small = xmalloc_sparse(100), *large = xmalloc_sparse(LARGE);
    unsigned char in;
    assert_int_equal(((uintptr_t)small | (uintptr_t)large) % 16, 0);
    small[99] = large[LARGE - 1] = 1;
    xfree_sparse(small);
    xfree_sparse(large);
    xfree_sparse(NULL);
    assert_int_equal(mincore(large + LARGE - ((uintptr_t)large + LARGE) % PAGE, 1, &in), -1); /* given back at once */
}

/* Its heap belongs to the whole process, so each case has one of its own. */
static int in_child(int (*fn)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(fn());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool has_large_pages(void)
{
    char text[100] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (f && !fgets(text, sizeof text, f))
        text[0] = 0;
    if (f)
        fclose(f);
    return text[0] && !strstr(text, "[never]");
}

enum { HEAP_LEAST = 200 << 20, ARRAY = 32 << 20 };

static long faults(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_minflt;
}

/* 0: as it should be; the heap has its addresses at once, and arrays come from it in large pages. */
static int heap_of_our_own(void)
{
    char *before = sbrk(0);
    heap_begin();
    char *end = sbrk(0);
#ifdef __SANITIZE_ADDRESS__ /* which has another heap */
    return end != before;
#endif
    long faults_before = faults();
    char *array = xmalloc(ARRAY);
    if (end - before < HEAP_LEAST || end - before > 2 * HEAP_LEAST)
        return 1;
    if (array + ARRAY < before || array + ARRAY > end) /* it may begin in what the heap had already */
        return 2;
    if (has_large_pages() && faults() - faults_before > ARRAY / PAGE / 4)
        return 3;
    free(array);
    return sbrk(0) != end ? 4 : 0;
}

static int heap_within_a_limit(void)
{
    struct rlimit l;
    getrlimit(RLIMIT_DATA, &l);
    l.rlim_cur = (rlim_t)4 << 30;
    setrlimit(RLIMIT_DATA, &l);
    char *before = sbrk(0);
    heap_begin();
    return (char *)sbrk(0) - before > PAGE; /* who is limited is asked for nothing in advance */
}

static void test_heap(void **state)
{
    (void)state;
    assert_int_equal(in_child(heap_of_our_own), 0);
    assert_int_equal(in_child(heap_within_a_limit), 0);
}

static void test_file_rests(void **state)
{
    (void)state;
    struct file_bytes f, none = {.len = 0};
    assert_int_equal(file_map("/proc/self/exe", &f), 0);
    uint8_t before = f.data[f.len / 2];
    file_rest(&f);
    file_rest(&none);
    assert_memory_equal(f.data, "\177ELF", 4);
    assert_int_equal(f.data[f.len / 2], before);
    file_unmap(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sparse), cmocka_unit_test(test_sparse_alone),
                                       cmocka_unit_test(test_heap), cmocka_unit_test(test_file_rests)};
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
