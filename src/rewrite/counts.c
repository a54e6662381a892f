/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of counters. */
#include "rewrite/impl.h"

unsigned rw_place_bytes(const struct rw_place *p)
{
    static const uint8_t bytes[RW_FORM_COUNT] = {[RW_FORM_INC] = 7, [RW_FORM_REG] = 18, [RW_FORM_PUSH] = 33};
    static const uint8_t accesses[RW_FORM_COUNT] = {[RW_FORM_INC] = 1, [RW_FORM_REG] = 2, [RW_FORM_PUSH] = 2};
    if (p->form == RW_FORM_PROBE)
        return 15 + (unsigned)p->reg * RW_PROBE_ACTION_BYTES + (unsigned)p->framed * RW_PROBE_FRAME_BYTES;
    return bytes[p->form] + (p->gs ? accesses[p->form] : 0u);
}

/* mov r,[rip->c]; lea r,[r+1]; mov [rip->c],r : 18 bytes, 20 with gs */
static uint8_t *put_mov_lea_mov(uint8_t *p, uint64_t addr, bool gs, unsigned r, uint64_t c)
{
    uint8_t hi = (uint8_t)(r >> 3), lo = (uint8_t)(r & 7);
    p = rw_put_access(p, &addr, gs, 0x8b, r, c);
    *p++ = (uint8_t)(0x48 | hi << 2 | hi);
    *p++ = 0x8d;
    *p++ = (uint8_t)(0x40 | lo << 3 | lo); /* rsp and r12 would need a SIB byte: never chosen */
    *p++ = 1;
    addr += 4;
    return rw_put_access(p, &addr, gs, 0x89, r, c);
}

const uint8_t rw_form_push_pushed[2][4][2] = {{{5, 128}, {6, 136}, {25, 128}, {33, 0}},
                                              {{5, 128}, {6, 136}, {27, 128}, {35, 0}}};

void rw_put_counter(uint8_t *at, uint64_t addr, const struct rw_place *p, uint64_t c)
{
    switch ((enum rw_form)p->form) {
    case RW_FORM_INC:
        rw_put_access(at, &addr, p->gs, 0xff, 0, c);
        return;
    case RW_FORM_REG:
        put_mov_lea_mov(at, addr, p->gs, p->reg, c);
        return;
    case RW_FORM_PUSH: /* lea rsp,[rsp-128]; push rax; ...; pop rax; lea rsp,[rsp+128] */
        at = rw_put_bytes(at, "\x48\x8d\x64\x24\x80\x50", 6);
        at = put_mov_lea_mov(at, addr + 6, p->gs, 0, c);
        rw_put_bytes(at, "\x58\x48\x8d\xa4\x24\x80\x00\x00\x00", 9);
        return;
    case RW_FORM_NONE:
    case RW_FORM_PROBE: /* rw_put_probes */
    case RW_FORM_COUNT:
        return;
    }
}
