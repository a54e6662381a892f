/* SPDX-License-Identifier: Apache-2.0
 *
 * What Zydis says of an instruction, as the summary x86_insn, and where in the bytes the number stands that its target
 * is made of. Does not know what an instruction computes. */
#include "x86/impl.h"

static uint16_t gpr_bit(ZydisRegister r) { return x86_zydis_is_gpr(r) ? (uint16_t)(1u << x86_zydis_reg(r)) : 0; }

static bool is_vector(ZydisRegister r)
{
    ZydisRegisterClass c = ZydisRegisterGetClass(r);
    return c == ZYDIS_REGCLASS_XMM || c == ZYDIS_REGCLASS_YMM || c == ZYDIS_REGCLASS_ZMM || c == ZYDIS_REGCLASS_MMX ||
           c == ZYDIS_REGCLASS_X87 || c == ZYDIS_REGCLASS_MASK || c == ZYDIS_REGCLASS_TMM;
}

/* Memory operands that are only names of addresses. */
static bool is_hint(const ZydisDecodedInstruction *z)
{
    return z->meta.category == ZYDIS_CATEGORY_PREFETCH || z->meta.category == ZYDIS_CATEGORY_PREFETCHWT1 ||
           z->meta.category == ZYDIS_CATEGORY_NOP || z->meta.category == ZYDIS_CATEGORY_WIDENOP ||
           z->meta.category == ZYDIS_CATEGORY_CLDEMOTE || z->meta.category == ZYDIS_CATEGORY_CLFLUSHOPT ||
           z->meta.category == ZYDIS_CATEGORY_CLWB || z->mnemonic == ZYDIS_MNEMONIC_CLFLUSH;
}

/* Leave all or some of the destination alone, whatever the tables of Zydis say (rdssp where there are no shadow stacks;
 * the last three: as Linux emulates them). */
static bool is_conditional_write(ZydisMnemonic m)
{
    return m == ZYDIS_MNEMONIC_BSF || m == ZYDIS_MNEMONIC_BSR || m == ZYDIS_MNEMONIC_LAR || m == ZYDIS_MNEMONIC_LSL ||
           m == ZYDIS_MNEMONIC_XBEGIN || m == ZYDIS_MNEMONIC_RDSSPD || m == ZYDIS_MNEMONIC_RDSSPQ ||
           m == ZYDIS_MNEMONIC_SLDT || m == ZYDIS_MNEMONIC_STR || m == ZYDIS_MNEMONIC_SMSW;
}

static void put_register(struct x86_insn *o, const ZydisDecodedInstruction *z, const ZydisDecodedOperand *op)
{
    ZydisRegister r = op->reg.value;
    if (is_vector(r))
        o->props |= X86_PROP_VEC;
    if (r == ZYDIS_REGISTER_GS)
        o->props |= X86_PROP_GS;
    uint16_t bit = gpr_bit(r);
    bool writes = op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
    bool partly = op->size < 32 || (op->actions & ZYDIS_OPERAND_ACTION_CONDWRITE) ||
                  is_conditional_write(z->mnemonic) || z->meta.category == ZYDIS_CATEGORY_CMOV;
    if ((op->actions & ZYDIS_OPERAND_ACTION_MASK_READ) || (writes && partly))
        o->gpr_read |= bit;
    if (writes)
        o->gpr_written |= bit;
}

