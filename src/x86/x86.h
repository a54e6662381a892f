/* SPDX-License-Identifier: Apache-2.0
 *
 * x86: facts about x86-64 instructions. The only folder that sees Zydis. One record, made of the bytes by decode.c:
 * x86_insn, the summary, which is cheap, and which x86_detail holds together with what the core model, the tracer and
 * the planner of replays need (detail.c: operands; access.c, reach.c: where it reaches memory; compare.c: what jumps
 * decide upon; order.c: all that they read and change). x86_short is the summary in 8 bytes, which the rewriter keeps
 * for every instruction. form.c takes the text of a form apart, and encode.c makes bytes of it; in_register.c puts a
 * register into the place of an operand in memory.
 */
#ifndef MTOOL_X86_H
#define MTOOL_X86_H

#include "base/base.h"

/* ---- registers: one numbering everywhere ---- */

enum x86_reg {
    X86_RAX, /* the general ones, as encoded: bit 1u << X86_RAX in a mask of registers */
    X86_RCX,
    X86_RDX,
    X86_RBX,
    X86_RSP,
    X86_RBP,
    X86_RSI,
    X86_RDI,
    X86_R8,
    X86_R9,
    X86_R10,
    X86_R11,
    X86_R12,
    X86_R13,
    X86_R14,
    X86_R15,
    X86_GPR_COUNT,
    X86_REG_VEC0 = 16,
    X86_REG_MASK0 = 48,
    X86_REG_FLAGS_C = 56,
    X86_REG_FLAGS_ZAPS = 57, /* OF too */
    X86_REG_X87 = 58,
    X86_REG_MXCSR = 59,
    X86_REG_COUNT = 60,
    X86_REG_RIP = 254, /* only as the base of an address */
    X86_REG_NONE = 255
};

/* ---- decode.c ---- */

enum x86_kind {
    X86_PLAIN,
    X86_JMP,     /* direct */
    X86_JCC,     /* direct conditional */
    X86_JCXZ,    /* jrcxz, jecxz, loop, loope, loopne: 8-bit reach only */
    X86_XBEGIN,  /* direct with a second way out */
    X86_CALL,    /* direct */
    X86_JMP_IND, /* through register or memory */
    X86_CALL_IND,
    X86_RET,
    X86_SYSCALL,
    X86_TRAP, /* ud2, int3, hlt: control does not go on */
    X86_INT,  /* int n, sysenter, ... */
    X86_KIND_COUNT
};

/* What it does, as far as anybody asks; the operands' roles follow from the masks. */
enum x86_op {
    X86_OP_OTHER,
    X86_OP_MOV,    /* mov, between registers and memory, or from an immediate */
    X86_OP_MOVSXD, /* 32 to 64 bits with sign; cdqe too */
    X86_OP_ADD,
    X86_OP_SUB,
    X86_OP_LEA,
    X86_OP_CMP,
    X86_OP_CMOV,
    X86_OP_PUSH,
    X86_OP_POP,
    X86_OP_AND,
    X86_OP_XOR,
    X86_OP_TEST,
    X86_OP_MUL, /* imul too */
    X86_OP_MULX,
    X86_OP_DIV,
    X86_OP_IDIV,
    X86_OP_EXCHANGE, /* xchg, cmpxchg, bts: attempts to get a lock */
    X86_OP_ENTER,
    X86_OP_MODE,   /* popf, bases of segments, ends of transactions: changes what the code after it relies on */
    X86_OP_CHANCE, /* clocks, counters, dice, cpuid: gives another value another time */
};

/* flag bits, for flags_read / flags_written */
enum { X86_CF = 1, X86_PF = 2, X86_AF = 4, X86_ZF = 8, X86_SF = 16, X86_OF = 32, X86_ALL_FLAGS = 63 };

enum x86_prop {
    X86_PROP_RIPREL = 1, /* has a RIP-relative memory operand; target is its address */
    X86_PROP_ABS32 = 2, /* memory operand with disp32 that may be an absolute address; target is disp (sign-extended) */
    X86_PROP_IMM_ADDR = 4, /* has a 32 or 64-bit immediate (mov, push, cmp...): target holds it if no memory target */
    X86_PROP_LOCK = 8,     /* xchg with memory always */
    X86_PROP_REP = 16,     /* rep/repe/repne string instruction */
    X86_PROP_SEG = 32,     /* fs: or gs: memory operand */
    X86_PROP_GS = 64,
    X86_PROP_LEA = 128,
    X86_PROP_NOP = 256,   /* any length, endbr64 too */
    X86_PROP_STACK = 512, /* push, pop, call, ret, enter, leave: implicit stack access */
    X86_PROP_VEC = 1024,  /* touches xmm/ymm/zmm/mmx/x87 */
    X86_PROP_FLAGS_MAYBE =
        2048, /* writes its flags only under a condition (shift by cl, rep cmps): does not kill them */
    X86_PROP_ENDBR = 4096,
    X86_PROP_VSIB = 8192, /* gather or scatter: the index is a vector register; loads or stores count its elements */
};

