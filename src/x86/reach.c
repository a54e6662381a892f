/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an instruction reaches memory whose operands alone do not say it: gathers and scatters, vectors with a mask,
 * xsave and its like, tables and bits whose number a register holds. Beside access.c, which calls these unknown, or,
 * with a mask, takes all elements for reached. */
#include "x86/impl.h"

enum { X87_BYTES = 108, X87_ENVIRONMENT_BYTES = 28, FXSAVE_BYTES = 512 };

static const ZydisDecodedOperand *memory_of(const struct x86_zydis *z)
{
    const ZydisDecodedOperand *found = NULL;
    for (unsigned i = 0; i < z->in.operand_count; i++) {
        if (z->op[i].type != ZYDIS_OPERAND_TYPE_MEMORY || z->op[i].mem.type == ZYDIS_MEMOP_TYPE_AGEN)
            continue;
        if (found)
            return NULL;
        found = &z->op[i];
    }
    return found;
}

/* The operand of that class, the n-th of them from 0. */
static const ZydisDecodedOperand *register_of(const struct x86_zydis *z, bool (*is_wanted)(ZydisRegister r), unsigned n)
{
    for (unsigned i = 0; i < z->in.operand_count; i++)
        if (z->op[i].type == ZYDIS_OPERAND_TYPE_REGISTER && is_wanted(z->op[i].reg.value) && !n--)
            return &z->op[i];
    return NULL;
}

static bool is_vector(ZydisRegister r)
{
    ZydisRegisterClass c = ZydisRegisterGetClass(r);
    return c == ZYDIS_REGCLASS_XMM || c == ZYDIS_REGCLASS_YMM || c == ZYDIS_REGCLASS_ZMM || c == ZYDIS_REGCLASS_MMX;
}

