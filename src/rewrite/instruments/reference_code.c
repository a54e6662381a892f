/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of a site of references: an entry for each access of the instruction that it stands in front of.
 *
 *     lea rsp,[rsp-...]; save flags and registers         what is alive of them, below the red zone
 *     mov entry,16*n; xadd gs:[put],entry                 one instruction: a signal's entries come before or behind
 *     lea address,[operand]; mov gs:[entry],address
 *     mov address,site and module; mov gs:[entry+8],address
 *     cmp entry,gs:[limit]; jae cold
 *     restore; lea rsp,[rsp+...]
 *
 *     cold, behind the function: call the runtime; jmp back
 *
 * No register is taken that the operand is made of. Segment fs: its base is the word that it points to, which the ABI
 * asks for; code that runs before that is so cannot use such operands. No memory of the program is touched.
 */
#include "rewrite/instruments/references.h"
#include "wire/wire.h"

enum { GS = 0x65, FS = 0x64, RED_ZONE = 128, ENTRY_BYTES = 16, RANGE_ENTRIES = 3, CALL_BYTES = 5, LEA_RSP_BYTES = 8 };

struct operand {
    uint8_t prefix, base, index, scale;
    int64_t disp;
};

static struct operand in_stream(size_t offset)
{
    return (struct operand){GS, X86_REG_NONE, X86_REG_NONE, 0, (int64_t)(WIRE_STREAM_VADDR + offset)};
}
static struct operand in_entry(unsigned reg, int64_t offset)
{
    return (struct operand){GS, (uint8_t)reg, X86_REG_NONE, 0, offset};
}
static struct operand on_stack(unsigned slot)
{
    return (struct operand){0, X86_RSP, X86_REG_NONE, 0, 8 * (int64_t)slot};
}

/* ---- bytes of one instruction ---- */

static uint8_t *put_displacement(uint8_t *p, unsigned mod, int64_t disp)
{
    if (mod == 1)
        *p++ = (uint8_t)disp;
    return mod == 2 ? rw_put32(p, (uint64_t)disp) : p;
}

/* Mod, rm, SIB and displacement; reg is the other operand, or part of the code. */
static uint8_t *put_operand(uint8_t *p, unsigned reg, struct operand m)
{
    static const uint8_t scale_bits[9] = {[2] = 1, [4] = 2, [8] = 3};
    bool has_index = m.index != X86_REG_NONE;
    unsigned sib_index = (unsigned)(scale_bits[has_index ? m.scale : 0] << 6 | (has_index ? m.index & 7 : 4) << 3);
    if (m.base == X86_REG_NONE) {
        *p++ = (uint8_t)((reg & 7) << 3 | 4);
        *p++ = (uint8_t)(sib_index | 5);
        return rw_put32(p, (uint64_t)m.disp);
    }
    unsigned mod = !m.disp && (m.base & 7) != X86_RBP ? 0 : m.disp == (int8_t)m.disp ? 1 : 2;
    bool has_sib = has_index || (m.base & 7) == X86_RSP;
    *p++ = (uint8_t)(mod << 6 | (reg & 7) << 3 | (has_sib ? 4u : m.base & 7u));
    if (has_sib)
        *p++ = (uint8_t)(sib_index | (m.base & 7));
    return put_displacement(p, mod, m.disp);
}

/* With operands of 64 bits. */
static uint8_t *put_insn(uint8_t *p, uint32_t code, unsigned reg, struct operand m)
{
    unsigned base = m.base == X86_REG_NONE ? 0 : m.base >> 3, index = m.index == X86_REG_NONE ? 0 : m.index >> 3;
    if (m.prefix)
        *p++ = m.prefix;
    *p++ = (uint8_t)(0x48 | (reg >> 3) << 2 | index << 1 | base);
    if (code > 0xff)
        *p++ = (uint8_t)(code >> 8);
    *p++ = (uint8_t)code;
    return put_operand(p, reg, m);
}

enum { LEA = 0x8d, LOAD = 0x8b, STORE = 0x89, STORE_NUMBER = 0xc7, COMPARE = 0x3b, XADD = 0x0fc1 };

static uint8_t *put_number(uint8_t *p, unsigned reg, uint64_t v)
{
    *p++ = (uint8_t)(0x48 | reg >> 3);
    *p++ = (uint8_t)(0xb8 | (reg & 7));
    memcpy(p, &v, 8);
    return p + 8;
}

static uint8_t *put_short_number(uint8_t *p, unsigned reg, uint32_t v)
{
    if (reg >> 3)
        *p++ = 0x41;
    *p++ = (uint8_t)(0xb8 | (reg & 7));
    return rw_put32(p, v);
}

