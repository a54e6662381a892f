/* SPDX-License-Identifier: Apache-2.0
 * Bytes read in order and never past their end: integers and LEB128. */
#include "base/base.h"

void cursor_skip(struct cursor *c, uint64_t len)
{
    if (c->is_bad || len > cursor_left(c))
        c->is_bad = true;
    else
        c->p += len;
}

uint64_t cursor_uint(struct cursor *c, unsigned len_bytes)
{
    uint64_t v = 0;
    const uint8_t *p = c->p;
    cursor_skip(c, len_bytes);
    if (!c->is_bad)
        memcpy(&v, p, len_bytes);
    return v;
}

/* The bits of a LEB128 number; *shift is where they end, *last its last byte. */
static uint64_t leb_bits(struct cursor *c, unsigned *shift, uint8_t *last)
{
    uint64_t v = 0;
    for (*shift = 0;; *shift += 7) {
        if (c->is_bad || c->p == c->end || *shift > 63) {
            c->is_bad = true;
            return 0;
        }
        *last = *c->p++;
        v |= (uint64_t)(*last & 0x7f) << *shift;
        if (!(*last & 0x80))
            break;
    }
    *shift += 7;
    return v;
}

uint64_t cursor_uleb(struct cursor *c)
{
    unsigned shift;
    uint8_t last = 0;
    return leb_bits(c, &shift, &last);
}

int64_t cursor_sleb(struct cursor *c)
{
    unsigned shift;
    uint8_t last = 0;
    uint64_t v = leb_bits(c, &shift, &last);
    if (!c->is_bad && (last & 0x40) && shift < 64)
        v |= ~0ull << shift;
    return (int64_t)v;
}
