/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop that goes along links until one says that it is the last: that one is changed, where nothing else in the slice
 * reaches it, so that the loop is left after as many iterations as were recorded. What bound.c does for numbers, for
 * numbers out of memory. */
#include "replay/impl.h"

enum { BACK_MAX = 8 /* instructions */, EQUAL = 4, UNEQUAL = 5 /* conditions */ };

struct last_link {
    uint32_t compare, load; /* steps: the last iteration's */
    uint8_t reg;
    uint64_t value; /* that ends the loop */
};

static bool is_test_of_itself(const struct insn *k)
{
    return k->d.insn.op == X86_OP_TEST && !k->d.insn.imm_len && k->d.access_count == 0 && k->d.insn.op_bytes == 8 &&
           __builtin_popcount(k->d.insn.gpr_read) == 1;
}

/* Which register decides, and by which number. */
static bool read_compare(const struct stream *s, uint32_t step, struct last_link *l)
{
    const struct insn *k = insn_of(s, step);
    const struct x86_compare *c = &k->d.compare;
    if (is_test_of_itself(k)) {
        l->reg = (uint8_t)__builtin_ctz(k->d.insn.gpr_read);
        l->value = 0;
        return true;
    }
    if (c->op != X86_OP_CMP || c->bits != 64 || c->term[0].kind != X86_TERM_REGISTER ||
        c->term[1].kind == X86_TERM_MEMORY)
        return false;
    l->reg = c->term[0].reg;
    l->value = c->term[1].kind == X86_TERM_REGISTER ? s->steps.data[step].regs[c->term[1].reg] : c->term[1].number;
    return true;
}

/* From the loop's last jump back: the comparison, then what loaded its register. */
static bool find_link(const struct stream *s, uint32_t first, uint32_t jump, struct last_link *l)
{
    bool has_compare = false;
    for (uint32_t k = jump; k-- > first && jump - k <= BACK_MAX;) {
        const struct insn *i = insn_of(s, k);
        if (i->d.insn.kind != X86_PLAIN)
            return false;
        if (!has_compare && i->d.insn.flags_written) {
            if (!read_compare(s, k, l))
                return false;
            l->compare = k;
            has_compare = true;
        } else if (has_compare && (i->d.insn.gpr_written >> l->reg & 1)) {
            l->load = k;
            return i->d.insn.op == X86_OP_MOV && i->d.insn.op_bytes == 8 && i->d.access_count == 1 &&
                   i->d.access[0].is_load && i->d.access[0].bytes == 8;
        }
    }
    return false;
}

static bool is_used_after(const struct stream *s, const struct last_link *l, uint32_t last)
{
    for (uint32_t k = l->load + 1; k < last; k++)
        if (k != l->compare && (insn_of(s, k)->d.insn.gpr_read >> l->reg & 1))
            return true;
    return false;
}

/* By the last iteration's load only. */
static bool is_reached_once(const struct stream *s, uint32_t first, uint32_t last, uint32_t load, uint64_t at)
{
    for (uint32_t k = first; k < last; k++) {
        const struct insn *i = insn_of(s, k);
        if (i->d.access_count < 0)
            return false;
        for (int a = 0; a < i->d.access_count && k != load; a++) {
            uint64_t to = stream_address(s, k, a);
            if (to < at + 8 && at < to + i->d.access[a].bytes)
                return false;
        }
    }
    return true;
}

bool bound_link(const struct stream *s, uint32_t first, uint32_t last, struct wire_form *out)
{
    struct last_link l = {0};
    const struct insn *jump = insn_of(s, last - 1);
    bool was_taken = last < s->steps.len && insn_of(s, last)->d.insn.addr == jump->d.insn.target;
    if (jump->d.insn.kind != X86_JCC || last >= s->steps.len || jump->d.insn.cond != (was_taken ? UNEQUAL : EQUAL) ||
        !find_link(s, first, last - 1, &l) || is_used_after(s, &l, last))
        return false;
    uint64_t at = stream_address(s, l.load, 0);
    if (!is_reached_once(s, first, last, l.load, at))
        return false;
    memcpy(out->enter, s->steps.data[first].regs, sizeof out->enter);
    memcpy(out->end, s->steps.data[last].regs, sizeof out->end);
    out->end[l.reg] = l.value;
    out->bound_patch_at = at;
    out->bound_patch_bytes = sizeof l.value;
    memcpy(out->bound_patch, &l.value, sizeof l.value);
    return true;
}
