/* SPDX-License-Identifier: Apache-2.0
 * Instructions into classes; translations into segments, executed whole, left at faults, and begun again. */
#include "fake_qemu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct {
    const char *bytes, *name;
    size_t len;
    uint8_t nop, jump, branch, load, store, alu, muldiv, real, system;
    bool is_modify, may_leave;
} table[] = {
    {"\x48\x01\xd8", "add rax,rbx", 3, .alu = 1},
    {"\x48\x03\x03", "add rax,[rbx]", 3, .load = 1, .alu = 1, .may_leave = true},
    {"\x48\x01\x03", "add [rbx],rax", 3, .load = 1, .store = 1, .alu = 1, .is_modify = true, .may_leave = true},
    {"\x48\x8b\x03", "mov rax,[rbx]", 3, .load = 1, .may_leave = true},
    {"\x48\x89\x03", "mov [rbx],rax", 3, .store = 1, .may_leave = true},
    {"\x48\x89\xd8", "mov rax,rbx", 3, .alu = 1},
    {"\x0f\xb6\x03", "movzx eax,[rbx]", 3, .load = 1, .may_leave = true},
    {"\x50", "push rax", 1, .store = 1, .may_leave = true},
    {"\x58", "pop rax", 1, .load = 1, .may_leave = true},
    {"\xff\x33", "push [rbx]", 2, .load = 1, .store = 1, .may_leave = true},
    {"\xc3", "ret", 1, .jump = 1, .load = 1, .may_leave = true},
    {"\xe8\0\0\0\0", "call", 5, .jump = 1, .store = 1, .may_leave = true},
    {"\xeb\x00", "jmp", 2, .jump = 1},
    {"\x75\x00", "jne", 2, .branch = 1},
    {"\x90", "nop", 1, .nop = 1},
    {"\x0f\x1f\x40\x00", "nop [rax]", 4, .nop = 1},
    {"\xf3\x0f\x1e\xfa", "endbr64", 4, .nop = 1},
    {"\x48\x0f\xaf\xc3", "imul rax,rbx", 4, .muldiv = 1},
    {"\x48\xf7\xf3", "div rbx", 3, .muldiv = 1, .may_leave = true},
    {"\xf2\x0f\x58\xc1", "addsd xmm0,xmm1", 4, .real = 1},
    {"\xf2\x0f\x10\x03", "movsd xmm0,[rbx]", 4, .load = 1, .may_leave = true},
    {"\x66\x0f\xfe\xc1", "paddd xmm0,xmm1", 4, .alu = 1},
    {"\xd8\xc1", "fadd st1", 2, .real = 1},
    {"\xa5", "movsd (string)", 1, .load = 1, .store = 1, .may_leave = true},
    {"\xf3\x48\xab", "rep stosq", 3, .store = 1, .may_leave = true},
    {"\x0f\x05", "syscall", 2, .system = 1, .may_leave = true},
    {"\xf4", "hlt", 1, .system = 1, .may_leave = true},
    {"\x0f\x22\xd8", "mov cr3,rax", 3, .system = 1, .may_leave = true},
    {"\x48\x87\x03", "xchg [rbx],rax", 3, .load = 1, .store = 1, .alu = 1, .is_modify = true, .may_leave = true},
};

static void classes(void **state)
{
    (void)state;
    for (size_t n = 0; n < ARRAY_LEN(table); n++) {
        struct mix_insn i;
        mix_describe((const uint8_t *)table[n].bytes, table[n].len, 0x1000, &i);
        const uint8_t wanted[] = {table[n].nop, table[n].jump,   table[n].branch, table[n].load,   table[n].store,
                                  table[n].alu, table[n].muldiv, table[n].real,   table[n].system, 0};
        unsigned sum = 0;
        for (unsigned k = 0; k < WIRE_MIX_COUNT; k++) {
            if (i.mix[k] != wanted[k])
                fail_msg("%s: class %u is %u, wanted %u", table[n].name, k, i.mix[k], wanted[k]);
            sum += i.mix[k];
        }
        assert_int_equal(i.operations, sum);
        if (i.may_leave != table[n].may_leave || i.is_modify != table[n].is_modify)
            fail_msg("%s: may leave %d, modifies %d", table[n].name, i.may_leave, i.is_modify);
    }
}

static void markers(void **state)
{
    (void)state;
    struct mix_insn i;
    mix_describe((const uint8_t *)"\x0f\x1f\x84\x00\x02\x00\x4e\x4d", 8, 0, &i);
    assert_int_equal(i.special, MIX_MARKER);
    assert_int_equal(i.mark, WIRE_MARK_END);
    assert_false(i.is_counted);
    mix_describe((const uint8_t *)"\x0f\x1f\x84\x00\x10\x00\x4e\x4d", 8, 0, &i);
    assert_int_equal(i.mark, WIRE_MARK_USER);
    assert_true(i.is_counted);
    mix_describe((const uint8_t *)"\x0f\x1f\x84\x00\x00\x00\x00\x00", 8, 0, &i);
    assert_int_equal(i.special, MIX_PLAIN);
}

/* add; mov from memory; add; mov to memory; jmp: three segments. */
static struct qemu_plugin_tb *translated(uint64_t vaddr)
{
    struct qemu_plugin_tb *tb = xmalloc(sizeof *tb);
    fake_append(tb, vaddr, "\x48\x01\xd8", 3);
    fake_append(tb, vaddr, "\x48\x8b\x03", 3);
    fake_append(tb, vaddr, "\x48\x01\xd8", 3);
    fake_append(tb, vaddr, "\x48\x89\x03", 3);
    fake_append(tb, vaddr, "\xeb\x00", 2);
    segments_translate(tb);
    return tb;
}

static void faults(void **state)
{
    (void)state;
    struct qemu_plugin_tb *tb = translated(0x1000);
    fake_execute(tb, 5);
    fake_execute(tb, 2); /* the load faults, */
    segments_restart(0x1003);
    assert_int_equal(totals[0].instructions - totals[0].restarts, 5 + 1);
    fake_execute(tb, 4); /* is done again from its translation's begin, and the store faults */
    segments_restart(0x1009);
    segments_restart(0x5555); /* of no segment */
    uint64_t function;
    const struct row *r = places_row(0x1000, fake_ram, &function);
    segments_sum();
    assert_int_equal(r->of[WIRE_INSTRUCTIONS], 5 + 1 + 3);
    assert_int_equal(r->of[WIRE_RESTARTS], 2);
    assert_int_equal(r->of[WIRE_LOADS], 2);
    assert_int_equal(r->of[WIRE_STORES], 1);
    assert_int_equal(r->of[WIRE_ALU], 5);
    assert_int_equal(r->of[WIRE_JUMPS], 1);
    assert_int_equal(totals[0].instructions - totals[0].restarts, r->of[WIRE_INSTRUCTIONS]);
    free(tb);
}

/* Two bytes of an instruction at the end of a page, which QEMU takes back. */
static void page_ends(void **state)
{
    (void)state;
    uint64_t before = totals[1].instructions;
    struct qemu_plugin_tb *tb = xmalloc(sizeof *tb);
    fake_append(tb, 0xffffffff81000ff9ull, "\x48\x01\xd8", 3);
    fake_append(tb, 0, "\x48\x01\xd8", 3);
    fake_append(tb, 0, "\x48", 1);
    segments_translate(tb);
    fake_execute(tb, 2);
    assert_int_equal(totals[1].instructions - before, 2);
    free(tb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes),
        cmocka_unit_test(markers),
        cmocka_unit_test(faults),
        cmocka_unit_test(page_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
