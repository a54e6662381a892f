/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions outside of the unwind table (fixtures/gaps.s): those that are certain, those that a run proved, and data
 * that must never be taken for one. */
#include "help.h"

static const char *const data[] = {"table_before",     "table_read",   "table_through", "held_mid",
                                   "held_no_function", "makes_thread", "meets_data",    "held_cold"};

static void open_seen(struct fixture *fx, const char *const *names, int64_t off)
{
    uint64_t seen[8];
    size_t n = 0;
    fixture_open(fx, "gaps.so");
    for (; names[n]; n++)
        seen[n] = label(fx, names[n]) + (uint64_t)off;
    cfg_free(fx->c);
    assert_int_equal(cfg_build_sampled(fx->img, seen, n, &fx->c), 0);
    cfg_check(fx->c);
}

static bool is_found(const struct fixture *fx, const char *name)
{
    return cfg_func_at(fx->c, label(fx, name)) != ID_NONE;
}

static void test_certain(void **state)
{
    (void)state;
    struct fixture fx;
    fixture_open(&fx, "gaps.so");
    static const char *const found[] = {"called", "called_by_called", "two_entries"};
    for (size_t k = 0; k < ARRAY_LEN(found); k++) {
        assert_int_equal(func(&fx, found[k])->reason, CFG_REASON_OK);
        assert_true(cfg_is_gap_func(func(&fx, found[k])));
    }
    assert_false(is_found(&fx, "held_runs"));
    assert_false(is_found(&fx, "held_calls"));
    for (size_t k = 0; k < ARRAY_LEN(data); k++)
        assert_false(is_found(&fx, data[k]));
    assert_int_equal(func(&fx, "pops_return")->reason, CFG_REASON_RETURN);
    assert_int_equal(func(&fx, "tiny")->reason, CFG_REASON_TOO_SMALL);
    fixture_close(&fx);
}

/* Control may come from one entry to the next: one function. */
static void test_two_entries(void **state)
{
    (void)state;
    struct fixture fx;
    fixture_open(&fx, "gaps.so");
    uint32_t first = cfg_func_at(fx.c, label(&fx, "two_entries")), block = block_at_label(&fx, "second_entry");
    assert_int_equal(cfg_func_at(fx.c, label(&fx, "second_entry")), first);
    assert_true(fx.c->blocks.data[block].flags & CFG_BLOCK_CALLED);
    fixture_close(&fx);
}

static void test_seen(void **state)
{
    (void)state;
    struct fixture fx;
    static const char *const names[] = {"runs_here", "after_table_runs", "no_function_runs", "skips_here", NULL};
    fixture_open(&fx, "gaps.so");
    uint32_t unproven = fx.c->unproven;
    fixture_close(&fx);
    open_seen(&fx, names, 0);
    assert_in_range(fx.c->unproven, 1, unproven - 3); /* at least the three functions below are proven */
    assert_int_equal(func(&fx, "held_runs")->reason, CFG_REASON_OK);
    assert_int_equal(func(&fx, "held_runs")->size, 9);
    assert_int_equal(func(&fx, "held_calls")->reason, CFG_REASON_OK);
    assert_int_equal(func(&fx, "held_skips")->reason, CFG_REASON_OK);
    for (size_t k = 0; k < ARRAY_LEN(data); k++)
        assert_false(is_found(&fx, data[k]));
    fixture_close(&fx);
}

/* Addresses inside of instructions, and in data, prove nothing. */
static void test_wrongly_seen(void **state)
{
    (void)state;
    struct fixture fx;
    static const char *const names[] = {"held_mid_insn", "table_read", "table_through", "held_runs", NULL};
    open_seen(&fx, names, 1);
    for (size_t k = 0; k < ARRAY_LEN(data); k++)
        assert_false(is_found(&fx, data[k]));
    assert_false(is_found(&fx, "held_runs"));
    fixture_close(&fx);
    static const char *const tables[] = {"table_read", "table_through", NULL};
    open_seen(&fx, tables, 0);
    assert_false(is_found(&fx, "table_read"));
    assert_false(is_found(&fx, "table_through"));
    fixture_close(&fx);
}

/* Assembly may hand flags to anybody. */
static void test_flags(void **state)
{
    (void)state;
    struct fixture fx;
    struct cfg_liveness l = {0};
    struct cfg_live live[3];
    fixture_open(&fx, "gaps.so");
    const struct cfg_func *f = func(&fx, "called_by_called");
    cfg_liveness_build(fx.c, (uint32_t)(f - fx.c->funcs.data), &l);
    assert_true(fx.c->blocks.data[f->block_first].insn_count >= 3);
    cfg_live_inside(&l, f->block_first, live, 3);
    assert_int_equal(live[2].flags, X86_ALL_FLAGS);
    assert_int_equal(live[1].flags, X86_ALL_FLAGS & ~X86_CF);
    cfg_liveness_fini(&l);
    fixture_close(&fx);
}

/* Code that the program copies: its place is known by symbols, or else all that is not described is left alone. */
static void test_copied(void **state)
{
    (void)state;
    struct fixture fx;
    fixture_open(&fx, "copied.so");
    assert_int_equal(func(&fx, "described")->reason, CFG_REASON_OK);
    assert_int_equal(func(&fx, "undescribed")->reason, CFG_REASON_OK);
    assert_int_equal(func(&fx, "first")->reason, CFG_REASON_OWN_CODE);
    assert_int_equal(func(&fx, "second")->reason, CFG_REASON_OWN_CODE);
    assert_int_equal(func(&fx, "behind")->reason, CFG_REASON_OK);
    fixture_close(&fx);
    fixture_open(&fx, "copied-nameless.so");
    assert_int_equal(func(&fx, "described")->reason, CFG_REASON_OK);
    assert_int_equal(func(&fx, "undescribed")->reason, CFG_REASON_OWN_CODE);
    assert_int_equal(func(&fx, "first")->reason, CFG_REASON_OWN_CODE);
    assert_int_equal(func(&fx, "behind")->reason, CFG_REASON_OWN_CODE);
    fixture_close(&fx);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        fixture_dir = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certain),      cmocka_unit_test(test_two_entries), cmocka_unit_test(test_seen),
        cmocka_unit_test(test_wrongly_seen), cmocka_unit_test(test_flags),       cmocka_unit_test(test_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
