/* SPDX-License-Identifier: Apache-2.0
 * An instruction whose operand in memory has a fixed address, with a general register in its place. Bytes alone: Intel
 * SDM volume 2, chapter 2 (prefixes, REX, ModRM) and appendix A (opcodes). Only what is listed here is changed; of
 * vector instructions those that move one element, for which there is another opcode. */
#include "x86/x86.h"

enum opcode_map { MAP_ONE, MAP_0F, MAP_0F38 };
struct parts { /* of an instruction */
    uint8_t prefixes[4], prefix_count;
    uint8_t mandatory; /* 0xf2, 0xf3, or 0x66 alone; 0 none */
    bool has_66;
    uint8_t rex; /* 0 none */
    enum opcode_map map;
    uint8_t opcode;
    unsigned modrm_at;
};

enum { REX_W = 8, REX_R = 4, REX_B = 1 };

/* False: it has a prefix that is not to be touched (lock, segments, addresses of 32 bits, VEX). */
static bool take_apart(const uint8_t *b, const struct x86_insn *i, struct parts *p)
{
    unsigned at = 0;
    *p = (struct parts){0};
    for (; at < i->len && (b[at] == 0x66 || b[at] == 0xf2 || b[at] == 0xf3); at++) {
        if (p->prefix_count == sizeof p->prefixes)
            return false;
        p->prefixes[p->prefix_count++] = b[at];
        p->has_66 |= b[at] == 0x66;
        p->mandatory = b[at] == 0x66 && p->mandatory ? p->mandatory : b[at];
    }
    if (at < i->len && (b[at] & 0xf0) == 0x40)
        p->rex = b[at++];
    if (at < i->len && b[at] == 0x0f) {
        p->map = MAP_0F;
        at++;
        if (at < i->len && b[at] == 0x38) {
            p->map = MAP_0F38;
            at++;
        }
    }
    p->opcode = at < i->len ? b[at++] : 0;
    p->modrm_at = at;
    return at + 5 <= i->len;
}

/* What of an operand at ModRM's r/m a form with a register does alike. Bit instructions with a register as the number
 * of the bit reach beyond their operand in memory, and are none; xchg is atomic. */
static bool is_same_one(uint8_t op, unsigned reg)
{
    if (op < 0x40)
        return (op & 7) < 4;
    switch (op) {
    case 0x63: /* movsxd */
    case 0x69:
    case 0x6b: /* imul */
    case 0x80:
    case 0x81:
    case 0x83:
    case 0x84:
    case 0x85: /* test */
    case 0x88:
    case 0x89:
    case 0x8a:
    case 0x8b: /* mov */
    case 0xc0:
    case 0xc1:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3: /* shifts */
    case 0xf6:
    case 0xf7:
        return true;
    case 0x8f: /* pop */
    case 0xc6:
    case 0xc7: /* mov; others of these groups are of transactions */
        return reg == 0;
    case 0xfe:
        return reg <= 1;
    case 0xff:
        return reg <= 2 || reg == 4 || reg == 6; /* inc, dec, call, jmp, push */
    default:
        return false;
    }
}

static bool is_same_0f(const struct parts *p, unsigned reg)
{
    uint8_t op = p->opcode;
    switch (op) {
    case 0x2a: /* cvtsi2ss, cvtsi2sd; without prefix it is one of MMX */
        return p->mandatory == 0xf2 || p->mandatory == 0xf3;
    case 0x6e:
    case 0x7e: /* movd, movq */
        return p->mandatory == 0x66;
    case 0xa4:
    case 0xa5:
    case 0xac:
    case 0xad: /* shld, shrd */
    case 0xaf: /* imul */
    case 0xb0:
    case 0xb1: /* cmpxchg */
    case 0xb6:
    case 0xb7:
    case 0xbe:
    case 0xbf: /* movzx, movsx */
    case 0xbc:
    case 0xbd: /* bsf, bsr, tzcnt, lzcnt */
    case 0xc0:
    case 0xc1: /* xadd */
        return true;
    case 0xb8: /* popcnt */
        return p->mandatory == 0xf3;
    case 0xba: /* bt and its kin, with a number */
        return reg >= 4;
    default:
        return (op & 0xf0) == 0x40 || (op & 0xf0) == 0x90; /* cmovcc, setcc */
    }
}

