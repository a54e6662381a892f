/* SPDX-License-Identifier: Apache-2.0
 * The code that trace.c inserts: what filter.c adds to it shares these. */
#ifndef MTOOL_REWRITE_INSTRUMENTS_TRACE_CODE_H
#define MTOOL_REWRITE_INSTRUMENTS_TRACE_CODE_H

#include "rewrite/instruments/operand.h"

enum { RW_TRACE_FRAMES_MAX = 32 };
struct rw_trace_frame { /* from there on the stack pointer is moved by so many bytes */
    uint16_t at, bytes;
};

struct rw_trace_code {
    const struct rw *w;
    uint8_t *first, *p;
    uint64_t addr;           /* of first */
    uint8_t state, one, two; /* registers: the thread's state, and two more */
    int32_t stack_bytes;     /* by which the stack pointer is moved here */
    struct rw_trace_frame frames[RW_TRACE_FRAMES_MAX];
    unsigned frame_count;
    struct rw_operand *operands; /* [RW_OPERANDS_MAX]; NULL: nobody asks */
    unsigned operand_count;
};

static inline uint64_t trace_here(const struct rw_trace_code *c) { return c->addr + (uint64_t)(c->p - c->first); }

static inline void trace_insn(struct rw_trace_code *c, uint32_t code, unsigned reg, struct operand m)
{
    c->p = put_insn(c->p, code, reg, m);
}

/* Returns its end, from where `trace_arrive` finds the distance. */
static inline uint8_t *trace_jump_if(struct rw_trace_code *c, uint8_t condition)
{
    *c->p++ = 0x0f;
    *c->p++ = (uint8_t)(0x80 | condition);
    c->p += 4;
    return c->p;
}

static inline void trace_jump_if_to(struct rw_trace_code *c, uint8_t condition, uint64_t to)
{
    uint8_t *end = trace_jump_if(c, condition);
    rw_put32(end - 4, to - trace_here(c));
}

static inline void trace_jump_to(struct rw_trace_code *c, uint64_t to)
{
    *c->p++ = 0xe9;
    c->p = rw_put32(c->p, to - (trace_here(c) + 4));
}

/* A jump whose distance stands in front of `end` leads here. */
static inline void trace_arrive(const struct rw_trace_code *c, uint8_t *end)
{
    rw_put32(end - 4, (uint64_t)(c->p - end));
}

static inline struct operand trace_at(unsigned reg, int64_t disp)
{
    return (struct operand){0, (uint8_t)reg, X86_REG_NONE, 0, disp};
}

/* Likewise, of a jump that is not far. */
static inline uint8_t *trace_jump_near_if(struct rw_trace_code *c, uint8_t condition)
{
    *c->p++ = (uint8_t)(0x70 | condition);
    *c->p++ = 0;
    return c->p;
}

static inline bool trace_is_near(const struct rw_trace_code *c, const uint8_t *end) { return c->p - end <= INT8_MAX; }

static inline void trace_arrive_near(const struct rw_trace_code *c, uint8_t *end) { end[-1] = (uint8_t)(c->p - end); }

static inline void trace_store_number(struct rw_trace_code *c, struct operand m, uint32_t v)
{
    trace_insn(c, STORE_NUMBER, 0, m);
    c->p = rw_put32(c->p, v);
}

static inline void trace_compare_number(struct rw_trace_code *c, struct operand m, uint8_t v)
{
    trace_insn(c, WITH_BYTE, CMP, m);
    *c->p++ = v;
}

static inline void trace_test(struct rw_trace_code *c, unsigned reg)
{
    *c->p++ = (uint8_t)(0x48 | reg >> 3 << 2 | reg >> 3);
    *c->p++ = 0x85;
    *c->p++ = (uint8_t)(0xc0 | (reg & 7) << 3 | (reg & 7));
}

/* ---- stack.c ---- */

enum { RW_TRACE_REGISTERS = 3, RW_TRACE_RED_ZONE = 128 };
struct rw_trace_saves { /* what is alive of what the code takes, behind the red zone; then room for so many bytes */
    uint8_t saved[RW_TRACE_REGISTERS], count;
    bool has_flags;
    uint8_t room;
};
/* By how many bytes the stack pointer is moved then. */
int32_t rw_trace_saved_bytes(const struct rw_trace_saves *s);
void rw_trace_save(struct rw_trace_code *c, const struct rw_trace_saves *s);
void rw_trace_restore(struct rw_trace_code *c, const struct rw_trace_saves *s);
/* The stack pointer is moved by so many bytes from here on, whatever moved it; or is to be, by one instruction. */
void rw_trace_frame(struct rw_trace_code *c, int32_t bytes);
void rw_trace_move_stack(struct rw_trace_code *c, int32_t to);

/* ---- filter.c ---- */

/* An access of a part, by what registers hold where it begins; or several that lie close together. */
struct rw_trace_item {
    int64_t disp;
    uint32_t insn; /* whose displacement only the linker knows, so that disp comes to that; ID_NONE */
    uint8_t base, index, scale, bytes;
    bool is_store, is_thread; /* is_thread: over the base of the thread's memory */
    bool is_joined;           /* it is more than one access's */
    bool repeats;             /* as often as the registers below say, and count_plus: bytes from there on */
    uint8_t count_base, count_index, count_scale;
    int64_t count_plus;
};
struct rw_trace_items {
    struct rw_trace_item *data;
    size_t len, cap;
};

enum rw_trace_how {
    RW_TRACE_UNKNOWN, /* where it reaches is not known where it begins */
    RW_TRACE_ALWAYS,  /* it is, but the part is written whatever that is */
    RW_TRACE_FILTERED /* it is not written if it changes nothing in a cache */
};
enum { RW_TRACE_KINDS = 4 };
/* On the stack: struct kept_arguments, and in its place what mtool_trace is called with. */
enum { RW_TRACE_IS_TOLD, RW_TRACE_TURN, RW_TRACE_LINE, RW_TRACE_BYTES, RW_TRACE_ARGUMENTS };
struct rw_trace_filter { /* of a part */
    enum rw_trace_how how;
    uint32_t checks, marks; /* into items */
    uint8_t check_count, mark_count;
    uint8_t made[RW_TRACE_KINDS]; /* fetches, loads, stores, modifications */
};

struct rewrite_trace_plan;
/* Of a block's instructions from `first` on, which are a part by `plan`, up to, not including, `end`. */
void rw_trace_filter_find(const struct rw *w, uint32_t block, const struct x86_detail *insns, unsigned first,
                          unsigned end, const struct rewrite_trace_plan *plan, struct rw_trace_items *items,
                          struct rw_trace_filter *out);
bool rw_trace_filter_has_operands(const struct rw_trace_filter *f, const struct rw_trace_item *items);
/* Jumps to where the part is written, if it changes something. */
void rw_trace_put_checks(struct rw_trace_code *c, const struct rw_trace_filter *f, const struct rw_trace_item *items,
                         uint64_t written);
/* Counts it as one that was left out. */
void rw_trace_put_counts(struct rw_trace_code *c, const struct rw_trace_filter *f, uint64_t written);
/* What the part touches are the last lines of their places from now on, in program and runtime. Of what changes more
 * than their order the runtime makes RW_TRACE_IS_TOLD 1. */
void rw_trace_put_lines(struct rw_trace_code *c, const struct rw_trace_filter *f, const struct rw_trace_item *items);

#endif
