/* SPDX-License-Identifier: Apache-2.0
 *
 * decode.c: kinds, targets, flag and register facts of chosen encodings; the remembered answer against the fresh one
 * over this program's own text at every byte offset; and the processor itself as oracle for flags and registers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs those above it */

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "x86/x86.h"

#define BYTES(...) ((const uint8_t[32]){__VA_ARGS__})

static struct x86_insn decode(const uint8_t *bytes)
{
    struct x86_insn i = {0};
    assert_true(x86_decode(bytes, 32, 0x1000, &i) > 0);
    return i;
}

static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[12];
        uint8_t len, kind;
        uint64_t target;
    } cases[] = {
        {{0x90}, 1, X86_PLAIN, 0},
        {{0xeb, 0x10}, 2, X86_JMP, 0x1012},
        {{0xe9, 0, 1, 0, 0}, 5, X86_JMP, 0x1105},
        {{0x75, 0xfe}, 2, X86_JCC, 0x1000},
        {{0x0f, 0x84, 0, 0, 0, 0}, 6, X86_JCC, 0x1006},
        {{0xe3, 2}, 2, X86_JCXZ, 0x1004},
        {{0xe2, 0xfe}, 2, X86_JCXZ, 0x1000},
        {{0xc7, 0xf8, 4, 0, 0, 0}, 6, X86_XBEGIN, 0x100a},
        {{0x0f, 0x01, 0xd5}, 3, X86_PLAIN, 0},
        {{0xe8, 0xfb, 0xff, 0xff, 0xff}, 5, X86_CALL, 0x1000},
        {{0xff, 0xe0}, 2, X86_JMP_IND, 0},
        {{0x3e, 0xff, 0xe0}, 3, X86_JMP_IND, 0},
        {{0xff, 0x25, 4, 0, 0, 0}, 6, X86_JMP_IND, 0x100a},
        {{0xff, 0x24, 0xc5, 0, 0, 0x40, 0}, 7, X86_JMP_IND, 0x400000},
        {{0xff, 0xd0}, 2, X86_CALL_IND, 0},
        {{0xc3}, 1, X86_RET, 0},
        {{0xf3, 0xc3}, 2, X86_RET, 0},
        {{0xc2, 8, 0}, 3, X86_RET, 0},
        {{0x0f, 0x05}, 2, X86_SYSCALL, 0},
        {{0x0f, 0x0b}, 2, X86_TRAP, 0},
        {{0xcc}, 1, X86_TRAP, 0},
        {{0xf4}, 1, X86_TRAP, 0},
        {{0xcd, 0x80}, 2, X86_INT, 0},
        {{0x48, 0x8d, 0x05, 0, 0, 0, 0}, 7, X86_PLAIN, 0x1007},
        {{0xb8, 0, 0, 0, 0x80}, 5, X86_PLAIN, 0x80000000},
        {{0x48, 0xc7, 0xc0, 0, 0, 0, 0x80}, 7, X86_PLAIN, 0xffffffff80000000},
        {{0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}, 10, X86_PLAIN, 0x0807060504030201},
        {{0x68, 0, 0, 0x40, 0}, 5, X86_PLAIN, 0x400000},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct x86_insn insn = {0};
        uint8_t padded[32] = {0};
        memcpy(padded, cases[i].bytes, sizeof cases[i].bytes);
        assert_int_equal(x86_decode(padded, sizeof padded, 0x1000, &insn), cases[i].len);
        assert_int_equal(insn.kind, cases[i].kind);
        assert_int_equal(insn.target, cases[i].target);
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct x86_insn insn;
    assert_int_equal(x86_decode(BYTES(0x06), 32, 0, &insn), 0);      /* push es: no 64-bit instruction */
    assert_int_equal(x86_decode(BYTES(0xe8, 1, 2), 3, 0, &insn), 0); /* cut off */
    assert_int_equal(x86_decode(BYTES(0x0f, 0xff), 2, 0, &insn), 0); /* ud0 without its ModRM */
    assert_int_equal(x86_decode(BYTES(0x90), 0, 0, &insn), 0);
}

