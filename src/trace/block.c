/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of a burst: from an address to the next jump, decoded, with the registers that its record must hold so that
 * every address can be told: those at its begin that addresses are made of by moves, additions and pushes, and those
 * that get a value which cannot be followed, just before they are used. It does not look beyond the block. */
#include "trace/impl.h"

enum { ALL = 0xffff };

struct follower { /* which registers at the begin a register's value is made of; [r] without its bit in followed:
                     unknown */
    uint16_t made_of[16], followed;
    uint16_t at_begin; /* needed there */
};

/* ---- decoding ---- */

/* What the kernel or another mode of the processor would see, or what changes what translation relies on. */
static bool ends_window(const struct x86_insn *x)
{
    switch ((enum x86_kind)x->kind) {
    case X86_SYSCALL:
    case X86_INT:
    case X86_TRAP:
    case X86_XBEGIN:
        return true;
    default:
        return x->op == X86_OP_MODE || x->op == X86_OP_ENTER;
    }
}

static bool has_prefix(const struct trace_insn *i, uint8_t prefix)
{
    for (unsigned k = 0; k < i->x.len; k++) {
        uint8_t b = i->bytes[k];
        if (b == prefix)
            return true;
        if (b != 0x66 && b != 0x67 && b != 0xf2 && b != 0xf3 && b != 0xf0 && b != 0x2e && b != 0x36 && b != 0x3e &&
            b != 0x26 && b != 0x64 && b != 0x65)
            return false;
    }
    return false;
}

static void take_effect(const struct x86_detail *d, struct trace_insn *i)
{
    i->effect = X86_EFFECT_OTHER;
    if (has_prefix(i, 0x66) || has_prefix(i, 0x67))
        return;
    i->effect = d->effect;
    i->effect_dst = d->effect_dst;
    i->effect_src = d->effect_src;
    i->number = d->effect == X86_EFFECT_CONST && d->insn.op_bytes == 4 ? (int64_t)(uint32_t)d->imm : d->imm;
    if (d->effect != X86_EFFECT_LEA)
        return;
    bool by_rip = (d->insn.props & X86_PROP_RIPREL) != 0;
    i->lea_base = by_rip ? X86_REG_NONE : d->addr_base;
    i->lea_index = d->addr_index;
    i->lea_scale = d->scale;
    i->number = by_rip ? (int64_t)d->insn.target : d->addr_disp;
}

static void take_insn(struct plan *p, const struct x86_detail *d, const uint8_t *bytes)
{
    struct trace_insn *i = &p->insn[p->count];
    *i = (struct trace_insn){.x = d->insn,
                             .place = OBSERVED_PLACE_UNKNOWN,
                             .accesses = d->access_count,
                             .repeats = (d->insn.props & X86_PROP_REP) != 0};
    memcpy(i->bytes, bytes, d->insn.len);
    memcpy(p->access[p->count], d->access, sizeof d->access);
    take_effect(d, i);
    p->count++;
}

/* The lower half of the instruction pointer, which is another where the translation stands. */
static bool is_by_eip(const struct plan *p)
{
    uint32_t last = p->count - 1;
    return (p->insn[last].x.props & X86_PROP_RIPREL) && has_prefix(&p->insn[last], 0x67);
}

static bool decode(struct plan *p, code_fetch fetch, void *ctx, uint64_t *missing)
{
    p->count = 0;
    p->ends_window = false;
    for (p->end = p->address; p->count < PLAN_INSNS_MAX; p->end += p->insn[p->count - 1].x.len) {
        uint8_t bytes[X86_MORE_BYTES];
        struct x86_detail d;
        size_t n = fetch(ctx, p->end, bytes, missing);
        if (!n)
            return false;
        if (!x86_decode_detail(bytes, n, p->end, &d)) {
            if (n < X86_MORE_BYTES - 1) { /* it may go on in the next page */
                *missing = p->end + n;
                return false;
            }
            p->ends_window = true;
            return true;
        }
        if (ends_window(&d.insn)) {
            p->ends_window = true;
            return true;
        }
        take_insn(p, &d, bytes);
        if (is_by_eip(p)) {
            p->count--;
            p->ends_window = true;
            return true;
        }
        if (d.insn.kind != X86_PLAIN) {
            p->end += d.insn.len;
            return true;
        }
    }
    return true;
}

/* ---- what is to be recorded ---- */

static void add_log(struct plan *p, uint32_t before, unsigned reg)
{
    if (p->logs < PLAN_LOGS_MAX)
        p->log[p->logs++] = (struct trace_log){(uint8_t)before, (uint8_t)reg};
}

static void need(struct plan *p, struct follower *f, uint32_t before, uint8_t reg)
{
    if (reg > 15)
        return;
    if (f->followed & 1u << reg) {
        f->at_begin |= f->made_of[reg];
        return;
    }
    add_log(p, before, reg);
    f->followed |= (uint16_t)(1u << reg);
    f->made_of[reg] = 0;
}

