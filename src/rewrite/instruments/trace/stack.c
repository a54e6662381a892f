/* SPDX-License-Identifier: Apache-2.0
 *
 * What is saved while a trace's code runs, and by how much the stack pointer is moved meanwhile, for unwinders. Short
 * instructions: most of what stands in front of a block is this.
 *
 *     lea rsp,[rsp-128]; push rax; lahf; seto al; push rax; mov rax,[rsp+8]; push ...
 *     pop ...; pop rax; add al,0x7f; sahf; pop rax; lea rsp,[rsp+128]
 *
 * or, if no flags are alive, `sub rsp,-128` in the last one's place.
 */
#include "rewrite/instruments/trace/code.h"

enum { WORD = 8, FLAGS_WORDS = 2 };

void rw_trace_frame(struct rw_trace_code *c, int32_t bytes)
{
    c->stack_bytes = bytes;
    c->frames[c->frame_count++] = (struct rw_trace_frame){(uint16_t)(c->p - c->first), (uint16_t)bytes};
}

void rw_trace_move_stack(struct rw_trace_code *c, int32_t to)
{
    int32_t by = c->stack_bytes - to;
    if (by == (int8_t)by) {
        c->p = rw_put_bytes(c->p, "\x48\x8d\x64\x24", 4); /* lea rsp,[rsp+by] */
        *c->p++ = (uint8_t)by;
    } else {
        c->p = put_move_stack(c->p, by);
    }
    rw_trace_frame(c, to);
}

static void put_short(struct rw_trace_code *c, uint8_t code, unsigned reg, int32_t bytes)
{
    if (reg >> 3)
        *c->p++ = 0x41;
    *c->p++ = (uint8_t)(code | (reg & 7));
    rw_trace_frame(c, bytes);
}

static void push(struct rw_trace_code *c, unsigned reg) { put_short(c, 0x50, reg, c->stack_bytes + WORD); }
static void pop(struct rw_trace_code *c, unsigned reg) { put_short(c, 0x58, reg, c->stack_bytes - WORD); }

int32_t rw_trace_saved_bytes(const struct rw_trace_saves *s)
{
    int32_t bytes = WORD * (s->count + FLAGS_WORDS * s->has_flags) + s->room;
    return bytes ? RW_TRACE_RED_ZONE + bytes : 0;
}

void rw_trace_save(struct rw_trace_code *c, const struct rw_trace_saves *s)
{
    if (!rw_trace_saved_bytes(s))
        return;
    c->p = rw_put_bytes(c->p, "\x48\x8d\x64\x24\x80", 5);
    rw_trace_frame(c, RW_TRACE_RED_ZONE);
    if (s->has_flags) {
        push(c, X86_RAX);
        c->p = rw_put_bytes(c->p, "\x9f\x0f\x90\xc0", 4);
        push(c, X86_RAX);
        trace_insn(c, LOAD, X86_RAX, on_stack(1));
    }
    for (unsigned k = 0; k < s->count; k++)
        push(c, s->saved[k]);
    if (s->room)
        rw_trace_move_stack(c, c->stack_bytes + s->room);
}

void rw_trace_restore(struct rw_trace_code *c, const struct rw_trace_saves *s)
{
    if (!rw_trace_saved_bytes(s))
        return;
    if (s->room)
        rw_trace_move_stack(c, c->stack_bytes - s->room);
    for (unsigned k = s->count; k-- > 0;)
        pop(c, s->saved[k]);
    if (!s->has_flags) {
        c->p = rw_put_bytes(c->p, "\x48\x83\xec\x80", 4);
        rw_trace_frame(c, 0);
        return;
    }
    pop(c, X86_RAX);
    c->p = rw_put_bytes(c->p, "\x04\x7f\x9e", 3);
    pop(c, X86_RAX);
    rw_trace_move_stack(c, 0);
}
