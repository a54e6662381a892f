/* SPDX-License-Identifier: Apache-2.0
 * Call frame instructions (DWARF 5 section 6.4.2) cut into operations, asked whether they can move to another address,
 * and interpreted into rows: where the CFA is, and for each general register the instruction that set its rule. */
#include <dwarf.h>

#include "image/impl.h"

#define REG_RIP 16

#ifndef DW_CFA_MIPS_advance_loc8
#define DW_CFA_MIPS_advance_loc8 0x1d
#endif

/* ---- one instruction ---- */

enum shape {
    SHAPE_BAD,
    SHAPE_NONE,
    SHAPE_U1,
    SHAPE_U2,
    SHAPE_U4,
    SHAPE_U8,
    SHAPE_ADDR,
    SHAPE_REG,
    SHAPE_REG_U,
    SHAPE_REG_S,
    SHAPE_U,
    SHAPE_S,
    SHAPE_BLOCK,
    SHAPE_REG_BLOCK
};

static const uint8_t shapes[64] = {
    [DW_CFA_nop] = SHAPE_NONE,
    [DW_CFA_set_loc] = SHAPE_ADDR,
    [DW_CFA_advance_loc1] = SHAPE_U1,
    [DW_CFA_advance_loc2] = SHAPE_U2,
    [DW_CFA_advance_loc4] = SHAPE_U4,
    [DW_CFA_MIPS_advance_loc8] = SHAPE_U8,
    [DW_CFA_offset_extended] = SHAPE_REG_U,
    [DW_CFA_restore_extended] = SHAPE_REG,
    [DW_CFA_undefined] = SHAPE_REG,
    [DW_CFA_same_value] = SHAPE_REG,
    [DW_CFA_register] = SHAPE_REG_U,
    [DW_CFA_remember_state] = SHAPE_NONE,
    [DW_CFA_restore_state] = SHAPE_NONE,
    [DW_CFA_def_cfa] = SHAPE_REG_U,
    [DW_CFA_def_cfa_register] = SHAPE_REG,
    [DW_CFA_def_cfa_offset] = SHAPE_U,
    [DW_CFA_def_cfa_expression] = SHAPE_BLOCK,
    [DW_CFA_expression] = SHAPE_REG_BLOCK,
    [DW_CFA_offset_extended_sf] = SHAPE_REG_S,
    [DW_CFA_def_cfa_sf] = SHAPE_REG_S,
    [DW_CFA_def_cfa_offset_sf] = SHAPE_S,
    [DW_CFA_val_offset] = SHAPE_REG_U,
    [DW_CFA_val_offset_sf] = SHAPE_REG_S,
    [DW_CFA_val_expression] = SHAPE_REG_BLOCK,
    [DW_CFA_GNU_args_size] = SHAPE_U,
    [DW_CFA_GNU_negative_offset_extended] = SHAPE_REG_U,
};

static void read_block(struct cursor *c, struct cfi_op *out)
{
    out->expr_len = cursor_uleb(c);
    out->expr = c->p;
    cursor_skip(c, out->expr_len);
}

static void read_operands(struct cursor *c, const struct image *img, const struct image_cie *cie, struct cfi_op *out)
{
    bool is_unknown = false;
    enum shape shape = shapes[out->op];
    if (shape == SHAPE_REG || shape == SHAPE_REG_U || shape == SHAPE_REG_S || shape == SHAPE_REG_BLOCK)
        out->reg = cursor_uleb(c);
    switch (shape) {
    case SHAPE_NONE:
    case SHAPE_REG:
        break;
    case SHAPE_U1:
        out->arg = cursor_uint(c, 1);
        break;
    case SHAPE_U2:
        out->arg = cursor_uint(c, 2);
        break;
    case SHAPE_U4:
        out->arg = cursor_uint(c, 4);
        break;
    case SHAPE_U8:
        out->arg = cursor_uint(c, 8);
        break;
    case SHAPE_ADDR:
        out->arg = cursor_pointer(c, img, cie->fde_enc, 0, &is_unknown);
        c->is_bad |= is_unknown;
        break;
    case SHAPE_U:
    case SHAPE_REG_U:
        out->arg = cursor_uleb(c);
        break;
    case SHAPE_S:
    case SHAPE_REG_S:
        out->arg_signed = cursor_sleb(c);
        break;
    case SHAPE_BLOCK:
    case SHAPE_REG_BLOCK:
        read_block(c, out);
        break;
    default:
        c->is_bad = true;
    }
}

bool cfi_next(struct cursor *c, const struct image *img, const struct image_cie *cie, struct cfi_op *out)
{
    if (c->is_bad || c->p == c->end)
        return false;
    *out = (struct cfi_op){.start = c->p};
    uint8_t byte = *c->p++, packed = byte & 0xc0;
    out->op = packed ? packed : byte;
    if (packed == DW_CFA_advance_loc) {
        out->arg = byte & 0x3f;
    } else if (packed) {
        out->reg = byte & 0x3f;
        out->arg = packed == DW_CFA_offset ? cursor_uleb(c) : 0;
    } else {
        read_operands(c, img, cie, out);
    }
    out->end = c->p;
    return !c->is_bad;
}

