/* SPDX-License-Identifier: Apache-2.0
 * Bytes of the instructions that tell what vector and mask registers hold, on which it depends where a gather, a
 * scatter, or a vector with a mask reaches memory. None of them changes a flag. */
#ifndef MTOOL_REWRITE_INSTRUMENTS_VECTORS_H
#define MTOOL_REWRITE_INSTRUMENTS_VECTORS_H

#include "rewrite/instruments/operand.h"

enum { EVEX_SPILL_BYTES = 7, VEX_SPILL_BYTES = 5 }; /* to [rsp] itself */

/* vmovdqu64 [rsp+disp],zmm or vmovdqu [rsp+disp],ymm, whatever part of it has indices. */
static inline uint8_t *put_spill(uint8_t *p, const struct x86_reach *r, uint32_t disp)
{
    unsigned v = r->index - X86_REG_VEC0;
    uint8_t modrm = (uint8_t)(4 | (v & 7) << 3 | (disp ? 0x80 : 0));
    if (r->is_evex) {
        uint8_t bank = (uint8_t)(0x61 | (v & 8 ? 0 : 0x80) | (v & 16 ? 0 : 0x10));
        uint8_t evex[EVEX_SPILL_BYTES] = {0x62, bank, 0xfe, 0x48, 0x7f, modrm, 0x24};
        p = rw_put_bytes(p, (const char *)evex, sizeof evex);
    } else {
        uint8_t vex[VEX_SPILL_BYTES] = {0xc5, (uint8_t)(v & 8 ? 0x7e : 0xfe), 0x7f, modrm, 0x24};
        p = rw_put_bytes(p, (const char *)vex, sizeof vex);
    }
    return disp ? rw_put32(p, disp) : p;
}

static inline uint8_t put_to(unsigned reg, unsigned rm) { return (uint8_t)(0xc0 | (reg & 7) << 3 | (rm & 7)); }

/* kmovw, kmovd, kmovq: what there is wherever there are so many elements. */
static inline uint8_t *put_mask_register(uint8_t *p, const struct x86_reach *r, unsigned reg)
{
    uint8_t low = reg & 8 ? 0 : 0x80;
    if (r->count > 32) {
        *p++ = 0xc4;
        *p++ = 0x61 | low;
        *p++ = 0xfb;
    } else {
        *p++ = 0xc5;
        *p++ = (uint8_t)((r->count > 16 ? 0x7b : 0x78) | low);
    }
    *p++ = 0x93;
    *p++ = put_to(reg, r->mask - X86_REG_MASK0);
    return p;
}

/* pmovmskb, vmovmskps, vmovmskpd */
static inline uint8_t *put_signs(uint8_t *p, const struct x86_reach *r, unsigned reg)
{
    unsigned v = r->mask - X86_REG_VEC0;
    if (r->element_bytes == 1) {
        if (!r->is_mmx)
            *p++ = 0x66;
        if ((v | reg) & 8)
            *p++ = (uint8_t)(0x40 | (reg >> 3 & 1) << 2 | (v >> 3 & 1));
        p = rw_put_bytes(p, "\x0f\xd7", 2);
    } else {
        *p++ = 0xc4;
        *p++ = (uint8_t)(0x41 | (reg & 8 ? 0 : 0x80) | (v & 8 ? 0 : 0x20));
        *p++ = (uint8_t)(0x78 | (r->vector_bytes == 32) << 2 | (r->element_bytes == 8));
        *p++ = 0x50;
    }
    *p++ = put_to(reg, v);
    return p;
}

static inline bool has_mask_register(const struct x86_reach *r)
{
    return r->mask >= X86_REG_MASK0 && r->mask < X86_REG_FLAGS_C;
}

/* To a general register: a bit for each element. */
static inline uint8_t *put_mask(uint8_t *p, const struct x86_reach *r, unsigned reg)
{
    return has_mask_register(r) ? put_mask_register(p, r, reg) : put_signs(p, r, reg);
}

#endif