static uint8_t *put_move_stack(uint8_t *p, int32_t by)
{
    return rw_put32(rw_put_bytes(p, "\x48\x8d\xa4\x24", 4), (uint32_t)by);
}

/* ---- the stack: its slots are, from the stack pointer up, the flags of a range; rax and the flags; registers ---- */

static unsigned slots(const struct rw_reference *r) { return r->is_range + 2u * r->saves_flags + r->saves; }
static bool moves_stack(const struct rw_reference *r) { return slots(r) > 0; }
static int32_t stack_bytes(unsigned slot_count) { return slot_count ? RED_ZONE + 8 * (int32_t)slot_count : 0; }

static uint8_t *put_save(uint8_t *p, const struct rw_reference *r)
{
    unsigned slot = r->is_range;
    p = put_move_stack(p, -(stack_bytes(slots(r)) - 8 * (int32_t)r->is_range));
    if (r->is_range)
        *p++ = 0x9c;      /* pushfq */
    if (r->saves_flags) { /* lahf; seto al */
        p = put_insn(p, STORE, X86_RAX, on_stack(slot));
        p = rw_put_bytes(p, "\x9f\x0f\x90\xc0", 4);
        p = put_insn(p, STORE, X86_RAX, on_stack(slot + 1));
        p = put_insn(p, LOAD, X86_RAX, on_stack(slot));
        slot += 2;
    }
    for (unsigned k = 0; k < r->saves; k++)
        p = put_insn(p, STORE, r->saved[k], on_stack(slot++));
    return p;
}

static uint8_t *put_restore(uint8_t *p, const struct rw_reference *r)
{
    unsigned slot = r->is_range;
    if (r->saves_flags) { /* add al,0x7f; sahf */
        p = put_insn(p, LOAD, X86_RAX, on_stack(slot + 1));
        p = rw_put_bytes(p, "\x04\x7f\x9e", 3);
        p = put_insn(p, LOAD, X86_RAX, on_stack(slot));
        slot += 2;
    }
    for (unsigned k = 0; k < r->saves; k++)
        p = put_insn(p, LOAD, r->saved[k], on_stack(slot++));
    return put_move_stack(p, stack_bytes(slots(r)));
}

/* ---- the body ---- */

/* In two steps what is of three registers and a number. */
static uint8_t *put_segment_address(uint8_t *p, unsigned reg, struct operand m)
{
    p = put_insn(p, LOAD, reg, (struct operand){FS, X86_REG_NONE, X86_REG_NONE, 0, 0});
    if (m.base != X86_REG_NONE)
        p = put_insn(p, LEA, reg, (struct operand){0, (uint8_t)reg, m.base, 1, 0});
    return put_insn(p, LEA, reg, (struct operand){0, (uint8_t)reg, m.index, m.scale, m.disp});
}

/* `addr` is that of the bytes at p. */
static uint8_t *put_address(uint8_t *p, uint64_t addr, const struct rw_reference *r, const struct x86_access *a)
{
    struct operand m = {0, a->base, a->index, a->scale, a->disp};
    bool is_number = a->base == X86_REG_NONE && a->index == X86_REG_NONE && a->segment == X86_SEGMENT_NONE;
    if (m.base == X86_RSP)
        m.disp += stack_bytes(slots(r));
    if (a->segment == X86_SEGMENT_FS)
        return put_segment_address(p, r->address, m);
    if (!is_number)
        return put_insn(p, LEA, r->address, m);
    if (!r->is_rip)
        return put_number(p, r->address, (uint64_t)a->disp);
    *p++ = (uint8_t)(0x48 | r->address >> 3 << 2);
    *p++ = LEA;
    *p++ = (uint8_t)(0x05 | (r->address & 7) << 3);
    return rw_put32(p, (uint64_t)a->disp - (addr + 7));
}

static uint8_t *put_site(uint8_t *p, const struct rw *w, const struct rw_reference *r, unsigned k, int64_t at)
{
    uint64_t site = r->first + k, module = wire_stream_module(w->key);
    p = put_number(p, r->address, site | module << 32);
    return put_insn(p, STORE, r->address, in_entry(r->entry, at + 8));
}

static uint8_t *put_range(uint8_t *p, const struct rw_reference *r, int64_t at)
{
    p = put_insn(p, STORE_NUMBER, 0, in_entry(r->entry, at));
    p = rw_put32(p, (uint32_t)WIRE_EVENT(WIRE_EVENT_RANGE, RANGE_ENTRIES - 1));
    p = put_insn(p, STORE, X86_RCX, in_entry(r->entry, at + ENTRY_BYTES + 8));
    p = put_insn(p, LOAD, r->address, on_stack(0));
    return put_insn(p, STORE, r->address, in_entry(r->entry, at + 2 * ENTRY_BYTES));
}

