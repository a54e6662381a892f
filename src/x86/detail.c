/* SPDX-License-Identifier: Apache-2.0
 *
 * One instruction in detail: what a core model must know of it beside the summary: the form that a machine description
 * is keyed by, the renamed registers that it reads and writes, its memory access, the idioms that a core treats apart,
 * and what it does to addresses. It says nothing about time: that is the machine description's part. */
#include "x86/impl.h"

struct work { /* one decoded instruction on its way */
    const ZydisDecodedInstruction *in;
    const ZydisDecodedOperand *op;
    struct x86_detail *out;
};

/* Legacy SSE instructions that keep the rest of their destination, which the tables of Zydis call a plain write. */
static const ZydisMnemonic merging[] = {
    ZYDIS_MNEMONIC_SQRTSS,  ZYDIS_MNEMONIC_SQRTSD,  ZYDIS_MNEMONIC_CVTSS2SD, ZYDIS_MNEMONIC_CVTSD2SS,
    ZYDIS_MNEMONIC_ROUNDSS, ZYDIS_MNEMONIC_ROUNDSD, ZYDIS_MNEMONIC_RCPSS,    ZYDIS_MNEMONIC_RSQRTSS,
    ZYDIS_MNEMONIC_MOVLPS,  ZYDIS_MNEMONIC_MOVLPD,  ZYDIS_MNEMONIC_MOVHPS,   ZYDIS_MNEMONIC_MOVHPD,
    ZYDIS_MNEMONIC_MOVLHPS, ZYDIS_MNEMONIC_MOVHLPS,
};

/* x op x = 0 whatever x was: no wait for x. The second half also gives all ones for equal sources. */
static const ZydisMnemonic zeroing[] = {
    ZYDIS_MNEMONIC_XOR,    ZYDIS_MNEMONIC_SUB,      ZYDIS_MNEMONIC_PXOR,     ZYDIS_MNEMONIC_XORPS,
    ZYDIS_MNEMONIC_XORPD,  ZYDIS_MNEMONIC_PSUBB,    ZYDIS_MNEMONIC_PSUBW,    ZYDIS_MNEMONIC_PSUBD,
    ZYDIS_MNEMONIC_PSUBQ,  ZYDIS_MNEMONIC_PCMPGTB,  ZYDIS_MNEMONIC_PCMPGTW,  ZYDIS_MNEMONIC_PCMPGTD,
    ZYDIS_MNEMONIC_VPXOR,  ZYDIS_MNEMONIC_VXORPS,   ZYDIS_MNEMONIC_VXORPD,   ZYDIS_MNEMONIC_VPXORD,
    ZYDIS_MNEMONIC_VPXORQ, ZYDIS_MNEMONIC_VPSUBB,   ZYDIS_MNEMONIC_VPSUBW,   ZYDIS_MNEMONIC_VPSUBD,
    ZYDIS_MNEMONIC_VPSUBQ, ZYDIS_MNEMONIC_VPCMPGTB, ZYDIS_MNEMONIC_VPCMPGTW, ZYDIS_MNEMONIC_VPCMPGTD,
};
static const ZydisMnemonic ones[] = {
    ZYDIS_MNEMONIC_PCMPEQB,  ZYDIS_MNEMONIC_PCMPEQW,  ZYDIS_MNEMONIC_PCMPEQD,
    ZYDIS_MNEMONIC_VPCMPEQB, ZYDIS_MNEMONIC_VPCMPEQW, ZYDIS_MNEMONIC_VPCMPEQD,
};

static const ZydisMnemonic full_moves[] = {
    ZYDIS_MNEMONIC_MOV,       ZYDIS_MNEMONIC_MOVAPS,    ZYDIS_MNEMONIC_MOVAPD,    ZYDIS_MNEMONIC_MOVUPS,
    ZYDIS_MNEMONIC_MOVUPD,    ZYDIS_MNEMONIC_MOVDQA,    ZYDIS_MNEMONIC_MOVDQU,    ZYDIS_MNEMONIC_VMOVAPS,
    ZYDIS_MNEMONIC_VMOVAPD,   ZYDIS_MNEMONIC_VMOVUPS,   ZYDIS_MNEMONIC_VMOVUPD,   ZYDIS_MNEMONIC_VMOVDQA,
    ZYDIS_MNEMONIC_VMOVDQU,   ZYDIS_MNEMONIC_VMOVDQA32, ZYDIS_MNEMONIC_VMOVDQA64, ZYDIS_MNEMONIC_VMOVDQU8,
    ZYDIS_MNEMONIC_VMOVDQU16, ZYDIS_MNEMONIC_VMOVDQU32, ZYDIS_MNEMONIC_VMOVDQU64,
};

