/* SPDX-License-Identifier: Apache-2.0
 * A stopped thread's registers to those of its caller, by the unwind tables of the file that its code is in. Reads
 * memory only through the caller. */
#include <dwarf.h>

#include "image/impl.h"

enum { REG_RIP = 16 };

static bool is_known(const struct image_frame *f, uint64_t reg)
{
    return reg < IMAGE_FRAME_REGS && f->known >> reg & 1;
}

struct step { /* from a frame to its caller's */
    const struct image *img;
    const struct image_cie *cie;
    const struct image_frame *from;
    image_read_word read;
    void *ctx;
    uint64_t cfa;
};

static bool rule_op(const struct step *s, const struct cfi_rule *rule, struct cfi_op *op)
{
    struct cursor c = {rule->start, rule->start, rule->start + rule->len, 0, false};
    return cfi_next(&c, s->img, s->cie, op);
}

static bool find_cfa(struct step *s, const struct cfi_row *row)
{
    const struct image_frame *f = s->from;
    struct cfi_op op;
    if (row->cfa_expr.start)
        return rule_op(s, &row->cfa_expr, &op) && cfi_evaluate(&op, f, NULL, s->read, s->ctx, &s->cfa);
    if (!is_known(f, row->cfa_reg))
        return false;
    s->cfa = f->regs[row->cfa_reg] + (uint64_t)row->cfa_offset;
    return true;
}

enum saved { SAVED_THERE, SAVED_NOWHERE, SAVED_UNCLEAR };

static enum saved in_memory(const struct step *s, uint64_t addr, uint64_t *word)
{
    return s->read(s->ctx, addr, word) ? SAVED_THERE : SAVED_UNCLEAR;
}

static enum saved in_register(const struct step *s, uint64_t reg, uint64_t *word)
{
    if (!is_known(s->from, reg))
        return SAVED_UNCLEAR;
    *word = s->from->regs[reg];
    return SAVED_THERE;
}

/* The caller's value of a register. */
static enum saved saved_value(const struct step *s, unsigned reg, const struct cfi_rule *rule, uint64_t *word)
{
    struct cfi_op op;
    uint64_t align = (uint64_t)s->cie->data_align, addr;
    if (!rule->start)
        return in_register(s, reg, word);
    if (!rule_op(s, rule, &op))
        return SAVED_UNCLEAR;
    switch (op.op) {
    case DW_CFA_offset:
    case DW_CFA_offset_extended:
        return in_memory(s, s->cfa + op.arg * align, word);
    case DW_CFA_offset_extended_sf:
        return in_memory(s, s->cfa + (uint64_t)op.arg_signed * align, word);
    case DW_CFA_expression:
        return cfi_evaluate(&op, s->from, &s->cfa, s->read, s->ctx, &addr) ? in_memory(s, addr, word) : SAVED_UNCLEAR;
    case DW_CFA_val_expression:
        return cfi_evaluate(&op, s->from, &s->cfa, s->read, s->ctx, word) ? SAVED_THERE : SAVED_UNCLEAR;
    case DW_CFA_val_offset:
        *word = s->cfa + op.arg * align;
        return SAVED_THERE;
    case DW_CFA_val_offset_sf:
        *word = s->cfa + (uint64_t)op.arg_signed * align;
        return SAVED_THERE;
    case DW_CFA_register:
        return in_register(s, op.arg, word);
    case DW_CFA_same_value:
        return in_register(s, reg, word);
    case DW_CFA_undefined:
        return SAVED_NOWHERE;
    default:
        return SAVED_UNCLEAR;
    }
}

/* The loader's first instructions, which call all that it does and all initialisers, have no description (glibc's
 * _start, of 69 bytes). */
static bool is_loaders_start(const struct image *img, const struct image_unwind *u, uint64_t vaddr)
{
    enum { START_BYTES = 96 };
    if (img->kind != IMAGE_DSO || img->interp || img->needed_count || !img->entry || vaddr < img->entry ||
        vaddr - img->entry >= START_BYTES)
        return false;
    size_t next = PARTITION_POINT(i, 0, u->fde_count, u->fdes[i].addr < img->entry);
    return next == u->fde_count || u->fdes[next].addr > vaddr;
}

enum image_step image_unwind_step(const struct image *img, const struct image_unwind *u, uint64_t vaddr,
                                  struct image_frame *f, image_read_word read, void *ctx)
{
    uint32_t fde = image_unwind_find(u, vaddr);
    struct cfi_machine m;
    struct image_frame up = {0};
    if (fde == ID_NONE && is_loaders_start(img, u, vaddr))
        return IMAGE_STEP_BOTTOM;
    if (fde == ID_NONE || u->fdes[fde].is_signal_frame || !cfi_machine_at(&m, img, u, &u->fdes[fde], vaddr))
        return IMAGE_STEP_LOST;
    struct step s = {img, &u->cies[u->fdes[fde].cie], f, read, ctx, 0};
    if (!find_cfa(&s, &m.now))
        return IMAGE_STEP_LOST;
    for (unsigned reg = 0; reg <= REG_RIP; reg++) {
        uint64_t word;
        enum saved saved = saved_value(&s, reg, &m.now.regs[reg], &word);
        if (reg == REG_RIP && saved == SAVED_NOWHERE)
            return IMAGE_STEP_BOTTOM;
        if (saved != SAVED_THERE)
            continue;
        if (reg == REG_RIP) {
            up.pc = word;
        } else {
            up.regs[reg] = word;
            up.known |= (uint16_t)(1u << reg);
        }
    }
    up.regs[CFI_REG_RSP] = s.cfa;
    up.known |= 1u << CFI_REG_RSP;
    if (!up.pc)
        return IMAGE_STEP_LOST;
    *f = up;
    return IMAGE_STEP_CALLER;
}
