/* SPDX-License-Identifier: Apache-2.0
 *
 * sched: a basic block and the description of a machine into a better order of its instructions (Wall, Link-time code
 * modification, 1989, section 4.2). Knows bytes and what is said of them here; no files and no control flow.
 */
#ifndef MTOOL_SCHED_H
#define MTOOL_SCHED_H

#include "base/base.h"
#include "machine/machine.h"

enum { SCHED_MAX = 64 }; /* instructions of a block */

/* What is known of the memory that an address without registers names. */
enum sched_memory {
    SCHED_ANY,
    SCHED_CONSTANT, /* nobody writes there while the program runs */
    SCHED_DATA,     /* it is at `offset` of `section`, and nothing else is */
};
struct sched_insn {
    const uint8_t *bytes;
    uint8_t len;
    uint8_t memory;    /* enum sched_memory, of its explicit operand */
    bool is_walled;    /* no instruction may pass the place in front of it, in either direction */
    bool is_relocated; /* its displacement is filled in later */
    uint32_t section;  /* DATA */
    int64_t offset;    /* DATA */
    uint64_t addr;     /* where it stands now */
};
struct sched_block {
    const struct sched_insn *insns;
    uint32_t count;        /* at most SCHED_MAX */
    uint8_t flags_live;    /* X86_CF..: those that are read behind it */
    bool stack_is_private; /* no address of its function's frame is ever held or handed on */
    bool rbp_is_frame;     /* rbp holds one all the time */
    bool is_seen;          /* others may see when it reaches memory: threads, handlers of signals, other processes */
    bool repeats;          /* control goes from its end to its beginning */
};

/* ---- depend.c ---- */

struct sched_graph {
    uint32_t count;
    uint64_t before[SCHED_MAX]; /* a bit for each instruction that must come before this one */
    uint64_t feeds[SCHED_MAX];  /* of these, those whose result it reads */
};
/* Which orders do the same as the one at hand: those in which all of `before` holds. Registers and flags end with the
 * same values. Memory ends the same too; where the block is seen by others, its accesses to what is not the frame's or
 * constant happen in the same order, and its divisions between the same stores. False: an instruction is unknown. */
bool sched_depend(const struct sched_block *b, struct sched_graph *out);

/* ---- sched.c ---- */

struct sched_cost {
    double cycles; /* of the block on the described machine: alone, or once round if it repeats */
    double stalls; /* of these those in which nothing could start */
};
struct sched_order {
    uint8_t at[SCHED_MAX]; /* at[n]: which instruction comes n-th */
    bool is_new;           /* it is another than the one at hand, and better */
    struct sched_cost before, after;
};
struct sched; /* opaque */
/* For one machine, which is borrowed. An out-of-order machine is scheduled for as if it issued in order; of what comes
 * out, its core model chooses. */
struct sched *sched_new(const struct machine *m);
void sched_free(struct sched *s);
/* The best order that was found, never one that is worse: in order, the block ends no later, and leaves no result and
 * no unit later than in the one at hand; out of order, many rounds of the block take fewer cycles. A block that is too
 * long, or not understood, keeps its order (and costs nothing). */
void sched_block(struct sched *s, const struct sched_block *b, struct sched_order *out);
/* What one order costs. */
struct sched_cost sched_cost_of(struct sched *s, const struct sched_block *b, const uint8_t at[SCHED_MAX]);

#endif
