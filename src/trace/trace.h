/* SPDX-License-Identifier: Apache-2.0
 *
 * trace: windows of the instruction stream. Whatever recorded one, single steps (wire.h) or translated code
 * (wire/bursts.h), a consumer reads it by one iterator (stream.c): instruction after instruction, with the general
 * registers that are known and the addresses that it reaches. The translator of bursts is here too (code.c).
 */
#ifndef MTOOL_TRACE_H
#define MTOOL_TRACE_H

#include "base/base.h"
#include "observed/observed.h"
#include "wire/bursts.h"
#include "x86/x86.h"

/* ---- stream.c: the instructions of a window, one after the other ---- */

struct trace_insn {
    struct x86_insn x; /* at its address in the program; len 0: not known, or no instruction */
    uint64_t place;    /* OBSERVED_PLACE in a file; OBSERVED_PLACE_UNKNOWN also until it is asked for */
    uint32_t id;       /* a small number: of those of its window in order of first execution, if that was taken step by
                          step; of all translated ones in order of translation */
    bool repeats;      /* a string instruction with rep, repe or repne */
    int8_t accesses;   /* -1: it does not say where it reaches */
    const struct x86_access *access;
    uint8_t effect, effect_dst, effect_src; /* as in x86_detail; only what is followed here */
    uint8_t lea_base, lea_index, lea_scale; /* GPR numbers or X86_REG_NONE */
    int64_t number;                         /* immediate, or displacement of a lea */
    uint8_t bytes[X86_MORE_BYTES];
};
typedef uint64_t (*trace_place_of)(void *ctx, uint64_t address);

/* A window. Made by trace_steps or trace_records; its first three fields are their own business. */
struct trace_window {
    const struct trace_steps *steps;
    struct trace *trace;
    const uint8_t *records;
    size_t bytes;    /* of its recording */
    uint64_t fs, gs; /* bases */
    uint64_t
        instructions; /* iterations of repeated string instructions counted as they are recorded: see each_iteration */
    uint64_t references; /* accesses of all of these */
    bool has_registers;  /* all general registers are known throughout */
};

struct trace_stream { /* an iterator; but for each_iteration its fields are its own business */
    const struct trace_window *window;
    bool each_iteration; /* iterations of a repeated string instruction are steps of their own, where they were recorded
                       so; may be set before the first step */
    uint64_t next, end;  /* numbers of instructions */
    uint64_t regs[16];   /* before the instruction `next`, but for what is still to be applied */
    uint32_t known;      /* a bit for each of these that is known */
    const uint64_t *word;          /* steps: of the instruction `next` less `passed` */
    uint32_t passed;               /* iterations to be applied */
    const uint8_t *at;             /* records: those left */
    const uint8_t *values;         /* of the block that is read */
    const struct trace_block *b;   /* that; NULL none yet */
    uint32_t in_block, log;        /* instruction and value in it */
    const struct trace_insn *last; /* the instruction given last, whose effect is not yet in regs; NULL none */
};
struct trace_step {
    const struct trace_insn *insn;
    uint64_t number;       /* from 0; of the first iteration */
    const uint64_t *regs;  /* before it; valid until the next step */
    uint32_t known;        /* a bit for each of these that is known */
    uint64_t repeats;      /* elements that a repeated string instruction reached; 0: none, or not known */
    uint64_t next_address; /* of what came after it, and */
    uint64_t next_place;
    bool is_last; /* nothing is known of what came after it */
};
void trace_begin(struct trace_stream *s, const struct trace_window *w);
/* Instructions `first` to `last` - 1 only; what came after them is known. */
void trace_begin_part(struct trace_stream *s, const struct trace_window *w, uint64_t first, uint64_t last);
/* false: no more. */
bool trace_next(struct trace_stream *s, struct trace_step *out);
uint64_t trace_left(const struct trace_stream *s); /* instructions that are still to come */

struct trace_access {
    uint64_t address; /* of the first element, if it repeats; of what is not known only what is, added up */
    uint16_t bytes;   /* of one element; a mask may leave some out */
    bool is_load, is_store, is_known;
};
/* Where a step of this window reached. How many accesses; -1: the instruction does not say (gather, scatter, xsave and
 * their like). */
int trace_accesses(const struct trace_window *w, const struct trace_step *s, struct trace_access out[X86_ACCESSES_MAX]);

struct trace_branch { /* an instruction whose way on a processor has to guess: all but direct jumps */
    uint8_t kind;     /* enum x86_kind */
    uint64_t number;  /* of the instruction */
    uint64_t address, fallthrough, target; /* fallthrough: of the next one in memory; target: where it went */
};
bool trace_is_branch(const struct trace_insn *i);
/* The next one; many times as fast as to look at all instructions, of which a stream must not be asked as well. false:
 * no more, or it is not known where it went. */
bool trace_next_branch(struct trace_stream *s, struct trace_branch *out);

/* ---- steps.c: windows taken step by step ---- */

struct wire_windows;
/* Window `window` of the file; what it is made of comes to lie in `a`, and nothing of the file is needed any more.
 * Trusts no word: it ends before the first that is broken. false: nothing of it is whole. */
bool trace_steps(const struct wire_windows *w, uint32_t window, struct arena *a, struct trace_window *out);
/* Fills in the places of its instructions. */
void trace_place_steps(const struct trace_window *w, trace_place_of place, void *ctx);

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
struct trace_block {
    uint64_t address;
    uint32_t insn_count, log_count, references; /* references: accesses of all its instructions */
    struct trace_insn *insns;
    const struct trace_log *logs;
    const struct trace_insn
        *branch; /* the last instruction, if it is one whose way on a processor has to guess; else NULL */
    uint64_t branch_at, fallthrough; /* addresses of that and of what follows it in memory */
    uint8_t branch_kind;             /* enum x86_kind */
};
uint32_t trace_block_count(const struct trace *t);
const struct trace_block *trace_block(const struct trace *t, uint32_t block);
/* Fills in the places of all instructions. */
void trace_place_blocks(struct trace *t, trace_place_of place, void *ctx);

/* ---- records.c: windows recorded by translated code ---- */

/* Of the whole records, without the last one if it is torn, up to the one with which they have `references` (0: all of
 * them), or TRACE_INSTRUCTIONS_MAX times as many instructions: some programs hardly reach for memory. Borrows them.
 * What it reaches by fs and gs is right once the caller has filled these in. */
enum { TRACE_INSTRUCTIONS_MAX = 6 };
struct trace_window trace_records(struct trace *t, const void *records, size_t bytes, bool is_torn,
                                  uint64_t references);
void trace_keep_records(struct trace_window *w, struct arena *a); /* copies them */

/* ---- compare.c ---- */

struct trace_difference {
    const char *what;                          /* NULL: they are the same as far as both go */
    uint64_t at, address, by_step, by_burst;   /* number and address of the instruction where they differ, and how */
    uint64_t instructions, addresses, unknown; /* compared; addresses that the burst does not tell */
    uint64_t left;                             /* steps beyond the end of the burst */
};
/* A window recorded by translated code against one that was taken step by step and begins at the same instruction. */
void trace_compare(const struct trace_window *burst, const struct trace_window *steps, struct trace_difference *d);

#endif