/* Of the operand, as far as general registers and numbers make it. */
static bool take_access(const struct x86_zydis *z, const ZydisDecodedOperand *m, uint64_t addr, struct x86_access *a)
{
    bool is_stack = z->in.meta.category == ZYDIS_CATEGORY_PUSH || z->in.meta.category == ZYDIS_CATEGORY_POP ||
                    z->in.meta.category == ZYDIS_CATEGORY_CALL || z->in.meta.category == ZYDIS_CATEGORY_RET;
    uint8_t index = x86_zydis_reg(m->mem.index);
    *a = (struct x86_access){.base = x86_zydis_reg(m->mem.base),
                             .index = index < X86_GPR_COUNT ? index : X86_REG_NONE,
                             .scale = m->mem.scale,
                             .segment = m->mem.segment == ZYDIS_REGISTER_FS   ? X86_SEGMENT_FS
                                        : m->mem.segment == ZYDIS_REGISTER_GS ? X86_SEGMENT_GS
                                                                              : X86_SEGMENT_NONE,
                             .bytes = (uint16_t)(m->size / 8),
                             .is_load = (m->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0,
                             .is_store = (m->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0,
                             .disp = m->mem.disp.has_displacement ? m->mem.disp.value : 0};
    if (m->mem.base == ZYDIS_REGISTER_RIP) {
        a->base = X86_REG_NONE;
        a->disp += (int64_t)(addr + z->in.length);
    }
    return !is_stack && m->mem.base != ZYDIS_REGISTER_EIP;
}

/* ---- gathers and scatters ---- */

static const char *behind(const char *text, const char *part)
{
    const char *at = strstr(text, part);
    return at ? at + strlen(part) : NULL;
}

/* "vgatherdps", "vpscatterqd", ...: d or q of the indices, then ps, pd, d or q of the elements. */
static bool take_gather(const struct x86_zydis *z, const ZydisDecodedOperand *m, struct x86_reach *out)
{
    const char *name = ZydisMnemonicGetString(z->in.mnemonic), *widths = behind(name, "gather");
    const ZydisDecodedOperand *data = register_of(z, is_vector, 0), *mask = register_of(z, is_vector, 1);
    if (!widths)
        widths = behind(name, "scatter");
    if (!widths || !data || strstr(name, "pf"))
        return false;
    bool is_evex = z->in.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
    out->kind = X86_REACH_ELEMENTS;
    out->is_evex = is_evex;
    out->index = x86_zydis_reg(m->mem.index);
    out->index_bytes = widths[0] == 'd' ? 4 : 8;
    out->element_bytes = strcmp(widths + 1, "ps") == 0 || strcmp(widths + 1, "d") == 0 ? 4 : 8;
    unsigned indices = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, m->mem.index) / 8 / out->index_bytes;
    out->count = (uint8_t)min_u64(data->size / 8 / out->element_bytes, indices);
    out->vector_bytes = (uint16_t)(data->size / 8);
    out->mask = is_evex ? x86_zydis_reg(z->in.avx.mask.reg) : mask ? x86_zydis_reg(mask->reg.value) : X86_REG_NONE;
    return out->mask != X86_REG_NONE && out->index != X86_REG_NONE;
}

/* ---- vectors with a mask ---- */

static bool keeps_faults(const struct x86_zydis *z)
{
    switch (z->in.meta.exception_class) {
    case ZYDIS_EXCEPTION_CLASS_E1NF:
    case ZYDIS_EXCEPTION_CLASS_E2NF:
    case ZYDIS_EXCEPTION_CLASS_E3NF:
    case ZYDIS_EXCEPTION_CLASS_E4NF:
    case ZYDIS_EXCEPTION_CLASS_E5NF:
    case ZYDIS_EXCEPTION_CLASS_E6NF:
    case ZYDIS_EXCEPTION_CLASS_E7NM:
    case ZYDIS_EXCEPTION_CLASS_E9NF:
        return true;
    default:
        return false;
    }
}

static bool names(const struct x86_zydis *z, const char *part)
{
    return strstr(ZydisMnemonicGetString(z->in.mnemonic), part) != NULL;
}

static bool is_scalar(const struct x86_zydis *z)
{
    const char *name = ZydisMnemonicGetString(z->in.mnemonic);
    size_t len = strlen(name);
    bool is_one =
        strcmp(name + len - 2, "ss") == 0 || strcmp(name + len - 2, "sd") == 0 || strcmp(name + len - 2, "sh") == 0;
    return is_one && !strstr(name, "broadcast");
}

/* An element of the register for each in memory, or the first for the only one. */
static bool is_by_element(const struct x86_zydis *z, const ZydisDecodedOperand *m)
{
    if (is_scalar(z) && m->element_count == 1)
        return true;
    for (unsigned i = 0; i < z->in.operand_count; i++)
        if (z->op[i].type == ZYDIS_OPERAND_TYPE_REGISTER && is_vector(z->op[i].reg.value) &&
            z->op[i].element_count == m->element_count)
            return true;
    return false;
}

static unsigned most_elements(const struct x86_zydis *z)
{
    unsigned n = 1;
    for (unsigned i = 0; i < z->in.operand_count; i++)
        if (z->op[i].type == ZYDIS_OPERAND_TYPE_REGISTER && is_vector(z->op[i].reg.value))
            n = (unsigned)max_u64(n, z->op[i].element_count);
    return n;
}

static bool take_evex_mask(const struct x86_zydis *z, const ZydisDecodedOperand *m, struct x86_reach *out)
{
    if (z->in.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX || z->in.avx.mask.reg == ZYDIS_REGISTER_NONE ||
        z->in.avx.mask.reg == ZYDIS_REGISTER_K0 || keeps_faults(z) || !m->element_count)
        return false;
    bool is_broadcast = z->in.avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID;
    out->kind = X86_REACH_MASKED;
    out->mask = x86_zydis_reg(z->in.avx.mask.reg);
    out->is_packed = names(z, "compress") || names(z, "expand");
    out->count = (uint8_t)m->element_count;
    out->element_bytes = (uint8_t)(m->size / 8 / m->element_count);
    if (is_broadcast || !is_by_element(z, m)) {
        out->is_whole = true;
        out->count = (uint8_t)most_elements(z);
    }
    return true;
}

static uint8_t sign_bytes(const struct x86_zydis *z)
{
    switch (z->in.mnemonic) {
    case ZYDIS_MNEMONIC_MASKMOVQ:
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
        return 1;
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
        return 4;
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
        return 8;
    default:
        return 0;
    }
}

/* Each element's sign, in the second operand. */
static bool take_vector_mask(const struct x86_zydis *z, const ZydisDecodedOperand *m, struct x86_reach *out)
{
    const ZydisDecodedOperand *mask = &z->op[1];
    uint8_t bytes = sign_bytes(z);
    if (!bytes || mask->type != ZYDIS_OPERAND_TYPE_REGISTER || !is_vector(mask->reg.value))
        return false;
    out->kind = X86_REACH_MASKED;
    out->is_mmx = ZydisRegisterGetClass(mask->reg.value) == ZYDIS_REGCLASS_MMX;
    out->mask = (uint8_t)(X86_REG_VEC0 + ZydisRegisterGetId(mask->reg.value));
    out->vector_bytes = (uint16_t)(mask->size / 8);
    out->element_bytes = bytes;
    out->count = (uint8_t)(m->size / 8 / bytes);
    return true;
}

/* ---- the rest ---- */

static bool take_state(const struct x86_zydis *z, struct x86_reach *out)
{
    switch (z->in.mnemonic) {
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64:
        out->format = X86_STATE_STANDARD;
        break;
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
        out->format = X86_STATE_COMPACT;
        break;
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
        out->format = X86_STATE_AS_IT_SAYS;
        break;
    default:
        return false;
    }
    out->kind = X86_REACH_STATE;
    return true;
}

/* Of one size, but too long for an access, or for all that an operand says. */
static bool take_fixed(const struct x86_zydis *z, struct x86_reach *out)
{
    switch (z->in.mnemonic) {
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
        out->fixed_bytes = FXSAVE_BYTES;
        break;
    case ZYDIS_MNEMONIC_FNSAVE:
    case ZYDIS_MNEMONIC_FRSTOR:
        out->fixed_bytes = X87_BYTES;
        break;
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FLDENV:
        out->fixed_bytes = X87_ENVIRONMENT_BYTES;
        break;
    default:
        return false;
    }
    out->kind = X86_REACH_FIXED;
    return true;
}

static bool take_bit(const struct x86_zydis *z, const ZydisDecodedOperand *m, struct x86_reach *out)
{
    bool tests = z->in.mnemonic == ZYDIS_MNEMONIC_BT || z->in.mnemonic == ZYDIS_MNEMONIC_BTS ||
                 z->in.mnemonic == ZYDIS_MNEMONIC_BTR || z->in.mnemonic == ZYDIS_MNEMONIC_BTC;
    if (!tests || z->op[1].type != ZYDIS_OPERAND_TYPE_REGISTER)
        return false;
    out->kind = X86_REACH_BIT;
    out->index = x86_zydis_reg(z->op[1].reg.value);
    out->element_bytes = (uint8_t)(m->size / 8);
    return true;
}

/* xlat: a byte of the table, whose number is al. */
static bool take_table(const struct x86_zydis *z, struct x86_reach *out)
{
    if (z->in.mnemonic != ZYDIS_MNEMONIC_XLAT)
        return false;
    out->kind = X86_REACH_TABLE;
    out->element_bytes = 1;
    out->access.index = X86_REG_NONE;
    out->access.bytes = 1;
    return true;
}

/* Addresses of 32 bits, of what is otherwise like others. */
static bool take_narrow(const struct x86_zydis *z, const ZydisDecodedOperand *m, struct x86_reach *out)
{
    bool repeats = z->in.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
    if (z->in.address_width != 32 || repeats || m->mem.type != ZYDIS_MEMOP_TYPE_MEM || !m->size || m->size > 512)
        return false;
    out->kind = X86_REACH_FIXED;
    out->fixed_bytes = (uint16_t)(m->size / 8);
    return true;
}

static bool take_kind(const struct x86_zydis *z, const ZydisDecodedOperand *m, struct x86_reach *out)
{
    if (m->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
        return take_gather(z, m, out);
    return take_evex_mask(z, m, out) || take_vector_mask(z, m, out) || take_state(z, out) || take_fixed(z, out) ||
           take_bit(z, m, out) || take_table(z, out) || take_narrow(z, m, out);
}

void x86_put_reach(const struct x86_zydis *z, uint64_t addr, struct x86_detail *out)
{
    const ZydisDecodedOperand *m = memory_of(z);
    struct x86_reach r = {.kind = X86_REACH_NONE, .mask = X86_REG_NONE, .index = X86_REG_NONE};
    out->reach = r;
    if (!m || z->in.meta.category == ZYDIS_CATEGORY_NOP || z->in.meta.category == ZYDIS_CATEGORY_WIDENOP)
        return;
    r.is_narrow = z->in.address_width == 32;
    if (take_access(z, m, addr, &r.access) && take_kind(z, m, &r))
        out->reach = r;
}
