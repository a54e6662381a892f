/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of the filter in line (reference_code.c): whether bytes are in the line that was the last one of its
 * place, of one access, or of several near each other. */
#ifndef MTOOL_REWRITE_INSTRUMENTS_REFERENCE_FILTER_H
#define MTOOL_REWRITE_INSTRUMENTS_REFERENCE_FILTER_H

#include "rewrite/instruments/reference_piece.h"

static inline struct operand in_place(size_t field, unsigned place)
{
    size_t at = offsetof(struct wire_stream, places) + field;
    return (struct operand){GS, (uint8_t)place, X86_REG_NONE, 0, (int64_t)(WIRE_STREAM_VADDR + at)};
}

static const size_t touched = offsetof(struct wire_slot, touched), written = offsetof(struct wire_slot, written);

/* In 32 bits. */
static inline void put_shift_entry(struct code *c, unsigned how, unsigned by)
{
    if (c->r->entry >> 3)
        *c->p++ = 0x41;
    *c->p++ = 0xc1;
    *c->p++ = (uint8_t)(how | (c->r->entry & 7));
    *c->p++ = (uint8_t)by;
}

/* How far the place of an address is from the first one, to `entry`. */
static inline void put_place(struct code *c)
{
    enum { PLACE_SHIFT = 6, SHL = 0xe0, SHR = 0xe8 };
    _Static_assert(sizeof(struct wire_slot) == 1 << PLACE_SHIFT, "an address has it");
    const struct rw_reference *r = c->r;
    uint8_t shift = c->w->opt->filter_shift;
    if (r->address >> 3 || r->entry >> 3)
        *c->p++ = (uint8_t)(0x40 | r->address >> 3 << 2 | r->entry >> 3);
    *c->p++ = STORE; /* mov entry,address */
    *c->p++ = (uint8_t)(0xc0 | (r->address & 7) << 3 | (r->entry & 7));
    if (shift < PLACE_SHIFT)
        put_shift_entry(c, SHL, PLACE_SHIFT - shift);
    else if (shift > PLACE_SHIFT)
        put_shift_entry(c, SHR, shift - PLACE_SHIFT);
    if (r->entry >> 3)
        *c->p++ = 0x41;
    *c->p++ = 0x81; /* and entry,number */
    *c->p++ = (uint8_t)(0xe0 | (r->entry & 7));
    c->p = rw_put32(c->p, (WIRE_FILTER_SLOTS - 1) << PLACE_SHIFT);
}

/* With a number that is extended by its sign; `how` is a part of the second byte. */
static inline void put_with_number(struct code *c, unsigned reg, unsigned how, int32_t number)
{
    bool is_short = number == (int8_t)number;
    *c->p++ = (uint8_t)(0x48 | reg >> 3);
    *c->p++ = is_short ? 0x83 : 0x81;
    *c->p++ = (uint8_t)(how | (reg & 7));
    if (is_short)
        *c->p++ = (uint8_t)number;
    else
        c->p = rw_put32(c->p, (uint32_t)number);
}

/* From an address to where its line begins. */
static inline void put_begin(struct code *c)
{
    enum { AND = 0xe0 };
    put_with_number(c, c->r->address, AND, -(int32_t)line_bytes(c));
}

/* It reaches into a second line wherever it is. */
static inline bool is_long(const struct code *c, unsigned k) { return site_of(c, k)->access.bytes > line_bytes(c); }

/* The bits of an address that must be 0, else the access may reach into a second line; 0: it cannot. The stack pointer
 * is a multiple of 8 by the ABI. */
static inline uint8_t odd_bits(const struct code *c, unsigned k)
{
    const struct x86_access *a = &site_of(c, k)->access;
    unsigned bits = 0, line = line_bytes(c);
    while (bits + 1 < a->bytes)
        bits = bits << 1 | 1;
    bool is_known = rw_is_number(a) || (a->base == X86_RSP && a->index == X86_REG_NONE && bits < 8);
    if (rw_is_number(a) && ((uint64_t)a->disp & (line - 1)) + a->bytes <= line)
        return 0;
    return is_known && !((uint64_t)a->disp & bits) ? 0 : (uint8_t)bits;
}

/* Are so many bytes from `address` on in the line that was the last one of its place, and written to if one of them
 * is: the condition NOT_BEYOND. */
static inline void put_compare_bytes(struct code *c, unsigned bytes, bool stores)
{
    enum { COMPARE_WITH = 0xf8 };
    const struct rw_reference *r = c->r;
    put_place(c);
    insn(c, SUBTRACT, r->address, in_place(stores ? written : touched, r->entry));
    put_with_number(c, r->address, COMPARE_WITH, (int32_t)(line_bytes(c) - bytes));
}

static inline void put_compare(struct code *c, unsigned k)
{
    const struct x86_access *a = &site_of(c, k)->access;
    put_compare_bytes(c, a->bytes, a->is_store);
}

/* The accesses are near each other. */
struct stretch {
    unsigned first, last; /* the access with the first byte, and with the last one */
    unsigned bytes;
    bool stores;
};

static inline struct stretch stretch_of(const struct code *c)
{
    struct stretch s = {.bytes = 0};
    int64_t begin = INT64_MAX, end = INT64_MIN;
    for (unsigned k = 0; k < c->r->count; k++) {
        const struct x86_access *a = &site_of(c, k)->access;
        if (a->disp < begin) {
            begin = a->disp;
            s.first = k;
        }
        if (a->disp + a->bytes > end) {
            end = a->disp + a->bytes;
            s.last = k;
        }
        s.stores |= a->is_store;
    }
    s.bytes = (unsigned)(end - begin);
    return s;
}

/* They lie in two lines so often, if they begin at a multiple of 8, that looking at the first and at the last byte is
 * less than looking at them together, and then at each. */
static inline bool wants_two(const struct code *c, const struct stretch *s)
{
    enum { TEST = 6, WORD = 8 }; /* TEST: instructions */
    unsigned each = TEST * c->r->count + 2;
    return (s->bytes - WORD) * each > TEST * line_bytes(c);
}

static inline void put_near(struct code *c, uint64_t each)
{
    struct stretch s = stretch_of(c);
    bool two = s.bytes > sizeof(uint64_t) && wants_two(c, &s);
    put_address(c, s.first, 0);
    put_compare_bytes(c, two ? 1 : s.bytes, s.stores);
    jump_if(c, BEYOND, each);
    if (!two)
        return;
    put_address(c, s.last, site_of(c, s.last)->access.bytes - 1u);
    put_compare_bytes(c, 1, s.stores);
    jump_if(c, BEYOND, each);
}

#endif
