/* SPDX-License-Identifier: Apache-2.0
 * Calls of all kinds between functions that are a page each, what comes between a call and its callee, and what is
 * none. */
#include "fake_qemu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define KERNEL 0xffffffff80000000ull
#define CALL_RAX "\xff\xd0"
#define JUMP_RAX "\xff\xe0"

static struct qemu_plugin_tb *translated(uint64_t vaddr, const char *bytes, size_t len)
{
    struct qemu_plugin_tb *tb = xmalloc(sizeof *tb);
    fake_append(tb, vaddr, "\x90", 1);
    fake_append(tb, vaddr, bytes, len);
    segments_translate(tb);
    return tb;
}

/* A call or a jump of five bytes behind a nop. */
static struct qemu_plugin_tb *direct(uint64_t vaddr, uint8_t opcode, uint64_t target)
{
    char bytes[5] = {(char)opcode};
    int32_t distance = (int32_t)(target - (vaddr + 1 + sizeof bytes));
    memcpy(bytes + 1, &distance, sizeof distance);
    return translated(vaddr, bytes, sizeof bytes);
}

static void run(const struct qemu_plugin_tb *tb) { fake_execute(tb, tb->count); }

/* An interrupt's entry, which pushes -1 below the address where what it interrupted goes on. */
static void interrupt(struct qemu_plugin_tb *entry, uint64_t goes_on)
{
    const uint64_t stack[] = {UINT64_MAX, goes_on, 0};
    memcpy(&fake_ram[0x8000], stack, sizeof stack);
    run(entry);
    fake_access(&entry->insns[1], KERNEL + 0x8000, 3, true);
}

static void calls(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    settings.calls = fake_has_functions = true;
    struct qemu_plugin_tb *entry = translated(KERNEL + (FAKE_ENTRY_PAGE << 12), "\x6a\xff", 2);
    struct qemu_plugin_tb *to_4 = translated(0x3000, CALL_RAX, 2), *four = translated(0x4000, "\xc3", 1);
    struct qemu_plugin_tb *five = translated(0x5000, "\xc3", 1);

    struct qemu_plugin_tb *one = direct(0x1000, 0xe8, 0x2000); /* 1 to 2: three times, one of which faults */
    run(one), run(one), run(one);
    segments_restart(0x1001);
    run(to_4), run(four), run(to_4), run(four);                /* 3 to 4: at once, */
    run(to_4), interrupt(entry, 0x4000), run(five), run(four); /* with an interrupt and another process in between, */
    run(to_4), interrupt(entry, 0x3001), run(five), run(to_4), run(four); /* and with a fault of the call itself */
    run(translated(0x6000, JUMP_RAX, 2)), run(translated(0x6010, "\xc3", 1)), run(four); /* a jump within 6: none */
    run(translated(0x6020, JUMP_RAX, 2)), interrupt(entry, 0x6010), run(four);           /* that is interrupted: none */
    run(translated(0x6030, JUMP_RAX, 2)), run(five);                                     /* 6 to 5: out of it */
    run(direct(0x7000, 0xe9, 0x4000));                                                   /* 7 to 4: a call at the end */
    run(direct(0x7010, 0xe9, 0x4010)), run(direct(0x7020, 0xe9, 0x7000)); /* into another's middle, to its own begin */
    run(direct(0x8000, 0xe8, 0x8000)), run(direct(0x8010, 0xe8, 0x8016)); /* 8 to itself; to what comes next, no call */
    run(direct(KERNEL + 0x1000, 0xe8, KERNEL + 0x2000));                  /* the kernel's: 33 to 34 */
    plugin_is_counting = false;
    run(to_4), run(four);
    plugin_is_counting = true;

    segments_sum();
    FILE *f = open_memstream(&text, &len);
    calls_write(f);
    fclose(f);
    assert_string_equal(text, "calls 6\ncall 1 2 2\ncall 3 4 4\ncall 6 5 1\ncall 7 4 1\ncall 8 8 1\ncall 33 34 1\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls)};
    return cmocka_run_group_tests_name("plugin-calls", tests, NULL, NULL);
}
