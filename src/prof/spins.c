/* SPDX-License-Identifier: Apache-2.0
 *
 * spins: loops in which a thread waits for memory to change. Such a loop either tells the processor so (pause), or is
 * short, calls nothing, and goes from turn to turn with nothing in its registers that its own code changes: only
 * another thread can end it. Attempts to take a lock (xchg, cmpxchg, bts) may be in it, other stores not. A loop that
 * is refused here counts as work.
 */
#include "prof/impl.h"

enum { INSNS_MAX = 24, BLOCKS_MAX = 16 };

struct turn { /* what one turn of a loop does, in order of addresses */
    struct x86_insn insn[INSNS_MAX];
    size_t count;
    bool has_pause, is_long;
};

static void read_block(const struct join_module *m, const struct cfg_block *b, bool is_own, struct turn *t)
{
    const uint8_t *bytes = image_at(m->img, b->addr, b->size);
    struct x86_insn insn;
    for (uint32_t at = 0; bytes && at < b->size; at += insn.len) {
        if (!x86_decode(bytes + at, b->size - at, b->addr + at, &insn))
            break;
        t->has_pause |= is_own && insn.len == 2 && bytes[at] == 0xf3 && bytes[at + 1] == 0x90;
        if (t->count < INSNS_MAX)
            t->insn[t->count++] = insn;
        else
            t->is_long = true;
    }
    t->is_long |= !bytes;
}

/* Leaves the loop's code other than by a branch, or changes memory other than by an attempt. */
static bool does_more(const struct x86_insn *i)
{
    return (i->kind != X86_PLAIN && i->kind != X86_JMP && i->kind != X86_JCC) ||
           (i->stores && i->op != X86_OP_EXCHANGE) || (i->props & (X86_PROP_VEC | X86_PROP_REP));
}

static uint16_t bit_of(uint8_t reg) { return reg < 16 ? (uint16_t)(1u << reg) : 0; }

/* Registers whose old value matters. What a narrow load, or number, keeps of its target (clang takes a lock by mov al,
 * 1; xchg [lock], al), and a register that is cleared by itself, do not. */
static uint16_t needs(const struct x86_insn *i)
{
    bool is_clear = i->op == X86_OP_XOR && !i->loads && !i->stores && i->gpr_read == i->gpr_written;
    bool is_number = i->op == X86_OP_MOV && i->imm_len && !i->stores;
    if (is_clear || is_number)
        return 0;
    if (i->op != X86_OP_MOV || !i->loads)
        return i->gpr_read;
    return (uint16_t)((i->gpr_read & ~i->gpr_written) | bit_of(i->mem_base) | bit_of(i->mem_index));
}

/* No register that a turn writes is needed by it before: each turn begins like the one before. */
static bool turns_are_alike(const struct turn *t)
{
    uint16_t written = 0, fresh = 0;
    uint32_t loads = 0;
    for (size_t k = 0; k < t->count; k++) {
        written |= t->insn[k].gpr_written;
        loads += t->insn[k].loads;
        if (does_more(&t->insn[k]))
            return false;
    }
    for (size_t k = 0; k < t->count; k++) {
        if (needs(&t->insn[k]) & written & (uint16_t)~fresh)
            return false;
        fresh |= t->insn[k].gpr_written;
    }
    return loads > 0;
}

bool spins_is_wait_loop(const struct join_module *m, uint32_t loop)
{
    const struct cfg *c = m->cfg;
    const struct cfg_loop *l = &c->loops.data[loop];
    struct turn t = {.is_long = l->member_count > BLOCKS_MAX};
    for (uint32_t i = 0; m->img && i < l->member_count && i < BLOCKS_MAX; i++) {
        const struct cfg_block *b = &c->blocks.data[c->loop_members.data[l->member_first + i]];
        read_block(m, b, b->loop == loop, &t);
    }
    return m->img && (t.has_pause || (!t.is_long && turns_are_alike(&t)));
}
