/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop that ends by itself: one of its conditional jumps, at its end or out of its middle, went the same way at each
 * iteration. The number that is compared in front of it (a register, an immediate, a word of memory), or the counter
 * that is counted down, is changed so that it goes the other way after as many iterations as were recorded. Nothing is
 * added to the code. Only numbers that nothing else in the slice looks at are changed. */
#include "replay/impl.h"

enum { BACK_MAX = 8 }; /* instructions from the comparison to the jump */

struct latch {
    uint32_t jump, compare; /* steps: the last iteration's */
    bool is_taken;          /* as recorded */
    struct x86_compare c;
};

static bool was_taken(const struct stream *s, uint32_t jump)
{
    return jump + 1 < s->steps.len && insn_of(s, jump + 1)->d.insn.addr == insn_of(s, jump)->d.insn.target;
}

uint64_t bound_way_out(const struct stream *s, uint32_t jump)
{
    const struct x86_insn *i = &insn_of(s, jump)->d.insn;
    return was_taken(s, jump) ? i->addr + i->len : i->target;
}

/* The comparison in front of the jump at step `jump`, in the same straight line. */
static bool find_compare(const struct stream *s, uint32_t jump, struct latch *out)
{
    for (uint32_t k = jump; k-- > 0 && jump - k <= BACK_MAX;) {
        const struct insn *i = insn_of(s, k);
        if (i->d.insn.kind != X86_PLAIN)
            return false;
        if (i->d.insn.flags_written) {
            *out = (struct latch){.jump = jump, .compare = k, .is_taken = was_taken(s, jump), .c = i->d.compare};
            return i->d.compare.op != X86_OP_OTHER;
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
static bool is_private(const struct stream *s, const struct latch *l, uint32_t first, uint32_t last, uint8_t reg,
                       bool stays)
{
    uint32_t compare = s->steps.data[l->compare].insn;
    for (uint32_t k = first; k < last; k++) {
        const struct x86_insn *i = &insn_of(s, k)->d.insn;
        if (s->steps.data[k].insn == compare)
            continue;
        if ((i->gpr_read | i->gpr_written) >> reg & 1)
            return false;
    }
    return !stays || !(insn_of(s, l->compare)->d.insn.gpr_written >> reg & 1);
}

/* Does the jump go as it was recorded each time but the last, and then not? Before the comparison at step k, v gets its
 * terms. */
static bool ends_in_time(const struct stream *s, const struct latch *l, uint32_t first,
                         bool (*terms)(const struct stream *s, const struct latch *l, uint32_t k, const void *ctx,
                                       uint64_t v[2]),
                         const void *ctx)
{
    uint32_t compare = s->steps.data[l->compare].insn;
    unsigned cond = insn_of(s, l->jump)->d.insn.cond;
    for (uint32_t k = first; k <= l->compare; k++) {
        uint64_t v[2];
        if (s->steps.data[k].insn != compare)
            continue;
        if (!terms(s, l, k, ctx, v) || x86_would_jump(cond, v[0], v[1], l->c.bits) != (l->is_taken == (k < l->compare)))
            return false;
    }
    return true;
}

struct bound {
    unsigned which;
    uint64_t value;
};
static bool bounded_terms(const struct stream *s, const struct latch *l, uint32_t k, const void *ctx, uint64_t v[2])
{
    const struct bound *b = ctx;
    v[b->which] = b->value;
    return value_of(s, k, &l->c.term[1 - b->which], &v[1 - b->which]);
}

static bool find_bound(const struct stream *s, const struct latch *l, uint32_t first, unsigned which, uint64_t *out)
{
    static const int beside[] = {0, -1, 1};
    uint64_t other;
    for (size_t i = 0; i < ARRAY_LEN(beside); i++) {
        if (!value_of(s, l->compare, &l->c.term[1 - which], &other))
            return false;
        *out = other + (uint64_t)(int64_t)beside[i];
        if (ends_in_time(s, l, first, bounded_terms, &(struct bound){which, *out}))
            return true;
    }
    return false;
}

static bool bound_patch(struct wire_form *out, uint64_t at, uint64_t value, uint32_t bytes)
{
    out->bound_patch_at = at;
    out->bound_patch_bytes = bytes;
    memcpy(out->bound_patch, &value, sizeof out->bound_patch);
    return true;
}

/* An immediate, which the processor extends by its sign. */
static bool patch_immediate(const struct insn *i, uint64_t value, unsigned bits, struct wire_form *out)
{
    unsigned imm_bits = i->d.insn.imm_len * 8u;
    if (!imm_bits || imm_bits > bits)
        return false;
    int64_t shifted = (int64_t)(value << (64 - bits)) >> (64 - bits),
            cut = (int64_t)((uint64_t)shifted << (64 - imm_bits)) >> (64 - imm_bits);
    return cut == shifted && bound_patch(out, i->d.insn.addr + i->d.insn.imm_off, (uint64_t)shifted, i->d.insn.imm_len);
}

/* A word of memory that only the comparison reaches. */
static bool patch_memory(const struct stream *s, const struct latch *l, uint32_t first, uint32_t last, uint64_t value,
                         struct wire_form *out)
{
    const struct insn *c = insn_of(s, l->compare);
    if (c->d.access_count != 1 || c->d.access[0].is_store)
        return false;
    uint64_t at = x86_access_address(&c->d.access[0], s->steps.data[l->compare].regs, s->fs, s->gs);
    for (uint32_t k = first; k < last; k++) {
        const struct insn *i = insn_of(s, k);
        for (int a = 0; a < i->d.access_count; a++) {
            uint64_t to = stream_address(s, k, a);
            bool meets = to < at + c->d.access[0].bytes && at < to + i->d.access[a].bytes;
            if (i->d.access_count < 0 || meets != (i == c) || (i == c && to != at))
                return false;
        }
        if (i->d.access_count < 0)
            return false;
    }
    return bound_patch(out, at, value, c->d.access[0].bytes);
}

static bool set_bound(const struct stream *s, const struct latch *l, uint32_t first, uint32_t last, unsigned which,
                      struct wire_form *out)
{
    const struct x86_term *t = &l->c.term[which];
    uint64_t bound;
    if (!find_bound(s, l, first, which, &bound))
        return false;
    if (t->kind == X86_TERM_NUMBER)
        return patch_immediate(insn_of(s, l->compare), bound, l->c.bits, out);
    if (t->kind == X86_TERM_MEMORY)
        return patch_memory(s, l, first, last, bound, out);
    if (!is_private(s, l, first, last, t->reg, true))
        return false;
    out->enter[t->reg] = out->end[t->reg] = l->c.bits < 64 ? bound & ((1ull << l->c.bits) - 1) : bound;
    return true;
}

/* A counter so much less; sums are left at zero only. */
static bool counted_terms(const struct stream *s, const struct latch *l, uint32_t k, const void *ctx, uint64_t v[2])
{
    uint64_t number = l->c.term[1].number;
    v[0] = s->steps.data[k].regs[l->c.term[0].reg] - *(const uint64_t *)ctx;
    v[1] = l->c.op == X86_OP_ADD ? -number : number;
    return true;
}

static bool set_counter(const struct stream *s, const struct latch *l, uint32_t first, uint32_t last,
                        struct wire_form *out)
{
    const struct x86_term *t = &l->c.term[0];
    bool is_equality = insn_of(s, l->jump)->d.insn.cond / 2 == 2;
    if (t->kind != X86_TERM_REGISTER || l->c.term[1].kind != X86_TERM_NUMBER || l->c.bits < 32 ||
        (l->c.op == X86_OP_ADD && !is_equality) || !is_private(s, l, first, last, t->reg, false))
        return false;
    uint64_t zero = s->steps.data[last].regs[t->reg], below = zero + 1,
             mask = l->c.bits == 32 ? UINT32_MAX : UINT64_MAX;
    const uint64_t *less = ends_in_time(s, l, first, counted_terms, &zero)    ? &zero
                           : ends_in_time(s, l, first, counted_terms, &below) ? &below
                                                                              : NULL;
    if (!less)
        return false;
    out->enter[t->reg] = (out->enter[t->reg] - *less) & mask;
    out->end[t->reg] = (zero - *less) & mask;
    return true;
}

bool bound_jump(const struct stream *s, uint32_t first, uint32_t last, struct wire_form *out)
{
    struct latch l;
    if (last >= s->steps.len || insn_of(s, last - 1)->d.insn.kind != X86_JCC || !find_compare(s, last - 1, &l) ||
        l.compare < first)
        return false;
    memcpy(out->enter, s->steps.data[first].regs, sizeof out->enter);
    memcpy(out->end, s->steps.data[last].regs, sizeof out->end);
    out->bound_patch_bytes = 0;
    if (l.c.op == X86_OP_CMP)
        return set_bound(s, &l, first, last, 1, out) || set_bound(s, &l, first, last, 0, out);
    return set_counter(s, &l, first, last, out);
}
