/* SPDX-License-Identifier: Apache-2.0
 *
 * What the code of sites of references is made of (reference_code.c): registers that are saved, jumps, addresses, and
 * whether the set of a line is taken. */
#ifndef MTOOL_REWRITE_INSTRUMENTS_REFERENCE_PIECE_H
#define MTOOL_REWRITE_INSTRUMENTS_REFERENCE_PIECE_H

#include "rewrite/instruments/operand.h"
#include "rewrite/instruments/references.h"

enum { RED_ZONE = 128, ENTRY_BYTES = 16, RANGE_ENTRIES = 3, CALL_BYTES = 5, LEA_RSP_BYTES = 8 };

/* ---- the stack: its slots are, from the stack pointer up, the flags of a range; rax and the flags; registers ---- */

static inline unsigned slots(const struct rw_reference *r) { return r->is_range + 2u * r->saves_flags + r->saves; }
static inline bool moves_stack(const struct rw_reference *r) { return slots(r) > 0; }
static inline int32_t stack_bytes(unsigned slot_count) { return slot_count ? RED_ZONE + 8 * (int32_t)slot_count : 0; }

static inline uint8_t *put_save(uint8_t *p, const struct rw_reference *r)
{
    unsigned slot = r->is_range;
    p = put_move_stack(p, -(stack_bytes(slots(r)) - 8 * (int32_t)r->is_range));
    if (r->is_range)
        *p++ = 0x9c;      /* pushfq */
    if (r->saves_flags) { /* lahf; seto al */
        p = put_insn(p, STORE, X86_RAX, on_stack(slot));
        p = rw_put_bytes(p, "\x9f\x0f\x90\xc0", 4);
        p = put_insn(p, STORE, X86_RAX, on_stack(slot + 1));
        p = put_insn(p, LOAD, X86_RAX, on_stack(slot));
        slot += 2;
    }
    for (unsigned k = 0; k < r->saves; k++)
        p = put_insn(p, STORE, r->saved[k], on_stack(slot++));
    return p;
}

static inline uint8_t *put_restore(uint8_t *p, const struct rw_reference *r)
{
    unsigned slot = r->is_range;
    if (r->saves_flags) { /* add al,0x7f; sahf */
        p = put_insn(p, LOAD, X86_RAX, on_stack(slot + 1));
        p = rw_put_bytes(p, "\x04\x7f\x9e", 3);
        p = put_insn(p, LOAD, X86_RAX, on_stack(slot));
        slot += 2;
    }
    for (unsigned k = 0; k < r->saves; k++)
        p = put_insn(p, LOAD, r->saved[k], on_stack(slot++));
    return put_move_stack(p, stack_bytes(slots(r)));
}

/* ---- a piece of code ---- */

enum { ACCESSES_MAX = RW_REFERENCE_ACCESSES_MAX, SETS_DISTANCE_MAX = 1 << 28 };
enum { MOVES_MAX = 8 * ACCESSES_MAX };
struct code {
    const struct rw *w;
    const struct rw_reference *r;
    uint8_t *first, *p;
    uint64_t addr;             /* of first */
    unsigned moved[MOVES_MAX]; /* behind what moves the stack pointer for a call, down and up by turns */
    unsigned moves;
    bool is_late; /* in the cold part of such a reference: `entry` is saved */
};

struct labels { /* where one piece goes on in the other, from its begin */
    unsigned taken[ACCESSES_MAX],
        odd[ACCESSES_MAX];         /* cold: of an access to a set that is taken, not aligned or longer than a line */
    unsigned miss[ACCESSES_MAX];   /* cold: of one that is not to the last line alone */
    unsigned full;                 /* cold: the chunk is full */
    unsigned done[ACCESSES_MAX];   /* cold: the late register comes back */
    unsigned back[ACCESSES_MAX];   /* hot; of those of one test cold */
    unsigned each[ACCESSES_MAX];   /* cold: of the first access of one test, where each has its own */
    unsigned behind[ACCESSES_MAX]; /* hot: behind that test */
};

static inline uint64_t here(const struct code *c) { return c->addr + (uint64_t)(c->p - c->first); }
static inline unsigned offset(const struct code *c) { return (unsigned)(c->p - c->first); }

static inline void insn(struct code *c, uint32_t code, unsigned reg, struct operand m)
{
    c->p = put_insn(c->p, code, reg, m);
}

