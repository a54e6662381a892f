/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files share that find code outside of all functions of the unwind table: gaps.c lists what points there
 * and makes functions of what is reached, reach.c reaches it.
 */
#ifndef MTOOL_CFG_GAPS_H
#define MTOOL_CFG_GAPS_H

#include "cfg/impl.h"

enum gap_state {                    /* of a byte */
                 GAP_START = 1,     /* an instruction that is reached */
                 GAP_INNER = 2,     /* inside of one */
                 GAP_ENTRY = 4,     /* called, a symbol, or otherwise entered from elsewhere */
                 GAP_FALLS = 8,     /* of a START: control goes on behind it */
                 GAP_INDIRECT = 16, /* of a START: an indirect jump */
                 GAP_HELD = 32,     /* somebody holds the address */
                 GAP_CUT = 64,      /* code may hold it: it is no case of a switch */
                 GAP_DATA = 128,    /* an instruction reads memory there */
                 GAP_LINEAR = 256,  /* an instruction starts here if all of the gap is code */
                 GAP_SAMPLED = 512, /* a run was seen to execute an instruction that starts here */
                 GAP_RETURN = 1024, /* of a START: touches the return address */
                 GAP_CALL = 2048,   /* of a START: a call */
                 GAP_NOP = 4096,    /* of a START: does nothing */
                 GAP_CALLED = 8192, /* what may be code calls it */
};

struct gap {
    uint64_t lo, hi;
    const uint8_t *bytes;
    uint16_t *state;
};
struct gaps {
    struct cfg *c;
    VEC(struct gap) all;         /* sorted */
    VEC(uint64_t) certain, held; /* addresses to be followed: known to be code; only held by something */
    bool any_sampled;
};

/* gaps.c */
struct gap *gap_at(const struct gaps *g, uint64_t addr);
int gap_decode(const struct gap *gap, uint64_t addr, struct x86_insn *i); /* 0: nothing that programs have */
void gap_look_at(struct gaps *g, const struct x86_insn *i); /* an instruction that is certain: what it points at */

/* reach.c */
void gap_follow(struct gaps *g); /* from certain ones, then from held ones */

#endif
