/* SPDX-License-Identifier: Apache-2.0
 *
 * in_register.c: the processor executes instructions with their operand in memory, and the same ones with a register in
 * its place; all registers, flags, and what is in memory or in the register then must be equal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs those above it */

#include <string.h>
#include <sys/mman.h>

#include "x86/x86.h"

struct state { /* offsets are in the code below */
    uint64_t rax, rcx, rdx, flags, value, other;
    uint64_t xmm[2];
};
struct code {
    uint8_t bytes[256];
    size_t len;
};
enum { PAGE = 4096 };

static uint8_t *page; /* the variable in it, then code */

static void put(struct code *c, const char *bytes, size_t len)
{
    memcpy(c->bytes + c->len, bytes, len);
    c->len += len;
}
#define PUT(c, text) put(c, text, sizeof(text) - 1)

/* mov between rdi's state and register r. */
static void put_move(struct code *c, unsigned r, uint8_t offset, bool is_store)
{
    char m[4] = {(char)(0x48 | (r >= 8 ? 4 : 0)), is_store ? (char)0x89 : (char)0x8b, (char)(0x47 | (r & 7) << 3),
                 (char)offset};
    put(c, m, sizeof m);
}

static void execute(const uint8_t *insn, size_t len, unsigned gpr, struct state *s)
{
    struct code c = {.len = 0};
    PUT(&c, "\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57\x57"); /* push rbx rbp r12 r13 r14 r15 rdi */
    put_move(&c, X86_RAX, offsetof(struct state, flags), false);
    PUT(&c, "\x50\x9d");             /* push rax; popf */
    PUT(&c, "\xf3\x0f\x6f\x47\x30"); /* movdqu xmm0, [rdi+48] */
    put_move(&c, X86_RAX, offsetof(struct state, rax), false);
    put_move(&c, X86_RCX, offsetof(struct state, rcx), false);
    put_move(&c, X86_RDX, offsetof(struct state, rdx), false);
    if (gpr != X86_REG_NONE)
        put_move(&c, gpr, offsetof(struct state, value), false);
    size_t at = c.len;
    put(&c, (const char *)insn, len);
    PUT(&c, "\x5f\x57"); /* pop rdi; push rdi */
    put_move(&c, X86_RAX, offsetof(struct state, rax), true);
    put_move(&c, X86_RCX, offsetof(struct state, rcx), true);
    put_move(&c, X86_RDX, offsetof(struct state, rdx), true);
    if (gpr != X86_REG_NONE)
        put_move(&c, gpr, offsetof(struct state, value), true);
    PUT(&c, "\x9c\x58"); /* pushf; pop rax */
    put_move(&c, X86_RAX, offsetof(struct state, flags), true);
    PUT(&c, "\xf3\x0f\x7f\x47\x30");                             /* movdqu [rdi+48], xmm0 */
    PUT(&c, "\x5f\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\xc3"); /* pops; ret */
    uint8_t *code = page + 64;
    memcpy(code, c.bytes, c.len);
    if (gpr == X86_REG_NONE) {
        struct x86_insn i;
        assert_true(x86_decode(insn, 16, 0, &i) > 0 && i.disp_len == 4);
        int32_t distance = (int32_t)(page - (code + at + len));
        memcpy(code + at + i.disp_off, &distance, sizeof distance);
        memcpy(page, &s->value, sizeof s->value);
    }
    void (*run)(struct state *);
    memcpy(&run, &code, sizeof run);
    run(s);
    if (gpr == X86_REG_NONE)
        memcpy(&s->value, page, sizeof s->value);
}

