/* SPDX-License-Identifier: Apache-2.0
 * Bytes that several kinds of inserted code share: accesses to counters, jumps, padding. */
#include "rewrite/impl.h"

enum { GS_PREFIX = 0x65 };

uint8_t *rw_put32(uint8_t *p, uint64_t v)
{
    uint32_t x = (uint32_t)v;
    memcpy(p, &x, 4);
    return p + 4;
}

uint8_t *rw_put_bytes(uint8_t *p, const char *bytes, unsigned n)
{
    memcpy(p, bytes, n);
    return p + n;
}

/* op [rip->c],r or op r,[rip->c] with REX.W, in the thread's own area if gs; addr is where p will stand. */
uint8_t *rw_put_access(uint8_t *p, uint64_t *addr, bool gs, uint8_t op, unsigned r, uint64_t c)
{
    if (gs)
        *p++ = GS_PREFIX;
    *p++ = (uint8_t)(0x48 | r >> 3 << 2);
    *p++ = op;
    *p++ = (uint8_t)(0x05 | (r & 7) << 3);
    *addr += gs ? 8 : 7;
    return rw_put32(p, c - *addr);
}

void rw_put_nops(uint8_t *at, unsigned n)
{
    static const char nops[10][10] = {"",
                                      "\x90",
                                      "\x66\x90",
                                      "\x0f\x1f\x00",
                                      "\x0f\x1f\x40\x00",
                                      "\x0f\x1f\x44\x00\x00",
                                      "\x66\x0f\x1f\x44\x00\x00",
                                      "\x0f\x1f\x80\x00\x00\x00\x00",
                                      "\x0f\x1f\x84\x00\x00\x00\x00\x00",
                                      "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00"};
    while (n) {
        unsigned k = n > 9 ? 9 : n;
        at = rw_put_bytes(at, nops[k], k);
        n -= k;
    }
}

void rw_put_jmp(uint8_t *at, uint64_t addr, uint64_t target)
{
    *at++ = 0xe9;
    rw_put32(at, target - (addr + 5));
}

void rw_put_call(uint8_t *at, uint64_t addr, uint64_t target)
{
    *at++ = 0xe8;
    rw_put32(at, target - (addr + 5));
}
