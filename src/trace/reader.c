/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a burst to instructions with registers. Follows the same moves, additions and pushes as the planner of
 * blocks (block.c), so that the values in the records are enough. */
#include "trace/impl.h"

enum { RCX = 1, RSP = 4, RBP = 5, HEAD = 4, VALUE = 8 };

/* Bytes of the record; 0: it is not whole, or names no block. */
static size_t record_bytes(struct trace *t, const uint8_t *at, size_t left, uint32_t *block)
{
    if (left < HEAD)
        return 0;
    memcpy(block, at, HEAD);
    if (*block >= block_count(t))
        return 0;
    size_t n = HEAD + VALUE * (size_t)block_of(t, *block)->log_count;
    return n <= left ? n : 0;
}

struct trace_extent trace_whole(struct trace *t, const void *records, size_t bytes, bool is_torn, uint64_t references)
{
    struct trace_extent now = {0}, before = {0};
    uint32_t block;
    size_t n;
    while ((!references || (now.references < references && now.instructions < TRACE_INSTRUCTIONS_MOST * references)) &&
           (n = record_bytes(t, (const uint8_t *)records + now.bytes, bytes - now.bytes, &block))) {
        before = now;
        now.bytes += n;
        now.instructions += block_of(t, block)->insn_count;
        now.references += block_of(t, block)->references;
    }
    return is_torn && now.bytes == bytes ? before : now;
}

void trace_read(struct trace_reader *r, struct trace *t, const void *records, size_t bytes)
{
    *r = (struct trace_reader){.trace = t, .at = records, .end = (const uint8_t *)records + bytes, .block = ID_NONE};
}

static void set(struct trace_reader *r, unsigned reg, uint64_t value, bool known)
{
    r->regs[reg] = value;
    r->known = known ? r->known | 1u << reg : r->known & ~(1u << reg);
}

static bool is_known(uint32_t known, unsigned reg) { return reg > 15 || known & 1u << reg; }
static uint64_t value(const uint64_t *regs, unsigned reg) { return reg > 15 ? 0 : regs[reg]; }

/* The registers behind the instruction. */
static void apply(struct trace_reader *r, const struct trace_insn *i)
{
    uint32_t known = r->known;
    uint64_t number = (uint64_t)i->number;
    unsigned dst = i->effect_dst, src = i->effect_src;
    r->known &= ~(uint32_t)i->written;
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
        set(r, RSP, r->regs[RSP] - 8, is_known(known, RSP));
        break;
    case X86_EFFECT_POP:
        set(r, RSP, r->regs[RSP] + 8 + number, dst != RSP && is_known(known, RSP));
        break;
    case X86_EFFECT_LEAVE:
        set(r, RSP, r->regs[RBP] + 8, is_known(known, RBP));
        break;
    case X86_EFFECT_LOAD:
    case X86_EFFECT_STORE:
    case X86_EFFECT_OTHER:
        break;
    }
}

static bool next_record(struct trace_reader *r)
{
    size_t n = record_bytes(r->trace, r->at, (size_t)(r->end - r->at), &r->block);
    if (!n)
        return false;
    r->values = r->at + HEAD;
    r->at += n;
    r->next = r->log = 0;
    return true;
}

const struct trace_block *trace_next_block(struct trace_reader *r)
{
    return next_record(r) ? block_of(r->trace, r->block) : NULL;
}

static void take_values(struct trace_reader *r, const struct trace_block *b)
{
    const struct trace_log *l = b->logs;
    for (; r->log < b->log_count && l[r->log].before <= r->next; r->log++) {
        uint64_t v;
        memcpy(&v, r->values + VALUE * r->log, VALUE);
        set(r, l[r->log].reg, v, true);
    }
}

bool trace_next(struct trace_reader *r, struct trace_step *out)
{
    if (r->last)
        apply(r, r->last);
    r->last = NULL;
    while (r->block == ID_NONE || r->next == block_of(r->trace, r->block)->insn_count) {
        if (r->block != ID_NONE)
            take_values(r, block_of(r->trace, r->block));
        if (!next_record(r))
            return false;
    }
    const struct trace_block *b = block_of(r->trace, r->block);
    take_values(r, b);
    r->last = &b->insns[r->next];
    *out =
        (struct trace_step){.insn = r->last, .block = r->block, .index = r->next, .regs = r->regs, .known = r->known};
    r->next++;
    return true;
}

bool trace_address(const struct trace_step *s, const struct x86_access *a, uint64_t fs, uint64_t gs, uint64_t *address)
{
    *address = x86_access_address(a, s->regs, fs, gs);
    return is_known(s->known, a->base) && is_known(s->known, a->index);
}
