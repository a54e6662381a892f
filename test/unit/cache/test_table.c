/* SPDX-License-Identifier: Apache-2.0
 * Tables of all lengths on both sides of those that have pages of their own. */
#include "cache/tables/table.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { KB = 1 << 10, MB = 1 << 20 };

static void test_grows(void **unused)
{
    (void)unused;
    static const size_t lens[] = {0, 1, 4 * KB, MB - 1, MB, 2 * MB + 1, 5 * MB};
    for (size_t i = 0; i + 1 < ARRAY_LEN(lens); i++) {
        uint8_t *t = table_new(lens[i]);
        size_t wrong = 0;
        for (size_t k = 0; k < lens[i]; k++) {
            wrong += t[k] != 0;
            t[k] = (uint8_t)(k + 1);
        }
        t = table_grow(t, lens[i], lens[i + 1]);
        for (size_t k = 0; k < lens[i + 1]; k++)
            wrong += t[k] != (k < lens[i] ? (uint8_t)(k + 1) : 0);
        assert_int_equal(wrong, 0);
        table_free(t, lens[i + 1]);
    }
    table_free(NULL, MB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grows)};
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