static void test_memory_operand(void **state)
{
    (void)state;
    struct x86_insn i = decode(BYTES(0x48, 0x8b, 0x44, 0xcb, 0x10)); /* mov rax,[rbx+rcx*8+0x10] */
    assert_int_equal(i.mem_base, 3);
    assert_int_equal(i.mem_index, 1);
    assert_int_equal(i.mem_scale, 8);
    assert_int_equal(i.disp_off, 4);
    assert_int_equal(i.disp_len, 1);
    assert_int_equal(i.loads, 1);
    assert_int_equal(i.stores, 0);
    i = decode(BYTES(0xf0, 0x48, 0x0f, 0xb1, 0x0d, 1, 0, 0, 0)); /* lock cmpxchg [rip+1],rcx */
    assert_int_equal(i.mem_base, 0xfe);
    assert_int_equal(i.loads + i.stores, 2);
    assert_true(i.props & X86_PROP_RIPREL && i.props & X86_PROP_LOCK);
    i = decode(BYTES(0xff, 0x70, 8)); /* push [rax+8] */
    assert_int_equal(i.loads, 1);
    assert_int_equal(i.stores, 1);
    assert_true(i.props & X86_PROP_STACK);
    i = decode(BYTES(0x0f, 0x18, 0x00)); /* prefetchnta */
    assert_int_equal(i.loads + i.stores, 0);
    i = decode(BYTES(0xf3, 0x48, 0xa5)); /* rep movsq */
    assert_true(i.props & X86_PROP_REP);
    assert_int_equal(i.loads, 1);
    assert_int_equal(i.stores, 1);
    i = decode(BYTES(0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0)); /* mov rax,fs:0x28 */
    assert_true(i.props & X86_PROP_SEG && i.props & X86_PROP_ABS32 && !(i.props & X86_PROP_GS));
    i = decode(BYTES(0x65, 0x48, 0x8b, 0x00)); /* mov rax,gs:[rax] */
    assert_true(i.props & X86_PROP_GS);
    i = decode(BYTES(0xc4, 0xe2, 0xed, 0x92, 0x04, 0xcf)); /* vgatherqpd ymm0,[rdi+ymm1*8],ymm2 */
    assert_int_equal(i.loads, 4);
    assert_true(i.props & X86_PROP_VSIB && i.mem_index == 0xff && i.mem_base == 7);
    i = decode(BYTES(0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0)); /* nopw cs:[rax+rax] */
    assert_true(i.props & X86_PROP_NOP);
    assert_int_equal(i.gpr_read | i.loads, 0);
    assert_true(decode(BYTES(0xf3, 0x0f, 0x1e, 0xfa)).props & X86_PROP_ENDBR);
}

static void test_long_nops_read_nothing(void **state)
{
    (void)state;
    struct x86_detail d;
    assert_int_equal(x86_decode_detail(BYTES(0x0f, 0x1f, 0x44, 0x08, 0x00), 32, 0, &d), 5); /* nop [rax+rcx] */
    assert_true(d.insn.props & X86_PROP_NOP);
    assert_false(d.is_load || d.is_store || d.addr_indexed);
    assert_int_equal(d.read_count + d.write_count + d.addr_reg_count, 0);
}