/* Moves of other categories than DATAXFER, BROADCAST, PUSH and POP: their form keeps "m". */
static const ZydisMnemonic more_moves[] = {
    ZYDIS_MNEMONIC_KMOVB,      ZYDIS_MNEMONIC_KMOVW,      ZYDIS_MNEMONIC_KMOVD,      ZYDIS_MNEMONIC_KMOVQ,
    ZYDIS_MNEMONIC_LDDQU,      ZYDIS_MNEMONIC_VLDDQU,     ZYDIS_MNEMONIC_MOVNTDQA,   ZYDIS_MNEMONIC_VMOVNTDQA,
    ZYDIS_MNEMONIC_LDMXCSR,    ZYDIS_MNEMONIC_STMXCSR,    ZYDIS_MNEMONIC_VMASKMOVPS, ZYDIS_MNEMONIC_VMASKMOVPD,
    ZYDIS_MNEMONIC_VPMASKMOVD, ZYDIS_MNEMONIC_VPMASKMOVQ, ZYDIS_MNEMONIC_FLD,        ZYDIS_MNEMONIC_FST,
    ZYDIS_MNEMONIC_FSTP,       ZYDIS_MNEMONIC_FILD,       ZYDIS_MNEMONIC_FISTP,      ZYDIS_MNEMONIC_FISTTP,
    ZYDIS_MNEMONIC_FLDCW,      ZYDIS_MNEMONIC_FNSTCW,
};

static const struct {
    ZydisMnemonic mnemonic;
    uint8_t fuse;
} fusing[] = {
    {ZYDIS_MNEMONIC_TEST, X86_FUSE_TEST}, {ZYDIS_MNEMONIC_AND, X86_FUSE_TEST}, {ZYDIS_MNEMONIC_CMP, X86_FUSE_CMP},
    {ZYDIS_MNEMONIC_ADD, X86_FUSE_ALU},   {ZYDIS_MNEMONIC_SUB, X86_FUSE_ALU},  {ZYDIS_MNEMONIC_INC, X86_FUSE_INC},
    {ZYDIS_MNEMONIC_DEC, X86_FUSE_INC},
};

static bool is_among(ZydisMnemonic m, const ZydisMnemonic *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == m)
            return true;
    return false;
}
#define IS_AMONG(m, list) is_among((m), (list), ARRAY_LEN(list))

/* ---- registers ---- */

static void add_reg(uint8_t *list, uint8_t *count, size_t cap, uint8_t reg)
{
    for (size_t i = 0; i < *count; i++)
        if (list[i] == reg)
            return;
    if (reg != X86_REG_NONE && *count < cap)
        list[(*count)++] = reg;
}
#define ADD_READ(d, reg) add_reg((d)->reads, &(d)->read_count, sizeof(d)->reads, (reg))
#define ADD_WRITE(d, reg) add_reg((d)->writes, &(d)->write_count, sizeof(d)->writes, (reg))
#define ADD_ADDR(d, reg) add_reg((d)->addr_regs, &(d)->addr_reg_count, sizeof(d)->addr_regs, (reg))

static bool uses_stack_engine(const struct work *w)
{
    switch (w->in->meta.category) {
    case ZYDIS_CATEGORY_PUSH:
    case ZYDIS_CATEGORY_POP:
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
        return true;
    default:
        return w->in->mnemonic == ZYDIS_MNEMONIC_LEAVE;
    }
}

