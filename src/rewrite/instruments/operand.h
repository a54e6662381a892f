/* SPDX-License-Identifier: Apache-2.0
 * Bytes of the single instructions that the code of sites is made of (reference_code.c, reference_calls.c). */
#ifndef MTOOL_REWRITE_INSTRUMENTS_OPERAND_H
#define MTOOL_REWRITE_INSTRUMENTS_OPERAND_H

#include "rewrite/impl.h"
#include "wire/wire.h"

enum { GS = 0x65, FS = 0x64, NARROW = 0x67 }; /* prefixes */

struct operand {
    uint8_t prefix, base, index, scale;
    int64_t disp;
};

static inline struct operand in_stream(size_t offset)
{
    return (struct operand){GS, X86_REG_NONE, X86_REG_NONE, 0, (int64_t)(WIRE_STREAM_VADDR + offset)};
}
static inline struct operand in_entry(unsigned reg, int64_t offset)
{
    return (struct operand){GS, (uint8_t)reg, X86_REG_NONE, 0, offset};
}
static inline struct operand on_stack(unsigned slot)
{
    return (struct operand){0, X86_RSP, X86_REG_NONE, 0, 8 * (int64_t)slot};
}

static inline uint8_t *put_displacement(uint8_t *p, unsigned mod, int64_t disp)
{
    if (mod == 1)
        *p++ = (uint8_t)disp;
    return mod == 2 ? rw_put32(p, (uint64_t)disp) : p;
}

/* Mod, rm, SIB and displacement; reg is the other operand, or part of the code. */
static inline uint8_t *put_operand(uint8_t *p, unsigned reg, struct operand m)
{
    static const uint8_t scale_bits[9] = {[2] = 1, [4] = 2, [8] = 3};
    bool has_index = m.index != X86_REG_NONE;
    unsigned sib_index = (unsigned)(scale_bits[has_index ? m.scale : 0] << 6 | (has_index ? m.index & 7 : 4) << 3);
    if (m.base == X86_REG_NONE) {
        *p++ = (uint8_t)((reg & 7) << 3 | 4);
        *p++ = (uint8_t)(sib_index | 5);
        return rw_put32(p, (uint64_t)m.disp);
    }
    unsigned mod = !m.disp && (m.base & 7) != X86_RBP ? 0 : m.disp == (int8_t)m.disp ? 1 : 2;
    bool has_sib = has_index || (m.base & 7) == X86_RSP;
    *p++ = (uint8_t)(mod << 6 | (reg & 7) << 3 | (has_sib ? 4u : m.base & 7u));
    if (has_sib)
        *p++ = (uint8_t)(sib_index | (m.base & 7));
    return put_displacement(p, mod, m.disp);
}

/* With operands of 64 bits. */
static inline uint8_t *put_insn(uint8_t *p, uint32_t code, unsigned reg, struct operand m)
{
    unsigned base = m.base == X86_REG_NONE ? 0 : m.base >> 3, index = m.index == X86_REG_NONE ? 0 : m.index >> 3;
    if (m.prefix)
        *p++ = m.prefix;
    *p++ = (uint8_t)(0x48 | (reg >> 3) << 2 | index << 1 | base);
    if (code > 0xff)
        *p++ = (uint8_t)(code >> 8);
    *p++ = (uint8_t)code;
    return put_operand(p, reg, m);
}

enum {
    LEA = 0x8d,
    LOAD = 0x8b,
    STORE = 0x89,
    LOAD_SIGNED_32 = 0x63,
    LOAD_SIGNED_16 = 0x0fbf,
    STORE_NUMBER = 0xc7,
    COMPARE = 0x3b,
    SUBTRACT = 0x2b,
    XOR = 0x33,
    AND_FROM = 0x23,
    XADD = 0x0fc1,
    WITH_BYTE = 0x83
};
enum { ADD = 0, CMP = 7 }; /* what WITH_BYTE does */
enum {                     /* conditions; above is with a sign, beyond without */
       BELOW = 2,
       NOT_BELOW = 3,
       EQUAL = 4,
       NOT_EQUAL = 5,
       NOT_BEYOND = 6,
       BEYOND = 7,
       NOT_ABOVE = 14,
       ABOVE = 15
};

static inline uint8_t *put_number(uint8_t *p, unsigned reg, uint64_t v)
{
    *p++ = (uint8_t)(0x48 | reg >> 3);
    *p++ = (uint8_t)(0xb8 | (reg & 7));
    memcpy(p, &v, 8);
    return p + 8;
}

static inline uint8_t *put_short_number(uint8_t *p, unsigned reg, uint32_t v)
{
    if (reg >> 3)
        *p++ = 0x41;
    *p++ = (uint8_t)(0xb8 | (reg & 7));
    return rw_put32(p, v);
}

static inline uint8_t *put_move_stack(uint8_t *p, int32_t by)
{
    return rw_put32(rw_put_bytes(p, "\x48\x8d\xa4\x24", 4), (uint32_t)by);
}

#endif
