/* SPDX-License-Identifier: Apache-2.0
 *
 * What a conditional jump decides upon: comparisons, additions and subtractions of two integers, and whether the jump
 * is taken for given ones. Other instructions that set flags are none of these. */
#include "x86/impl.h"

static bool take_term(const ZydisDecodedOperand *op, struct x86_term *t)
{
    *t = (struct x86_term){.reg = X86_REG_NONE};
    switch (op->type) {
    case ZYDIS_OPERAND_TYPE_IMMEDIATE:
        t->kind = X86_TERM_NUMBER;
        t->number = op->imm.is_signed ? (uint64_t)op->imm.value.s : op->imm.value.u;
        return true;
    case ZYDIS_OPERAND_TYPE_REGISTER:
        t->kind = X86_TERM_REGISTER;
        t->reg = x86_zydis_reg(op->reg.value);
        return op->reg.value < ZYDIS_REGISTER_AH || op->reg.value > ZYDIS_REGISTER_BH;
    case ZYDIS_OPERAND_TYPE_MEMORY:
        t->kind = X86_TERM_MEMORY;
        return true;
    default:
        return false;
    }
}

static uint8_t op_of(ZydisMnemonic m)
{
    switch (m) {
    case ZYDIS_MNEMONIC_CMP:
        return X86_OP_CMP;
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_DEC:
        return X86_OP_SUB;
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_INC:
        return X86_OP_ADD;
    default:
        return X86_OP_OTHER;
    }
}

void x86_put_compare(const struct x86_zydis *z, struct x86_compare *out)
{
    bool by_one = z->in.mnemonic == ZYDIS_MNEMONIC_DEC || z->in.mnemonic == ZYDIS_MNEMONIC_INC;
    *out = (struct x86_compare){.op = op_of(z->in.mnemonic), .bits = (uint8_t)z->in.operand_width};
    out->term[1] = (struct x86_term){.kind = X86_TERM_NUMBER, .number = 1, .reg = X86_REG_NONE};
    bool is_known = out->op != X86_OP_OTHER && take_term(&z->op[0], &out->term[0]) &&
                    (by_one || take_term(&z->op[1], &out->term[1]));
    if (!is_known)
        *out = (struct x86_compare){.op = X86_OP_OTHER};
}

bool x86_would_jump(unsigned cond, uint64_t a, uint64_t b, unsigned bits)
{
    uint64_t mask = bits >= 64 ? UINT64_MAX : (1ull << bits) - 1, sign = 1ull << (bits - 1), r;
    a &= mask;
    b &= mask;
    r = (a - b) & mask;
    bool carry = a < b, zero = r == 0, negative = r & sign, overflow = (a ^ b) & (a ^ r) & sign, is = false;
    switch (cond >> 1) {
    case 0:
        is = overflow;
        break;
    case 1:
        is = carry;
        break;
    case 2:
        is = zero;
        break;
    case 3:
        is = carry || zero;
        break;
    case 4:
        is = negative;
        break;
    case 5:
        is = !(__builtin_popcountll(r & 0xff) & 1);
        break;
    case 6:
        is = negative != overflow;
        break;
    case 7:
        is = zero || negative != overflow;
        break;
    }
    return is != (cond & 1);
}