static void test_operations(void **state)
{
    (void)state;
    assert_int_equal(decode(BYTES(0x48, 0xf7, 0xf1)).op, X86_OP_DIV);                  /* div rcx */
    assert_int_equal(decode(BYTES(0x48, 0xf7, 0xf9)).op, X86_OP_IDIV);                 /* idiv rcx */
    assert_int_equal(decode(BYTES(0x48, 0x0f, 0xaf, 0xc1)).op, X86_OP_MUL);            /* imul rax,rcx */
    assert_int_equal(decode(BYTES(0xc4, 0xe2, 0xfb, 0xf6, 0xc1)).op, X86_OP_MULX);     /* mulx rax,rax,rcx */
    assert_int_equal(decode(BYTES(0x0f, 0x44, 0xc1)).op, X86_OP_CMOV);                 /* cmove eax,ecx */
    assert_int_equal(decode(BYTES(0xf0, 0x48, 0x0f, 0xb1, 0x0e)).op, X86_OP_EXCHANGE); /* lock cmpxchg [rsi],rcx */
    assert_int_equal(decode(BYTES(0x9d)).op, X86_OP_MODE);                             /* popf */
    assert_int_equal(decode(BYTES(0x0f, 0x01, 0xf8)).op, X86_OP_MODE);                 /* swapgs */
    assert_int_equal(decode(BYTES(0x0f, 0x31)).op, X86_OP_CHANCE);                     /* rdtsc */
    assert_int_equal(decode(BYTES(0x0f, 0xa2)).op, X86_OP_CHANCE);                     /* cpuid */
    assert_true(decode(BYTES(0x48, 0x87, 0x06)).props & X86_PROP_LOCK);                /* xchg [rsi],rax */
    assert_false(decode(BYTES(0x48, 0x87, 0xc6)).props & X86_PROP_LOCK);               /* xchg rsi,rax */
}

static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name;
        unsigned count, vec_bits;
        uint8_t element;
        bool divides, is_vex;
    } all[] = {
        {"add r64,r64", "add", 2, 0, X86_ELEMENT_INT, false, false},
        {"lock add r64,r64", "add", 2, 0, X86_ELEMENT_INT, false, false},
        {"idiv r32", "idiv", 1, 0, X86_ELEMENT_INT, true, false},
        {"mulss x,x", "mulss", 2, 128, X86_ELEMENT_FLOAT, false, false},
        {"vsqrtpd y,y", "vsqrtpd", 2, 256, X86_ELEMENT_DOUBLE, true, true},
        {"paddd x,x", "paddd", 2, 128, X86_ELEMENT_INT, false, false},
        {"vpmulld z{k},z,z", "vpmulld", 4, 512, X86_ELEMENT_INT, false, true},
        {"cvtps2pd x,x", "cvtps2pd", 2, 128, X86_ELEMENT_DOUBLE, false, false},
        {"kmovw k,r32", "kmovw", 2, 0, X86_ELEMENT_INT, false, true},
        {"pshufd x,x,i", "pshufd", 3, 128, X86_ELEMENT_INT, false, false},
    };
    struct x86_form f;
    for (size_t k = 0; k < ARRAY_LEN(all); k++) {
        x86_form_parse(all[k].text, &f);
        assert_string_equal(f.name, all[k].name);
        if (f.count != all[k].count || f.vec_bits != all[k].vec_bits || f.divides != all[k].divides ||
            f.is_vex != all[k].is_vex || (f.vec_bits && f.element != all[k].element))
            fail_msg("%s: %u operands of %u bits, element %u", all[k].text, f.count, f.vec_bits, f.element);
    }
    x86_form_parse("lock add r64,r64", &f);
    assert_true(f.is_locked && f.has_gpr && !f.is_lea && !f.is_jcc);
    x86_form_parse("lea r64,b+i*s", &f);
    assert_true(f.is_lea && f.has_base && f.has_index && f.has_scale && !f.has_disp);
    x86_form_parse("jcc i", &f);
    assert_true(f.is_jcc && f.operand[0].kind == X86_FORM_NUMBER);
}