static void put_explicit_memory(struct x86_insn *o, const ZydisDecodedOperand *op)
{
    ZydisRegister base = op->mem.base, index = op->mem.index;
    o->mem_base = base == ZYDIS_REGISTER_RIP || base == ZYDIS_REGISTER_EIP ? X86_REG_RIP
                  : x86_zydis_is_gpr(base)                                 ? x86_zydis_reg(base)
                                                                           : X86_REG_NONE;
    if (x86_zydis_is_gpr(index)) {
        o->mem_index = x86_zydis_reg(index);
        o->mem_scale = op->mem.scale ? op->mem.scale : 1;
    }
    if (op->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
        o->props |= X86_PROP_VSIB;
    if (o->mem_base == X86_REG_RIP)
        o->props |= X86_PROP_RIPREL;
    else if (o->disp_len == 4)
        o->props |= X86_PROP_ABS32;
}

/* Elements that a gather or scatter touches: as many as fit in the data register and in the index register. The letter
 * after "gather" or "scatter" is the index's element: d or q; p: a prefetch. */
static unsigned vsib_count(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops,
                           const ZydisDecodedOperand *mem)
{
    const char *name = ZydisMnemonicGetString(z->mnemonic), *stem = name ? strstr(name, "ther") : NULL;
    if (!stem)
        stem = name ? strstr(name, "tter") : NULL;
    if (!stem || (stem[4] != 'd' && stem[4] != 'q'))
        return 0;
    unsigned in_index = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, mem->mem.index) / (stem[4] == 'q' ? 64 : 32);
    for (unsigned i = 0; i < z->operand_count; i++)
        if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[i].encoding == ZYDIS_OPERAND_ENCODING_MODRM_REG &&
            mem->element_size) {
            unsigned in_data = ops[i].size / mem->element_size;
            return in_data < in_index ? in_data : in_index;
        }
    return in_index;
}