struct x86_insn {                      /* 40 bytes */
    uint64_t addr;                     /* in the file */
    uint64_t target;                   /* direct branch: destination; else see props; else 0 */
    uint16_t mnemonic;                 /* ZydisMnemonic, for dumps and pattern matching inside x86 and cfg */
    uint16_t props;                    /* X86_PROP_* */
    uint8_t len;                       /* bytes, 1 to 15 */
    uint8_t kind;                      /* enum x86_kind */
    uint8_t flags_read, flags_written; /* of the six arithmetic flags; an undefined one counts as not written */
    uint16_t gpr_read, gpr_written;    /* a bit for each general register (enum x86_reg); partial writes (8 and 16 bits)
                                          are in both; implicit ones included; a syscall writes rax rcx r11 */
    uint8_t loads, stores;             /* memory accesses, implicit stack ones too; a rep counts once */
    uint8_t mem_base, mem_index;       /* of the explicit memory operand: X86_REG_NONE none, base also X86_REG_RIP */
    uint8_t mem_scale;                 /* 1 2 4 8, 0 none */
    uint8_t disp_off, disp_len; /* where the displacement (or branch offset) stands in the instruction; len 0 none */
    uint8_t imm_off, imm_len;
    uint8_t cond;     /* JCC: condition code 0..15 as encoded */
    uint8_t op;       /* enum x86_op */
    uint8_t op_bytes; /* operand width: 1 2 4 8; of a movsxd the destination's */
};

static inline bool x86_is_branch(const struct x86_insn *i) { return i->kind >= X86_JMP && i->kind <= X86_RET; }
static inline bool x86_is_conditional(const struct x86_insn *i) { return i->kind >= X86_JCC && i->kind <= X86_XBEGIN; }
static inline bool x86_is_call(const struct x86_insn *i) { return i->kind == X86_CALL || i->kind == X86_CALL_IND; }
/* Its target is not in its bytes. */
static inline bool x86_is_indirect(const struct x86_insn *i) { return i->kind >= X86_JMP_IND && i->kind <= X86_RET; }

/* Decodes one instruction from bytes[0..avail). Returns its length, or 0 if it is not one (nothing reported). */
int x86_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct x86_insn *out);
enum { X86_MORE_BYTES = 16 }; /* behind an instruction's first byte: with so many to read, decoding is fast */
/* The same where `more` bytes may be read behind bytes[avail], which the instruction must not reach into. */
int x86_decode_before(const uint8_t *bytes, size_t avail, size_t more, uint64_t addr, struct x86_insn *out);

/* What a target is made of, beside the instruction's address. */
enum x86_target_rule { X86_TARGET_NONE, X86_TARGET_REL, X86_TARGET_SIGNED, X86_TARGET_UNSIGNED, X86_TARGET_WIDE };

/* A shape: all that instructions have in common which differ only in place, displacement and immediate. A program of
 * millions of instructions has some thousands. */
struct x86_shape {
    struct x86_insn insn; /* addr and target 0 */
    uint8_t rule, pad[7]; /* enum x86_target_rule */
};
/* 22 bits: the number of its shape; and what passes over all instructions ask, without a look at the shape: 4 bits each
 * kind and length; 1 bit: has a RIP-relative operand, an absolute address or an immediate of 4 bytes or more; 1 bit: is
 * odd. */
struct x86_short { /* with its address it gives the x86_insn again */
    uint32_t word;
    int32_t value; /* the distance, or the number, that the target is made of; X86_TARGET_WIDE: look at the bytes */
};
/* The same decode to the short form. Returns the length, or 0: no instruction (or more than X86_SHAPES_MAX shapes). */
int x86_decode_short(const uint8_t *bytes, size_t avail, struct x86_short *out);

