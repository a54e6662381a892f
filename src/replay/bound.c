/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop that ends by itself: the number that its last comparison compares with (a register, an immediate, a word of memory), or
 * the counter that it counts down, is changed so that the loop is left after as many turns as were recorded. Nothing is added
 * to its code. Only numbers that nothing else in the slice looks at are changed. */
#include "replay/impl.h"

enum { BACK_MOST = 8 }; /* instructions from the comparison to the jump */

struct latch {
    uint32_t jump, compare; /* steps: the last turn's */
    struct x86_compare c;
};

/* The comparison in front of the jump at step `jump`, in the same straight line. */
static bool find_compare(const struct stream *s, uint32_t jump, struct latch *out)
{
    for (uint32_t k = jump; k-- > 0 && jump - k <= BACK_MOST;) {
        const struct insn *i = insn_of(s, k);
        if (i->i.kind != X86_PLAIN)
            return false;
        if (i->i.flags_written) {
            out->jump = jump, out->compare = k;
            return x86_compare_decode(i->bytes, sizeof i->bytes, &out->c);
        }
    }
    return false;
}

static bool value_of(const struct stream *s, uint32_t step, const struct x86_term *t, uint64_t *out)
{
    *out = t->kind == X86_TERM_REGISTER ? s->steps.data[step].regs[t->reg] : t->number;
    return t->kind != X86_TERM_MEMORY;
}

/* Is the register read by anything in the slice but the comparison? Written at all, where it must stay? */
static bool is_private(const struct stream *s, const struct latch *l, uint32_t first, uint32_t last, uint8_t reg, bool stays)
{
    uint32_t compare = s->steps.data[l->compare].insn;
    for (uint32_t k = first; k < last; k++) {
        const struct x86_insn *i = &insn_of(s, k)->i;
        if (s->steps.data[k].insn == compare)
            continue;
        if ((i->gpr_read | i->gpr_written) >> reg & 1)
            return false;
    }
    return !stays || !(insn_of(s, l->compare)->i.gpr_written >> reg & 1);
}

/* With `bound` in place of term `which`: taken each time but the last? */
static bool ends_in_time(const struct stream *s, const struct latch *l, uint32_t first, unsigned which, uint64_t bound)
{
    uint32_t compare = s->steps.data[l->compare].insn;
    unsigned cond = insn_of(s, l->jump)->i.cond;
    for (uint32_t k = first; k <= l->compare; k++) {
        uint64_t v[2];
        if (s->steps.data[k].insn != compare)
            continue;
        v[which] = bound;
        if (!value_of(s, k, &l->c.term[1 - which], &v[1 - which]))
            return false;
        if (x86_would_jump(cond, v[0], v[1], l->c.bits) != (k < l->compare))
            return false;
    }
    return true;
}

static bool find_bound(const struct stream *s, const struct latch *l, uint32_t first, unsigned which, uint64_t *out)
{
    static const int beside[] = {0, -1, 1};
    uint64_t other;
    for (size_t i = 0; i < ARRAY_LEN(beside); i++) {
        if (!value_of(s, l->compare, &l->c.term[1 - which], &other))
            return false;
        *out = other + (uint64_t)(int64_t)beside[i];
        if (ends_in_time(s, l, first, which, *out))
            return true;
    }
    return false;
}

static bool poke(struct wire_slice *out, uint64_t at, uint64_t value, uint32_t bytes)
{
    out->poke_at = at;
    out->poke_bytes = bytes;
    memcpy(out->poke, &value, sizeof out->poke);
    return true;
}

/* An immediate, which the processor extends by its sign. */
static bool poke_immediate(const struct insn *i, uint64_t value, unsigned bits, struct wire_slice *out)
{
    unsigned imm_bits = i->i.imm_len * 8u;
    if (!imm_bits || imm_bits > bits)
        return false;
    int64_t shifted = (int64_t)(value << (64 - bits)) >> (64 - bits),
            cut = (int64_t)((uint64_t)shifted << (64 - imm_bits)) >> (64 - imm_bits);
    return cut == shifted && poke(out, i->i.addr + i->i.imm_off, (uint64_t)shifted, i->i.imm_len);
}

/* A word of memory that only the comparison reaches. */
static bool poke_memory(const struct stream *s, const struct latch *l, uint32_t first, uint32_t last, uint64_t value,
                        struct wire_slice *out)
{
    const struct insn *c = insn_of(s, l->compare);
    if (c->accesses != 1 || c->access[0].is_store)
        return false;
    uint64_t at = x86_access_address(&c->access[0], s->steps.data[l->compare].regs, s->fs, s->gs);
    for (uint32_t k = first; k < last; k++) {
        const struct insn *i = insn_of(s, k);
        for (int a = 0; a < i->accesses; a++) {
            uint64_t to = x86_access_address(&i->access[a], s->steps.data[k].regs, s->fs, s->gs);
            bool meets = to < at + c->access[0].bytes && at < to + i->access[a].bytes;
            if (i->accesses < 0 || meets != (i == c) || (i == c && to != at))
                return false;
        }
        if (i->accesses < 0)
            return false;
    }
    return poke(out, at, value, c->access[0].bytes);
}

static bool set_bound(const struct stream *s, const struct latch *l, uint32_t first, uint32_t last, unsigned which,
                      struct wire_slice *out)
{
    const struct x86_term *t = &l->c.term[which];
    uint64_t bound;
    if (!find_bound(s, l, first, which, &bound))
        return false;
    if (t->kind == X86_TERM_NUMBER)
        return poke_immediate(insn_of(s, l->compare), bound, l->c.bits, out);
    if (t->kind == X86_TERM_MEMORY)
        return poke_memory(s, l, first, last, bound, out);
    if (!is_private(s, l, first, last, t->reg, true))
        return false;
    out->enter[t->reg] = out->end[t->reg] = l->c.bits < 64 ? bound & ((1ull << l->c.bits) - 1) : bound;
    return true;
}

/* A counter that goes to zero. */
static bool set_counter(const struct stream *s, const struct latch *l, uint32_t first, uint32_t last, struct wire_slice *out)
{
    const struct x86_term *t = &l->c.term[0];
    unsigned cond = insn_of(s, l->jump)->i.cond;
    if (cond != 5 /* not zero */ || t->kind != X86_TERM_REGISTER || l->c.term[1].kind != X86_TERM_NUMBER || l->c.bits < 32 ||
        !is_private(s, l, first, last, t->reg, false))
        return false;
    uint64_t left = s->steps.data[last].regs[t->reg];
    out->enter[t->reg] -= left;
    out->end[t->reg] = 0;
    if (l->c.bits == 32)
        out->enter[t->reg] &= UINT32_MAX;
    return true;
}

bool bound_loop(const struct stream *s, uint32_t first, uint32_t last, struct wire_slice *out)
{
    struct latch l;
    const struct insn *jump = insn_of(s, last - 1), *header = insn_of(s, first);
    if (jump->i.kind != X86_JCC || jump->i.target != header->i.addr || !find_compare(s, last - 1, &l))
        return false;
    memcpy(out->enter, s->steps.data[first].regs, sizeof out->enter);
    memcpy(out->end, s->steps.data[last].regs, sizeof out->end);
    out->poke_bytes = 0;
    if (l.c.op == X86_OP_CMP)
        return set_bound(s, &l, first, last, 1, out) || set_bound(s, &l, first, last, 0, out);
    return set_counter(s, &l, first, last, out);
}
