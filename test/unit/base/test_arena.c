/* SPDX-License-Identifier: Apache-2.0
 * Arenas: what a sparse array takes of the memory, and that it leaves the chunk that is being filled as it is; files
 * that are mapped, and rest. */
#include "base/base.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sparse), cmocka_unit_test(test_file_rests)};
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
