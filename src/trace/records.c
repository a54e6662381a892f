/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a burst to instructions with registers. Follows the same moves, additions and pushes as the planner of
 * blocks (block.c), so that the values in the records are enough. */
#include "trace/impl.h"

enum { HEAD = 4, VALUE = 8 };

/* Bytes of the record; 0: it is not whole, or names no block. */
static size_t record_bytes(const struct trace *t, const uint8_t *at, size_t left, uint32_t *block)
{
    if (left < HEAD)
        return 0;
    memcpy(block, at, HEAD);
    if (*block >= block_count(t))
        return 0;
    size_t n = HEAD + VALUE * (size_t)block_of(t, *block)->log_count;
    return n <= left ? n : 0;
}

struct trace_window trace_records(struct trace *t, const void *records, size_t bytes, bool is_torn, uint64_t references)
{
    struct trace_window now = {.trace = t, .records = records}, before = now;
    uint32_t block;
    size_t n;
    while ((!references || (now.references < references && now.instructions < TRACE_INSTRUCTIONS_MAX * references)) &&
           (n = record_bytes(t, now.records + now.bytes, bytes - now.bytes, &block))) {
        before = now;
        now.bytes += n;
        now.instructions += block_of(t, block)->insn_count;
        now.references += block_of(t, block)->references;
    }
    return is_torn && now.bytes == bytes ? before : now;
}

void trace_keep_records(struct trace_window *w, struct arena *a)
{
    uint8_t *records = arena_alloc(a, w->bytes + 1);
    memcpy(records, w->records, w->bytes);
    w->records = records;
}

/* ---- registers ---- */

static void set(struct trace_stream *s, unsigned reg, uint64_t value, bool known)
{
    s->regs[reg] = value;
    s->known = known ? s->known | 1u << reg : s->known & ~(1u << reg);
}

static bool is_known(uint32_t known, unsigned reg) { return reg > 15 || known & 1u << reg; }
static uint64_t value(const uint64_t *regs, unsigned reg) { return reg > 15 ? 0 : regs[reg]; }

/* The registers behind the instruction. */
static void apply(struct trace_stream *r, const struct trace_insn *i)
{
    uint32_t known = r->known;
    uint64_t number = (uint64_t)i->number;
    unsigned dst = i->effect_dst, src = i->effect_src;
    r->known &= ~(uint32_t)i->x.gpr_written;
    switch ((enum x86_effect)i->effect) {
    case X86_EFFECT_COPY:
        set(r, dst, r->regs[src], is_known(known, src));
        break;
    case X86_EFFECT_CONST:
        set(r, dst, number, true);
        break;
    case X86_EFFECT_ADD_IMM:
        set(r, dst, r->regs[dst] + number, is_known(known, dst));
        break;
    case X86_EFFECT_ADD_REG:
        set(r, dst, r->regs[dst] + r->regs[src], is_known(known, dst) && is_known(known, src));
        break;
    case X86_EFFECT_LEA:
        set(r, dst, value(r->regs, i->lea_base) + value(r->regs, i->lea_index) * i->lea_scale + number,
            is_known(known, i->lea_base) && is_known(known, i->lea_index));
        break;
    case X86_EFFECT_PUSH:
        set(r, X86_RSP, r->regs[X86_RSP] - 8, is_known(known, X86_RSP));
        break;
    case X86_EFFECT_POP:
        set(r, X86_RSP, r->regs[X86_RSP] + 8 + number, dst != X86_RSP && is_known(known, X86_RSP));
        break;
    case X86_EFFECT_LEAVE:
        set(r, X86_RSP, r->regs[X86_RBP] + 8, is_known(known, X86_RBP));
        break;
    case X86_EFFECT_LOAD:
    case X86_EFFECT_STORE:
    case X86_EFFECT_OTHER:
        break;
    }
}