static void set(struct follower *f, uint8_t reg, bool followed, uint16_t made_of)
{
    if (followed)
        f->followed |= (uint16_t)(1u << reg);
    else
        f->followed &= (uint16_t) ~(1u << reg);
    f->made_of[reg] = made_of;
}

static bool is_followed(const struct follower *f, uint8_t reg) { return reg > 15 || (f->followed & 1u << reg); }
static uint16_t made_of(const struct follower *f, uint8_t reg) { return reg > 15 ? 0 : f->made_of[reg]; }

static void follow(struct follower *f, const struct trace_insn *i)
{
    struct follower was = *f;
    for (unsigned r = 0; r < 16; r++)
        if (i->x.gpr_written & 1u << r)
            set(f, (uint8_t)r, false, 0);
    switch ((enum x86_effect)i->effect) {
    case X86_EFFECT_COPY:
        set(f, i->effect_dst, is_followed(&was, i->effect_src), made_of(&was, i->effect_src));
        break;
    case X86_EFFECT_CONST:
        set(f, i->effect_dst, true, 0);
        break;
    case X86_EFFECT_ADD_IMM:
        set(f, i->effect_dst, is_followed(&was, i->effect_dst), made_of(&was, i->effect_dst));
        break;
    case X86_EFFECT_ADD_REG:
        set(f, i->effect_dst, is_followed(&was, i->effect_dst) && is_followed(&was, i->effect_src),
            made_of(&was, i->effect_dst) | made_of(&was, i->effect_src));
        break;
    case X86_EFFECT_LEA:
        set(f, i->effect_dst, is_followed(&was, i->lea_base) && is_followed(&was, i->lea_index),
            made_of(&was, i->lea_base) | made_of(&was, i->lea_index));
        break;
    case X86_EFFECT_PUSH:
        set(f, X86_RSP, is_followed(&was, X86_RSP), made_of(&was, X86_RSP));
        break;
    case X86_EFFECT_POP:
        set(f, X86_RSP, i->effect_dst != X86_RSP && is_followed(&was, X86_RSP), made_of(&was, X86_RSP));
        break;
    case X86_EFFECT_LEAVE:
        set(f, X86_RSP, is_followed(&was, X86_RBP), made_of(&was, X86_RBP));
        break;
    case X86_EFFECT_LOAD:
    case X86_EFFECT_STORE:
    case X86_EFFECT_OTHER:
        break;
    }
}

static void need_operands(struct plan *p, struct follower *f, uint32_t at)
{
    const struct trace_insn *i = &p->insn[at];
    for (int k = 0; k < i->accesses; k++) {
        need(p, f, at, p->access[at][k].base);
        need(p, f, at, p->access[at][k].index);
    }
    if (i->repeats)
        need(p, f, at, X86_RCX);
    if (i->x.op == X86_OP_DIV || i->x.op == X86_OP_IDIV)
        for (unsigned r = 0; r < 16; r++)
            if (i->x.gpr_read & 1u << r)
                need(p, f, at, (uint8_t)r);
}

/* Comparisons that repeat end when they like: what they leave of rcx tells how often they did. */
static bool ends_early(const struct x86_insn *x)
{
    return (x->props & X86_PROP_REP) && (x->props & X86_PROP_FLAGS_MAYBE);
}

static void plan_logs(struct plan *p)
{
    struct follower f = {.followed = ALL};
    struct trace_log later[PLAN_LOGS_MAX];
    for (unsigned r = 0; r < 16; r++)
        f.made_of[r] = (uint16_t)(1u << r);
    p->logs = 0;
    for (uint32_t at = 0; at < p->count; at++) {
        need_operands(p, &f, at);
        follow(&f, &p->insn[at]);
        if (ends_early(&p->insn[at].x))
            need(p, &f, at + 1, X86_RCX);
    }
    uint32_t laters = p->logs;
    memcpy(later, p->log, laters * sizeof *later);
    p->logs = 0;
    for (unsigned r = 0; r < 16; r++)
        if (f.at_begin & 1u << r)
            add_log(p, 0, r);
    for (uint32_t k = 0; k < laters; k++)
        add_log(p, later[k].before, later[k].reg);
}

void plan_shorten(struct plan *p, uint32_t count)
{
    p->ends_window = count == 0;
    p->end = p->insn[count].x.addr;
    p->count = count;
    plan_logs(p);
}

bool plan_block(struct plan *p, uint64_t address, code_fetch fetch, void *ctx, uint64_t *missing)
{
    p->address = address;
    if (!decode(p, fetch, ctx, missing))
        return false;
    plan_logs(p);
    while (p->logs == PLAN_LOGS_MAX) /* there may be more than a record has room for */
        plan_shorten(p, p->count / 2);
    return true;
}
