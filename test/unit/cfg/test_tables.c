/* SPDX-License-Identifier: Apache-2.0
 *
 * Jump tables of gcc and clang in every shape (fixtures/tables.c): each marked case must be reached, and only through
 * the table; the entries must be those of the source. */
#include "help.h"

#include <stdlib.h>

static const struct {
    const char *func;
    unsigned first, count; /* marks */
} cases[] = {
    {"dense", 0x100, 12},      {"in_loop", 0x200, 8},           {"two_in_loop", 0x300, 6},
    {"two_in_loop", 0x380, 8}, {"from_middle", 0x425, 7},       {"with_dying_case", 0x500, 3},
    {"labels", 0x600, 6},      {"label_differences", 0x700, 4}, {"hoisted", 0x800, 7},
};

static void walk(const struct cfg *c, uint32_t block, bool by_tables, uint8_t *seen)
{
    const struct cfg_block *b = &c->blocks.data[block];
    if (seen[block])
        return;
    seen[block] = 1;
    cfg_for_each_edge(b, e) {
        const struct cfg_edge *x = &c->edges.data[e];
        if (x->to != ID_NONE && (by_tables || x->kind != CFG_EDGE_TABLE))
            walk(c, x->to, by_tables, seen);
    }
}

static void check_function(const struct fixture *fx, const char *name)
{
    const struct cfg_func *f = func(fx, name);
    unsigned jumps = 0;
    assert_int_equal(f->reason, CFG_REASON_OK);
    assert_int_equal(f->unresolved, 0);
    cfg_for_each_block(f, k) {
        const struct cfg_block *b = &fx->c->blocks.data[k];
        if (b->term != X86_JMP_IND || (b->edge_count == 1 && fx->c->edges.data[b->edge_first].kind == CFG_EDGE_OUT &&
                                       strcmp(name, "hoisted") == 0)) /* there the call may be a tail call */
            continue;
        jumps++;
        cfg_for_each_edge(b, e)
            assert_int_equal(fx->c->edges.data[e].kind, CFG_EDGE_TABLE);
    }
    assert_true(jumps > 0);
}

static void check_fixture(const char *file)
{
    struct fixture fx;
    fixture_open(&fx, file);
    uint8_t *with = xmalloc(fx.c->blocks.len + 1), *without = xmalloc(fx.c->blocks.len + 1);
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        const struct cfg_func *f = func(&fx, cases[k].func);
        check_function(&fx, cases[k].func);
        memset(with, 0, fx.c->blocks.len);
        memset(without, 0, fx.c->blocks.len);
        walk(fx.c, f->block_first, true, with);
        walk(fx.c, f->block_first, false, without);
        unsigned by_table_only = 0;
        for (unsigned m = 0; m < cases[k].count; m++) {
            uint32_t insn = find_mark(&fx, cases[k].first + m, 0);
            if (insn == ID_NONE || !with[block_of_insn(&fx, insn)])
                print_error("%s %s: mark %#x not reached\n", file, cases[k].func, cases[k].first + m);
            assert_int_not_equal(insn, ID_NONE);
            assert_true(with[block_of_insn(&fx, insn)]);
            bool unrolled = find_mark(&fx, cases[k].first + m, 1) != ID_NONE;
            by_table_only += unrolled || !without[block_of_insn(&fx, insn)];
        }
        assert_true(by_table_only + 1 >= cases[k].count); /* one case may be where the code falls into */
    }
    free(with);
    free(without);
    fixture_close(&fx);
}

#define TEST(id, file)                                                                                                 \
    static void test_##id(void **state)                                                                                \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check_fixture(file);                                                                                           \
    }
TEST(gcc_pic, "tables-gcc-pic.so")
TEST(gcc_o3, "tables-gcc-o3.so")
TEST(gcc_o0, "tables-gcc-o0.so")
TEST(gcc_exec, "tables-gcc-exec")
TEST(gcc_pie, "tables-gcc-pie")
TEST(clang_pic, "tables-clang-pic.so")
TEST(clang_exec, "tables-clang-exec")
TEST(clang_o3, "tables-clang-o3")

static const struct cfg_table *table_of(const struct fixture *fx, const char *name)
{
    const struct cfg_func *f = func(fx, name);
    for (size_t k = 0; k < fx->c->tables.len; k++)
        if (fx->c->tables.data[k].block - f->block_first < f->block_count)
            return &fx->c->tables.data[k];
    fail();
    return NULL;
}

static void test_kinds(void **state)
{
    (void)state;
    struct fixture fx;
    fixture_open(&fx, "tables-gcc-exec");
    assert_int_equal(table_of(&fx, "dense")->kind, CFG_TABLE_ABS64);
    assert_int_equal(table_of(&fx, "dense")->entries, 12);
    assert_int_equal(table_of(&fx, "dense")->by_reloc, 0);
    assert_true(table_of(&fx, "labels")->entries >= 6);
    /* labels that only understood tables hold are no way in from outside */
    assert_int_equal(fx.c->blocks.data[block_of_insn(&fx, find_mark(&fx, 0x602, 0))].flags & CFG_BLOCK_ADDR_TAKEN, 0);
    fixture_close(&fx);
    fixture_open(&fx, "tables-gcc-pic.so");
    assert_int_equal(table_of(&fx, "dense")->kind, CFG_TABLE_PIC32);
    assert_int_equal(table_of(&fx, "dense")->base, table_of(&fx, "dense")->addr);
    assert_int_equal(table_of(&fx, "labels")->kind, CFG_TABLE_ABS64);
    assert_int_equal(table_of(&fx, "labels")->by_reloc, 1);
    const struct cfg_table *t = table_of(&fx, "label_differences");
    assert_int_equal(t->kind, CFG_TABLE_PIC32);
    assert_int_equal(cfg_func_at(fx.c, t->base), cfg_func_at(fx.c, label(&fx, "label_differences")));
    fixture_close(&fx);
}

int main(int argc, char **argv)
{
    fixture_dir = argc > 1 ? argv[1] : fixture_dir;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gcc_pic),    cmocka_unit_test(test_gcc_o3),   cmocka_unit_test(test_gcc_o0),
        cmocka_unit_test(test_gcc_exec),   cmocka_unit_test(test_gcc_pie),  cmocka_unit_test(test_clang_pic),
        cmocka_unit_test(test_clang_exec), cmocka_unit_test(test_clang_o3), cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests_name("cfg tables", tests, NULL, NULL);
}