bool cfi_moves(const struct cfi_op *op, const struct image_cie *cie, uint64_t *loc)
{
    switch (op->op) {
    case DW_CFA_advance_loc:
    case DW_CFA_advance_loc1:
    case DW_CFA_advance_loc2:
    case DW_CFA_advance_loc4:
    case DW_CFA_MIPS_advance_loc8:
        *loc += op->arg * cie->code_align;
        return true;
    case DW_CFA_set_loc:
        *loc = op->arg;
        return true;
    default:
        return false;
    }
}

struct cursor cfi_cursor(const struct image *img, const struct image_fde *fde)
{
    const uint8_t *record = image_at(img, fde->record, 4);
    uint64_t vaddr = record ? fde->record + (uint64_t)(fde->cfi - record) : 0;
    return (struct cursor){fde->cfi, fde->cfi, fde->cfi + fde->cfi_len, vaddr, false};
}

static struct cursor cie_cursor(const struct image_cie *cie)
{
    return (struct cursor){cie->cfi, cie->cfi, cie->cfi + cie->cfi_len, 0, false};
}

/* ---- may it move? ---- */

/* Operand bytes of a DWARF operation in expressions of CFI; -1 for one that is unknown or has none of its own size. */
static int expr_operand_len(uint8_t op)
{
    if ((op >= DW_OP_lit0 && op <= DW_OP_lit31) || (op >= DW_OP_dup && op <= DW_OP_over) ||
        (op >= DW_OP_swap && op <= DW_OP_plus) || (op >= DW_OP_shl && op <= DW_OP_xor) ||
        (op >= DW_OP_eq && op <= DW_OP_ne) || op == DW_OP_deref || op == DW_OP_nop)
        return 0;
    switch (op) {
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_pick:
    case DW_OP_deref_size:
        return 1;
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_bra:
    case DW_OP_skip:
        return 2;
    case DW_OP_const4u:
    case DW_OP_const4s:
        return 4;
    case DW_OP_addr:
    case DW_OP_const8u:
    case DW_OP_const8s:
        return 8;
    default:
        return -1;
    }
}

/* An expression may not know where the code is: no rip, and no address unless addresses are fixed. */
static bool expr_can_move(const struct image *img, const struct cfi_op *op)
{
    struct cursor c = {op->expr, op->expr, op->expr + op->expr_len, 0, false};
    while (!c.is_bad && c.p < c.end) {
        uint8_t o = *c.p++;
        int len = expr_operand_len(o);
        if ((o == DW_OP_addr && img->kind != IMAGE_EXEC) || o == DW_OP_breg0 + REG_RIP)
            return false;
        if (len >= 0)
            cursor_skip(&c, (uint64_t)len);
        else if ((o >= DW_OP_breg0 && o <= DW_OP_breg31) || o == DW_OP_consts)
            cursor_sleb(&c);
        else if (o == DW_OP_plus_uconst || o == DW_OP_constu)
            cursor_uleb(&c);
        else
            return false;
    }
    return !c.is_bad;
}

bool cfi_can_move(const struct image *img, const struct image_cie *cie, const struct image_fde *fde)
{
    struct cursor c = fde ? cfi_cursor(img, fde) : cie_cursor(cie);
    struct cfi_op op;
    uint64_t loc = fde ? fde->addr : 0, loc_last = loc;
    while (cfi_next(&c, img, cie, &op)) {
        if (cfi_moves(&op, cie, &loc)) {
            if (!fde || loc < loc_last || loc - fde->addr > fde->len_bytes)
                return false;
            loc_last = loc;
        }
        if (op.expr && !expr_can_move(img, &op))
            return false;
    }
    return !c.is_bad;
}

/* ---- rows ---- */

static void set_cfa(struct cfi_row *r, uint64_t reg, int64_t offset)
{
    r->cfa_expr = (struct cfi_rule){0};
    r->cfa_reg = reg;
    r->cfa_offset = offset;
}

static struct cfi_rule rule_of(const struct cfi_op *op)
{
    return (struct cfi_rule){op->start, (uint32_t)(op->end - op->start)};
}

static void set_rule(struct cfi_machine *m, const struct cfi_op *op)
{
    bool is_restore = op->op == DW_CFA_restore || op->op == DW_CFA_restore_extended;
    if (op->reg < CFI_REGS)
        m->now.regs[op->reg] = is_restore ? m->first.regs[op->reg] : rule_of(op);
    else
        m->has_other_regs = true;
}

