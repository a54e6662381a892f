/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions written in assembly (fixtures/shapes.s): reasons, blocks, edges, targets and liveness to the instruction.
 */
#include "help.h"

static struct fixture fx;

static int setup(void **state)
{
    (void)state;
    fixture_open(&fx, "shapes.so");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_close(&fx);
    return 0;
}

static void test_reasons(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum cfg_reason reason;
        int unresolved;
    } cases[] = {
        {"skips_lock", CFG_REASON_OK, 0},
        {"jumps_inside", CFG_REASON_SPLIT_INSN, 0},
        {"runs_off", CFG_REASON_RUNS_OFF, 0},
        {"ends_in_call", CFG_REASON_OK, 0},
        {"forever", CFG_REASON_OK, 0},
        {"uses_gs", CFG_REASON_GS, 0},
        {"bad_bytes", CFG_REASON_UNDECODABLE, 0},
        {"trampoline", CFG_REASON_SIGNAL_FRAME, 0},
        {"tail", CFG_REASON_OK, 0},
        {"into_middle", CFG_REASON_OK, 0},
        {"computed", CFG_REASON_TABLE, 1},
        {"computed_tail", CFG_REASON_OK, 1},
        {"vtable_tail", CFG_REASON_OK, 0},
        {"padded", CFG_REASON_OK, 0},
        {"table_ssse3", CFG_REASON_TABLE, 1},
        {"table_spilled", CFG_REASON_OK, 0},
    };
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        const struct cfg_func *f = func(&fx, cases[k].name);
        if (f->reason != cases[k].reason || f->unresolved != cases[k].unresolved)
            print_error("%s: reason %u unresolved %u\n", cases[k].name, f->reason, f->unresolved);
        assert_int_equal(f->reason, cases[k].reason);
        assert_int_equal(f->unresolved, cases[k].unresolved);
        assert_int_equal(f->block_count > 0, f->reason == CFG_REASON_OK);
    }
}

static void test_lock_prefix(void **state)
{
    (void)state;
    const struct cfg_func *f = func(&fx, "skips_lock");
    struct x86_insn two[] = {cfg_insn(fx.c, f->insn_first + 1), cfg_insn(fx.c, f->insn_first + 2)}, *je = two,
                    *locked = two + 1;
    assert_true(locked->props & X86_PROP_LOCK);
    assert_int_equal(je->target, locked->addr);
    assert_int_equal(fx.c->split_targets.len, 1);
    assert_int_equal(fx.c->split_targets.data[0], locked->addr + 1);
    assert_true(has_edge(&fx, f->block_first, f->block_first + 1, CFG_EDGE_TAKEN));
}

static void test_noreturn(void **state)
{
    (void)state;
    const struct cfg_func *f = func(&fx, "ends_in_call");
    const struct cfg_block *b = &fx.c->blocks.data[f->block_first];
    assert_int_equal(f->block_count, 1);
    assert_int_equal(b->edge_count, 0);
    assert_true(b->flags & CFG_BLOCK_NORETURN);
    assert_int_equal(b->call_target, label(&fx, "forever"));
}

static void test_edges_between_functions(void **state)
{
    (void)state;
    uint32_t tail = block_at_label(&fx, "tail"), forever = block_at_label(&fx, "forever");
    assert_true(has_edge(&fx, tail, forever, CFG_EDGE_TAIL) && has_edge(&fx, tail, tail + 1, CFG_EDGE_FALL));
    assert_true(has_edge(&fx, tail + 1, forever, CFG_EDGE_TAIL));
    assert_true(has_edge(&fx, block_at_label(&fx, "into_middle"), block_at_label(&fx, "middle"), CFG_EDGE_TAKEN));
    assert_int_equal(fx.c->blocks.data[block_at_label(&fx, "middle")].flags & CFG_BLOCK_EXT_IN, 0);
    assert_true(has_edge(&fx, forever, forever, CFG_EDGE_TAKEN));
}

static void test_long_code(void **state)
{
    (void)state;
    static const uint32_t expected[] = {CFG_BLOCK_INSNS_MAX, CFG_BLOCK_INSNS_MAX, 103 - 2 * CFG_BLOCK_INSNS_MAX};
    const struct cfg_func *f = func(&fx, "straight_on");
    assert_int_equal(f->block_count, ARRAY_LEN(expected));
    for (uint32_t k = 0; k < f->block_count; k++) {
        const struct cfg_block *b = &fx.c->blocks.data[f->block_first + k];
        assert_int_equal(b->insn_count, expected[k]);
        assert_int_equal(b->term, k < 2 ? X86_PLAIN : X86_RET);
        assert_int_equal(b->flags & CFG_BLOCK_EXT_IN, k ? 0 : CFG_BLOCK_ENTRY);
        assert_true(k == 2 || has_edge(&fx, f->block_first + k, f->block_first + k + 1, CFG_EDGE_FALL));
    }
}