static uint8_t *put_entries(uint8_t *at, uint64_t addr, const struct rw *w, const struct rw_reference *r)
{
    unsigned bytes = ENTRY_BYTES * (r->is_range ? RANGE_ENTRIES : 1);
    uint8_t *p = put_short_number(at, r->entry, bytes * r->count);
    p = put_insn(p, XADD, r->entry, in_stream(offsetof(struct wire_stream, put)));
    for (unsigned k = 0; k < r->count; k++) {
        int64_t entry = (int64_t)bytes * k;
        p = put_address(p, addr + (uint64_t)(p - at), r, &w->references->sites[r->first + k].access);
        p = put_insn(p, STORE, r->address, in_entry(r->entry, entry + (r->is_range ? ENTRY_BYTES : 0)));
        p = put_site(p, w, r, k, entry);
        if (r->is_range)
            p = put_range(p, r, entry);
    }
    return put_insn(p, COMPARE, r->entry, in_stream(offsetof(struct wire_stream, limit)));
}

/* Returns where the cold part comes back to; *end: of all. cold: its address. */
static uint8_t *put_hot(uint8_t *at, uint64_t addr, const struct rw *w, const struct rw_reference *r, uint64_t cold,
                        uint8_t **end)
{
    uint8_t *p = moves_stack(r) ? put_save(at, r) : at;
    p = put_entries(p, addr + (uint64_t)(p - at), w, r);
    p = rw_put_bytes(p, "\x0f\x83", 2); /* jae */
    p = rw_put32(p, cold - (addr + (uint64_t)(p - at) + 4));
    *end = moves_stack(r) ? put_restore(p, r) : p;
    return p;
}

/* lea rsp,[rsp-128]; call; lea rsp,[rsp+128]; jmp; or if the stack pointer is there already call; jmp */
static uint8_t *put_cold(uint8_t *at, uint64_t addr, const struct rw *w, const struct rw_reference *r, uint64_t back)
{
    uint8_t *p = moves_stack(r) ? at : put_move_stack(at, -RED_ZONE);
    rw_put_call(p, addr + (uint64_t)(p - at), rw_blob_chunk_full(w));
    p += CALL_BYTES;
    if (!moves_stack(r))
        p = put_move_stack(p, RED_ZONE);
    rw_put_jmp(p, addr + (uint64_t)(p - at), back);
    return p + CALL_BYTES;
}

enum { SITE_BYTES_MAX = 1024 };

unsigned rw_reference_bytes(const struct rw *w, const struct rw_reference *r, bool is_cold)
{
    uint8_t code[SITE_BYTES_MAX], *end;
    if (is_cold)
        end = put_cold(code, 0, w, r, 0);
    else
        put_hot(code, 0, w, r, 0, &end);
    return (unsigned)(end - code);
}

void rw_put_reference(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    const struct rw_reference *r = &w->references->data[f->id];
    uint8_t code[SITE_BYTES_MAX], *end;
    uint64_t func = addr - f->off;
    if (f->how & RW_REFERENCE_COLD)
        put_cold(at, addr, w, r, func + r->hot + (uint64_t)(put_hot(code, 0, w, r, 0, &end) - code));
    else
        put_hot(at, addr, w, r, func + r->cold, &end);
}

/* ---- frames ---- */

uint8_t rw_reference_how(const struct rw_reference *r, bool is_cold)
{
    return (uint8_t)(slots(r) | (r->is_range ? RW_REFERENCE_RANGE : 0) | (is_cold ? RW_REFERENCE_COLD : 0));
}

void rw_reference_frames(const struct rw_fragment *f, struct rw_frames *out)
{
    uint32_t pushed = (uint32_t)stack_bytes(f->how & RW_REFERENCE_SLOTS);
    if (f->how & RW_REFERENCE_COLD) {
        rw_frame(out, f->off + (pushed ? 0 : LEA_RSP_BYTES), pushed ? pushed : RED_ZONE);
        if (!pushed)
            rw_frame(out, f->off + 2 * LEA_RSP_BYTES + CALL_BYTES, 0);
        return;
    }
    if (!pushed)
        return;
    if (f->how & RW_REFERENCE_RANGE)
        rw_frame(out, f->off + LEA_RSP_BYTES, pushed - 8);
    rw_frame(out, f->off + LEA_RSP_BYTES + (f->how & RW_REFERENCE_RANGE ? 1 : 0), pushed);
    rw_frame(out, f->off + f->bytes, 0);
}
