/* SPDX-License-Identifier: Apache-2.0
 *
 * Markers to regions (fixtures/marked.s): which blocks are between them, of functions in every shape, and what is
 * refused. */
#include "help.h"

#include <string.h>

static bool holds(const struct fixture *fx, const struct cfg_marked *m, const char *at)
{
    uint32_t b = cfg_block_at(fx->c, label(fx, at));
    for (size_t i = 0; i < m->blocks.len; i++)
        if (m->blocks.data[i] == b)
            return true;
    return false;
}

static const struct {
    const char *name, *in[4], *out[4]; /* labels in blocks of the region, and of none */
} found[] = {
    {"straight", {"straight_begin", "straight_loop"}, {"straight", "straight_end"}},
    {"early", {"early_begin", "early_return", "early_more"}, {"early_end"}},
    {"nested", {"nested_begin", "nested_rest"}, {"nested_end"}},
    {"turns", {"turns_begin", "turns_more"}, {"turns_loop", "turns_out"}},
    {"copied", {"first_copy_begin", "second_copy_begin"}, {"straight"}},
    {"parted", {"parted_begin", "parted_cold", "parted_back", "parted_rest"}, {"parted_cold_after"}},
};

static const struct {
    const char *name;
    enum cfg_marked_problem problem;
} refused[] = {
    {"unclear", CFG_MARKED_UNCLEAR},  {"apart", CFG_MARKED_NO_END},         {"closing", CFG_MARKED_NO_BEGIN},
    {"not_a_nop", CFG_MARKED_NO_NOP}, {"inside_of_one", CFG_MARKED_NO_NOP},
};

static void test_blocks(void **state)
{
    (void)state;
    struct fixture fx;
    fixture_open(&fx, "marked.so");
    for (size_t i = 0; i < ARRAY_LEN(found); i++) {
        struct cfg_marked m;
        cfg_marked_find(fx.c, fx.img, found[i].name, &m);
        assert_int_equal(m.problem, CFG_MARKED_FOUND);
        for (size_t k = 0; k < 4 && found[i].in[k]; k++)
            assert_true(holds(&fx, &m, found[i].in[k]));
        for (size_t k = 0; k < 4 && found[i].out[k]; k++)
            assert_false(holds(&fx, &m, found[i].out[k]));
        VEC_FREE(&m.blocks);
    }
    fixture_close(&fx);
}

static void test_refused(void **state)
{
    (void)state;
    struct fixture fx;
    fixture_open(&fx, "marked.so");
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct cfg_marked m;
        cfg_marked_find(fx.c, fx.img, refused[i].name, &m);
        assert_int_equal(m.problem, refused[i].problem);
        assert_int_equal(m.blocks.len, 0);
        VEC_FREE(&m.blocks);
    }
    fixture_close(&fx);
}

static void test_no_such_name(void **state)
{
    (void)state;
    struct fixture fx;
    struct cfg_marked m;
    fixture_open(&fx, "marked.so");
    cfg_marked_find(fx.c, fx.img, "nobody", &m);
    assert_int_equal(m.problem, CFG_MARKED_FOUND);
    assert_int_equal(m.blocks.len, 0);
    VEC_FREE(&m.blocks);
    fixture_close(&fx);
}

/* A cfg that comes back from a map says the same. */
static void test_loaded(void **state)
{
    (void)state;
    struct fixture fx;
    struct strbuf bytes = {0};
    struct cfg *loaded = NULL;
    struct cfg_marked a, b;
    fixture_open(&fx, "marked.so");
    cfg_save(fx.c, &bytes);
    assert_int_equal(cfg_load((const uint8_t *)bytes.data, bytes.len, &loaded), 0);
    cfg_marked_find(fx.c, fx.img, "parted", &a);
    cfg_marked_find(loaded, fx.img, "parted", &b);
    assert_int_equal(a.blocks.len, b.blocks.len);
    assert_memory_equal(a.blocks.data, b.blocks.data, a.blocks.len * sizeof *a.blocks.data);
    VEC_FREE(&a.blocks);
    VEC_FREE(&b.blocks);
    cfg_free(loaded);
    str_free(&bytes);
    fixture_close(&fx);
}

int main(int argc, char **argv)
{
    fixture_dir = argc > 1 ? argv[1] : ".";
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_no_such_name), cmocka_unit_test(test_loaded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