static void put_memory(struct x86_insn *o, const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops,
                       const ZydisDecodedOperand *op)
{
    bool is_explicit =
        op->encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM || op->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT;
    if (is_explicit && o->mem_base == X86_REG_NONE && o->mem_index == X86_REG_NONE)
        put_explicit_memory(o, op);
    o->gpr_read |= gpr_bit(op->mem.base) | gpr_bit(op->mem.index);
    if (op->mem.type == ZYDIS_MEMOP_TYPE_AGEN || op->mem.type == ZYDIS_MEMOP_TYPE_MIB || is_hint(z))
        return;
    if (op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS)
        o->props |= X86_PROP_SEG;
    if (op->mem.segment == ZYDIS_REGISTER_GS)
        o->props |= X86_PROP_GS;
    unsigned n = op->mem.type == ZYDIS_MEMOP_TYPE_VSIB ? vsib_count(z, ops, op) : 1;
    if (op->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
        o->loads = (uint8_t)(o->loads + n);
    if (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
        o->stores = (uint8_t)(o->stores + n);
}

static uint8_t kind_of_jump(const ZydisDecodedInstruction *z)
{
    bool direct = z->raw.imm[0].is_relative;
    switch (z->meta.category) {
    case ZYDIS_CATEGORY_COND_BR:
        if (z->mnemonic == ZYDIS_MNEMONIC_XBEGIN)
            return X86_XBEGIN;
        return (z->opcode & 0xf0) == 0x70 || (z->opcode & 0xf0) == 0x80 ? X86_JCC : X86_JCXZ;
    case ZYDIS_CATEGORY_UNCOND_BR:
        return direct ? X86_JMP : X86_JMP_IND;
    case ZYDIS_CATEGORY_CALL:
        return direct ? X86_CALL : X86_CALL_IND;
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_SYSRET:
        return X86_RET;
    default:
        return X86_PLAIN;
    }
}

static uint8_t kind_of(const ZydisDecodedInstruction *z)
{
    switch (z->mnemonic) {
    case ZYDIS_MNEMONIC_XBEGIN:
        return X86_XBEGIN;
    case ZYDIS_MNEMONIC_XEND:
    case ZYDIS_MNEMONIC_XABORT:
        return X86_PLAIN;
    case ZYDIS_MNEMONIC_SYSCALL:
        return X86_SYSCALL;
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INTO:
    case ZYDIS_MNEMONIC_SYSENTER:
        return X86_INT;
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT3:
    case ZYDIS_MNEMONIC_HLT:
        return X86_TRAP;
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_UIRET:
        return X86_RET;
    default:
        return kind_of_jump(z);
    }
}

static uint8_t flag_bits(ZydisAccessedFlagsMask m)
{
    static const struct {
        ZydisAccessedFlagsMask theirs;
        uint8_t ours;
    } table[] = {{ZYDIS_CPUFLAG_CF, X86_CF}, {ZYDIS_CPUFLAG_PF, X86_PF}, {ZYDIS_CPUFLAG_AF, X86_AF},
                 {ZYDIS_CPUFLAG_ZF, X86_ZF}, {ZYDIS_CPUFLAG_SF, X86_SF}, {ZYDIS_CPUFLAG_OF, X86_OF}};
    uint8_t out = 0;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (m & table[i].theirs)
            out |= table[i].ours;
    return out;
}

static bool is_shift(const ZydisDecodedInstruction *z)
{
    return z->meta.category == ZYDIS_CATEGORY_SHIFT || z->meta.category == ZYDIS_CATEGORY_ROTATE;
}

/* The legacy forms D2, D3 and 0F A5, 0F AD count by CL; the BMI2 ones write no flags. */
static bool is_shift_by_cl(const ZydisDecodedInstruction *z)
{
    if (!is_shift(z) || z->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
        return false;
    return z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT ? z->opcode == 0xd2 || z->opcode == 0xd3
                                                     : z->opcode == 0xa5 || z->opcode == 0xad;
}

static void put_flags(struct x86_insn *o, const ZydisDecodedInstruction *z)
{
    const ZydisAccessedFlags *f = z->cpu_flags;
    if (!f || o->kind == X86_SYSCALL)
        return;
    /* An undefined flag may keep its value on some processor: it counts as not written. */
    o->flags_read = flag_bits(f->tested);
    o->flags_written = flag_bits(f->modified | f->set_0 | f->set_1) & (uint8_t)~flag_bits(f->undefined);
    bool rep_compare = (o->props & X86_PROP_REP) && o->flags_written;
    if (is_shift_by_cl(z) || rep_compare)
        o->props |= X86_PROP_FLAGS_MAYBE;
}

static uint8_t op_of_system(const ZydisDecodedInstruction *z)
{
    switch (z->mnemonic) {
    case ZYDIS_MNEMONIC_POPF:
    case ZYDIS_MNEMONIC_POPFD:
    case ZYDIS_MNEMONIC_POPFQ:
    case ZYDIS_MNEMONIC_WRFSBASE:
    case ZYDIS_MNEMONIC_WRGSBASE:
    case ZYDIS_MNEMONIC_SWAPGS:
    case ZYDIS_MNEMONIC_XABORT:
    case ZYDIS_MNEMONIC_XEND:
        return X86_OP_MODE;
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_RDPMC:
    case ZYDIS_MNEMONIC_RDRAND:
    case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_RDPID:
    case ZYDIS_MNEMONIC_CPUID:
        return X86_OP_CHANCE;
    default:
        return z->meta.category == ZYDIS_CATEGORY_CMOV ? X86_OP_CMOV : X86_OP_OTHER;
    }
}

static uint8_t op_of(const ZydisDecodedInstruction *z)
{
    switch (z->mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
        return X86_OP_MOV;
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_CDQE:
        return X86_OP_MOVSXD;
    case ZYDIS_MNEMONIC_ADD:
        return X86_OP_ADD;
    case ZYDIS_MNEMONIC_SUB:
        return X86_OP_SUB;
    case ZYDIS_MNEMONIC_LEA:
        return X86_OP_LEA;
    case ZYDIS_MNEMONIC_CMP:
        return X86_OP_CMP;
    case ZYDIS_MNEMONIC_PUSH:
        return X86_OP_PUSH;
    case ZYDIS_MNEMONIC_POP:
        return X86_OP_POP;
    case ZYDIS_MNEMONIC_AND:
        return X86_OP_AND;
    case ZYDIS_MNEMONIC_XOR:
        return X86_OP_XOR;
    case ZYDIS_MNEMONIC_TEST:
        return X86_OP_TEST;
    case ZYDIS_MNEMONIC_MUL:
    case ZYDIS_MNEMONIC_IMUL:
        return X86_OP_MUL;
    case ZYDIS_MNEMONIC_MULX:
        return X86_OP_MULX;
    case ZYDIS_MNEMONIC_DIV:
        return X86_OP_DIV;
    case ZYDIS_MNEMONIC_IDIV:
        return X86_OP_IDIV;
    case ZYDIS_MNEMONIC_XCHG:
    case ZYDIS_MNEMONIC_CMPXCHG:
    case ZYDIS_MNEMONIC_BTS:
        return X86_OP_EXCHANGE;
    case ZYDIS_MNEMONIC_ENTER:
        return X86_OP_ENTER;
    default:
        return op_of_system(z);
    }
}

static bool is_locked(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
    bool swaps = z->mnemonic == ZYDIS_MNEMONIC_XCHG &&
                 (ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY || ops[1].type == ZYDIS_OPERAND_TYPE_MEMORY);
    return (z->attributes & ZYDIS_ATTRIB_HAS_LOCK) || swaps;
}

static void put_props(struct x86_insn *o, const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
    if (is_locked(z, ops))
        o->props |= X86_PROP_LOCK;
    if (z->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE))
        o->props |= X86_PROP_REP;
    if (z->mnemonic == ZYDIS_MNEMONIC_LEA)
        o->props |= X86_PROP_LEA;
    if (z->mnemonic == ZYDIS_MNEMONIC_ENDBR64)
        o->props |= X86_PROP_ENDBR | X86_PROP_NOP;
    if (z->meta.category == ZYDIS_CATEGORY_NOP || z->meta.category == ZYDIS_CATEGORY_WIDENOP)
        o->props |= X86_PROP_NOP;
    switch (z->meta.category) {
    case ZYDIS_CATEGORY_PUSH:
    case ZYDIS_CATEGORY_POP:
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
        o->props |= X86_PROP_STACK;
        break;
    case ZYDIS_CATEGORY_X87_ALU:
    case ZYDIS_CATEGORY_MMX:
    case ZYDIS_CATEGORY_SSE:
    case ZYDIS_CATEGORY_AVX:
    case ZYDIS_CATEGORY_XSAVE:
    case ZYDIS_CATEGORY_XSAVEOPT:
        o->props |= X86_PROP_VEC;
        break;
    default:
        break;
    }
    if (z->mnemonic == ZYDIS_MNEMONIC_ENTER || z->mnemonic == ZYDIS_MNEMONIC_LEAVE)
        o->props |= X86_PROP_STACK;
    if (z->mnemonic == ZYDIS_MNEMONIC_RDGSBASE || z->mnemonic == ZYDIS_MNEMONIC_WRGSBASE ||
        z->mnemonic == ZYDIS_MNEMONIC_SWAPGS)
        o->props |= X86_PROP_GS;
}

static void put_fields(struct x86_insn *o, const ZydisDecodedInstruction *z)
{
    if (z->raw.disp.size) {
        o->disp_off = z->raw.disp.offset;
        o->disp_len = z->raw.disp.size / 8;
    }
    if (z->raw.imm[0].size && z->raw.imm[0].is_relative) {
        o->disp_off = z->raw.imm[0].offset;
        o->disp_len = z->raw.imm[0].size / 8;
    } else if (z->raw.imm[0].size) {
        o->imm_off = z->raw.imm[0].offset;
        o->imm_len = z->raw.imm[0].size / 8;
    }
    if (o->imm_len >= 4)
        o->props |= X86_PROP_IMM_ADDR;
}

/* xor r,r and sub r,r of 32 or 64 bits: the result does not depend on the register. */
static bool is_zeroing(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
    return (z->mnemonic == ZYDIS_MNEMONIC_XOR || z->mnemonic == ZYDIS_MNEMONIC_SUB) &&
           ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           ops[0].reg.value == ops[1].reg.value && ops[0].size >= 32;
}

/* String instructions move the registers that they go by; Zydis 4.0 does not say so of those that only read. */
static void put_string(struct x86_insn *o, const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
    if (z->meta.category != ZYDIS_CATEGORY_STRINGOP && z->meta.category != ZYDIS_CATEGORY_IOSTRINGOP)
        return;
    for (unsigned i = 0; i < z->operand_count; i++)
        if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
            o->gpr_written |= gpr_bit(ops[i].mem.base);
}

static void put_operands(struct x86_insn *o, const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops)
{
    o->mem_base = o->mem_index = X86_REG_NONE;
    for (unsigned i = 0; i < z->operand_count; i++) {
        if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER)
            put_register(o, z, &ops[i]);
        else if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
            put_memory(o, z, ops, &ops[i]);
    }
    if (o->props & X86_PROP_NOP)
        o->gpr_read = o->gpr_written = 0;
    put_string(o, z, ops);
    if (is_zeroing(z, ops))
        o->gpr_read &= (uint16_t)~gpr_bit(ops[0].reg.value);
    if (o->kind == X86_SYSCALL || o->kind == X86_INT) {
        o->gpr_read = 0xffff;
        o->gpr_written |= 1 << X86_RAX | 1 << X86_RCX | 1 << X86_R11;
    }
}

static void put_rule(struct x86_answer *a, const ZydisDecodedInstruction *z)
{
    const struct x86_insn *o = &a->shape.insn;
    bool relative = z->raw.imm[0].size && z->raw.imm[0].is_relative,
         memory = o->props & (X86_PROP_RIPREL | X86_PROP_ABS32);
    a->value_off = relative || memory ? o->disp_off : o->imm_off;
    a->value_len = relative || memory ? o->disp_len : o->imm_len >= 4 ? o->imm_len : 0;
    if (relative ? o->disp_len != 1 && o->disp_len != 4 : !a->value_len)
        a->value_len = 0;
    else if (relative || (o->props & X86_PROP_RIPREL))
        a->shape.rule = X86_TARGET_REL;
    else if (o->props & X86_PROP_ABS32)
        a->shape.rule = X86_TARGET_SIGNED;
    else if (o->imm_len == 8)
        a->shape.rule = X86_TARGET_WIDE;
    else
        a->shape.rule = z->operand_width == 64 ? X86_TARGET_SIGNED : X86_TARGET_UNSIGNED;
}

static unsigned zydis_head_len(const ZydisDecodedInstruction *z)
{
    if (z->raw.sib.offset)
        return z->raw.sib.offset + 1u;
    if (z->attributes & ZYDIS_ATTRIB_HAS_MODRM)
        return z->raw.modrm.offset + 1u;
    unsigned n = z->length;
    if (z->raw.disp.size)
        n = z->raw.disp.offset;
    if (z->raw.imm[0].size && z->raw.imm[0].offset < n)
        n = z->raw.imm[0].offset;
    return n;
}

void x86_summarize(const struct x86_zydis *from, struct x86_answer *a)
{
    const ZydisDecodedInstruction *z = &from->in;
    struct x86_insn *o = &a->shape.insn;
    memset(a, 0, sizeof *a);
    o->mnemonic = (uint16_t)z->mnemonic;
    o->len = z->length;
    o->kind = kind_of(z);
    o->cond = o->kind == X86_JCC ? z->opcode & 15 : 0;
    o->op = op_of(z);
    o->op_bytes = from->op[0].size && from->op[0].size <= 64 ? (uint8_t)(from->op[0].size / 8) : 0;
    put_fields(o, z);
    put_props(o, z, from->op);
    put_operands(o, z, from->op);
    put_flags(o, z);
    put_rule(a, z);
    if (is_shift(z) && o->imm_len == 1 && z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY)
        a->shift_mask = z->operand_width == 64 ? 63 : 31;
    bool tail_opcode = z->encoding == ZYDIS_INSTRUCTION_ENCODING_3DNOW;
    a->head_len = tail_opcode ? 0 : zydis_head_len(z);
}
