/* SPDX-License-Identifier: Apache-2.0
 * x86/impl.h: what all files here ask Zydis by, and what each tells of one answer. */
#ifndef MTOOL_X86_IMPL_H
#define MTOOL_X86_IMPL_H

#include "x86/x86.h"

#include <Zydis/Zydis.h>

struct x86_zydis {
    ZydisDecodedInstruction in;
    ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT]; /* those that it has not are zero */
};
/* False: no instruction. */
bool x86_zydis_decode(const uint8_t *bytes, size_t avail, struct x86_zydis *out);
/* enum x86_reg of the register that holds r, or X86_REG_NONE for those that no model follows (rip, segments, rflags).
 */
uint8_t x86_zydis_reg(ZydisRegister r);
bool x86_zydis_is_gpr(ZydisRegister r); /* or a part of one */

struct x86_answer { /* of Zydis, as far as it is remembered */
    struct x86_shape shape;
    uint8_t value_off, value_len; /* where the target's number stands; len 0: none */
    uint8_t shift_mask;           /* shift by immediate: with (imm & mask) == 0 no flag is written; else 0 */
    unsigned head_len;            /* as Zydis sees it */
};
void x86_summarize(const struct x86_zydis *z, struct x86_answer *out); /* summary.c */

/* The parts of struct x86_detail beside its summary, which decode.c fills in. */
void x86_put_operands(const struct x86_zydis *z, struct x86_detail *out);                /* detail.c */
void x86_put_accesses(const struct x86_zydis *z, uint64_t addr, struct x86_detail *out); /* access.c */
void x86_put_reach(const struct x86_zydis *z, uint64_t addr, struct x86_detail *out);    /* reach.c */
void x86_put_order(const struct x86_zydis *z, struct x86_detail *out);                   /* order.c, after these */
void x86_put_compare(const struct x86_zydis *z, struct x86_compare *out);                /* compare.c */

#endif
