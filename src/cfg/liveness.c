/* SPDX-License-Identifier: Apache-2.0
 *
 * Which flags and registers hold something that is still wanted, before each instruction of one function. Backwards over
 * its blocks until nothing changes. Wherever control leaves the function every register counts as wanted, because compilers
 * that know both sides of a call keep values in registers that the ABI would let go.
 */
#include "cfg/impl.h"

#define CALLEE_SAVED (1u << 3 | 1u << 5 | 0xfu << 12) /* rbx rbp r12..r15: what a landing pad may still read */
#define RSP (1u << 4)

struct live {
    uint8_t flags;
    uint16_t regs;
};

static uint8_t flags_into(const struct cfg *c, uint32_t call)
{
    uint32_t g = c->crossing ? cfg_func_at(c, cfg_insn_target(c, call)) : ID_NONE;
    return g == ID_NONE ? 0 : c->crossing[g].in;
}

/* Assembly without unwind description need not keep to any convention: it may hand flags to whomever. */
static uint8_t flags_leaving(const struct cfg *c, const struct cfg_block *b)
{
    return cfg_is_gap_func(&c->funcs.data[b->func]) ? X86_ALL_FLAGS : 0;
}

static struct live before(const struct cfg *c, const struct cfg_block *b, uint32_t insn, struct live after)
{
    const struct x86_insn *i = cfg_shape(c, insn);
    switch ((enum x86_kind)i->kind) {
    case X86_CALL:
        return (struct live){flags_into(c, insn) | flags_leaving(c, b), 0xffff};
    case X86_RET:
        return (struct live){(c->crossing ? c->crossing[b->func].out : 0) | flags_leaving(c, b), 0xffff};
    case X86_CALL_IND:
    case X86_TRAP:
        return (struct live){flags_leaving(c, b), 0xffff};
    case X86_JMP_IND:
        return (struct live){flags_leaving(c, b), (uint16_t)(after.regs | i->gpr_read)};
    default:
        break;
    }
    uint8_t kills = i->props & X86_PROP_FLAGS_MAYBE ? 0 : i->flags_written;
    uint16_t overwrites = i->gpr_written & (uint16_t)~i->gpr_read;
    return (struct live){(uint8_t)((after.flags & ~kills) | i->flags_read), (uint16_t)((after.regs & ~overwrites) | i->gpr_read)};
}

static struct live before_block(const struct cfg *c, const struct cfg_block *b, struct live l)
{
    for (uint32_t i = b->insn_first + b->insn_count; i-- > b->insn_first;)
        l = before(c, b, i, l);
    return l;
}

/* Flags that a block of another function reads or hands on: a part moved to .cold may be entered with a compare pending. */
static struct live elsewhere(const struct cfg *c, uint32_t block)
{
    struct live all = {X86_ALL_FLAGS, 0xffff};
    if (block == ID_NONE)
        return all;
    const struct cfg_block *b = &c->blocks.data[block];
    return (struct live){before_block(c, b, all).flags, 0xffff};
}

static struct live after_block(const struct cfg *c, const struct cfg_func *f, const struct cfg_block *b, const struct live *in)
{
    struct live l = {0, 0};
    if (b->edge_count == 0)
        l.regs = 0xffff;
    for (uint32_t e = b->edge_first; e < b->edge_first + b->edge_count; e++) {
        uint32_t to = c->edges.data[e].to;
        bool inside = to != ID_NONE && to - f->block_first < f->block_count;
        struct live t = inside ? in[to - f->block_first] : elsewhere(c, to);
        l.flags |= t.flags;
        l.regs |= t.regs;
    }
    return l;
}

static bool has_pads(const struct cfg *c, const struct cfg_func *f)
{
    cfg_for_each_block(c, f, b)
        if (c->blocks.data[b].flags & CFG_BLOCK_LANDING_PAD)
            return true;
    return false;
}

void cfg_liveness_build(const struct cfg *c, uint32_t func, struct arena *scratch, struct cfg_liveness *out)
{
    const struct cfg_func *f = &c->funcs.data[func];
    struct live *in = ARENA_ARRAY(scratch, struct live, f->block_count); /* nothing wanted: grows until it holds */
    out->flags_live = ARENA_ARRAY(scratch, uint8_t, f->insn_count);
    out->gpr_dead = ARENA_ARRAY(scratch, uint16_t, f->insn_count);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t k = f->block_count; k-- > 0;) {
            const struct cfg_block *b = &c->blocks.data[f->block_first + k];
            struct live l = before_block(c, b, after_block(c, f, b, in));
            changed |= l.flags != in[k].flags || l.regs != in[k].regs;
            in[k] = l;
        }
    }
    uint16_t never = (uint16_t)(RSP | (has_pads(c, f) ? CALLEE_SAVED : 0));
    for (uint32_t k = 0; k < f->block_count; k++) {
        const struct cfg_block *b = &c->blocks.data[f->block_first + k];
        struct live l = after_block(c, f, b, in);
        for (uint32_t i = b->insn_first + b->insn_count; i-- > b->insn_first;) {
            l = before(c, b, i, l);
            out->flags_live[i - f->insn_first] = l.flags;
            out->gpr_dead[i - f->insn_first] = (uint16_t) ~(l.regs | never);
        }
    }
}