static inline void jump_if(struct code *c, uint8_t condition, uint64_t to)
{
    *c->p++ = 0x0f;
    *c->p++ = (uint8_t)(0x80 | condition);
    c->p = rw_put32(c->p, to - (here(c) + 4));
}

static inline void jump(struct code *c, uint64_t to)
{
    rw_put_jmp(c->p, here(c), to);
    c->p += CALL_BYTES;
}

static inline void call(struct code *c, uint64_t to)
{
    rw_put_call(c->p, here(c), to);
    c->p += CALL_BYTES;
}

static inline unsigned code_slots(const struct code *c) { return slots(c->r) + c->is_late; }

static inline void note_move(struct code *c) { c->moved[c->moves++] = offset(c); }

static inline void move_stack(struct code *c, int32_t by)
{
    c->p = put_move_stack(c->p, by);
    note_move(c);
}

/* Behind the red zone and back, where the site does not do that. */
static inline void move_apart(struct code *c, int32_t by)
{
    if (!code_slots(c))
        move_stack(c, by);
}

/* How far the stack pointer moves in the cold part: for a call, or for the late register. */
static inline int32_t cold_move(const struct rw_reference *r)
{
    return r->is_late ? stack_bytes(slots(r) + 1) - stack_bytes(slots(r)) : RED_ZONE;
}

static inline void begin_late(struct code *c)
{
    if (!c->r->is_late)
        return;
    move_stack(c, -cold_move(c->r));
    insn(c, STORE, c->r->entry, on_stack(0));
    c->is_late = true;
}

/* From what stands before on nothing falls through. */
static inline void leave_late(struct code *c)
{
    if (c->is_late)
        note_move(c);
    c->is_late = false;
}

static inline void end_late(struct code *c, unsigned k, struct labels *l, uint64_t back)
{
    if (!c->is_late)
        return;
    l->done[k] = offset(c);
    insn(c, LOAD, c->r->entry, on_stack(0));
    move_stack(c, cold_move(c->r));
    c->is_late = false;
    jump(c, back);
}

static const struct rw_site *site_of(const struct code *c, unsigned k)
{
    return &c->w->references->sites[c->r->first + k];
}

/* ---- addresses ---- */

/* In steps what is of three registers and a number. */
static inline void put_segment_address(struct code *c, struct operand m)
{
    unsigned reg = c->r->address;
    insn(c, LOAD, reg, (struct operand){FS, X86_REG_NONE, X86_REG_NONE, 0, 0});
    if (m.base != X86_REG_NONE)
        insn(c, LEA, reg, (struct operand){0, (uint8_t)reg, m.base, 1, 0});
    insn(c, LEA, reg, (struct operand){0, (uint8_t)reg, m.index, m.scale, m.disp});
}

/* Of the access's byte number `plus`. */
static inline void put_address(struct code *c, unsigned k, int64_t plus)
{
    const struct x86_access *a = &site_of(c, k)->access;
    struct operand m = {0, a->base, a->index, a->scale, a->disp + plus};
    unsigned reg = c->r->address;
    if (m.base == X86_RSP)
        m.disp += stack_bytes(code_slots(c));
    if (a->segment == X86_SEGMENT_FS) {
        put_segment_address(c, m);
    } else if (!rw_is_number(a)) {
        insn(c, LEA, reg, m);
    } else if (!c->r->is_rip) {
        c->p = put_number(c->p, reg, (uint64_t)m.disp);
    } else {
        *c->p++ = (uint8_t)(0x48 | reg >> 3 << 2);
        *c->p++ = LEA;
        *c->p++ = (uint8_t)(0x05 | (reg & 7) << 3);
        c->p = rw_put32(c->p, (uint64_t)m.disp - (here(c) + 4));
    }
}

static inline void put_shift(struct code *c, uint8_t by)
{
    uint8_t reg = c->r->address;
    *c->p++ = (uint8_t)(0x48 | reg >> 3); /* shr address,by */
    *c->p++ = 0xc1;
    *c->p++ = (uint8_t)(0xe8 | (reg & 7));
    *c->p++ = by;
}

/* ---- sets ---- */

static inline bool has_sets(const struct code *c) { return c->w->opt->sets.mask != 0; }

