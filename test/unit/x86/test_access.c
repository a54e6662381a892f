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

enum { NONE, ELEMENTS, MASKED, STATE, FIXED, BIT, TABLE };
enum { PACKED = 1, WHOLE = 2 };
#define V(n) (X86_REG_VEC0 + (n))
#define K(n) (X86_REG_MASK0 + (n))

static void reaches(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        unsigned kind, mask, index, index_bytes, element_bytes, count, how;
    } all[] = {
        {X("\xc4\xe2\xe9\x92\x04\xc8"), ELEMENTS, V(2), 1, 4, 8, 2, 0},      /* vgatherdpd xmm0,[rax+xmm1*8],xmm2 */
        {X("\xc4\x22\x2d\x93\x44\x8b\xf0"), ELEMENTS, V(10), 9, 8, 4, 4, 0}, /* vgatherqps xmm8,[rbx+ymm9*4-16],xmm10 */
        {X("\x62\xf2\x7d\x42\x91\x1c\xa6"), ELEMENTS, K(2), 20, 8, 4, 8, 0}, /* vpgatherqd ymm3{k2},[rsi+zmm20*4] */
        {X("\x62\xe2\xfd\x41\xa0\x04\xcf"), ELEMENTS, K(1), 17, 4, 8, 8, 0}, /* vpscatterdq [rdi+ymm17*8]{k1},zmm16 */
        {X("\xc4\xe2\x35\x2d\x09"), MASKED, V(9), 0, 0, 8, 4, 0},            /* vmaskmovpd ymm1,ymm9,[rcx] */
        {X("\xc4\xe2\x61\x8e\x61\x08"), MASKED, V(3), 0, 0, 4, 4, 0},        /* vpmaskmovd [rcx+8],xmm3,xmm4 */
        {X("\x66\x41\x0f\xf7\xcc"), MASKED, V(12), 0, 0, 1, 16, 0},          /* maskmovdqu xmm1,xmm12 */
        {X("\x0f\xf7\xca"), MASKED, V(2), 0, 0, 1, 8, 0},                    /* maskmovq mm1,mm2 */
        {X("\x62\xf1\x7f\x4b\x6f\x0a"), MASKED, K(3), 0, 0, 1, 64, 0},       /* vmovdqu8 zmm1{k3},[rdx] */
        {X("\x62\xf3\x75\x21\x3e\x16\x06"), MASKED, K(1), 0, 0, 1, 32, 0},   /* vpcmpub k2{k1},ymm17,[rsi],6 */
        {X("\x62\xf2\xfd\x4d\x8b\x17"), MASKED, K(5), 0, 0, 8, 8, PACKED},   /* vpcompressq [rdi]{k5},zmm2 */
        {X("\x62\xf1\x6c\x59\x58\x08"), MASKED, K(1), 0, 0, 4, 16, WHOLE},   /* vaddps zmm1{k1},zmm2,[rax]{1to16} */
        {X("\x62\xf1\x7c\x49\x5a\x08"), MASKED, K(1), 0, 0, 4, 8, 0},        /* vcvtps2pd zmm1{k1},[rax] */
        {X("\x62\xf1\x7e\x09\x10\x08"), MASKED, K(1), 0, 0, 4, 1, 0},        /* vmovss xmm1{k1},[rax] */
        {X("\x62\xf2\x7d\x49\x5a\x08"), MASKED, K(1), 0, 0, 4, 16, WHOLE},   /* vbroadcasti32x4 zmm1{k1},[rax] */
        {X("\x62\xf2\x6d\x49\x36\x08"), NONE, X86_REG_NONE, 0, 0, 0, 0, 0},  /* vpermd zmm1{k1},zmm2,[rax]: all of it */
        {X("\x62\xf2\x7e\x49\x32\x18"), MASKED, K(1), 0, 0, 1, 8, 0},        /* vpmovqb [rax]{k1},zmm3 */
        {X("\x62\xf1\x7e\x48\x6f\x08"), NONE, X86_REG_NONE, 0, 0, 0, 0, 0},  /* vmovdqu32 zmm1,[rax] */
        {X("\x0f\xc7\x21"), STATE, X86_REG_NONE, 0, 0, 0, 0, 0},             /* xsavec [rcx] */
        {X("\x48\x0f\xae\x01"), FIXED, X86_REG_NONE, 0, 0, 0, 0, 0},         /* fxsave64 [rcx] */
        {X("\x48\x0f\xab\x08"), BIT, X86_REG_NONE, 1, 0, 8, 0, 0},           /* bts [rax],rcx */
        {X("\x66\x0f\xa3\x10"), BIT, X86_REG_NONE, 2, 0, 2, 0, 0},           /* bt word [rax],dx */
        {X("\x0f\xba\x20\x05"), NONE, X86_REG_NONE, 0, 0, 0, 0, 0},          /* bt [rax],5 */
        {X("\xd7"), TABLE, X86_REG_NONE, 0, 0, 1, 0, 0},                     /* xlatb */
        {X("\x67\x8b\x47\x04"), FIXED, X86_REG_NONE, 0, 0, 0, 0, 0},         /* mov eax,[edi+4] */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct x86_detail d;
        assert_int_equal(x86_decode_detail((const uint8_t *)all[i].text, all[i].len, 0x400000, &d), all[i].len);
        const struct x86_reach *r = &d.reach;
        unsigned index = r->index == X86_REG_NONE ? 0 : r->kind == BIT ? r->index : r->index - X86_REG_VEC0;
        unsigned how = (r->is_packed ? PACKED : 0u) | (r->is_whole ? WHOLE : 0u);
        if (r->kind != all[i].kind || r->mask != all[i].mask || index != all[i].index ||
            r->index_bytes != all[i].index_bytes || r->element_bytes != all[i].element_bytes ||
            r->count != all[i].count || how != all[i].how)
            fail_msg("case %zu: kind %d, mask %d, index %d of %d, %d elements of %d, how %d", i, r->kind, r->mask,
                     index, r->index_bytes, r->count, r->element_bytes, how);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accesses),
        cmocka_unit_test(reaches),
        cmocka_unit_test(jumps),
        cmocka_unit_test(comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
