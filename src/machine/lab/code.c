/* SPDX-License-Identifier: Apache-2.0
 *
 * Code under construction: bytes, fillers, notes. It knows not what executes it. */
#include "machine/lab/lab.h"

void lab_put(struct lab_code *c, const void *bytes, size_t len)
{
    if (c->len + len > sizeof c->bytes) {
        c->full = true;
        return;
    }
    memcpy(c->bytes + c->len, bytes, len);
    c->len += len;
}

void lab_put_le32(struct lab_code *c, uint32_t v) { lab_put(c, &v, 4); }
void lab_put_le64(struct lab_code *c, uint64_t v) { lab_put(c, &v, 8); }

void lab_put_nops(struct lab_code *c, size_t bytes)
{
    static const uint8_t nops[9][9] = {{0x90},
                                       {0x66, 0x90},
                                       {0x0f, 0x1f, 0x00},
                                       {0x0f, 0x1f, 0x40, 0x00},
                                       {0x0f, 0x1f, 0x44, 0x00, 0x00},
                                       {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
                                       {0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
                                       {0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
                                       {0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00}};
    while (bytes) {
        size_t n = bytes < 9 ? bytes : 9;
        lab_put(c, nops[n - 1], n);
        bytes -= n;
    }
}

void lab_put_long(struct lab_code *c, const void *bytes, size_t len, size_t to)
{
    for (size_t n = len; n < to; n++)
        LAB_PUT(c, 0x3e); /* ds: means nothing in this mode, not even before an operand in memory */
    lab_put(c, bytes, len);
}

void lab_align(struct lab_code *c, size_t to, size_t off) { lab_put_nops(c, (off + to - c->len % to) % to); }

void lab_note(struct lab_code *c, enum lab_note_kind kind, uint32_t value)
{
    if (c->note_count == LAB_NOTES) {
        c->full = true;
        return;
    }
    c->notes[c->note_count++] = (struct lab_note){(uint32_t)c->len, value, kind};
}

/* Some cores are slow on a branch that touches a 32-byte boundary. */
void lab_put_iteration_end(struct lab_code *c, bool bare)
{
    if (c->len % 32 > 32 - 9)
        lab_align(c, 32, 0);
    if (bare)
        LAB_PUT(c, 0x48, 0xff, 0xcf, 0x0f, 0x85); /* dec rdi; jnz */
    else
        LAB_PUT(c, 0x49, 0xff, 0xcf, 0x0f, 0x85); /* dec r15; jnz */
    lab_put_le32(c, (uint32_t)(0 - (c->len + 4)));
}
