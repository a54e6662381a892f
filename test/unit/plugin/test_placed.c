/* SPDX-License-Identifier: Apache-2.0
 * The kernel's functions at the addresses of a placement: each byte at a place of its own, the list's functions first.
 */
#include "fake_qemu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT 0xffffffff81000000ull
enum { PHYSICAL = 0x1000000, BYTES = 0xa0 };

static const struct fake_function functions[] = {
    {"before", TEXT - 64},       {"_stext", TEXT},   {"a", TEXT},        {"b", TEXT + 0x20},
    {"label_in_b", TEXT + 0x28}, {"c", TEXT + 0x40}, {"d", TEXT + 0x70}, {"_etext", TEXT + BYTES},
    {"behind", TEXT + 0xc0},     {"user", 0x1000},
};

static uint64_t placed(uint64_t offset) { return placed_address(TEXT + offset, PHYSICAL + offset) - PHYSICAL; }

static void placements(void **state)
{
    (void)state;
    char path[] = "/tmp/mtool-test-placed.XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    fprintf(f, "%llx\n%llx\n%llx\n%llx\n", TEXT + 0x70, TEXT + 0x28, TEXT + 0x70, TEXT + 0xc0);
    fclose(f);
    fake_functions = functions;
    fake_function_count = ARRAY_LEN(functions);
    settings.placed = path;
    assert_int_equal(placed_address(TEXT, PHYSICAL), PHYSICAL); /* nothing is read so far */
    assert_int_equal(placed_read(), 0);
    assert_int_equal(placed(0x75), 0x05); /* d: first */
    assert_int_equal(placed(0x20), 0x30); /* b, which the label names: second, whole */
    assert_int_equal(placed(0x29), 0x39);
    assert_int_equal(placed(0x00), 0x50); /* a, and then c: the rest, as they are */
    assert_int_equal(placed(0x6f), 0x9f);
    bool taken[BYTES] = {false};
    for (uint64_t i = 0; i < BYTES; i++) {
        assert_true(placed(i) < BYTES);
        assert_false(taken[placed(i)]);
        taken[placed(i)] = true;
    }
    assert_int_equal(placed(BYTES), BYTES); /* behind the text, before it, of a program: as it is */
    assert_int_equal(placed_address(TEXT - 1, 77), 77);
    assert_int_equal(placed_address(0x1000, 78), 78);
    unlink(path);
}

static void no_text(void **state)
{
    (void)state;
    struct strbuf held = {0};
    fake_function_count = 1;
    diag_hold(&held);
    assert_int_equal(placed_read(), -1);
    diag_hold(NULL);
    assert_non_null(strstr(held.data, "_stext"));
    str_free(&held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(placements), cmocka_unit_test(no_text)};
    return cmocka_run_group_tests_name("plugin-placed", tests, NULL, NULL);
}
