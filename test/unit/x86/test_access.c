/* SPDX-License-Identifier: Apache-2.0
 * Where instructions reach memory, and what conditional jumps decide upon. */
#include "x86/x86.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h> /* needs the three above it */

static const uint64_t regs[16] = {0x100, 0x200, 0x300, 0x400, 0x5000, 0x6000, 0x7000, 0x8000,
                                  0x900, 0xa00, 0xb00, 0xc00, 0xd00,  0xe00,  0xf00,  0x1000};

struct reach {
    const char *text;
    size_t len;
    int count;
    struct {
        uint64_t at;
        uint16_t bytes;
        bool loads, stores;
    } to[2];
};
#define X(text) text, sizeof(text) - 1

static void accesses(void **state)
{
    (void)state;
    static const struct reach all[] = {
        {X("\x48\x8b\x44\xcb\x10"), 1, {{0x400 + 8 * 0x200 + 16, 8, true, false}}},      /* mov rax,[rbx+rcx*8+16] */
        {X("\x89\x05\x10\x00\x00\x00"), 1, {{0x400000 + 6 + 16, 4, false, true}}},       /* mov [rip+16],eax */
        {X("\x48\x01\x06"), 1, {{0x7000, 8, true, true}}},                               /* add [rsi],rax */
        {X("\x50"), 1, {{0x5000 - 8, 8, false, true}}},                                  /* push rax */
        {X("\x58"), 1, {{0x5000, 8, true, false}}},                                      /* pop rax */
        {X("\xe8\0\0\0\0"), 1, {{0x5000 - 8, 8, false, true}}},                          /* call */
        {X("\xff\x50\x08"), 2, {{0x108, 8, true, false}, {0x5000 - 8, 8, false, true}}}, /* call [rax+8] */
        {X("\xff\x36"), 2, {{0x7000, 8, true, false}, {0x5000 - 8, 8, false, true}}},    /* push [rsi] */
        {X("\xc3"), 1, {{0x5000, 8, true, false}}},                                      /* ret */
        {X("\xc9"), 1, {{0x6000, 8, true, false}}},                                      /* leave */
        {X("\xf3\x48\xa5"), 2, {{0x8000, 8, false, true}, {0x7000, 8, true, false}}},    /* rep movsq */
        {X("\xf3\xaa"), 1, {{0x8000, 1, false, true}}},                                  /* rep stosb */
        {X("\xa6"), 2, {{0x7000, 1, true, false}, {0x8000, 1, true, false}}},            /* cmpsb */
        {X("\x64\x48\x8b\x04\x25\x28\0\0\0"), 1, {{0xf5000 + 0x28, 8, true, false}}},    /* mov rax,fs:0x28 */
        {X("\xc5\xfe\x7f\x07"), 1, {{0x8000, 32, false, true}}},                         /* vmovdqu [rdi],ymm0 */
        {X("\x48\x8d\x04\x08"), 0, {{0, 0, false, false}}},                              /* lea rax,[rax+rcx] */
        {X("\x0f\x1f\x44\x00\x00"), 0, {{0, 0, false, false}}},                          /* nop [rax+rax] */
        {X("\xf0\x48\x0f\xb1\x0e"), 1, {{0x7000, 8, true, true}}},                       /* lock cmpxchg [rsi],rcx */
        {X("\x0f\xae\x21"), -1, {{0, 0, false, false}}},                                 /* xsave [rcx] */
        {X("\xc4\xe2\xe9\x92\x04\xc8"), -1, {{0, 0, false, false}}},                     /* vgatherdpd */
        {X("\xc8\x10\0\0"), -1, {{0, 0, false, false}}},                                 /* enter */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct x86_detail d;
        assert_int_equal(x86_decode_detail((const uint8_t *)all[i].text, all[i].len, 0x400000, &d), all[i].len);
        const struct x86_access *a = d.access;
        int n = d.access_count;
        if (n != all[i].count)
            fail_msg("case %zu: %d accesses", i, n);
        for (int k = 0; k < n; k++) {
            uint64_t at = x86_access_address(&a[k], regs, 0xf5000, 0);
            if (at != all[i].to[k].at || a[k].bytes != all[i].to[k].bytes || a[k].is_load != all[i].to[k].loads ||
                a[k].is_store != all[i].to[k].stores)
                fail_msg("case %zu, access %d: %#llx %u %d %d", i, k, (unsigned long long)at, a[k].bytes, a[k].is_load,
                         a[k].is_store);
        }
    }
}

/* Against the processor itself. */
static void jumps(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {
        0, 1, 2, 127, 128, 255, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / 8; i++)
        for (size_t k = 0; k < sizeof numbers / 8; k++) {
            uint64_t a = numbers[i], b = numbers[k];
            uint8_t is[16];
#define COND(n, set) __asm__("cmp %2, %1\n\t" set " %0" : "=r"(is[n]) : "r"((uint32_t)a), "r"((uint32_t)b) : "cc")
            COND(0, "seto");
            COND(2, "setb");
            COND(4, "sete");
            COND(6, "setbe");
            COND(8, "sets");
            COND(10, "setp");
            COND(12, "setl");
            COND(14, "setle");
#undef COND
            for (unsigned c = 0; c < 16; c += 2) {
                assert_int_equal(x86_would_jump(c, a, b, 32), is[c]);
                assert_int_equal(x86_would_jump(c + 1, a, b, 32), !is[c]);
            }
            assert_int_equal(x86_would_jump(12, a, b, 64), (int64_t)a < (int64_t)b);
            assert_int_equal(x86_would_jump(7, a, b, 64), a > b);
            assert_int_equal(x86_would_jump(12, a, b, 8), (int8_t)a < (int8_t)b);
        }
}

static bool has_compare(const char *bytes, size_t len, struct x86_compare *c)
{
    struct x86_detail d;
    assert_int_equal(x86_decode_detail((const uint8_t *)bytes, len, 0, &d), len);
    *c = d.compare;
    return c->op != X86_OP_OTHER;
}

static void comparisons(void **state)
{
    (void)state;
    struct x86_compare c = {0};
    assert_true(has_compare("\x48\x39\xd6", 3, &c)); /* cmp rsi,rdx */
    assert_true(c.op == X86_OP_CMP && c.bits == 64 && c.term[0].reg == 6 && c.term[1].reg == 2);
    assert_true(has_compare("\x83\xf8\xff", 3, &c)); /* cmp eax,-1 */
    assert_true(c.bits == 32 && c.term[1].kind == X86_TERM_NUMBER && c.term[1].number == UINT64_MAX);
    assert_true(has_compare("\xff\xc9", 2, &c)); /* dec ecx */
    assert_true(c.op == X86_OP_SUB && c.term[0].reg == 1 && c.term[1].number == 1);
    assert_true(has_compare("\x3b\x06", 2, &c)); /* cmp eax,[rsi] */
    assert_true(c.term[1].kind == X86_TERM_MEMORY);
    assert_false(has_compare("\x85\xc0", 2, &c));     /* test eax,eax */
    assert_false(has_compare("\x80\xfc\x01", 3, &c)); /* cmp ah,1 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accesses),
        cmocka_unit_test(jumps),
        cmocka_unit_test(comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
