/* SPDX-License-Identifier: Apache-2.0
 *
 * Is a function's frame its own alone? It is if no address in it is ever made: the stack pointer, and rbp where that
 * holds a frame pointer, are used for nothing but to reach memory and to be moved. Then no other address, and nobody
 * else, reaches what is reached through them. Compilers' code only: an assembler may do with a frame what it likes. */
#include "cfg/cfg.h"

struct frame {
    const struct cfg *c;
    const struct cfg_func *fn;
    struct cfg_frame out;
};

static bool touches(const struct x86_insn *i, unsigned reg) { return (i->gpr_read | i->gpr_written) >> reg & 1; }

static bool detail_of(const struct frame *f, uint32_t i, struct x86_detail *d)
{
    size_t more;
    uint64_t at = cfg_insn_addr(f->c, i);
    const uint8_t *bytes = cfg_code_bytes(f->c->img, at, at + cfg_len(f->c, i), &more);
    return bytes && x86_decode_detail(bytes, cfg_len(f->c, i), at, d) != 0;
}

static bool reads(const struct x86_detail *d, uint8_t reg)
{
    return d->read_count && memchr(d->reads, reg, d->read_count) != NULL;
}

static bool is_move(const struct x86_detail *d, uint8_t to, uint8_t from)
{
    return d->effect == X86_EFFECT_COPY && d->effect_dst == to && d->effect_src == from;
}

/* ---- rbp ---- */

/* Is what it holds always the caller's, or an address in the frame? */
static bool is_frame_pointer(const struct frame *f)
{
    bool is_set = false;
    cfg_for_each_insn(f->fn, i) {
        struct x86_detail d;
        if (!(cfg_shape(f->c, i)->gpr_written >> X86_RBP & 1))
            continue;
        if (!detail_of(f, i, &d))
            return false;
        bool is_restored = d.effect == X86_EFFECT_LEAVE || (d.effect == X86_EFFECT_POP && d.effect_dst == X86_RBP);
        if (!is_restored && !is_move(&d, X86_RBP, X86_RSP))
            return false;
        is_set |= !is_restored;
    }
    return is_set;
}

/* ---- addresses that are made ---- */

/* Moves rsp, by a number or back to the frame. */
static bool moves_stack(const struct frame *f, const struct x86_detail *d)
{
    if (!(d->order.writes >> X86_RSP & 1) || d->is_store)
        return false;
    bool is_lea = d->insn.op == X86_OP_LEA && d->addr_index == X86_REG_NONE &&
                  (d->addr_base == X86_RSP || (f->out.rbp_is_frame && d->addr_base == X86_RBP));
    bool is_sum = (d->insn.op == X86_OP_ADD || d->insn.op == X86_OP_SUB || d->insn.op == X86_OP_AND) &&
                  d->insn.imm_len && !d->is_load;
    return is_lea || is_sum || (f->out.rbp_is_frame && is_move(d, X86_RSP, X86_RBP));
}

static bool saves_frame_pointer(const struct x86_detail *d)
{
    return d->effect == X86_EFFECT_PUSH && d->effect_src == X86_RBP;
}

static bool makes_address(const struct frame *f, const struct x86_detail *d)
{
    bool has_rbp = f->out.rbp_is_frame;
    if (moves_stack(f, d) || d->effect == X86_EFFECT_LEAVE)
        return false;
    if (has_rbp && (is_move(d, X86_RBP, X86_RSP) || saves_frame_pointer(d)))
        return false;
    bool is_of_frame = d->addr_base == X86_RSP || (has_rbp && (d->addr_base == X86_RBP || d->addr_index == X86_RBP));
    return reads(d, X86_RSP) || (has_rbp && reads(d, X86_RBP)) || (d->insn.op == X86_OP_LEA && is_of_frame) ||
           (has_rbp && d->addr_index == X86_RBP);
}

/* ---- what else runs in the frame ---- */

/* A jump out of the function leads to a part of it elsewhere, which was not looked at, unless its frame is gone. */
static bool leaves_with_frame(const struct frame *f, uint32_t b)
{
    const struct cfg_block *blk = &f->c->blocks.data[b];
    uint32_t last = blk->insn_first + blk->insn_count - 1;
    bool leaves = false;
    if (blk->term != X86_JMP && blk->term != X86_JCC && blk->term != X86_JCXZ && blk->term != X86_JMP_IND)
        return false;
    cfg_for_each_edge(blk, e)
        leaves |= f->c->edges.data[e].kind == CFG_EDGE_OUT || f->c->edges.data[e].kind == CFG_EDGE_TAIL;
    return leaves && image_unwind_cfa_rsp_offset(f->c->img, &f->c->unwind, &f->c->unwind.fdes[f->fn->fde],
                                                 cfg_insn_addr(f->c, last)) != 8;
}

struct cfg_frame cfg_frame_of(const struct cfg *c, uint32_t func)
{
    struct frame f = {.c = c, .fn = &c->funcs.data[func]};
    if (f.fn->fde == ID_NONE ||
        image_unwind_cfa_rsp_offset(c->img, &c->unwind, &c->unwind.fdes[f.fn->fde], f.fn->addr) != 8)
        return f.out;
    f.out.rbp_is_frame = is_frame_pointer(&f);
    cfg_for_each_block(f.fn, b)
        if (leaves_with_frame(&f, b))
            return f.out;
    cfg_for_each_insn(f.fn, i) {
        const struct x86_insn *in = cfg_shape(c, i);
        struct x86_detail d;
        if (!touches(in, X86_RSP) && !(f.out.rbp_is_frame && touches(in, X86_RBP)))
            continue;
        if (!detail_of(&f, i, &d) || makes_address(&f, &d))
            return f.out;
    }
    f.out.is_private = true;
    return f.out;
}