static void test_ways(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[6];
        bool is_branch, is_conditional, is_call, is_indirect;
    } all[] = {
        {{0x90}, false, false, false, false},                 /* nop */
        {{0xeb, 0}, true, false, false, false},               /* jmp */
        {{0x74, 0}, true, true, false, false},                /* je */
        {{0xe3, 0}, true, true, false, false},                /* jrcxz */
        {{0xc7, 0xf8, 0, 0, 0, 0}, true, true, false, false}, /* xbegin */
        {{0xe8, 0, 0, 0, 0}, true, false, true, false},       /* call */
        {{0xff, 0xd0}, true, false, true, true},              /* call rax */
        {{0xff, 0xe0}, true, false, false, true},             /* jmp rax */
        {{0xc3}, true, false, false, true},                   /* ret */
        {{0x0f, 0x05}, false, false, false, false},           /* syscall */
    };
    for (size_t k = 0; k < ARRAY_LEN(all); k++) {
        uint8_t bytes[32] = {0};
        memcpy(bytes, all[k].bytes, sizeof all[k].bytes);
        struct x86_insn i = decode(bytes);
        if (x86_is_branch(&i) != all[k].is_branch || x86_is_conditional(&i) != all[k].is_conditional ||
            x86_is_call(&i) != all[k].is_call || x86_is_indirect(&i) != all[k].is_indirect)
            fail_msg("case %zu", k);
    }
}

static void test_flags_that_may_stay(void **state)
{
    (void)state;
    assert_true(decode(BYTES(0xd3, 0xe0)).props & X86_PROP_FLAGS_MAYBE);         /* shl eax,cl */
    assert_true(decode(BYTES(0x0f, 0xa5, 0xc8)).props & X86_PROP_FLAGS_MAYBE);   /* shld eax,ecx,cl */
    assert_true(decode(BYTES(0xf3, 0xa6)).props & X86_PROP_FLAGS_MAYBE);         /* repe cmpsb */
    assert_true(decode(BYTES(0xf2, 0xae)).props & X86_PROP_FLAGS_MAYBE);         /* repne scasb */
    assert_false(decode(BYTES(0xa6)).props & X86_PROP_FLAGS_MAYBE);              /* cmpsb */
    assert_int_equal(decode(BYTES(0xc1, 0xe0, 0)).flags_written, 0);             /* shl eax,0 */
    assert_int_equal(decode(BYTES(0xc1, 0xe0, 32)).flags_written, 0);            /* shl eax,32 */
    assert_true(decode(BYTES(0x48, 0xc1, 0xe0, 32)).flags_written & X86_CF);     /* shl rax,32 */
    assert_true(decode(BYTES(0xd1, 0xe0)).flags_written & X86_CF);               /* shl eax,1 */
    assert_false(decode(BYTES(0xff, 0xc0)).flags_written & X86_CF);              /* inc eax */
    assert_int_equal(decode(BYTES(0x0f, 0x05)).flags_written, 0);                /* syscall */
    assert_int_equal(decode(BYTES(0x9c)).flags_read, X86_ALL_FLAGS);             /* pushf */
    assert_int_equal(decode(BYTES(0x83, 0xc0, 1)).flags_written, X86_ALL_FLAGS); /* add eax,1 */
    struct x86_insn ja = decode(BYTES(0x77, 0));
    assert_int_equal(ja.flags_read, X86_CF | X86_ZF);
    assert_int_equal(ja.cond, 7);
}

static void test_registers(void **state)
{
    (void)state;
    struct x86_insn i = decode(BYTES(0x31, 0xc0)); /* xor eax,eax */
    assert_true(x86_kills_gpr(&i, 0));
    i = decode(BYTES(0x66, 0x31, 0xc0)); /* xor ax,ax keeps the upper bits */
    assert_false(x86_kills_gpr(&i, 0));
    i = decode(BYTES(0xb4, 1)); /* mov ah,1 */
    assert_int_equal(i.gpr_written, 1);
    assert_int_equal(i.gpr_read, 1);
    i = decode(BYTES(0x0f, 0x44, 0xc1)); /* cmove eax,ecx */
    assert_int_equal(i.gpr_read, 3);
    i = decode(BYTES(0x0f, 0xbc, 0xc1)); /* bsf eax,ecx */
    assert_false(x86_kills_gpr(&i, 0));
    i = decode(BYTES(0xf3, 0x48, 0x0f, 0x1e, 0xc8)); /* rdsspq rax */
    assert_false(x86_kills_gpr(&i, 0));
    i = decode(BYTES(0x0f, 0xa2)); /* cpuid */
    assert_int_equal(i.gpr_written, 0xf);
    i = decode(BYTES(0x0f, 0x05)); /* syscall */
    assert_int_equal(i.gpr_written, 1 | 2 | 1 << 11);
    assert_int_equal(i.gpr_read, 0xffff);
    i = decode(BYTES(0xf2, 0xae)); /* repne scasb */
    assert_int_equal(i.gpr_written, 1 << 1 | 1 << 7);
    i = decode(BYTES(0xa6)); /* cmpsb */
    assert_int_equal(i.gpr_written, 1 << 6 | 1 << 7);
    i = decode(BYTES(0x41, 0x5f)); /* pop r15 */
    assert_true(x86_kills_gpr(&i, 15));
    assert_false(x86_kills_gpr(&i, 4));
}