void cfi_machine_step(struct cfi_machine *m, const struct image_cie *cie, const struct cfi_op *op)
{
    switch (op->op) {
    case DW_CFA_def_cfa:
        set_cfa(&m->now, op->reg, (int64_t)op->arg);
        break;
    case DW_CFA_def_cfa_sf:
        set_cfa(&m->now, op->reg, (int64_t)((uint64_t)op->arg_signed * (uint64_t)cie->data_align));
        break;
    case DW_CFA_def_cfa_register:
        m->now.cfa_reg = op->reg;
        break;
    case DW_CFA_def_cfa_offset:
        m->now.cfa_offset = (int64_t)op->arg;
        break;
    case DW_CFA_def_cfa_offset_sf:
        m->now.cfa_offset = (int64_t)((uint64_t)op->arg_signed * (uint64_t)cie->data_align);
        break;
    case DW_CFA_def_cfa_expression:
        m->now.cfa_expr = rule_of(op);
        break;
    case DW_CFA_remember_state:
        m->is_bad |= m->depth == CFI_STATES_MAX;
        if (!m->is_bad)
            m->stack[m->depth++] = m->now;
        break;
    case DW_CFA_restore_state:
        m->is_bad |= m->depth == 0;
        if (!m->is_bad)
            m->now = m->stack[--m->depth];
        break;
    case DW_CFA_nop:
    case DW_CFA_GNU_args_size:
        break;
    default:
        set_rule(m, op);
        break;
    }
}

void cfi_machine_init(struct cfi_machine *m, const struct image *img, const struct image_cie *cie)
{
    struct cfi_op op;
    struct cursor c = cie_cursor(cie);
    m->first = m->now = (struct cfi_row){.cfa_expr = {cie->cfi, 0}, .cfa_reg = UINT64_MAX};
    m->depth = 0;
    m->is_bad = m->has_other_regs = false;
    while (cfi_next(&c, img, cie, &op))
        cfi_machine_step(m, cie, &op);
    m->first = m->now;
    m->is_bad |= c.is_bad;
}

bool cfi_machine_at(struct cfi_machine *m, const struct image *img, const struct image_unwind *u,
                    const struct image_fde *f, uint64_t vaddr)
{
    const struct image_cie *cie = &u->cies[f->cie];
    struct cfi_op op;
    cfi_machine_init(m, img, cie);
    struct cursor c = cfi_cursor(img, f);
    uint64_t loc = f->addr;
    while (cfi_next(&c, img, cie, &op)) {
        if (cfi_moves(&op, cie, &loc)) {
            if (loc > vaddr)
                break;
        } else {
            cfi_machine_step(m, cie, &op);
        }
    }
    return !m->is_bad && !c.is_bad;
}

struct image_cfa image_unwind_cfa(const struct image *img, const struct image_unwind *u, const struct image_fde *f,
                                  uint64_t vaddr)
{
    struct cfi_machine m;
    if (vaddr - f->addr >= f->len_bytes || !cfi_machine_at(&m, img, u, f, vaddr) || m.now.cfa_expr.start ||
        m.now.cfa_offset < 0 || m.now.cfa_offset > INT32_MAX)
        return (struct image_cfa){IMAGE_CFA_NONE, 0};
    enum image_cfa_reg reg = m.now.cfa_reg == CFI_REG_RSP   ? IMAGE_CFA_RSP
                             : m.now.cfa_reg == CFI_REG_RBP ? IMAGE_CFA_RBP
                                                            : IMAGE_CFA_NONE;
    return (struct image_cfa){reg, (int32_t)m.now.cfa_offset};
}

int64_t image_unwind_cfa_rsp_offset(const struct image *img, const struct image_unwind *u, const struct image_fde *f,
                                    uint64_t vaddr)
{
    struct image_cfa cfa = image_unwind_cfa(img, u, f, vaddr);
    return cfa.reg == IMAGE_CFA_RSP ? cfa.offset : -1;
}

static bool is_in_frame(const struct cfi_rule *r)
{
    return r->start && ((*r->start & 0xc0) == DW_CFA_offset || *r->start == DW_CFA_offset_extended ||
                        *r->start == DW_CFA_offset_extended_sf || *r->start == DW_CFA_expression);
}

uint16_t image_unwind_saved(const struct image *img, const struct image_unwind *u, const struct image_fde *f,
                            uint64_t vaddr)
{
    struct cfi_machine m;
    uint16_t saved = 0;
    if (vaddr - f->addr >= f->len_bytes || !cfi_machine_at(&m, img, u, f, vaddr))
        return 0;
    for (unsigned r = 0; r < IMAGE_FRAME_REGS; r++)
        saved |= is_in_frame(&m.now.regs[r]) ? (uint16_t)(1u << r) : 0;
    return saved;
}

int image_unwind_row_starts(const struct image *img, const struct image_unwind *u, uint32_t fde,
                            void (*fn)(void *ctx, uint64_t addr), void *ctx)
{
    const struct image_fde *f = &u->fdes[fde];
    struct cursor c = cfi_cursor(img, f);
    struct cfi_op op;
    uint64_t loc = f->addr;
    while (cfi_next(&c, img, &u->cies[f->cie], &op))
        if (cfi_moves(&op, &u->cies[f->cie], &loc))
            fn(ctx, loc);
    return c.is_bad ? -1 : 0;
}