static void test_targets(void **state)
{
    (void)state;
    const struct cfg *c = fx.c;
    assert_int_equal(c->outside_targets.len, 1);
    assert_int_equal(c->outside_targets.data[0], label(&fx, "outside_label"));
    assert_true(c->blocks.data[block_at_label(&fx, "outside_label")].flags & CFG_BLOCK_ADDR_TAKEN);
    assert_true(c->blocks.data[block_at_label(&fx, "taken_label")].flags & CFG_BLOCK_ADDR_TAKEN);
    assert_true(c->blocks.data[block_at_label(&fx, "inner")].flags & CFG_BLOCK_CALLED);
    bool listed = false;
    for (size_t k = 0; k < c->mid_targets.len; k++)
        listed |= c->mid_targets.data[k] == label(&fx, "taken_label");
    assert_true(listed);
    const struct cfg_func *f = func(&fx, "splits_on_syscall");
    assert_int_equal(f->block_count, 1);
    assert_int_equal(c->blocks.data[f->block_first].term, X86_RET);
    assert_int_equal(c->blocks.data[f->block_first].mem_ops, 1);
}

static void test_spilled_base(void **state)
{
    (void)state;
    const struct cfg *c = fx.c;
    for (size_t k = 0; k < c->tables.len; k++) {
        const struct cfg_table *t = &c->tables.data[k];
        if (t->addr != label(&fx, "spilled_table"))
            continue;
        assert_int_equal(t->entries, 3);
        assert_int_equal(t->kind, CFG_TABLE_PIC32);
        assert_int_equal(t->base, t->addr);
        assert_int_equal(t->ref_count, 1);
        assert_int_equal(c->blocks.data[t->block].edge_count, 3);
        return;
    }
    fail();
}

static struct cfg_live live_at(const struct cfg_liveness *l, const char *label)
{
    enum { MAX = 40 };
    struct cfg_live all[MAX];
    uint32_t insn = insn_at_label(&fx, label), block = cfg_block_of(fx.c, insn),
             k = insn - fx.c->blocks.data[block].insn_first;
    assert_true(k < MAX);
    cfg_live_inside(l, block, all, MAX);
    if (k == 0)
        assert_int_equal(all[0].flags, cfg_live_before(l, block).flags);
    return all[k];
}

static void test_flags(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        uint8_t live;
    } cases[] = {
        {"live_cmp", 0},        {"live_mov", X86_CF},
        {"live_inc", X86_CF},   {"live_jcc", X86_CF},           /* jb, and adc if the shift leaves it */
        {"live_shift", X86_CF}, {"live_imm0", X86_CF | X86_ZF}, /* jc; and jz if the compare leaves it */
        {"live_rep", X86_ZF},   {"live_call", 0},
        {"live_branch", 0},     {"live_ret", 0},
    };
    struct cfg_liveness l = {0};
    cfg_liveness_build(fx.c, (uint32_t)(func(&fx, "flags") - fx.c->funcs.data), &l);
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        uint8_t live = live_at(&l, cases[k].label).flags;
        if (live != cases[k].live)
            print_error("%s: %#x\n", cases[k].label, live);
        assert_int_equal(live, cases[k].live);
    }
    cfg_liveness_fini(&l);
}

static void test_registers(void **state)
{
    (void)state;
    struct cfg_liveness l = {0};
    cfg_liveness_build(fx.c, (uint32_t)(func(&fx, "registers") - fx.c->funcs.data), &l);
    uint16_t at_a = live_at(&l, "dead_a").gpr_dead, at_b = live_at(&l, "dead_b").gpr_dead;
    uint16_t at_d = live_at(&l, "dead_d").gpr_dead, at_e = live_at(&l, "dead_e").gpr_dead;
    assert_true(at_a >> 8 & 1);   /* r8: written here and again before the end */
    assert_true(at_a >> 9 & 1);   /* r9: written on both paths first */
    assert_false(at_a >> 10 & 1); /* r10: read on one */
    assert_true(at_b >> 10 & 1);
    assert_false(at_d >> 11 & 1); /* r11: only its low half is written */
    assert_false(at_d >> 9 & 1);
    assert_true(at_d & 1);
    assert_int_equal(at_e, 1 << 6); /* rsi by its own xor; all others may be wanted by the caller */
    cfg_liveness_fini(&l);
}

int main(int argc, char **argv)
{
    fixture_dir = argc > 1 ? argv[1] : fixture_dir;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),   cmocka_unit_test(test_lock_prefix),
        cmocka_unit_test(test_noreturn),  cmocka_unit_test(test_edges_between_functions),
        cmocka_unit_test(test_targets),   cmocka_unit_test(test_spilled_base),
        cmocka_unit_test(test_flags),     cmocka_unit_test(test_registers),
        cmocka_unit_test(test_long_code),
    };
    return cmocka_run_group_tests_name("cfg shapes", tests, setup, teardown);
}
