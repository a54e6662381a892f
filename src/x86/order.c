/* SPDX-License-Identifier: Apache-2.0
 *
 * What an instruction reads and changes, whole, for who puts instructions into another order: unlike the operands in
 * detail.c nothing is left out that no core waits for. It knows no memory: see access.c. */
#include "x86/impl.h"

/* What is neither arithmetic nor a move of general, mask and vector registers is passed by nothing. */
static bool is_plain_category(ZydisInstructionCategory c)
{
    switch (c) {
    case ZYDIS_CATEGORY_ADOX_ADCX:
    case ZYDIS_CATEGORY_AES:
    case ZYDIS_CATEGORY_AVX:
    case ZYDIS_CATEGORY_AVX2:
    case ZYDIS_CATEGORY_AVX512:
    case ZYDIS_CATEGORY_AVX512_BITALG:
    case ZYDIS_CATEGORY_AVX512_VBMI:
    case ZYDIS_CATEGORY_BINARY:
    case ZYDIS_CATEGORY_BITBYTE:
    case ZYDIS_CATEGORY_BLEND:
    case ZYDIS_CATEGORY_BMI1:
    case ZYDIS_CATEGORY_BMI2:
    case ZYDIS_CATEGORY_BROADCAST:
    case ZYDIS_CATEGORY_CMOV:
    case ZYDIS_CATEGORY_CONFLICT:
    case ZYDIS_CATEGORY_CONVERT:
    case ZYDIS_CATEGORY_DATAXFER:
    case ZYDIS_CATEGORY_GFNI:
    case ZYDIS_CATEGORY_IFMA:
    case ZYDIS_CATEGORY_KMASK:
    case ZYDIS_CATEGORY_LOGICAL:
    case ZYDIS_CATEGORY_LOGICAL_FP:
    case ZYDIS_CATEGORY_LZCNT:
    case ZYDIS_CATEGORY_MISC: /* lea */
    case ZYDIS_CATEGORY_PCLMULQDQ:
    case ZYDIS_CATEGORY_ROTATE:
    case ZYDIS_CATEGORY_SETCC:
    case ZYDIS_CATEGORY_SHA:
    case ZYDIS_CATEGORY_SHIFT:
    case ZYDIS_CATEGORY_SSE:
    case ZYDIS_CATEGORY_VAES:
    case ZYDIS_CATEGORY_VBMI2:
    case ZYDIS_CATEGORY_VFMA:
    case ZYDIS_CATEGORY_VPCLMULQDQ:
        return true;
    default:
        return false;
    }
}

/* Among them those that do more than their operands say. */
static bool is_apart(const struct x86_zydis *z)
{
    switch (z->in.mnemonic) {
    case ZYDIS_MNEMONIC_LDMXCSR:
    case ZYDIS_MNEMONIC_STMXCSR:
    case ZYDIS_MNEMONIC_VLDMXCSR:
    case ZYDIS_MNEMONIC_VSTMXCSR:
    case ZYDIS_MNEMONIC_VZEROALL:
    case ZYDIS_MNEMONIC_VZEROUPPER:
    case ZYDIS_MNEMONIC_LFENCE:
    case ZYDIS_MNEMONIC_MFENCE:
    case ZYDIS_MNEMONIC_SFENCE:
        return true;
    default:
        return z->in.meta.category == ZYDIS_CATEGORY_MISC && z->in.mnemonic != ZYDIS_MNEMONIC_LEA;
    }
}

static bool is_known_register(ZydisRegister r)
{
    return x86_zydis_reg(r) != X86_REG_NONE || r == ZYDIS_REGISTER_RFLAGS || r == ZYDIS_REGISTER_EFLAGS ||
           r == ZYDIS_REGISTER_FLAGS;
}

static uint64_t bit_of(ZydisRegister r)
{
    uint8_t reg = x86_zydis_reg(r);
    return reg < X86_REG_COUNT ? 1ull << reg : 0;
}

static bool take_operand(const ZydisDecodedOperand *op, struct x86_order *out)
{
    if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
        out->reads |= bit_of(op->mem.base) | bit_of(op->mem.index);
        return true;
    }
    if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
        return true;
    out->reads |= op->actions & ZYDIS_OPERAND_ACTION_MASK_READ ? bit_of(op->reg.value) : 0;
    out->writes |= op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE ? bit_of(op->reg.value) : 0;
    return is_known_register(op->reg.value);
}

static uint8_t flag_bits(ZydisAccessedFlagsMask m)
{
    return (uint8_t)((m & ZYDIS_CPUFLAG_CF ? X86_CF : 0) | (m & ZYDIS_CPUFLAG_PF ? X86_PF : 0) |
                     (m & ZYDIS_CPUFLAG_AF ? X86_AF : 0) | (m & ZYDIS_CPUFLAG_ZF ? X86_ZF : 0) |
                     (m & ZYDIS_CPUFLAG_SF ? X86_SF : 0) | (m & ZYDIS_CPUFLAG_OF ? X86_OF : 0));
}

static bool is_fixed(const struct x86_zydis *z, const struct x86_detail *d)
{
    const struct x86_insn *i = &d->insn;
    const uint16_t props = X86_PROP_LOCK | X86_PROP_REP | X86_PROP_NOP | X86_PROP_STACK | X86_PROP_GS | X86_PROP_VSIB;
    bool is_odd = i->op == X86_OP_MODE || i->op == X86_OP_CHANCE || i->op == X86_OP_ENTER;
    return i->kind != X86_PLAIN || (i->props & props) || is_odd || d->is_serializing || d->access_count < 0 ||
           d->reach.kind != X86_REACH_NONE || z->in.meta.isa_ext == ZYDIS_ISA_EXT_X87 ||
           z->in.meta.isa_ext == ZYDIS_ISA_EXT_MMX || !is_plain_category(z->in.meta.category) || is_apart(z);
}

void x86_put_order(const struct x86_zydis *z, struct x86_detail *out)
{
    struct x86_order *o = &out->order;
    o->is_fixed = is_fixed(z, out);
    for (unsigned i = 0; i < z->in.operand_count; i++)
        o->is_fixed |= !take_operand(&z->op[i], o);
    o->reads |= out->insn.gpr_read;
    o->writes |= out->insn.gpr_written;
    o->is_fixed |= (o->writes >> X86_RSP & 1) || ((o->reads | o->writes) >> X86_REG_X87 & 1);
    const ZydisAccessedFlags *f = z->in.cpu_flags;
    if (f) {
        o->flags_read = flag_bits(f->tested);
        o->flags_changed = flag_bits(f->modified | f->set_0 | f->set_1 | f->undefined);
        ZydisAccessedFlagsMask known = ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF |
                                       ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF;
        o->is_fixed |= ((f->modified | f->set_0 | f->set_1 | f->tested) & ~known) != 0;
    }
    o->flags_kept = o->flags_changed & (uint8_t)~out->insn.flags_written;
    if (out->insn.props & X86_PROP_FLAGS_MAYBE)
        o->flags_kept = o->flags_changed;
}
