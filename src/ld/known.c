/* SPDX-License-Identifier: Apache-2.0
 *
 * Which registers hold addresses that the linker made: followed through moves, lea and additions of numbers, from block
 * to block. Compilers fetch an address in front of a loop and use it there. Blocks that were not executed are passed
 * over: what they do cannot have come about.
 */
#include "ld/known.h"

void ld_known_follow(const struct x86_detail *d, struct ld_known regs[LD_REGS])
{
    const struct x86_access *a = &d->access[0];
    struct ld_known to = {LD_NOTHING, 0};
    bool is_rip = d->addr_base == X86_REG_RIP && d->addr_index == X86_REG_NONE;
    if (d->effect == X86_EFFECT_COPY && d->effect_src < LD_REGS)
        to = regs[d->effect_src];
    else if (d->effect == X86_EFFECT_ADD_IMM && d->effect_dst < LD_REGS)
        to = (struct ld_known){regs[d->effect_dst].kind, regs[d->effect_dst].value + (uint64_t)d->imm};
    else if (d->effect == X86_EFFECT_CONST)
        to = (struct ld_known){LD_ADDRESS, (uint64_t)d->imm};
    else if (d->effect == X86_EFFECT_LEA && is_rip)
        to = (struct ld_known){LD_ADDRESS, d->insn.target};
    else if (d->effect == X86_EFFECT_LEA && d->addr_base < LD_REGS && d->addr_index == X86_REG_NONE)
        to = (struct ld_known){regs[d->addr_base].kind, regs[d->addr_base].value + (uint64_t)d->addr_disp};
    else if (d->effect == X86_EFFECT_LOAD && a->segment == X86_SEGMENT_FS && a->base == X86_REG_NONE && !a->disp)
        to = (struct ld_known){LD_THREAD, 0};
    for (unsigned r = 0; r < LD_REGS; r++)
        if (d->insn.gpr_written >> r & 1)
            regs[r] = (struct ld_known){LD_NOTHING, 0};
    if (to.kind && d->effect_dst < LD_REGS)
        regs[d->effect_dst] = to;
}

/* Registers that a call keeps: rbx, rsp, rbp, r12 to r15. */
enum { KEPT = 1 << X86_RBX | 1 << X86_RSP | 1 << X86_RBP | 0xf << X86_R12 };

/* True if anything is known of less than before. */
static bool meet(struct ld_known to[LD_REGS], const struct ld_known from[LD_REGS])
{
    bool is_changed = false;
    for (unsigned r = 0; r < LD_REGS; r++) {
        bool is_same = to[r].kind == from[r].kind && to[r].value == from[r].value;
        if (to[r].kind == LD_NOTHING || from[r].kind == LD_UNREACHED || is_same)
            continue;
        to[r] = to[r].kind == LD_UNREACHED ? from[r] : (struct ld_known){LD_NOTHING, 0};
        is_changed = true;
    }
    return is_changed;
}

static void follow_block(const struct ld_code *c, const struct ld_block *b, struct ld_known regs[LD_REGS])
{
    uint64_t at[LD_CODE_INSNS_MAX];
    struct x86_detail d;
    bool is_read = ld_code_of(c, b, at), calls = false;
    for (uint32_t i = 0; i < b->insns && is_read; i++) {
        is_read = ld_code_decode(c, at[i], &d);
        if (is_read)
            ld_known_follow(&d, regs);
        calls = is_read && x86_is_call(&d.insn); /* the linker makes other code of what fetched a thread's variable */
    }
    for (unsigned r = 0; r < LD_REGS; r++)
        if (!is_read || (calls && !(KEPT >> r & 1)))
            regs[r] = (struct ld_known){LD_NOTHING, 0};
}

static void begin(struct ld_known_solver *s, const struct ld_blocks *all, const struct ld_function *f)
{
    enum { ENTERED = CFG_BLOCK_ENTRY | CFG_BLOCK_LANDING_PAD | CFG_BLOCK_ADDR_TAKEN | CFG_BLOCK_CALLED };
    VEC_RESERVE(&s->states, f->count);
    VEC_RESERVE(&s->is_waiting, f->count);
    s->states.len = s->is_waiting.len = f->count;
    s->work.len = 0;
    for (uint32_t b = 0; b < f->count; b++) {
        bool is_entered = all->blocks.data[f->first + b].flags & ENTERED;
        for (unsigned r = 0; r < LD_REGS; r++)
            s->states.data[b].regs[r] = (struct ld_known){is_entered ? LD_NOTHING : LD_UNREACHED, 0};
        s->is_waiting.data[b] = is_entered && all->blocks.data[f->first + b].count;
        if (s->is_waiting.data[b])
            VEC_PUSH(&s->work, b);
    }
}

void ld_known_solve(struct ld_known_solver *s, const struct ld_code *c, const struct ld_blocks *all,
                    const struct ld_function *f)
{
    begin(s, all, f);
    while (s->work.len) {
        uint32_t b = s->work.data[--s->work.len];
        const struct ld_block *blk = &all->blocks.data[f->first + b];
        struct ld_known regs[LD_REGS];
        s->is_waiting.data[b] = false;
        memcpy(regs, s->states.data[b].regs, sizeof regs);
        follow_block(c, blk, regs);
        for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
            size_t to = all->edges.data[e].to - f->first;
            if (all->edges.data[e].to == ID_NONE || to >= f->count || !all->blocks.data[f->first + to].count ||
                !meet(s->states.data[to].regs, regs) || s->is_waiting.data[to])
                continue;
            s->is_waiting.data[to] = true;
            VEC_PUSH(&s->work, (uint32_t)to);
        }
    }
}

void ld_known_free(struct ld_known_solver *s)
{
    VEC_FREE(&s->states);
    VEC_FREE(&s->work);
    VEC_FREE(&s->is_waiting);
}
