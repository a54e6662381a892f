/* SPDX-License-Identifier: Apache-2.0
 * The kernel's variables: where those of a list are placed, how often each is reached, and which after which. */
#include "fake_qemu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define IMAGE 0xffffffff81001000ull
enum { BYTES = 0x2000, ROOM = 1 << 20 };

static const struct fake_function functions[] = {
    {"__start_rodata", IMAGE - 0x200}, {"__end_rodata", IMAGE - 0x100}, {"_sdata", IMAGE},
    {"_edata", IMAGE + BYTES},         {"__bss_start", IMAGE + BYTES},  {"__bss_stop", IMAGE + BYTES + 0x40}};
static const struct fake_function data[] = {
    {"later", IMAGE + 0x1000}, {"before", IMAGE - 8},           {"a", IMAGE},        {"b", IMAGE + 0x08},
    {"c", IMAGE + 0x40},       {"alias", IMAGE + 0x40},         {"d", IMAGE + 0x80}, {"last", IMAGE + 0x84},
    {"f", IMAGE + 0x88},       {"behind", IMAGE + BYTES + 0x40}};

static uint64_t placed(uint64_t offset) { return variables_address((IMAGE + offset) % FAKE_RAM_BYTES); }
static void use(uint64_t offset, bool missed) { variables_use((IMAGE + offset) % FAKE_RAM_BYTES, missed); }

static void read_list(void)
{
    char path[] = "/tmp/mtool-test-variables.XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    fprintf(f, "%llx\n%llx\n%llx\n%llx\n%llx\n", IMAGE, IMAGE + 0x1000, IMAGE + 0x40, IMAGE, IMAGE + 0x88);
    fclose(f);
    fake_functions = functions;
    fake_function_count = ARRAY_LEN(functions);
    fake_data = data;
    fake_data_count = ARRAY_LEN(data);
    settings.ram_bytes = FAKE_RAM_BYTES;
    settings.placed_data = path;
    settings.variables = true;
    assert_int_equal(variables_read(), 0);
    unlink(path);
}

static void placements(void **state)
{
    (void)state;
    read_list();
    uint64_t begin = ALIGN_UP(FAKE_RAM_BYTES + WIRE_REGION_BYTES, (uint64_t)ROOM);
    assert_int_equal(placed(0x00), begin);
    assert_int_equal(placed(0x07), begin + 7);
    assert_int_equal(placed(0x08), (IMAGE + 0x08) % FAKE_RAM_BYTES); /* b is not on the list */
    assert_int_equal(placed(0x1010), begin + 4096 + 0x10);           /* later: a page needs no other alignment */
    assert_int_equal(placed(0x41), begin + 2 * 4096 + 0x01);
    assert_int_equal(placed(0x88), begin + 2 * 4096 + 0x40); /* f: of 0xf78 bytes at a multiple of 8 */
    assert_int_equal(placed(BYTES), (IMAGE + BYTES) % FAKE_RAM_BYTES);
    assert_true(variables_hold((IMAGE + BYTES - 1) % FAKE_RAM_BYTES));
    assert_false(variables_hold((IMAGE + BYTES + 0x40) % FAKE_RAM_BYTES));
}

static void uses(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len;
    use(0x00, true);
    use(0x04, false);
    use(0x80, true); /* d and e share a granule: e */
    use(0x00, false);
    use(0x84, false);
    use(BYTES, true); /* none */
    use(0x48, true);
    FILE *f = open_memstream(&text, &len);
    variables_write(f);
    fclose(f);
    assert_string_equal(text, "variables\nvariable ffffffff81001000 8 3 1\ta\nvariable ffffffff81001040 64 1 1\talias\n"
                              "variable ffffffff81001084 4 2 1\tlast\nfollow 0 2 2\nfollow 2 0 1\nfollow 2 1 1\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(placements), cmocka_unit_test(uses)};
    return cmocka_run_group_tests_name("plugin-variables", tests, NULL, NULL);
}
