/* SPDX-License-Identifier: Apache-2.0
 *
 * mix: an instruction into the classes of Table 1 of the paper (Nagle, Uhlig and Mudge, Monster, 1992), in operations:
 * those of a machine on which each access to memory is an instruction of its own. Of what the emulator executes and of
 * what stands in files alike.
 */
#ifndef MTOOL_MIX_H
#define MTOOL_MIX_H

#include "wire/monster.h"
#include "x86/x86.h"

enum mix_special {
    MIX_PLAIN,
    MIX_MARKER,
    MIX_MAPS_ANEW, /* after it an address may be another's: mov to a control register, invlpg, invpcid */
    MIX_HALTS
};
struct mix_insn {
    struct x86_insn x;
    uint8_t mix[WIRE_MIX_COUNT], operations;
    uint8_t special;
    uint16_t mark;   /* of MIX_MARKER */
    bool is_modify;  /* it loads and stores the same bytes */
    bool may_leave;  /* what is behind it in the same translation may not be reached: it may fault */
    bool is_counted; /* false of markers of mtool's own */
};
void mix_describe(const uint8_t *bytes, size_t len, uint64_t vaddr, struct mix_insn *out);

#endif