static void take_values(struct trace_stream *s)
{
    const struct trace_log *l = s->b->logs;
    for (; s->log < s->b->log_count && l[s->log].before <= s->in_block; s->log++) {
        uint64_t v;
        memcpy(&v, s->values + VALUE * s->log, VALUE);
        set(s, l[s->log].reg, v, true);
    }
}

/* ---- records ---- */

static size_t bytes_left(const struct trace_stream *s)
{
    return (size_t)(s->window->records + s->window->bytes - s->at);
}

static bool next_record(struct trace_stream *s)
{
    uint32_t block;
    size_t n = record_bytes(s->window->trace, s->at, bytes_left(s), &block);
    if (!n)
        return false;
    s->b = block_of(s->window->trace, block);
    s->values = s->at + HEAD;
    s->at += n;
    s->in_block = s->log = 0;
    return true;
}

/* The instruction behind the one that is given; NULL: none is known. */
static const struct trace_insn *coming(const struct trace_stream *s)
{
    const struct trace_block *b = s->b;
    const uint8_t *at = s->at;
    if (s->in_block < b->insn_count)
        return &b->insns[s->in_block];
    for (uint32_t block;; at += HEAD + VALUE * (size_t)b->log_count) {
        if (!record_bytes(s->window->trace, at, bytes_left(s) - (size_t)(at - s->at), &block))
            return NULL;
        b = block_of(s->window->trace, block);
        if (b->insn_count)
            return b->insns;
    }
}

/* rcx behind the instruction that is given, if it is recorded there. */
static bool rcx_behind(const struct trace_stream *s, uint64_t *rcx)
{
    for (uint32_t k = s->log; k < s->b->log_count && s->b->logs[k].before <= s->in_block; k++)
        if (s->b->logs[k].before == s->in_block && s->b->logs[k].reg == X86_RCX) {
            memcpy(rcx, s->values + VALUE * k, VALUE);
            return true;
        }
    return false;
}

/* Of a string instruction that repeats: rcx, less what one that compares leaves of it. */
static uint64_t elements_of(const struct trace_stream *s)
{
    uint64_t left = 0;
    if (!s->last->repeats || !is_known(s->known, X86_RCX))
        return 0;
    if ((s->last->x.props & X86_PROP_FLAGS_MAYBE) && !rcx_behind(s, &left))
        return 0;
    return s->regs[X86_RCX] - left;
}

/* To the instruction `next`. false: no more. */
static bool advance(struct trace_stream *s)
{
    if (s->last)
        apply(s, s->last);
    s->last = NULL;
    while (!s->b || s->in_block == s->b->insn_count) {
        if (s->b)
            take_values(s);
        if (!next_record(s))
            return false;
    }
    take_values(s);
    s->last = &s->b->insns[s->in_block++];
    return true;
}

bool records_next(struct trace_stream *s, struct trace_step *out)
{
    if (s->next >= s->end || !advance(s))
        return false;
    const struct trace_insn *to = coming(s);
    *out = (struct trace_step){.insn = s->last,
                               .number = s->next++,
                               .regs = s->regs,
                               .known = s->known,
                               .repeats = elements_of(s),
                               .next_address = to ? to->x.addr : 0,
                               .next_place = to ? to->place : OBSERVED_PLACE_UNKNOWN,
                               .is_last = !to};
    return true;
}

bool records_skip(struct trace_stream *s, uint64_t count)
{
    for (; count && advance(s); count--)
        s->next++;
    return !count;
}

/* ---- branches: a record at a time ---- */

bool records_next_branch(struct trace_stream *s, struct trace_branch *out)
{
    if (!s->b && !next_record(s))
        return false;
    for (const struct trace_block *b = s->b; next_record(s); b = s->b) {
        s->next += b->insn_count;
        if (!b->branch)
            continue;
        *out = (struct trace_branch){.kind = b->branch_kind,
                                     .number = s->next - 1,
                                     .address = b->branch_at,
                                     .fallthrough = b->fallthrough,
                                     .target = s->b->address};
        return true;
    }
    return false;
}
