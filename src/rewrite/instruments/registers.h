/* SPDX-License-Identifier: Apache-2.0
 * Registers for the code of a site: what is dead there, else what is saved in the meantime. */
#ifndef MTOOL_REWRITE_INSTRUMENTS_REGISTERS_H
#define MTOOL_REWRITE_INSTRUMENTS_REGISTERS_H

#include "rewrite/impl.h"

/* Unwinders of a signal that comes inside of a site need rbp, which frames are found by even where its value is dead
 * (before pop rbp); and if they go on to a caller, its registers that callees keep. */
enum {
    FRAME_REGISTERS = 1u << X86_RSP | 1u << X86_RBP,
    MAY_BE_SAVED = 1u << X86_RAX | 1u << X86_RCX | 1u << X86_RDX | 1u << X86_RSI | 1u << X86_RDI | 0xfu << X86_R8
};

enum { TAKEN_MAX = 3 };
struct taken_registers {
    uint8_t reg[TAKEN_MAX], saved[TAKEN_MAX], saves; /* saved: those of them that are alive, and how many */
};

static inline uint16_t bit_of(uint8_t reg) { return reg < X86_GPR_COUNT ? (uint16_t)(1u << reg) : 0; }

/* So many, none of which is of `used`. */
static inline struct taken_registers take_registers(unsigned count, uint16_t dead, uint16_t used)
{
    struct taken_registers t = {.saves = 0};
    uint16_t free = dead & (uint16_t)~used, others = MAY_BE_SAVED & (uint16_t) ~(used | dead);
    for (unsigned k = 0; k < count; k++) {
        uint8_t reg = (uint8_t)__builtin_ctz(free ? free : others);
        if (!free)
            t.saved[t.saves++] = reg;
        free &= (uint16_t) ~(1u << reg);
        others &= (uint16_t) ~(1u << reg);
        t.reg[k] = reg;
    }
    return t;
}

#endif
