/* SPDX-License-Identifier: Apache-2.0
 *
 * Which flags and registers hold something that is still live, before each instruction of one function. Backwards
 * over its blocks, each taken as a whole, until nothing changes. Wherever control leaves the function every register
 * counts as live, because compilers that know both sides of a call keep values in registers that the ABI would let
 * go.
 */
#include "cfg/impl.h"

#define CALLEE_SAVED                                                                                                   \
    (1u << X86_RBX | 1u << X86_RBP | 0xfu << X86_R12) /* r12 to r15; what a landing pad may still read */

static uint8_t flags_into(const struct cfg *c, uint32_t call)
{
    uint32_t g = c->call_live ? cfg_func_at(c, cfg_insn_target(c, call)) : ID_NONE;
    return g == ID_NONE ? 0 : c->call_live[g].in;
}

/* Assembly without unwind description need not keep to any convention: it may hand flags to whomever. */
static uint8_t flags_leaving(const struct cfg *c, uint32_t func)
{
    return cfg_is_gap_func(&c->funcs.data[func]) ? X86_ALL_FLAGS : 0;
}

/* What is live into one instruction: what it reads, and what of that live behind it it does not write. */
static struct cfg_effect effect_of(const struct cfg *c, uint32_t func, uint32_t insn)
{
    const struct x86_insn *i = cfg_shape(c, insn);
    switch ((enum x86_kind)i->kind) {
    case X86_CALL:
        return (struct cfg_effect){.flags = flags_into(c, insn) | flags_leaving(c, func), .regs = 0xffff};
    case X86_RET:
        return (struct cfg_effect){.flags = (c->call_live ? c->call_live[func].out : 0) | flags_leaving(c, func),
                                   .regs = 0xffff};
    case X86_CALL_IND:
    case X86_TRAP:
        return (struct cfg_effect){.flags = flags_leaving(c, func), .regs = 0xffff};
    case X86_JMP_IND:
        return (struct cfg_effect){.flags = flags_leaving(c, func), .regs = i->gpr_read, .regs_kept = 0xffff};
    default:
        break;
    }
    uint8_t kills = i->props & X86_PROP_FLAGS_MAYBE ? 0 : i->flags_written;
    return (struct cfg_effect){.flags = i->flags_read,
                               .flags_kept = (uint8_t)~kills,
                               .regs = i->gpr_read,
                               .regs_kept = (uint16_t)(~i->gpr_written | i->gpr_read)};
}

static struct cfg_live_in before(const struct cfg_effect *e, struct cfg_live_in after)
{
    return (struct cfg_live_in){(uint8_t)(e->flags | (after.flags & e->flags_kept)),
                                (uint16_t)(e->regs | (after.regs & e->regs_kept))};
}

static struct cfg_effect effect_of_block(const struct cfg *c, const struct cfg_block *b)
{
    struct cfg_effect all = {.flags_kept = X86_ALL_FLAGS, .regs_kept = UINT16_MAX};
    for (uint32_t i = b->insn_first + b->insn_count; i-- > b->insn_first;) {
        struct cfg_effect one = effect_of(c, b->func, i);
        struct cfg_live_in w = before(&one, (struct cfg_live_in){all.flags, all.regs});
        all = (struct cfg_effect){w.flags, all.flags_kept & one.flags_kept, w.regs, all.regs_kept & one.regs_kept};
    }
    return all;
}

/* Flags that a block of another function reads or hands on: a part moved to .cold may be entered with a compare
 * pending. */
static struct cfg_live_in elsewhere(const struct cfg *c, uint32_t block)
{
    struct cfg_live_in all = {X86_ALL_FLAGS, 0xffff};
    if (block == ID_NONE)
        return all;
    struct cfg_effect e = effect_of_block(c, &c->blocks.data[block]);
    return (struct cfg_live_in){before(&e, all).flags, 0xffff};
}

