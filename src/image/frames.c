/* SPDX-License-Identifier: Apache-2.0
 * A stopped thread's registers to those of its caller, by the unwind tables of the file that its code is in. Reads
 * memory only through the caller. Rules that need an expression (linkage stubs, realigned stacks) are not followed: the
 * walk ends. */
#include <dwarf.h>

#include "image/impl.h"

enum { REG_RIP = 16 };

static bool is_known(const struct image_frame *f, uint64_t reg)
{
    return reg < IMAGE_FRAME_REGS && f->known >> reg & 1;
}

static bool find_cfa(const struct cfi_row *row, const struct image_frame *f, uint64_t *cfa)
{
    if (row->cfa_expr.start || !is_known(f, row->cfa_reg))
        return false;
    *cfa = f->regs[row->cfa_reg] + (uint64_t)row->cfa_offset;
    return true;
}

enum saved { SAVED_KEPT, SAVED_IN_MEMORY, SAVED_NOWHERE, SAVED_UNCLEAR };

/* Where the caller's value of a register is; *at: its distance from the CFA. */
static enum saved where_saved(const struct image *img, const struct image_cie *cie, const struct cfi_rule *rule,
                              int64_t *at)
{
    struct cursor c = {rule->start, rule->start, rule->start + rule->len, 0, false};
    struct cfi_op op;
    if (!rule->start)
        return SAVED_KEPT;
    if (!cfi_next(&c, img, cie, &op))
        return SAVED_UNCLEAR;
    switch (op.op) {
    case DW_CFA_offset:
    case DW_CFA_offset_extended:
        *at = (int64_t)(op.arg * (uint64_t)cie->data_align);
        return SAVED_IN_MEMORY;
    case DW_CFA_offset_extended_sf:
        *at = (int64_t)((uint64_t)op.arg_signed * (uint64_t)cie->data_align);
        return SAVED_IN_MEMORY;
    case DW_CFA_same_value:
        return SAVED_KEPT;
    case DW_CFA_undefined:
        return SAVED_NOWHERE;
    default:
        return SAVED_UNCLEAR;
    }
}

enum image_step image_unwind_step(const struct image *img, const struct image_unwind *u, uint64_t vaddr,
                                  struct image_frame *f, image_read_word read, void *ctx)
{
    uint32_t fde = image_unwind_find(u, vaddr);
    struct cfi_machine m;
    struct image_frame up = {0};
    uint64_t cfa, word;
    if (fde == ID_NONE || u->fdes[fde].is_signal_frame || !cfi_machine_at(&m, img, u, &u->fdes[fde], vaddr) ||
        !find_cfa(&m.now, f, &cfa))
        return IMAGE_STEP_LOST;
    const struct image_cie *cie = &u->cies[u->fdes[fde].cie];
    for (unsigned reg = 0; reg <= REG_RIP; reg++) {
        int64_t at = 0;
        enum saved where = where_saved(img, cie, &m.now.regs[reg], &at);
        if (reg == REG_RIP && where == SAVED_NOWHERE)
            return IMAGE_STEP_BOTTOM;
        bool is_there = where == SAVED_IN_MEMORY ? read(ctx, cfa + (uint64_t)at, &word)
                                                 : where == SAVED_KEPT && reg != REG_RIP && is_known(f, reg);
        if (reg == REG_RIP)
            up.pc = is_there ? word : 0;
        else if (is_there) {
            up.regs[reg] = where == SAVED_IN_MEMORY ? word : f->regs[reg];
            up.known |= (uint16_t)(1u << reg);
        }
    }
    up.regs[CFI_REG_RSP] = cfa;
    up.known |= 1u << CFI_REG_RSP;
    if (!up.pc)
        return IMAGE_STEP_LOST;
    *f = up;
    return IMAGE_STEP_CALLER;
}