/* Long enough for the slow way, which sees only the instruction's own bytes, to differ if the head rule were wrong. */
static void test_fast_equals_slow(void **state)
{
    (void)state;
    extern const uint8_t __executable_start[], etext[];
    size_t len = (size_t)(etext - __executable_start), checked = 0;
    for (size_t at = 0; at + 32 < len; at++) {
        struct x86_insn fast, again, slow;
        struct x86_detail detail;
        int n = x86_decode(__executable_start + at, 32, at, &fast);
        if (n == 0)
            continue;
        x86_decode(__executable_start + at, 32, at, &again);
        assert_int_equal(x86_decode(__executable_start + at, (size_t)n, at, &slow), n);
        assert_memory_equal(&fast, &slow, sizeof fast);
        assert_memory_equal(&fast, &again, sizeof fast);
        assert_int_equal(x86_decode_detail(__executable_start + at, 32, at, &detail), n);
        assert_memory_equal(&fast, &detail.insn, sizeof fast);
        checked++;
    }
    assert_true(checked > 1000);
}

/* ---- the processor as oracle ---- */

struct cpu { /* layout known to the code below */
    uint64_t gpr[16], flags, host_rsp;
};
static uint8_t *code_page;
static sigjmp_buf trap_exit;

static void on_trap(int sig)
{
    (void)sig;
    siglongjmp(trap_exit, 1);
}

/* Writes: save callee-saved, load all registers but rsp and flags from rdi, run the instruction, store them back. */
static void put_bytes(uint8_t **p, const void *bytes, size_t len)
{
    memcpy(*p, bytes, len);
    *p += len;
}

static void emit_moves(uint8_t **p, bool store)
{
    for (unsigned r = 0; r < 15; r++) { /* r15 holds the struct; rsp is left alone */
        if (r == 4)
            continue;
        uint8_t mov[] = {(uint8_t)(r >= 8 ? 0x4d : 0x49), store ? 0x89 : 0x8b, (uint8_t)(0x47 | (r & 7) << 3),
                         (uint8_t)(8 * r)};
        put_bytes(p, mov, sizeof mov);
    }
}

static void emit_run(const uint8_t *insn, size_t len)
{
    static const uint8_t prologue[] = {
        0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, 0x49,
        0x89, 0xff, 0x41, 0xff, 0xb7, 0x80, 0,    0,    0,    0x9d};            /* push [r15+128]; popf */
    static const uint8_t flags_out[] = {0x9c, 0x41, 0x8f, 0x87, 0x80, 0, 0, 0}; /* pushf; pop [r15+128] */
    static const uint8_t epilogue[] = {0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3};
    uint8_t *p = code_page;
    put_bytes(&p, prologue, sizeof prologue);
    emit_moves(&p, false);
    put_bytes(&p, insn, len);
    emit_moves(&p, true);
    put_bytes(&p, flags_out, sizeof flags_out);
    put_bytes(&p, epilogue, sizeof epilogue);
}

static bool run_on_cpu(struct cpu *c)
{
    union {
        uint8_t *bytes;
        void (*fn)(struct cpu *);
    } u = {.bytes = code_page};
    if (sigsetjmp(trap_exit, 1))
        return false;
    u.fn(c);
    return true;
}