/* Functions keep to the calling convention, hand-written assembly that is not one need not. */
static struct cfg_live_in behind_edge(const struct cfg *c, const struct cfg_block *b, const struct cfg_edge *e)
{
    struct cfg_live_in at_call = {0, 0xffff};
    bool is_call = e->to == ID_NONE && (b->term == X86_JMP || b->term == X86_JCC) &&
                   cfg_is_elsewhere(c, b->call_target) && !cfg_is_gap_func(&c->funcs.data[b->func]);
    return is_call ? at_call : elsewhere(c, e->to);
}

/* After the function's block number k. Looks no further once all of `enough` is live. */
static struct cfg_live_in after_block(const struct cfg_liveness *l, uint32_t k, struct cfg_live_in enough)
{
    const struct cfg *c = l->c;
    const struct cfg_func *f = &c->funcs.data[l->func];
    const struct cfg_block *b = &c->blocks.data[f->block_first + k];
    struct cfg_live_in w = {0, b->edge_count == 0 ? 0xffff : 0};
    cfg_for_each_edge(b, e) {
        if (!(enough.flags & ~w.flags) && !(enough.regs & ~w.regs))
            break;
        uint32_t to = c->edges.data[e].to;
        bool inside = cfg_func_has_block(f, to);
        struct cfg_live_in t = inside ? l->before.data[to - f->block_first] : behind_edge(c, b, &c->edges.data[e]);
        w.flags |= t.flags;
        w.regs |= t.regs;
    }
    return w;
}

static bool has_pads(const struct cfg *c, const struct cfg_func *f)
{
    cfg_for_each_block(f, b)
        if (c->blocks.data[b].flags & CFG_BLOCK_LANDING_PAD)
            return true;
    return false;
}

void cfg_liveness_build(const struct cfg *c, uint32_t func, struct cfg_liveness *l)
{
    const struct cfg_func *f = &c->funcs.data[func];
    l->c = c;
    l->func = func;
    l->never_dead = (uint16_t)(1u << X86_RSP | (has_pads(c, f) ? CALLEE_SAVED : 0));
    l->before.len = l->effect.len = 0;
    cfg_for_each_block(f, b) {
        struct cfg_live_in nothing = {0, 0}; /* grows until it holds */
        VEC_PUSH(&l->effect, effect_of_block(c, &c->blocks.data[b]));
        VEC_PUSH(&l->before, nothing);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t k = f->block_count; k-- > 0;) {
            const struct cfg_effect *e = &l->effect.data[k];
            struct cfg_live_in kept = {e->flags_kept, e->regs_kept}, *was = &l->before.data[k];
            struct cfg_live_in w = before(e, after_block(l, k, kept));
            changed |= w.flags != was->flags || w.regs != was->regs;
            *was = w;
        }
    }
}

static struct cfg_live live(const struct cfg_liveness *l, struct cfg_live_in w)
{
    return (struct cfg_live){w.flags, (uint16_t) ~(w.regs | l->never_dead)};
}

struct cfg_live cfg_live_before(const struct cfg_liveness *l, uint32_t block)
{
    return live(l, l->before.data[block - l->c->funcs.data[l->func].block_first]);
}

void cfg_live_inside(const struct cfg_liveness *l, uint32_t block, struct cfg_live *out, uint32_t max)
{
    const struct cfg_block *b = &l->c->blocks.data[block];
    struct cfg_live_in all = {X86_ALL_FLAGS, UINT16_MAX};
    struct cfg_live_in w = after_block(l, block - l->c->funcs.data[l->func].block_first, all);
    for (uint32_t k = b->insn_count; k-- > 0;) {
        struct cfg_effect e = effect_of(l->c, l->func, b->insn_first + k);
        w = before(&e, w);
        if (k < max)
            out[k] = live(l, w);
    }
}

void cfg_liveness_fini(struct cfg_liveness *l)
{
    VEC_FREE(&l->effect);
    VEC_FREE(&l->before);
}
