/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an instruction reaches memory, as sums of registers: explicit operands, stack slots, string operands. What a
 * single element of a repeated string instruction does. It does not know what the registers hold. */
#include "x86/impl.h"

static uint8_t segment_of(ZydisRegister r)
{
    return r == ZYDIS_REGISTER_FS ? X86_SEGMENT_FS : r == ZYDIS_REGISTER_GS ? X86_SEGMENT_GS : X86_SEGMENT_NONE;
}

static bool pushes(const ZydisDecodedInstruction *in)
{
    return in->meta.category == ZYDIS_CATEGORY_PUSH || in->meta.category == ZYDIS_CATEGORY_CALL;
}

/* false: the operand does not say where it reaches. */
static bool take_operand(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *op, uint64_t addr,
                         struct x86_access *a)
{
    bool hidden = op->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN,
         is_pop_to = in->meta.category == ZYDIS_CATEGORY_POP && !hidden;
    *a = (struct x86_access){.base = x86_zydis_reg(op->mem.base),
                             .index = x86_zydis_reg(op->mem.index),
                             .scale = op->mem.scale,
                             .segment = segment_of(op->mem.segment),
                             .bytes = op->size / 8,
                             .is_load = (op->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0,
                             .is_store = (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0,
                             .disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0};
    if (op->mem.base == ZYDIS_REGISTER_RIP || op->mem.base == ZYDIS_REGISTER_EIP) {
        a->base = X86_REG_NONE;
        a->disp += (int64_t)(addr + in->length);
    }
    if (hidden && pushes(in) && a->is_store && a->base == X86_RSP)
        a->disp -= a->bytes;
    /* A prefix 67 means nothing to the stack: linkers put it in front of calls that they made shorter. */
    bool is_wide = in->address_width == 64 || (hidden && pushes(in));
    bool is_known = op->mem.type == ZYDIS_MEMOP_TYPE_MEM && a->bytes && a->bytes <= 64 && is_wide;
    return is_known && !(is_pop_to && a->base == X86_RSP);
}

/* Their number, or -1. */
static int take_operands(const struct x86_zydis *z, uint64_t addr, struct x86_access out[X86_ACCESSES_MAX])
{
    int n = 0;
    if (z->in.mnemonic == ZYDIS_MNEMONIC_ENTER)
        return -1;
    if (z->in.meta.category == ZYDIS_CATEGORY_NOP || z->in.meta.category == ZYDIS_CATEGORY_WIDENOP)
        return 0;
    for (unsigned i = 0; i < z->in.operand_count; i++) {
        if (z->op[i].type != ZYDIS_OPERAND_TYPE_MEMORY || z->op[i].mem.type == ZYDIS_MEMOP_TYPE_AGEN)
            continue;
        if (n == X86_ACCESSES_MAX || !take_operand(&z->in, &z->op[i], addr, &out[n]))
            return -1;
        if (z->in.mnemonic == ZYDIS_MNEMONIC_LEAVE)
            out[n].base = X86_RBP;
        n++;
    }
    return n;
}

void x86_put_accesses(const struct x86_zydis *z, uint64_t addr, struct x86_detail *out)
{
    out->access_count = (int8_t)take_operands(z, addr, out->access);
}

uint64_t x86_access_address(const struct x86_access *a, const uint64_t regs[16], uint64_t fs, uint64_t gs)
{
    uint64_t at = (uint64_t)a->disp;
    at += a->base == X86_REG_NONE ? 0 : regs[a->base];
    at += a->index == X86_REG_NONE ? 0 : regs[a->index] * a->scale;
    return at + (a->segment == X86_SEGMENT_FS ? fs : a->segment == X86_SEGMENT_GS ? gs : 0);
}