static inline unsigned line_bytes(const struct code *c)
{
    const struct rewrite_options *opt = c->w->opt;
    return 1u << (opt->filter_shift ? opt->filter_shift : opt->sets.shift);
}

/* The number whose product with an odd one has 1 in its lower 32 bits. */
static inline uint32_t inverse(uint32_t odd)
{
    uint32_t x = odd; /* three bits are right, then twice as many each time */
    for (unsigned k = 0; k < 4; k++)
        x *= 2 - odd * x;
    return x;
}

/* How many bytes behind the lines that are taken those are whose product is 0 under the mask. */
static inline int64_t sets_distance(const struct code *c, unsigned k)
{
    const struct rewrite_sets *sets = &c->w->opt->sets;
    const struct x86_access *a = &site_of(c, k)->access;
    uint32_t bits = ~0u >> __builtin_clz(sets->mask), lines = -sets->value * inverse(sets->factor) & bits;
    int64_t bytes = (int64_t)lines << sets->shift;
    bool is_far = bytes > SETS_DISTANCE_MAX || (rw_is_number(a) ? c->r->is_rip : a->disp > SETS_DISTANCE_MAX);
    return is_far ? 0 : bytes;
}

static inline void put_test(struct code *c)
{
    if (c->r->address >> 3)
        *c->p++ = 0x41;
    *c->p++ = 0xf7; /* test address,mask */
    *c->p++ = (uint8_t)(0xc0 | (c->r->address & 7));
    c->p = rw_put32(c->p, c->w->opt->sets.mask);
}

/* Whether the set of an address is taken, so many bytes behind which `address` is: the condition EQUAL. */
static inline void put_set(struct code *c, int64_t distance)
{
    uint8_t reg = c->r->address, ext = reg >> 3, low = reg & 7;
    const struct rewrite_sets *sets = &c->w->opt->sets;
    put_shift(c, sets->shift);
    if (ext)
        *c->p++ = 0x45;
    *c->p++ = 0x69; /* imul address,address,factor */
    *c->p++ = (uint8_t)(0xc0 | low << 3 | low);
    c->p = rw_put32(c->p, sets->factor);
    if (!distance && sets->value) { /* and address,mask; cmp address,value */
        for (unsigned k = 0; k < 2; k++) {
            if (ext)
                *c->p++ = 0x41;
            *c->p++ = 0x81;
            *c->p++ = (uint8_t)((k ? 0xf8 : 0xe0) | low);
            c->p = rw_put32(c->p, k ? sets->value : sets->mask);
        }
        return;
    }
    put_test(c);
}

/* How many accesses from k on one test does for: they are to one line or two that follow each other. */
static inline unsigned one_test(const struct code *c, unsigned k, unsigned *least)
{
    const struct x86_access *first = &site_of(c, k)->access;
    int64_t begin = first->disp, end = first->disp + first->bytes;
    unsigned n = 0;
    *least = k;
    if (c->r->is_near)
        return c->r->count;
    if (!has_sets(c) || rw_is_number(first) || first->segment != X86_SEGMENT_NONE)
        return 1;
    for (; k + n < c->r->count; n++) {
        const struct x86_access *a = &site_of(c, k + n)->access;
        bool is_same = a->base == first->base && a->index == first->index && a->scale == first->scale &&
                       a->segment == first->segment;
        begin = a->disp < begin ? a->disp : begin;
        end = a->disp + a->bytes > end ? a->disp + a->bytes : end;
        if (!is_same || end - begin > line_bytes(c))
            break;
        *least = a->disp == begin ? k + n : *least;
    }
    return n > 1 && sets_distance(c, *least) ? n : 1;
}

/* Of the line that holds the first byte, and of the next one. */
static inline void put_one_test(struct code *c, unsigned least, uint64_t each)
{
    uint8_t reg = c->r->address;
    int64_t distance = sets_distance(c, least);
    put_address(c, least, distance);
    put_set(c, distance);
    jump_if(c, EQUAL, each);
    if (reg >> 3)
        *c->p++ = 0x41;
    *c->p++ = 0x81; /* add address,factor */
    *c->p++ = (uint8_t)(0xc0 | (reg & 7));
    c->p = rw_put32(c->p, c->w->opt->sets.factor);
    put_test(c);
    jump_if(c, EQUAL, each);
}

#endif