enum { X86_SHORT_SHAPE_BITS = 22 };
static inline uint32_t x86_short_shape(const struct x86_short *s)
{
    return s->word & ((1u << X86_SHORT_SHAPE_BITS) - 1);
}
static inline uint8_t x86_short_kind(const struct x86_short *s) { return s->word >> X86_SHORT_SHAPE_BITS & 15; }
static inline uint8_t x86_short_len(const struct x86_short *s) { return s->word >> (X86_SHORT_SHAPE_BITS + 4) & 15; }
static inline bool x86_short_refers(const struct x86_short *s) { return s->word >> 30 & 1; }
/* Uses gs, or reads and writes one place on the stack. */
static inline bool x86_short_needs_check(const struct x86_short *s) { return s->word >> 31; }

/* Shapes are never forgotten nor moved, and are the same for all threads. */
#define X86_SHAPE_CHUNK 1024
#define X86_SHAPES_MAX (4096u * X86_SHAPE_CHUNK)
extern struct x86_shape *x86_shapes[X86_SHAPES_MAX / X86_SHAPE_CHUNK];
static inline const struct x86_shape *x86_shape(uint32_t shape)
{
    return &x86_shapes[shape / X86_SHAPE_CHUNK][shape % X86_SHAPE_CHUNK];
}
/* x86_insn.target of an instruction that ends at `end`; 0 for X86_TARGET_WIDE, whose target is the immediate of 8
 * bytes. */
static inline uint64_t x86_target(enum x86_target_rule rule, uint64_t end, int32_t value)
{
    switch (rule) {
    case X86_TARGET_REL:
        return end + (uint64_t)(int64_t)value;
    case X86_TARGET_SIGNED:
        return (uint64_t)(int64_t)value;
    case X86_TARGET_UNSIGNED:
        return (uint32_t)value;
    default:
        return 0;
    }
}
static inline uint64_t x86_short_target(const struct x86_short *s, uint64_t addr)
{
    const struct x86_shape *k = x86_shape(x86_short_shape(s));
    return x86_target((enum x86_target_rule)k->rule, addr + k->insn.len, s->value);
}
/* Intel syntax text, for dumps. */
void x86_format(const uint8_t *bytes, size_t len, uint64_t addr, char *out, size_t out_len);
const char *x86_mnemonic_name(uint16_t mnemonic);
/* Is register number r (GPR) certainly written (whole 64 bits: 32 or 64-bit destination) before being read by this one?
 */
bool x86_kills_gpr(const struct x86_insn *i, unsigned r);

/* ---- access.c: which memory it reaches ---- */

enum { X86_SEGMENT_NONE, X86_SEGMENT_FS, X86_SEGMENT_GS };
enum { X86_ACCESSES_MAX = 4 };
struct x86_access {
    uint8_t base, index, scale, segment; /* GPR numbers or X86_REG_NONE; X86_SEGMENT_* */
    uint16_t bytes;                      /* 1 to 64, of which a mask may leave some out */
    bool is_load, is_store;
    int64_t disp;
};
/* With the registers before it; bases of fs and gs. */
uint64_t x86_access_address(const struct x86_access *a, const uint64_t regs[16], uint64_t fs, uint64_t gs);

/* ---- reach.c: where else it reaches memory ---- */

enum x86_reach_kind {
    X86_REACH_NONE,     /* x86_detail.access says all */
    X86_REACH_ELEMENTS, /* gathers and scatters: `access` plus scale times each of `index` */
    X86_REACH_MASKED,   /* some elements of a vector, in a row */
    X86_REACH_STATE,    /* xsave and its like: what edx:eax says */
    X86_REACH_FIXED,    /* fixed_bytes */
    X86_REACH_BIT,      /* the bit, from `access` on, whose number `index` holds */
    X86_REACH_TABLE,    /* plus al */
};
enum { X86_STATE_STANDARD, X86_STATE_COMPACT, X86_STATE_AS_IT_SAYS };
struct x86_reach {
    uint8_t kind;               /* enum x86_reach_kind */
    uint8_t mask;               /* an element is reached if its bit of a mask register, or its sign in a vector, is 1 */
    uint8_t index, index_bytes; /* vector register, of each in it; BIT: general register */
    uint8_t element_bytes, count; /* in memory; count: of bits or signs */
    uint8_t format;               /* STATE: X86_STATE_* */
    uint16_t vector_bytes;        /* of the mask, if that is a vector; ELEMENTS: of the data */
    uint16_t fixed_bytes;
    bool is_evex;             /* ELEMENTS */
    bool is_packed;           /* MASKED: those asked for come one behind another */
    bool is_whole;            /* MASKED: all bytes, if any bit is set */
    bool is_mmx;              /* MASKED: the mask is a register of MMX */
    bool is_narrow;           /* addresses have 32 bits */
    struct x86_access access; /* what general registers and numbers make of the address */
};