static uint8_t arith_flags(uint64_t rflags)
{
    return (uint8_t)((rflags & 1) | (rflags >> 2 & 1) << 1 | (rflags >> 4 & 1) << 2 | (rflags >> 6 & 1) << 3 |
                     (rflags >> 7 & 1) << 4 | (rflags >> 11 & 1) << 5);
}
#define RFLAGS_ARITH 0x8d5u

static uint64_t random_word(void)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s >> 61 ? s : s & 3; /* small values meet the special cases */
}

/* The manuals leave all flags undefined behind these: some cores keep them, others write what they like. */
static bool leaves_flags_undefined(const struct x86_insn *i)
{
    const char *name = x86_mnemonic_name(i->mnemonic);
    return strcmp(name, "div") == 0 || strcmp(name, "idiv") == 0;
}

/* Of the flags that flags_written claims without MAYBE, none may keep its old value. */
static uint8_t check_flags(const struct x86_insn *i, const struct cpu *start)
{
    struct cpu zeros = *start, ones = *start;
    zeros.flags &= ~(uint64_t)RFLAGS_ARITH;
    ones.flags |= RFLAGS_ARITH;
    if (!run_on_cpu(&zeros) || !run_on_cpu(&ones))
        return 0;
    uint8_t follows = (uint8_t)(~arith_flags(zeros.flags) & arith_flags(ones.flags)); /* out equals in for both */
    uint8_t changed = (uint8_t)(arith_flags(zeros.flags) | (uint8_t)(~arith_flags(ones.flags) & X86_ALL_FLAGS));
    bool maybe = i->props & X86_PROP_FLAGS_MAYBE;
    uint8_t wrong = 0;
    if (!maybe && !i->flags_read)
        wrong |= follows & i->flags_written; /* claimed, yet the old value shone through */
    if (!i->flags_read && !(i->flags_written | maybe) && (changed & X86_ALL_FLAGS) && i->kind == X86_PLAIN &&
        !leaves_flags_undefined(i))
        wrong |= 0x40; /* not claimed at all, yet something changed */
    return wrong;
}

/* Registers that changed must be in gpr_written; a register outside gpr_read must not matter to any other register. */
static unsigned check_registers(const struct x86_insn *i, const struct cpu *start)
{
    struct cpu base = *start;
    if (!run_on_cpu(&base))
        return 0;
    for (unsigned r = 0; r < 15; r++) {
        if (r != 4 && base.gpr[r] != start->gpr[r] && !(i->gpr_written >> r & 1))
            return 100 + r;
        if (r == 4 || i->gpr_read >> r & 1)
            continue;
        struct cpu other = *start;
        other.gpr[r] ^= random_word() | 1;
        if (!run_on_cpu(&other))
            return 0;
        for (unsigned q = 0; q < 15; q++)
            if (q != 4 && other.gpr[q] != base.gpr[q] && (q != r || i->gpr_written >> r & 1))
                return 200 + 16 * r + q;
    }
    return 0;
}

static bool may_run(const struct x86_insn *i)
{
    static const char *const unfit[] = {"rdtsc",    "rdtscp",   "rdpmc",   "rdrand", "rdseed", "cpuid",    "popf",
                                        "popfq",    "std",      "xgetbv",  "rdpid",  "rdpru",  "rdfsbase", "wrfsbase",
                                        "rdgsbase", "wrgsbase", "monitor", "mwait",  "sti",    "cli",      "xlat",
                                        "leave",    "enter",    "rdsspq",  "rdsspd", "umwait", "tpause",   "clzero",
                                        "mcommit",  "vmmcall",  "vmcall",  "wrpkru", "xsetbv"};
    const char *name = x86_mnemonic_name(i->mnemonic);
    for (size_t k = 0; k < ARRAY_LEN(unfit); k++)
        if (strcmp(name, unfit[k]) == 0)
            return false;
    return i->kind == X86_PLAIN && !i->loads && !i->stores &&
           !(i->props & (X86_PROP_SEG | X86_PROP_GS | X86_PROP_VEC)) &&
           !((i->gpr_read | i->gpr_written) & (1 << 4 | 1 << 15));
}

