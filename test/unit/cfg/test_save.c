/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved and loaded: the same arrays; and bytes that anything has happened to: refused, or harmless to walk. */
#include "help.h"

#include <stdlib.h>

static struct fixture fx;
static struct strbuf saved;

static int setup(void **state)
{
    (void)state;
    fixture_open(&fx, "tables-gcc-pic.so");
    return cfg_save(fx.c, &saved);
}

static int teardown(void **state)
{
    (void)state;
    str_free(&saved);
    fixture_close(&fx);
    return 0;
}

#define SAME(a, b, v)                                                                                                  \
    do {                                                                                                               \
        assert_int_equal((a)->v.len, (b)->v.len);                                                                      \
        if ((a)->v.len)                                                                                                \
            assert_memory_equal((a)->v.data, (b)->v.data, (a)->v.len * sizeof *(a)->v.data);                           \
    } while (0)

static void test_identity(void **state)
{
    (void)state;
    struct cfg *c;
    struct strbuf again = {0};
    assert_int_equal(cfg_load((const uint8_t *)saved.data, saved.len, &c), 0);
    cfg_check(c);
    SAME(c, fx.c, funcs);
    SAME(c, fx.c, blocks);
    SAME(c, fx.c, edges);
    SAME(c, fx.c, loops);
    SAME(c, fx.c, loop_members);
    assert_int_equal(c->tables.len, fx.c->tables.len);
    assert_int_equal(c->bytes_funcs, fx.c->bytes_funcs);
    assert_int_equal(c->bytes_code, fx.c->bytes_code);
    assert_null(c->img);
    for (size_t k = 0; k < fx.c->blocks.len; k++)
        assert_int_equal(cfg_block_start(c, fx.c->blocks.data[k].addr), k);
    cfg_save(c, &again);
    assert_int_equal(again.len, saved.len);
    str_free(&again);
    cfg_free(c);
}

/* Everything that a reader of a loaded cfg does. */
static void walk(const struct cfg *c)
{
    FILE *out = fopen("/dev/null", "w");
    assert_non_null(out);
    cfg_dump(c, CFG_DUMP_CFG, false, NULL, out);
    cfg_dump(c, CFG_DUMP_LOOPS, true, NULL, out);
    for (size_t k = 0; k < c->blocks.len; k++)
        cfg_block_at(c, c->blocks.data[k].addr);
    fclose(out);
}

static int load_copy(const uint8_t *bytes, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1); /* of the very size, so that a sanitizer sees a step too far */
    struct cfg *c;
    memcpy(exact, bytes, len);
    int rc = cfg_load(exact, len, &c);
    if (rc == 0) {
        walk(c);
        cfg_free(c);
    } else {
        assert_null(c);
    }
    free(exact);
    return rc;
}

static void test_cut_off(void **state)
{
    (void)state;
    for (size_t len = 0; len < saved.len; len += len < 200 ? 1 : 97)
        assert_int_equal(load_copy((const uint8_t *)saved.data, len), -1);
    assert_int_equal(load_copy((const uint8_t *)saved.data, saved.len), 0);
}

static void test_corrupt(void **state)
{
    (void)state;
    uint64_t s = 42;
    uint8_t *copy = xmalloc(saved.len);
    int refused = 0;
    for (int round = 0; round < 4000; round++) {
        memcpy(copy, saved.data, saved.len);
        for (int k = 0; k < 1 + round % 3; k++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(s >> 20) % (round % 4 == 0 ? 40 : saved.len);
            copy[at] = s >> 60 & 1 ? 0xff : (uint8_t)(s >> 52);
        }
        refused += load_copy(copy, saved.len) < 0;
    }
    assert_true(refused > 500);
    free(copy);
}

static void test_empty(void **state)
{
    (void)state;
    struct cfg none = {0}, *c;
    struct strbuf out = {0};
    cfg_save(&none, &out);
    assert_int_equal(cfg_load((const uint8_t *)out.data, out.len, &c), 0);
    assert_int_equal(c->funcs.len, 0);
    cfg_free(c);
    str_free(&out);
}

int main(int argc, char **argv)
{
    fixture_dir = argc > 1 ? argv[1] : fixture_dir;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_corrupt),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests_name("cfg save", tests, setup, teardown);
}