/* Does the write leave a part of the old value, so that it waits for it? */
static bool keeps_rest(const struct work *w, const ZydisDecodedOperand *op)
{
    ZydisRegisterClass c = ZydisRegisterGetClass(op->reg.value);
    if (op->actions & ZYDIS_OPERAND_ACTION_CONDWRITE)
        return true;
    if (c == ZYDIS_REGCLASS_GPR8 || c == ZYDIS_REGCLASS_GPR16)
        return true;
    if (op != w->op || (c != ZYDIS_REGCLASS_XMM && c != ZYDIS_REGCLASS_YMM && c != ZYDIS_REGCLASS_ZMM))
        return false;
    if (w->in->avx.mask.mode == ZYDIS_MASK_MODE_MERGING)
        return true;
    if (w->in->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
        return false;
    bool scalar_move = (w->in->mnemonic == ZYDIS_MNEMONIC_MOVSS || w->in->mnemonic == ZYDIS_MNEMONIC_MOVSD) &&
                       w->op[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
    return scalar_move || IS_AMONG(w->in->mnemonic, merging);
}

static void take_register(struct work *w, const ZydisDecodedOperand *op)
{
    struct x86_detail *d = w->out;
    ZydisRegister r = op->reg.value;
    if (r == ZYDIS_REGISTER_RFLAGS || r == ZYDIS_REGISTER_EFLAGS || r == ZYDIS_REGISTER_FLAGS)
        return;
    if (op->encoding == ZYDIS_OPERAND_ENCODING_MASK && r == ZYDIS_REGISTER_K0)
        return;
    uint8_t reg = x86_zydis_reg(r);
    if (reg == X86_RSP && op->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && uses_stack_engine(w))
        return;
    if (op->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
        ADD_READ(d, reg);
    if (!(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
        return;
    if (keeps_rest(w, op))
        ADD_READ(d, reg);
    ADD_WRITE(d, reg);
}

static void take_address(struct work *w, const ZydisDecodedOperand *op)
{
    struct x86_detail *d = w->out;
    bool hidden = op->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
    uint8_t base = x86_zydis_reg(op->mem.base), index = x86_zydis_reg(op->mem.index);
    ADD_ADDR(d, base);
    ADD_ADDR(d, index);
    if (hidden && d->addr_base != X86_REG_NONE) /* the explicit operand, or the first, tells the address */
        return;
    bool rip = op->mem.base == ZYDIS_REGISTER_RIP;
    d->addr_base = rip ? X86_REG_RIP : base;
    d->addr_index = index;
    d->scale = index == X86_REG_NONE ? 0 : op->mem.scale;
    d->addr_disp = op->mem.disp.value + (rip ? w->in->length : 0);
    d->addr_indexed = index != X86_REG_NONE;
    d->addr_has_disp = op->mem.disp.value != 0;
}

static bool is_vector_operand(const struct work *w, const ZydisDecodedOperand *op);

static void take_memory(struct work *w, const ZydisDecodedOperand *op)
{
    struct x86_detail *d = w->out;
    take_address(w, op);
    if (op->mem.type != ZYDIS_MEMOP_TYPE_MEM && op->mem.type != ZYDIS_MEMOP_TYPE_VSIB)
        return;
    if (op->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
        d->is_load = true;
    if (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
        d->is_store = true;
    if (op->mem.base == ZYDIS_REGISTER_RSP && op->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN)
        d->addr_is_stack = true;
    if (!d->mem_bytes)
        d->mem_bytes = (uint16_t)(op->size / 8);
    d->is_vec = d->is_vec || is_vector_operand(w, op);
}

static void take_flags(struct work *w)
{
    struct x86_detail *d = w->out;
    const ZydisAccessedFlags *f = w->in->cpu_flags;
    if (!f)
        return;
    const ZydisAccessedFlagsMask rest =
        ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_OF;
    const ZydisAccessedFlagsMask main_part = ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF;
    ZydisAccessedFlagsMask written = f->modified | f->set_0 | f->set_1 | f->undefined;
    if (f->tested & ZYDIS_CPUFLAG_CF)
        ADD_READ(d, X86_REG_FLAGS_C);
    if (f->tested & rest)
        ADD_READ(d, X86_REG_FLAGS_ZAPS);
    for (int i = 0; i < w->in->operand_count; i++) { /* shifts by cl keep the flags for a count of zero */
        const ZydisDecodedOperand *op = &w->op[i];
        if (op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->reg.value == ZYDIS_REGISTER_RFLAGS &&
            (op->actions & ZYDIS_OPERAND_ACTION_CONDWRITE) && !(d->insn.props & X86_PROP_REP)) {
            ADD_READ(d, X86_REG_FLAGS_C);
            ADD_READ(d, X86_REG_FLAGS_ZAPS);
        }
    }
    if (written & ZYDIS_CPUFLAG_CF)
        ADD_WRITE(d, X86_REG_FLAGS_C);
    if (written & main_part)
        ADD_WRITE(d, X86_REG_FLAGS_ZAPS);
}

static void take_operands(struct work *w)
{
    if (w->out->insn.props & X86_PROP_NOP) /* what long ones name is neither read nor reached */
        return;
    for (int i = 0; i < w->in->operand_count; i++) {
        const ZydisDecodedOperand *op = &w->op[i];
        if (op->type == ZYDIS_OPERAND_TYPE_REGISTER)
            take_register(w, op);
        else if (op->type == ZYDIS_OPERAND_TYPE_MEMORY)
            take_memory(w, op);
        else if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
            w->out->imm = op->imm.value.s;
    }
    take_flags(w);
}

/* ---- idioms ---- */

static bool same_sources(const struct work *w)
{
    int n = w->in->operand_count_visible;
    if (n < 2)
        return false;
    const ZydisDecodedOperand *a = &w->op[n - 2], *b = &w->op[n - 1];
    return a->type == ZYDIS_OPERAND_TYPE_REGISTER && b->type == ZYDIS_OPERAND_TYPE_REGISTER &&
           a->reg.value == b->reg.value && a->encoding != ZYDIS_OPERAND_ENCODING_MASK;
}

static void find_idioms(struct work *w)
{
    struct x86_detail *d = w->out;
    bool wide = w->op[0].size >= 32 && w->in->avx.mask.reg <= ZYDIS_REGISTER_K0;
    if (wide && same_sources(w)) {
        d->is_zero_idiom = IS_AMONG(w->in->mnemonic, zeroing);
        if (d->is_zero_idiom || IS_AMONG(w->in->mnemonic, ones))
            d->read_count = 0;
    }
    d->is_mov_elim = wide && w->in->operand_count_visible >= 2 && !w->in->avx.mask.reg &&
                     w->op[0].type == ZYDIS_OPERAND_TYPE_REGISTER && w->op[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                     IS_AMONG(w->in->mnemonic, full_moves);
    for (size_t i = 0; i < ARRAY_LEN(fusing); i++)
        if (fusing[i].mnemonic == w->in->mnemonic)
            d->fuse = fusing[i].fuse;
    bool mem_and_imm =
        d->addr_reg_count + (d->addr_base == X86_REG_RIP) > 0 && w->op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
    if (d->is_store || mem_and_imm)
        d->fuse = X86_FUSE_NONE;
}

static bool is_serializing(ZydisMnemonic m)
{
    switch (m) {
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_LFENCE:
    case ZYDIS_MNEMONIC_MFENCE:
    case ZYDIS_MNEMONIC_SERIALIZE:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_SYSCALL:
    case ZYDIS_MNEMONIC_XGETBV:
        return true;
    default:
        return false;
    }
}

/* ---- effect on addresses ---- */

static uint8_t gpr64(const ZydisDecodedOperand *op)
{
    bool ok = op->type == ZYDIS_OPERAND_TYPE_REGISTER && ZydisRegisterGetClass(op->reg.value) == ZYDIS_REGCLASS_GPR64;
    return ok ? x86_zydis_reg(op->reg.value) : X86_REG_NONE;
}

static void set_effect(struct x86_detail *d, enum x86_effect e, uint8_t dst, uint8_t src)
{
    d->effect = (uint8_t)e;
    d->effect_dst = dst;
    d->effect_src = src;
}

static void find_mov_effect(struct work *w, uint8_t dst, uint8_t src)
{
    struct x86_detail *d = w->out;
    if (dst != X86_REG_NONE && src != X86_REG_NONE)
        set_effect(d, X86_EFFECT_COPY, dst, src);
    else if (dst != X86_REG_NONE && w->op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
        set_effect(d, X86_EFFECT_CONST, dst, X86_REG_NONE);
    else if (dst != X86_REG_NONE && d->is_load)
        set_effect(d, X86_EFFECT_LOAD, dst, X86_REG_NONE);
    else if (src != X86_REG_NONE && d->is_store)
        set_effect(d, X86_EFFECT_STORE, X86_REG_NONE, src);
    else if (w->op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
             ZydisRegisterGetClass(w->op[0].reg.value) == ZYDIS_REGCLASS_GPR32)
        set_effect(d, X86_EFFECT_CONST, x86_zydis_reg(w->op[0].reg.value), X86_REG_NONE);
}

static void find_add_effect(struct work *w, uint8_t dst, uint8_t src, int64_t sign)
{
    struct x86_detail *d = w->out;
    if (dst == X86_REG_NONE)
        return;
    if (w->in->operand_count_visible == 1) { /* inc, dec */
        d->imm = sign;
        set_effect(d, X86_EFFECT_ADD_IMM, dst, X86_REG_NONE);
    } else if (w->op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
        d->imm *= sign;
        set_effect(d, X86_EFFECT_ADD_IMM, dst, X86_REG_NONE);
    } else if (src != X86_REG_NONE && sign > 0) {
        set_effect(d, X86_EFFECT_ADD_REG, dst, src);
    }
}

static void find_effect(struct work *w)
{
    struct x86_detail *d = w->out;
    uint8_t dst = gpr64(&w->op[0]), src = w->in->operand_count_visible > 1 ? gpr64(&w->op[1]) : X86_REG_NONE;
    set_effect(d, X86_EFFECT_OTHER, X86_REG_NONE, X86_REG_NONE);
    switch (w->in->mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
        find_mov_effect(w, dst, src);
        break;
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_INC:
        find_add_effect(w, dst, src, 1);
        break;
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_DEC:
        find_add_effect(w, dst, src, -1);
        break;
    case ZYDIS_MNEMONIC_LEA:
        if (dst != X86_REG_NONE)
            set_effect(d, X86_EFFECT_LEA, dst, X86_REG_NONE);
        break;
    case ZYDIS_MNEMONIC_PUSH:
        set_effect(d, X86_EFFECT_PUSH, X86_REG_NONE, dst);
        break;
    case ZYDIS_MNEMONIC_CALL:
        set_effect(d, X86_EFFECT_PUSH, X86_REG_NONE, X86_REG_NONE);
        break;
    case ZYDIS_MNEMONIC_POP:
        d->imm = 0;
        set_effect(d, X86_EFFECT_POP, dst, X86_REG_NONE);
        break;
    case ZYDIS_MNEMONIC_RET:
        set_effect(d, X86_EFFECT_POP, X86_REG_NONE, X86_REG_NONE);
        break;
    case ZYDIS_MNEMONIC_LEAVE:
        set_effect(d, X86_EFFECT_LEAVE, X86_REG_NONE, X86_REG_NONE);
        break;
    default:
        break;
    }
}

/* ---- form ---- */

/* Is the register that this operand in memory stands for a vector one? */
static bool is_vector_operand(const struct work *w, const ZydisDecodedOperand *op)
{
    bool is_float = op->element_type == ZYDIS_ELEMENT_TYPE_FLOAT32 || op->element_type == ZYDIS_ELEMENT_TYPE_FLOAT64;
    if (w->in->meta.isa_ext == ZYDIS_ISA_EXT_X87)
        return true;
    if (is_float)
        return true;
    if (w->in->meta.category == ZYDIS_CATEGORY_CONVERT && !is_float && op->size <= 64 && op->element_count == 1)
        return false; /* cvtsi2sd x,m */
    switch (w->in->mnemonic) {
    case ZYDIS_MNEMONIC_PINSRB:
    case ZYDIS_MNEMONIC_PINSRW:
    case ZYDIS_MNEMONIC_PINSRD:
    case ZYDIS_MNEMONIC_PINSRQ:
    case ZYDIS_MNEMONIC_VPINSRB:
    case ZYDIS_MNEMONIC_VPINSRW:
    case ZYDIS_MNEMONIC_VPINSRD:
    case ZYDIS_MNEMONIC_VPINSRQ:
    case ZYDIS_MNEMONIC_PEXTRB:
    case ZYDIS_MNEMONIC_PEXTRW:
    case ZYDIS_MNEMONIC_PEXTRD:
    case ZYDIS_MNEMONIC_PEXTRQ:
    case ZYDIS_MNEMONIC_VPEXTRB:
    case ZYDIS_MNEMONIC_VPEXTRW:
    case ZYDIS_MNEMONIC_VPEXTRD:
    case ZYDIS_MNEMONIC_VPEXTRQ:
        return false;
    default:
        break;
    }
    for (int i = 0; i < w->in->operand_count_visible; i++) {
        const ZydisDecodedOperand *o = &w->op[i];
        uint8_t reg = o->type == ZYDIS_OPERAND_TYPE_REGISTER ? x86_zydis_reg(o->reg.value) : X86_REG_NONE;
        if (reg != X86_REG_NONE && (reg == X86_REG_X87 || (reg >= X86_REG_VEC0 && reg < X86_REG_MASK0)))
            return true;
    }
    return false;
}

static bool is_move(const struct work *w)
{
    switch (w->in->meta.category) {
    case ZYDIS_CATEGORY_DATAXFER:
        return w->in->mnemonic != ZYDIS_MNEMONIC_XCHG && w->in->mnemonic != ZYDIS_MNEMONIC_MOVBE;
    case ZYDIS_CATEGORY_BROADCAST:
    case ZYDIS_CATEGORY_PUSH:
    case ZYDIS_CATEGORY_POP:
    case ZYDIS_CATEGORY_PREFETCH:
    case ZYDIS_CATEGORY_GATHER:
    case ZYDIS_CATEGORY_AVX2GATHER:
    case ZYDIS_CATEGORY_SCATTER:
        return true;
    default:
        return IS_AMONG(w->in->mnemonic, more_moves);
    }
}

static const char *reg_kind(ZydisRegister r, bool implicit)
{
    if (implicit && r == ZYDIS_REGISTER_CL)
        return "cl";
    switch (ZydisRegisterGetClass(r)) {
    case ZYDIS_REGCLASS_GPR8:
        return "r8";
    case ZYDIS_REGCLASS_GPR16:
        return "r16";
    case ZYDIS_REGCLASS_GPR32:
        return "r32";
    case ZYDIS_REGCLASS_GPR64:
        return "r64";
    case ZYDIS_REGCLASS_XMM:
        return "x";
    case ZYDIS_REGCLASS_YMM:
        return "y";
    case ZYDIS_REGCLASS_ZMM:
        return "z";
    case ZYDIS_REGCLASS_MMX:
        return "mm";
    case ZYDIS_REGCLASS_X87:
        return "st";
    case ZYDIS_REGCLASS_MASK:
        return "k";
    default:
        return "s";
    }
}

static const char *memory_kind(const struct work *w, const ZydisDecodedOperand *op)
{
    if (is_move(w))
        return "m";
    unsigned bits = op->size;
    if (w->in->avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID && !w->in->avx.broadcast.is_static)
        bits = w->in->avx.vector_length;
    if (!is_vector_operand(w, op))
        return bits == 8 ? "r8" : bits == 16 ? "r16" : bits == 32 ? "r32" : "r64";
    if (w->in->meta.isa_ext == ZYDIS_ISA_EXT_X87)
        return "st";
    if (w->op[0].type == ZYDIS_OPERAND_TYPE_REGISTER && ZydisRegisterGetClass(w->op[0].reg.value) == ZYDIS_REGCLASS_MMX)
        return "mm";
    return bits > 256 ? "z" : bits > 128 ? "y" : "x";
}

struct text { /* that grows in a form */
    char *out;
    size_t len;
};

static void add(struct text *t, const char *more)
{
    while (*more && t->len + 1 < X86_FORM_BYTES)
        t->out[t->len++] = *more++;
}

static void put_lea(struct text *t, const struct work *w)
{
    const struct x86_detail *d = w->out;
    bool by_rip = d->addr_base == X86_REG_RIP, has_base = d->addr_base != X86_REG_NONE;
    add(t, "lea ");
    add(t, reg_kind(w->op[0].reg.value, false));
    add(t, by_rip ? ",rip" : has_base ? ",b" : ",");
    if (d->addr_indexed)
        add(t, has_base ? "+i" : "i");
    if (d->addr_indexed && d->scale > 1)
        add(t, "*s");
    if (d->addr_has_disp && !by_rip)
        add(t, has_base || d->addr_indexed ? "+d" : "d");
    else if (!has_base && !d->addr_indexed)
        add(t, "0");
}

static bool tests(const struct work *w, ZydisAccessedFlagsMask a, ZydisAccessedFlagsMask b)
{
    const ZydisAccessedFlags *f = w->in->cpu_flags;
    return f && (f->tested & a) && (f->tested & b);
}

/* Conditions that time alike share a name. Those above and not-above need two groups of flags;
 * signed comparisons need the sign and the overflow. */
static const char *mnemonic_of(const struct work *w)
{
    bool two = tests(w, ZYDIS_CPUFLAG_CF, ZYDIS_CPUFLAG_ZF), is_signed = tests(w, ZYDIS_CPUFLAG_SF, ZYDIS_CPUFLAG_OF);
    if (w->out->insn.kind == X86_JCC)
        return "jcc";
    switch (w->in->meta.category) {
    case ZYDIS_CATEGORY_CMOV:
        return two ? "cmovbe" : is_signed ? "cmovl" : "cmovcc";
    case ZYDIS_CATEGORY_SETCC:
        return two ? "setbe" : "setcc";
    default:
        return ZydisMnemonicGetString(w->in->mnemonic);
    }
}

static const char *operand_kind(const struct work *w, const ZydisDecodedOperand *op)
{
    switch (op->type) {
    case ZYDIS_OPERAND_TYPE_REGISTER:
        return reg_kind(op->reg.value, op->visibility == ZYDIS_OPERAND_VISIBILITY_IMPLICIT);
    case ZYDIS_OPERAND_TYPE_MEMORY:
        return memory_kind(w, op);
    default:
        return "i";
    }
}

static void put_operand_kinds(struct text *t, const struct work *w)
{
    const char *separator = " ";
    for (int i = 0; i < w->in->operand_count_visible; i++) {
        const ZydisDecodedOperand *op = &w->op[i];
        bool is_mask = op->encoding == ZYDIS_OPERAND_ENCODING_MASK;
        if (is_mask && op->reg.value == ZYDIS_REGISTER_K0)
            continue;
        add(t, is_mask ? "{" : separator);
        add(t, operand_kind(w, op));
        add(t, is_mask ? "}" : "");
        separator = ",";
    }
}

static void put_form(struct work *w)
{
    struct text t = {.out = w->out->form};
    unsigned props = w->out->insn.props;
    if (w->in->mnemonic == ZYDIS_MNEMONIC_LEA) {
        put_lea(&t, w);
        return;
    }
    add(&t, props & X86_PROP_LOCK ? "lock " : props & X86_PROP_REP ? "rep " : "");
    add(&t, mnemonic_of(w));
    if (w->in->meta.category != ZYDIS_CATEGORY_STRINGOP)
        put_operand_kinds(&t, w);
}

static unsigned widest_vector(const struct work *w)
{
    unsigned bits = 0;
    for (int i = 0; i < w->in->operand_count; i++) {
        ZydisRegisterClass c = w->op[i].type == ZYDIS_OPERAND_TYPE_REGISTER ? ZydisRegisterGetClass(w->op[i].reg.value)
                                                                            : ZYDIS_REGCLASS_INVALID;
        unsigned b = c == ZYDIS_REGCLASS_ZMM ? 512 : c == ZYDIS_REGCLASS_YMM ? 256 : c == ZYDIS_REGCLASS_XMM ? 128 : 0;
        bits = b > bits ? b : bits;
    }
    return bits;
}

void x86_put_operands(const struct x86_zydis *z, struct x86_detail *out)
{
    struct work w = {&z->in, z->op, out};
    out->addr_base = out->addr_index = X86_REG_NONE;
    out->is_serializing = is_serializing(z->in.mnemonic);
    take_operands(&w);
    find_idioms(&w);
    find_effect(&w);
    out->is_pure_move = is_move(&w) && !(out->insn.props & X86_PROP_VSIB) && (out->is_load != out->is_store);
    unsigned vec = widest_vector(&w);
    out->op_bits = (uint16_t)(vec ? vec : z->in.operand_width);
    put_form(&w);
}