/* Whether the operand at r/m, and that at reg, is a byte of a general register. */
static bool is_byte_at_rm(const struct parts *p)
{
    uint8_t op = p->opcode;
    if (p->map == MAP_0F38)
        return op == 0xf0;
    if (p->map == MAP_0F)
        return (op & 0xf0) == 0x90 || op == 0xb0 || op == 0xc0 || op == 0xb6 || op == 0xbe;
    if (op < 0x40)
        return !(op & 1);
    return op == 0x80 || op == 0x84 || op == 0x88 || op == 0x8a || op == 0xc0 || op == 0xc6 || op == 0xd0 ||
           op == 0xd2 || op == 0xf6 || op == 0xfe;
}

static bool is_byte_at_reg(const struct parts *p)
{
    uint8_t op = p->opcode;
    if (p->map == MAP_0F)
        return op == 0xb0 || op == 0xc0;
    return p->map == MAP_ONE && (op < 0x40 ? !(op & 1) : op == 0x84 || op == 0x88 || op == 0x8a);
}

/* Moves of one element between a vector register and memory, which leave the rest 0: movd and movq do so too. */
static bool as_movd(struct parts *p)
{
    if (p->map != MAP_0F)
        return false;
    bool is_load, is_wide = p->mandatory == 0xf2;
    if ((p->mandatory == 0xf2 || p->mandatory == 0xf3) && (p->opcode == 0x10 || p->opcode == 0x11)) { /* movss, movsd */
        is_load = p->opcode == 0x10;
    } else if ((p->mandatory == 0xf3 && p->opcode == 0x7e) || (p->mandatory == 0x66 && p->opcode == 0xd6)) { /* movq */
        is_load = p->opcode == 0x7e;
        is_wide = true;
    } else {
        return false;
    }
    if (p->prefix_count != 1)
        return false;
    p->prefixes[0] = p->mandatory = 0x66;
    p->opcode = is_load ? 0x6e : 0x7e;
    p->rex = (uint8_t)((p->rex & ~REX_W) | 0x40 | (is_wide ? REX_W : 0));
    if (p->rex == 0x40)
        p->rex = 0;
    return true;
}

static bool is_same(const struct parts *p, unsigned reg)
{
    if (p->map == MAP_0F38)
        return (p->opcode == 0xf0 || p->opcode == 0xf1) && (p->prefixes[0] == 0xf2 || p->mandatory == 0xf2); /* crc32 */
    return p->map == MAP_0F ? is_same_0f(p, reg) : is_same_one(p->opcode, reg);
}

int x86_in_register(const uint8_t *bytes, const struct x86_insn *i, unsigned gpr, uint8_t out[15])
{
    struct parts p;
    unsigned n = 0;
    if (i->mem_index != X86_REG_NONE || (i->mem_base != X86_REG_NONE && i->mem_base != X86_REG_RIP) ||
        (i->props & (X86_PROP_LOCK | X86_PROP_SEG | X86_PROP_LEA | X86_PROP_NOP | X86_PROP_REP)) ||
        !take_apart(bytes, i, &p))
        return 0;
    uint8_t modrm = bytes[p.modrm_at];
    unsigned mode = modrm >> 6, reg = modrm >> 3 & 7, address = (modrm & 7) == 4 ? 6 : 5; /* SIB, 4 bytes */
    if (mode != 0 || ((modrm & 7) != 5 && ((modrm & 7) != 4 || (bytes[p.modrm_at + 1] & 7) != 5)) ||
        p.modrm_at + address > i->len || (!as_movd(&p) && !is_same(&p, reg)))
        return 0;
    bool needs_rex = p.rex || gpr >= 8 || (is_byte_at_rm(&p) && gpr >= 4);
    if (needs_rex && !p.rex && is_byte_at_reg(&p) && reg >= 4)
        return 0; /* ah, ch, dh and bh cannot be said then */
    for (unsigned k = 0; k < p.prefix_count; k++)
        out[n++] = p.prefixes[k];
    if (needs_rex)
        out[n++] = (uint8_t)((p.rex & ~REX_B) | 0x40 | (gpr >= 8 ? REX_B : 0));
    if (p.map != MAP_ONE)
        out[n++] = 0x0f;
    if (p.map == MAP_0F38)
        out[n++] = 0x38;
    out[n++] = p.opcode;
    out[n++] = (uint8_t)(0xc0 | reg << 3 | (gpr & 7));
    unsigned rest = p.modrm_at + address;
    memcpy(out + n, bytes + rest, i->len - rest);
    return (int)(n + i->len - rest);
}