/* ---- compare.c: what a conditional jump decides upon ---- */

enum x86_term_kind { X86_TERM_REGISTER, X86_TERM_NUMBER, X86_TERM_MEMORY };
struct x86_term {
    uint8_t kind, reg; /* reg: GPR number or X86_REG_NONE */
    uint64_t number;
};
struct x86_compare { /* flags of term[0] - term[1], or of their sum */
    uint8_t op;      /* X86_OP_CMP, X86_OP_SUB, X86_OP_ADD; dec and inc too; X86_OP_OTHER: it is none of these */
    uint8_t bits;    /* 8 to 64 */
    struct x86_term term[2];
};
/* Is a jump of condition code `cond` (0 to 15) taken after a comparison of a with b? */
bool x86_would_jump(unsigned cond, uint64_t a, uint64_t b, unsigned bits);

/* ---- order.c: for who puts instructions into another order ---- */

struct x86_order {          /* all that it reads and changes, beside memory */
    uint64_t reads, writes; /* a bit for each X86_REG_* but flags; those of addresses too; what is written in part, or
                               under a condition, counts as written */
    uint8_t flags_read;     /* X86_CF.. */
    uint8_t flags_changed;  /* written, perhaps written, or left undefined ... */
    uint8_t flags_kept;     /* ... and of these such as may keep what they held */
    bool is_fixed; /* nothing may pass it: control leaves, rsp moves, it locks, fences, repeats, does nothing, has to do
                      with x87 or the system, or says not where it reaches memory */
};

/* ---- detail.c: for the core model and calibration ---- */

/* What an instruction does to one general register, as far as plain arithmetic on values can follow it. */
enum x86_effect {
    X86_EFFECT_OTHER,   /* nothing that can be followed: every written register holds something new */
    X86_EFFECT_COPY,    /* dst = src */
    X86_EFFECT_CONST,   /* dst = imm */
    X86_EFFECT_ADD_IMM, /* dst = dst + imm */
    X86_EFFECT_ADD_REG, /* dst = dst + src */
    X86_EFFECT_LEA,     /* dst = the address of the memory operand */
    X86_EFFECT_LOAD,    /* dst = 64 bits from the memory operand */
    X86_EFFECT_STORE,   /* 64 bits at the memory operand = src */
    X86_EFFECT_PUSH,    /* rsp -= 8; [rsp] = src (or anything) */
    X86_EFFECT_POP,     /* dst (or nothing) = [rsp]; rsp += 8; ret too, with imm more */
    X86_EFFECT_LEAVE,   /* rsp = rbp; then as pop rbp */
};

/* Which following conditional jumps an instruction may be taken together with (macro-fusion), by the widest rule known.
 */
enum x86_fuse { X86_FUSE_NONE, X86_FUSE_TEST, X86_FUSE_CMP, X86_FUSE_ALU, X86_FUSE_INC };