#define OPERAND 0, 0, 0, 0
static const struct form {
    uint8_t bytes[16];
    uint8_t defined; /* flags that it leaves defined, or does not change */
    uint8_t width;   /* of the operand */
} forms[] = {
    {{0x8b, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                              /* mov eax, m */
    {{0x48, 0x8b, 0x0d, OPERAND}, X86_ALL_FLAGS, 8},                        /* mov rcx, m */
    {{0x89, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                              /* mov m, eax */
    {{0x48, 0x89, 0x15, OPERAND}, X86_ALL_FLAGS, 8},                        /* mov m, rdx */
    {{0x66, 0x89, 0x05, OPERAND}, X86_ALL_FLAGS, 2},                        /* mov m, ax */
    {{0x88, 0x05, OPERAND}, X86_ALL_FLAGS, 1},                              /* mov m, al */
    {{0x8a, 0x15, OPERAND}, X86_ALL_FLAGS, 1},                              /* mov dl, m */
    {{0x44, 0x8a, 0x05, OPERAND}, X86_ALL_FLAGS, 1},                        /* mov r8b, m */
    {{0xc6, 0x05, OPERAND, 0x7f}, X86_ALL_FLAGS, 1},                        /* mov byte m, 127 */
    {{0x66, 0xc7, 0x05, OPERAND, 0x34, 0x12}, X86_ALL_FLAGS, 2},            /* mov word m, 0x1234 */
    {{0xc7, 0x05, OPERAND, 1, 2, 3, 0x84}, X86_ALL_FLAGS, 4},               /* mov dword m, imm */
    {{0x48, 0xc7, 0x05, OPERAND, 1, 2, 3, 0x84}, X86_ALL_FLAGS, 8},         /* mov qword m, imm */
    {{0x01, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                              /* add m, eax */
    {{0x48, 0x2b, 0x05, OPERAND}, X86_ALL_FLAGS, 8},                        /* sub rax, m */
    {{0x48, 0x11, 0x05, OPERAND}, X86_ALL_FLAGS, 8},                        /* adc m, rax */
    {{0x20, 0x05, OPERAND}, X86_ALL_FLAGS & ~X86_AF, 1},                    /* and m, al */
    {{0x83, 0x05, OPERAND, 0xff}, X86_ALL_FLAGS, 4},                        /* add dword m, -1 */
    {{0x48, 0x81, 0x3d, OPERAND, 0, 1, 0, 0}, X86_ALL_FLAGS, 8},            /* cmp qword m, 256 */
    {{0x80, 0x3d, OPERAND, 5}, X86_ALL_FLAGS, 1},                           /* cmp byte m, 5 */
    {{0x85, 0x05, OPERAND}, X86_ALL_FLAGS & ~X86_AF, 4},                    /* test m, eax */
    {{0xff, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                              /* inc dword m */
    {{0x66, 0xff, 0x0d, OPERAND}, X86_ALL_FLAGS, 2},                        /* dec word m */
    {{0xfe, 0x05, OPERAND}, X86_ALL_FLAGS, 1},                              /* inc byte m */
    {{0x48, 0xf7, 0x1d, OPERAND}, X86_ALL_FLAGS, 8},                        /* neg qword m */
    {{0xf7, 0x15, OPERAND}, X86_ALL_FLAGS, 4},                              /* not dword m */
    {{0x48, 0xf7, 0x25, OPERAND}, X86_CF | X86_OF, 8},                      /* mul qword m */
    {{0xf6, 0x2d, OPERAND}, X86_CF | X86_OF, 1},                            /* imul byte m */
    {{0xc1, 0x25, OPERAND, 3}, X86_CF | X86_ZF | X86_SF | X86_PF, 4},       /* shl dword m, 3 */
    {{0x48, 0xd1, 0x3d, OPERAND}, X86_ALL_FLAGS & ~X86_AF, 8},              /* sar qword m, 1 */
    {{0xd3, 0x2d, OPERAND}, X86_CF | X86_ZF | X86_SF | X86_PF, 4},          /* shr dword m, cl */
    {{0x48, 0x63, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                        /* movsxd rax, m */
    {{0x69, 0x05, OPERAND, 7, 0, 0, 0}, X86_CF | X86_OF, 4},                /* imul eax, m, 7 */
    {{0x48, 0x6b, 0x05, OPERAND, 7}, X86_CF | X86_OF, 8},                   /* imul rax, m, 7 */
    {{0x0f, 0xaf, 0x15, OPERAND}, X86_CF | X86_OF, 4},                      /* imul edx, m */
    {{0x0f, 0xb6, 0x05, OPERAND}, X86_ALL_FLAGS, 1},                        /* movzx eax, byte m */
    {{0x48, 0x0f, 0xbe, 0x05, OPERAND}, X86_ALL_FLAGS, 1},                  /* movsx rax, byte m */
    {{0x0f, 0xb7, 0x05, OPERAND}, X86_ALL_FLAGS, 2},                        /* movzx eax, word m */
    {{0x66, 0x0f, 0xbe, 0x05, OPERAND}, X86_ALL_FLAGS, 1},                  /* movsx ax, byte m */
    {{0x0f, 0x44, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                        /* cmove eax, m */
    {{0x48, 0x0f, 0x45, 0x05, OPERAND}, X86_ALL_FLAGS, 8},                  /* cmovne rax, m */
    {{0x0f, 0x92, 0x05, OPERAND}, X86_ALL_FLAGS, 1},                        /* setb m */
    {{0x0f, 0xba, 0x25, OPERAND, 35}, X86_CF | X86_ZF, 4},                  /* bt dword m, 35 */
    {{0x48, 0x0f, 0xba, 0x2d, OPERAND, 35}, X86_CF | X86_ZF, 8},            /* bts qword m, 35 */
    {{0x0f, 0xac, 0x05, OPERAND, 3}, X86_CF | X86_ZF | X86_SF | X86_PF, 4}, /* shrd m, eax, 3 */
    {{0x48, 0x0f, 0xb1, 0x15, OPERAND}, X86_ALL_FLAGS, 8},                  /* cmpxchg m, rdx */
    {{0x48, 0x0f, 0xc1, 0x05, OPERAND}, X86_ALL_FLAGS, 8},                  /* xadd m, rax */
    {{0x0f, 0xc0, 0x15, OPERAND}, X86_ALL_FLAGS, 1},                        /* xadd m, dl */
    {{0xf3, 0x0f, 0xb8, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                  /* popcnt eax, m */
    {{0xf2, 0x0f, 0x38, 0xf0, 0x05, OPERAND}, X86_ALL_FLAGS, 1},            /* crc32 eax, byte m */
    {{0xf2, 0x48, 0x0f, 0x38, 0xf1, 0x05, OPERAND}, X86_ALL_FLAGS, 8},      /* crc32 rax, m */
    {{0xf2, 0x0f, 0x2a, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                  /* cvtsi2sd xmm0, dword m */
    {{0xf3, 0x48, 0x0f, 0x2a, 0x05, OPERAND}, X86_ALL_FLAGS, 8},            /* cvtsi2ss xmm0, qword m */
    {{0xf3, 0x0f, 0x10, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                  /* movss xmm0, m */
    {{0xf3, 0x0f, 0x11, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                  /* movss m, xmm0 */
    {{0xf2, 0x0f, 0x10, 0x05, OPERAND}, X86_ALL_FLAGS, 8},                  /* movsd xmm0, m */
    {{0xf2, 0x0f, 0x11, 0x05, OPERAND}, X86_ALL_FLAGS, 8},                  /* movsd m, xmm0 */
    {{0x66, 0x0f, 0x6e, 0x05, OPERAND}, X86_ALL_FLAGS, 4},                  /* movd xmm0, m */
    {{0x66, 0x48, 0x0f, 0x7e, 0x05, OPERAND}, X86_ALL_FLAGS, 8},            /* movq m, xmm0 */
    {{0xf3, 0x0f, 0x7e, 0x05, OPERAND}, X86_ALL_FLAGS, 8},                  /* movq xmm0, m */
    {{0x66, 0x0f, 0xd6, 0x05, OPERAND}, X86_ALL_FLAGS, 8},                  /* movq m, xmm0 */
};

/* As in EFLAGS. */
static uint64_t flag_bits(unsigned flags)
{
    static const uint64_t bits[] = {1, 4, 0x10, 0x40, 0x80, 0x800};
    uint64_t out = 0;
    for (unsigned i = 0; i < ARRAY_LEN(bits); i++)
        out |= flags >> i & 1 ? bits[i] : 0;
    return out;
}

static void draw(struct rng *g, struct state *s)
{
    *s = (struct state){rng_next(g),
                        rng_next(g),
                        rng_next(g),
                        2 | (rng_next(g) & flag_bits(X86_ALL_FLAGS)),
                        rng_next(g),
                        0,
                        {rng_next(g), rng_next(g)}};
    if (rng_below(g, 3) == 0) /* for cmpxchg and comparisons */
        s->value = s->rax;
}

static void the_processor_does_the_same(void **unused)
{
    (void)unused;
    static const uint8_t gprs[] = {X86_RBX, X86_RBP, X86_RSI, X86_R9, X86_R10, X86_R12, X86_R13, X86_R14, X86_R15};
    struct rng g = {7};
    for (size_t f = 0; f < ARRAY_LEN(forms); f++) {
        bool is_newer = forms[f].bytes[2] == 0xb8 || forms[f].bytes[2] == 0x38 || forms[f].bytes[3] == 0x38;
        if (is_newer && !__builtin_cpu_supports("sse4.2")) /* popcnt, crc32 */
            continue;
        for (size_t r = 0; r < ARRAY_LEN(gprs); r++)
            for (unsigned turn = 0; turn < 20; turn++) {
                struct x86_insn i;
                uint8_t out[16] = {0};
                struct state a, b;
                int len = x86_decode(forms[f].bytes, 16, 0x1000, &i);
                assert_true(len > 0);
                int n = x86_in_register(forms[f].bytes, &i, gprs[r], out);
                if (n <= 0 || n > len)
                    fail_msg("form %zu, register %u: %d of %d bytes", f, gprs[r], n, len);
                draw(&g, &a);
                b = a;
                execute(forms[f].bytes, (size_t)len, X86_REG_NONE, &a);
                execute(out, (size_t)n, gprs[r], &b);
                /* a write of 32 bits clears the rest, of which the variable has none */
                uint64_t mask = forms[f].width == 4 ? UINT32_MAX : UINT64_MAX, flags = flag_bits(forms[f].defined);
                a.value &= mask, b.value &= mask, a.flags &= flags, b.flags &= flags;
                if (memcmp(&a, &b, sizeof a) != 0)
                    fail_msg("form %zu, register %u: another result", f, gprs[r]);
            }
    }
}

static void what_cannot_be_said_is_left(void **unused)
{
    (void)unused;
    static const uint8_t none[][16] = {
        {0xf0, 0xff, 0x05, OPERAND},          /* lock inc */
        {0x87, 0x05, OPERAND},                /* xchg: atomic */
        {0x48, 0x8d, 0x05, OPERAND},          /* lea */
        {0x48, 0x8b, 0x43, 8},                /* mov rax, [rbx+8] */
        {0x8b, 0x04, 0x85, OPERAND},          /* mov eax, [rax*4+d] */
        {0x64, 0x8b, 0x04, 0x25, OPERAND},    /* mov eax, fs:d */
        {0x0f, 0xa3, 0x05, OPERAND},          /* bt m, eax: reaches beyond */
        {0x0f, 0x28, 0x05, OPERAND},          /* movaps */
        {0xf2, 0x0f, 0x58, 0x05, OPERAND},    /* addsd */
        {0x66, 0x0f, 0x16, 0x05, OPERAND},    /* movhpd */
        {0xdd, 0x05, OPERAND},                /* fld */
        {0x0f, 0x38, 0xf0, 0x05, OPERAND},    /* movbe */
        {0x0f, 0x18, 0x0d, OPERAND},          /* prefetcht0 */
        {0xc5, 0xfb, 0x10, 0x05, OPERAND},    /* vmovsd */
        {0x0f, 0xc7, 0x0d, OPERAND},          /* cmpxchg8b */
        {0x0f, 0xae, 0x1d, OPERAND},          /* stmxcsr */
        {0x48, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0}, /* mov rax, moffs */
        {0x0f, 0x1f, 0x05, OPERAND},          /* nop */
        {0x0f, 0xc3, 0x05, OPERAND},          /* movnti */
    };
    for (size_t k = 0; k < ARRAY_LEN(none); k++) {
        struct x86_insn i;
        uint8_t out[15];
        assert_true(x86_decode(none[k], 16, 0x1000, &i) > 0);
        if (x86_in_register(none[k], &i, X86_R15, out) != 0)
            fail_msg("instruction %zu", k);
    }
    static const uint8_t high[16] = {0x88, 0x25, OPERAND}; /* mov m, ah */
    struct x86_insn i;
    uint8_t out[15];
    assert_true(x86_decode(high, 16, 0x1000, &i) > 0);
    assert_int_equal(x86_in_register(high, &i, X86_R12, out), 0);
    assert_int_equal(x86_in_register(high, &i, X86_RBP, out), 0);
    assert_int_equal(x86_in_register(high, &i, X86_RBX, out), 2);
    assert_memory_equal(out, ((const uint8_t[]){0x88, 0xe3}), 2); /* mov bl, ah */
}

static void calls_and_the_stack_too(void **unused)
{
    (void)unused;
    static const struct {
        uint8_t from[16], to[3];
    } cases[] = {
        {{0xff, 0x15, OPERAND}, {0x41, 0xff, 0xd7}},       /* call m: call r15 */
        {{0xff, 0x25, OPERAND}, {0x41, 0xff, 0xe7}},       /* jmp */
        {{0xff, 0x35, OPERAND}, {0x41, 0xff, 0xf7}},       /* push */
        {{0x8f, 0x05, OPERAND}, {0x41, 0x8f, 0xc7}},       /* pop */
        {{0x8b, 0x04, 0x25, OPERAND}, {0x41, 0x8b, 0xc7}}, /* mov eax, [absolute] */
    };
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        struct x86_insn i;
        uint8_t out[15];
        assert_true(x86_decode(cases[k].from, 16, 0x1000, &i) > 0);
        assert_int_equal(x86_in_register(cases[k].from, &i, X86_R15, out), 3);
        assert_memory_equal(out, cases[k].to, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processor_does_the_same),
        cmocka_unit_test(what_cannot_be_said_is_left),
        cmocka_unit_test(calls_and_the_stack_too),
    };
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
