/* SPDX-License-Identifier: Apache-2.0
 * Homes on the stack, of this test's own functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "debug/debug.h"
#include "image/image.h"

/* What it keeps is in memory, whatever the compiler is told, and on the stack also where others are moved away. */
int keeps(int n);
__attribute__((noinline, no_sanitize_address)) int keeps(int n)
{
    volatile int kept_here = n;
    volatile long kept_too[3] = {n, 2, 3};
    for (int i = 0; i < 3; i++)
        kept_here += (int)kept_too[i];
    return kept_here;
}

static uint64_t address_of_keeps(const char *path)
{
    struct image *img;
    uint64_t at = 0;
    assert_int_equal(image_open(path, &img), 0);
    for (size_t i = 0; i < img->symbol_count; i++)
        if (!strcmp(img->symbols[i].name, "keeps"))
            at = img->symbols[i].addr + img->symbols[i].size / 2;
    image_close(img);
    return at;
}

/* Where the frame has it: offsets from any base at which it is found, how many bytes in a row. */
static unsigned bytes_of(const struct frame_variables *v, uint64_t at, const char *name)
{
    unsigned found = 0;
    for (int64_t o = -512; o < 512; o++) {
        int64_t offset[FRAME_BASE_COUNT] = {o, o, o};
        uint64_t begin;
        const char *is = frame_variable_at(v, at, offset, (1u << FRAME_BASE_COUNT) - 1, &begin);
        if (is && !strcmp(is, name)) {
            assert_int_equal(begin, found);
            found++;
        }
    }
    return found;
}

static void test_homes(void **state)
{
    const char *path = "/proc/self/exe";
    struct file_names names = {.arena = arena_new()};
    struct lines *l = lines_open(path, "/nowhere", &names);
    uint64_t at = address_of_keeps(path), begin;
    (void)state;
    assert_non_null(l);
    assert_int_equal(keeps(1), 7);
    struct frame_variables *v = frame_variables_new(l);
    assert_true(at);
    assert_int_equal(bytes_of(v, at, "kept_here"), sizeof(int));
    assert_int_equal(bytes_of(v, at, "kept_too"), 3 * sizeof(long));
    assert_null(frame_variable_at(v, at, (int64_t[FRAME_BASE_COUNT]){100000, 100000, 100000}, 7, &begin));
    assert_null(frame_variable_at(v, 1, (int64_t[FRAME_BASE_COUNT]){0}, 7, &begin));
    frame_variables_free(v);
    lines_close(l);
    file_names_fini(&names);
    arena_free(names.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_homes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
