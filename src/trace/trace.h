/* SPDX-License-Identifier: Apache-2.0
 *
 * trace: translates a program's code for bursts (wire/bursts.h), and reads what the translation recorded: the
 * instructions of a window one after the other, with the general registers that are known of, and so the addresses that
 * they reach.
 */
#ifndef MTOOL_TRACE_H
#define MTOOL_TRACE_H

#include "base/base.h"
#include "wire/bursts.h"
#include "x86/x86.h"

/* ---- code.c: what was translated so far ---- */

struct trace; /* opaque; the blocks of all windows of one run, and the state of the translator */
struct trace *trace_new(const struct wire_bursts *b); /* of the file as the host has just made it */
void trace_free(struct trace *t);
/* Answers WIRE_BURST_BEGIN, _TRANSLATE and _CHANGED in the file. Trusts nothing in it: a program may write over it.
 * Records may be read by another thread meanwhile. */
void trace_answer(struct trace *t, struct wire_bursts *b);

struct trace_log { /* a value in a record: that of register `reg` before instruction `before` of the block */
    uint8_t before, reg;
};
struct trace_insn {
    uint64_t address;
    uint8_t bytes[X86_MORE_BYTES], len;
    uint8_t kind;                           /* enum x86_kind */
    uint8_t effect, effect_dst, effect_src; /* of x86_detail; only what is followed here */
    int8_t accesses;                        /* -1: it does not say where it reaches */
    uint8_t lea_base, lea_index, lea_scale; /* GPR numbers or X86_REG_NONE */
    bool repeats;                           /* rcx times; of one that compares, less the rcx that it leaves */
    uint16_t written;                       /* GPRs */
    int64_t number;                         /* immediate, or displacement of a lea */
    const struct x86_access *access;
};
struct trace_block {
    uint64_t address;
    uint32_t insn_count, log_count, references; /* references: accesses of all its instructions */
    const struct trace_insn *insns;
    const struct trace_log *logs;
    const struct trace_insn
        *branch; /* the last instruction, if it is one whose way on a processor has to guess; else NULL */
    uint64_t branch_at, behind; /* addresses of that and of what follows it */
    uint8_t branch_kind;        /* enum x86_kind */
    uint64_t place;             /* for the caller's use; 0 at first */
};
uint32_t trace_block_count(const struct trace *t);
struct trace_block *trace_block(struct trace *t, uint32_t block);

/* ---- reader.c: records to instructions ---- */

struct trace_reader {
    struct trace *trace;
    const uint8_t *at, *end;       /* records left */
    const uint8_t *values;         /* of the block that is read */
    uint64_t regs[16];             /* before the next instruction */
    uint32_t known;                /* a bit for each of these that is known */
    uint32_t block, next, log;     /* block ID_NONE: none yet; next: instruction in it */
    const struct trace_insn *last; /* the instruction given last, whose effect is not yet in regs; NULL none */
};
struct trace_step {
    const struct trace_insn *insn;
    uint32_t block, index; /* index: of the instruction in its block */
    const uint64_t *regs;  /* before it; valid until the next step */
    uint32_t known;
};
/* Whole records (trace_whole). */
void trace_read(struct trace_reader *r, struct trace *t, const void *records, size_t bytes);
/* false: no more, or the records are broken. */
bool trace_next(struct trace_reader *r, struct trace_step *out);
/* The same, a record at a time: the block. NULL: no more, or broken. */
const struct trace_block *trace_next_block(struct trace_reader *r);
/* false: not known. */
bool trace_address(const struct trace_step *s, const struct x86_access *a, uint64_t fs, uint64_t gs, uint64_t *address);
struct trace_extent {
    size_t bytes; /* of whole records */
    uint64_t instructions, references;
};
/* The whole records, without the last one if it is torn, up to the one with which they have `references` (0: all of
 * them), or TRACE_INSTRUCTIONS_MOST times as many instructions: some programs hardly reach for memory. */
enum { TRACE_INSTRUCTIONS_MOST = 6 };
struct trace_extent trace_whole(struct trace *t, const void *records, size_t bytes, bool is_torn, uint64_t references);

/* ---- compare.c ---- */

struct wire_windows;
struct trace_difference {
    const char *what;                          /* NULL: they are the same as far as both go */
    uint64_t at, address, by_step, by_burst;   /* number and address of the instruction where they differ, and how */
    uint64_t instructions, addresses, unknown; /* compared; addresses that the burst does not tell */
    uint64_t left;                             /* steps beyond the end of the burst */
};
/* Whole records against window `window` of those taken step by step, which begins at the same instruction. */
void trace_compare(struct trace *t, const void *records, size_t bytes, const struct wire_windows *w, uint32_t window,
                   struct trace_difference *d);

#endif