enum { X86_FORM_BYTES = 48 };
struct x86_detail { /* everything */
    struct x86_insn insn;
    /* What the machine description is keyed by: mnemonic and operand kinds with widths, memory split off: "add
     * r64,r64", "vfmadd231pd y,y,y", "mov r32,m"; the same instruction always gives the same form. An operand in memory
     * is written as the register it stands for, except in plain moves ("m"). Conditions are merged: "jcc i", "cmovcc
     * r64,r64", but "cmovbe", "setbe" (they need C and Z) and "cmovl" (S and O). lea tells its address: "lea
     * r64,b+i*s+d". Prefixes "lock " and "rep " stay. */
    char form[X86_FORM_BYTES];
    uint8_t reads[10], writes[6]; /* X86_REG_*; data operands, without the address registers; push, pop, call, ret and
                                     leave do not list rsp (a stack engine moves it) */
    uint8_t read_count, write_count;
    uint8_t addr_regs[3], addr_reg_count;            /* registers that form the memory address */
    bool is_load, is_store;                          /* explicit or stack access */
    bool addr_indexed, addr_has_disp, addr_is_stack; /* index present; base+index+disp matters for latency */
    uint8_t addr_base,
        addr_index; /* enum x86_reg; of base X86_REG_RIP: addr_disp counts from the start of the instruction */
    uint8_t scale;
    int64_t addr_disp;
    int64_t imm;        /* of the last immediate operand, 0 if none */
    uint16_t mem_bytes; /* access width; 0 none; of one element for rep strings */
    bool is_pure_move;  /* the form keeps its "m": nothing but the access itself is to be done */
    bool is_vec;        /* the memory side of the access belongs to a vector register */
    bool is_zero_idiom, is_mov_elim, is_serializing;
    uint16_t op_bits; /* operand width of the main operation, or that of the widest vector register */
    uint8_t fuse;     /* enum x86_fuse */
    uint8_t effect, effect_dst, effect_src; /* enum x86_effect; GPR numbers or X86_REG_NONE */
    int8_t access_count; /* -1: it does not say where it reaches (gather, scatter, xsave and its like): see
                            reach */
    struct x86_access access[X86_ACCESSES_MAX]; /* of one element if it repeats; prefetches count as loads */
    struct x86_compare compare;
    struct x86_reach reach;
    struct x86_order order;
};
/* Its length, or 0: the bytes are no instruction. Many times as slow as x86_decode. */
int x86_decode_detail(const uint8_t *bytes, size_t avail, uint64_t addr, struct x86_detail *out);

/* ---- form.c: the text of a form (x86_detail.form), taken apart ---- */

enum x86_form_kind {
    X86_FORM_OTHER, /* what nobody chooses: segments, control registers */
    X86_FORM_GPR,
    X86_FORM_CL,
    X86_FORM_VEC,
    X86_FORM_MASK,
    X86_FORM_MMX,
    X86_FORM_X87,
    X86_FORM_NUMBER, /* an immediate */
    X86_FORM_MEMORY,
    X86_FORM_ADDRESS, /* that lea takes */
};
enum { X86_FORM_OPERANDS_MAX = 5 };
struct x86_form_operand {
    uint8_t kind;  /* enum x86_form_kind */
    uint16_t bits; /* of a register */
};
enum x86_element { X86_ELEMENT_INT, X86_ELEMENT_FLOAT, X86_ELEMENT_DOUBLE };
struct x86_form {
    char name[32]; /* the mnemonic, without prefixes */
    bool is_locked, is_rep;
    bool is_lea, is_jcc;
    bool divides;                                  /* a division or square root, of whatever */
    bool is_vex;                                   /* named as what has VEX or EVEX */
    uint8_t element;                               /* enum x86_element, as the name tells it; of vectors only */
    bool has_mask;                                 /* {k} behind the destination */
    bool has_gpr;                                  /* an operand is a general register, cl apart */
    bool has_base, has_index, has_scale, has_disp; /* of an address */
    uint16_t vec_bits;                             /* of the widest vector operand; 0: none */
    uint8_t count;
    struct x86_form_operand operand[X86_FORM_OPERANDS_MAX]; /* in their order, a mask behind the destination */
};
void x86_form_parse(const char *text, struct x86_form *out);

/* ---- in_register.c ---- */

/* The same instruction with general register `gpr` in the place of its operand in memory, whose address must be fixed
 * (RIP-relative or absolute). Its length, always less than before, or 0: there is none that does the same, or it is
 * locked. A write of 32 bits clears the upper half of a register, as it does not in memory: the caller sees to that. */
int x86_in_register(const uint8_t *bytes, const struct x86_insn *i, unsigned gpr, uint8_t out[15]);

/* ---- encode.c: for calibration, code made at run time ---- */

/* What stands for the operands of a form; numbers of registers within their class (0 rax or xmm0, ...). */
struct x86_choice {
    uint8_t regs[5]; /* for the register operands, in their order ("cl" takes none) */
    int64_t imm;
    uint8_t base, index, scale; /* for "m" and lea: GPR numbers; X86_REG_NONE: none; scale 0 is taken as 1 */
    int32_t disp;
};
/* The bytes of an instruction of this form (as x86_detail writes it; not jumps, calls, rep and lock), or 0 if there is
 * none. "cmovcc", "setcc" get the condition zero, "cmovbe", "setbe" below or equal. */
int x86_encode_form(const char *form, const struct x86_choice *c, uint8_t out[15]);
int x86_encode(const struct x86_form *form, const struct x86_choice *c, uint8_t out[15]); /* the same, parsed */

#endif