static int oracle_one(const uint8_t *bytes)
{
    struct x86_insn i;
    if (!x86_decode(bytes, 16, 0, &i) || !may_run(&i))
        return 0;
    emit_run(bytes, i.len);
    for (int round = 0; round < 12; round++) {
        struct cpu start = {.flags = 0x202};
        for (unsigned r = 0; r < 15; r++)
            start.gpr[r] = random_word();
        if (round == 0)
            start.gpr[1] = 0;
        uint8_t bad_flags = check_flags(&i, &start);
        unsigned bad_regs = check_registers(&i, &start);
        if (bad_flags || bad_regs) {
            char text[96];
            x86_format(bytes, i.len, 0, text, sizeof text);
            print_error("%s: flags %#x registers %u\n", text, bad_flags, bad_regs);
            return -1;
        }
    }
    return 1;
}

/* Every one- and two-byte opcode, and the three-byte ones, with register operands and every ModRM.reg. */
static void test_against_cpu(void **state)
{
    (void)state;
    static const uint8_t prefixes[][2] = {{0x48, 1}, {0, 0}, {0x66, 1}, {0xf3, 1}, {0xf2, 1}};
    static const uint8_t escapes[][3] = {{0, 0, 0}, {0x0f, 0, 1}, {0x0f, 0x38, 2}, {0x0f, 0x3a, 2}};
    code_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(code_page != MAP_FAILED);
    static const int signals[] = {SIGILL, SIGSEGV, SIGFPE, SIGBUS, SIGTRAP};
    for (size_t s = 0; s < ARRAY_LEN(signals); s++)
        signal(signals[s], on_trap);
    int ran = 0, wrong = 0;
    for (size_t p = 0; p < ARRAY_LEN(prefixes); p++)
        for (size_t e = 0; e < ARRAY_LEN(escapes); e++)
            for (unsigned op = 0; op < 256; op++)
                for (unsigned reg = 0; reg < 8; reg++) {
                    if (op == 0x8e) /* mov to a segment register: would take away thread-local storage */
                        continue;
                    uint8_t b[16] = {0}, *q = b;
                    put_bytes(&q, prefixes[p], prefixes[p][1]);
                    put_bytes(&q, escapes[e], escapes[e][2]);
                    *q++ = (uint8_t)op;
                    *q++ = (uint8_t)(0xc3 | reg << 3); /* rm is rbx */
                    memset(q, (int)(reg & 1 ? 3 : 0x21), 4);
                    int rc = oracle_one(b);
                    ran += rc > 0;
                    wrong += rc < 0;
                }
    for (size_t s = 0; s < ARRAY_LEN(signals); s++)
        signal(signals[s], SIG_DFL);
    munmap(code_page, 4096);
    assert_int_equal(wrong, 0);
    assert_true(ran > 1000);
}

static void *decode_one(void *out) { return x86_decode_short(BYTES(0x48, 0x89, 0xe5), 32, out) == 3 ? out : NULL; }

/* What a thread remembers goes with it. */
static void test_threads(void **state)
{
    (void)state;
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 20; i++) {
        struct x86_short s;
        pthread_t t;
        void *done = NULL;
        assert_int_equal(pthread_create(&t, NULL, decode_one, &s), 0);
        pthread_join(t, &done);
        assert_ptr_equal(done, &s);
    }
    struct mallinfo2 after = mallinfo2();
    assert_true(after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + (1 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_memory_operand),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_flags_that_may_stay),
        cmocka_unit_test(test_long_nops_read_nothing),
        cmocka_unit_test(test_registers),
        cmocka_unit_test(test_fast_equals_slow),
        cmocka_unit_test(test_against_cpu),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("x86 decode", tests, NULL, NULL);
}
