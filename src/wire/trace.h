/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs linked with `mtool ld --tool trace` write, and `mtool ld-trace` reads at the same time: one file that
 * all processes of a job have as shared memory, whose path is in WIRE_TRACE_ENV.
 *
 *   0                        struct wire_trace: a page, which linked files have in the place of the last page of their
 *                            section mtool_counters too
 *   WIRE_TRACE_MODULES_AT    struct wire_trace_module [WIRE_TRACE_MODULES]
 *   WIRE_TRACE_COUNTS_AT     u64 [WIRE_TRACE_COUNTED][WIRE_TRACE_COUNTS]: what threads left out, in a linked file
 *   WIRE_TRACE_KEPT_AT       struct wire_trace_kept [WIRE_TRACE_COUNTED], WIRE_TRACE_KEPT bytes each: of the same
 *   WIRE_TRACE_CHUNKS_AT     chunks of WIRE_TRACE_CHUNK bytes, each of one thread: struct wire_trace_chunk, words
 *
 * Words are u64. A block that begins is two or more: the address of its copy, plus the number of its part, and what
 * registers held there (rewrite_trace_plan says which). What is known only later is two words: WIRE_TRACE_LATE plus its
 * number, and the value. The first of such words is written last; until then it is zero.
 *
 * Whose turn it is: `turn` is the number of the last segment that was begun. A thread that finds another number there
 * than its own begins a new one, in front of its block: WIRE_TRACE_SEGMENT, and the number. So all that one thread does
 * before what another one does, by whatever synchronises them, is in a segment of a lower number, or in front of it in
 * the same. A block counts as done where it begins; behind system calls and locked instructions another part begins.
 *
 * WIRE_TRACE_END: the thread goes on in another chunk. A handler of a signal may come between any two words.
 *
 * Where simulated caches are all that reads, `filter_slots` is how many low bits of a line's number all lines of a set
 * of the nearest one have in common, as a number of places. A thread keeps the last line of each place that it touched
 * since its segment began, and that line again if it wrote to it; a part all of whose lines are these is not written,
 * but counted: it would change nothing. Parts are counted by how many instructions, loads, stores and modifications
 * they have, WIRE_TRACE_LEFT_OUT; of one that has more than fit there, what is more is counted with 0 instructions.
 *
 * `filter_lines` of each place a set keeps whatever comes, in their order. So a thread keeps as many
 * (struct wire_trace_kept): a part to whose lines nothing happens but that their order changes is left out too. The
 * lines whose order changed are told in front of the next part that is written and touches their place:
 * WIRE_TRACE_USED plus how many, whose they are, and these, the last one at the end. `keeper` is who may have such to
 * tell; who begins a segment tells them in its place, and then keeps lines anew.
 */
#ifndef MTOOL_WIRE_TRACE_H
#define MTOOL_WIRE_TRACE_H

#include <stdint.h>

#define WIRE_TRACE_ENV "MTOOL_LD_TRACE"
#define WIRE_TRACE_MAGIC "mtooltrc"
enum { WIRE_TRACE_VERSION = 5 };

#define WIRE_TRACE_PAGE 4096u
#define WIRE_TRACE_MODULES 4096u
#define WIRE_TRACE_CHUNK 65536u
#define WIRE_TRACE_SPARE 8192u /* of a chunk: its limit is so far in front of its end */
#define WIRE_TRACE_CHUNKS_MAX 4096u
#define WIRE_TRACE_MODULES_AT 65536u
#define WIRE_TRACE_COUNTED 4096u
#define WIRE_TRACE_COUNTS 2048u
#define WIRE_TRACE_COUNTS_AT (WIRE_TRACE_MODULES_AT + WIRE_TRACE_MODULES * 512u)
#define WIRE_TRACE_KEPT_AT (WIRE_TRACE_COUNTS_AT + WIRE_TRACE_COUNTED * WIRE_TRACE_COUNTS * 8u)
#define WIRE_TRACE_KEPT 12352u
#define WIRE_TRACE_CHUNKS_AT (WIRE_TRACE_KEPT_AT + WIRE_TRACE_COUNTED * WIRE_TRACE_KEPT)
#define WIRE_TRACE_BYTES(chunks) (WIRE_TRACE_CHUNKS_AT + (uint64_t)(chunks)*WIRE_TRACE_CHUNK)

#define WIRE_TRACE_LATE 0xffffffff80000000u    /* plus the number; then the value */
#define WIRE_TRACE_USED 0xffffffffa0000000u    /* plus how many; then whose; then these lines */
#define WIRE_TRACE_SEGMENT 0xffffffffc0000000u /* then its number */
#define WIRE_TRACE_END 0xffffffffc0000001u
enum { WIRE_TRACE_LATE_MAX = 4096 };

/* ---- the filter ---- */

enum { WIRE_TRACE_LINE_SHIFT = 6, WIRE_TRACE_SLOTS = 64 };
enum { WIRE_TRACE_FETCHES_MAX = 63, WIRE_TRACE_LOADS_MAX = 3, WIRE_TRACE_STORES_MAX = 3, WIRE_TRACE_MODIFIES_MAX = 1 };
#define WIRE_TRACE_LEFT_OUT(fetches, loads, stores, modifies)                                                          \
    ((fetches) | (loads) << 6 | (stores) << 8 | (modifies) << 10)

struct wire_trace_slot { /* addresses of lines; all ones: none */
    uint64_t touched, written;
};
enum { WIRE_TRACE_SLOT_SHIFT = 4 };
_Static_assert(sizeof(struct wire_trace_slot) == 1 << WIRE_TRACE_SLOT_SHIFT, "as inserted code has it");

enum { WIRE_TRACE_LINES = 8 };
struct wire_trace_place {
    uint64_t lines[WIRE_TRACE_LINES];  /* their addresses; all ones: none */
    uint64_t stamps[WIRE_TRACE_LINES]; /* when each was touched last, by the clock; of what is never used all ones */
    uint64_t told;                     /* later ones are not told yet */
    uint64_t generation;
    uint64_t written; /* which of them were written to, as bits */
    uint64_t spare[5];
};
struct wire_trace_kept {
    uint64_t generation; /* places of another one have no lines */
    uint64_t moved;      /* places of which not all may be told, as bits */
    uint64_t clock;      /* grows with each line that was not the last one of its place */
    uint64_t whose;      /* linked file and thread: its module << 32 | thread */
    uint64_t spare[4];
    struct wire_trace_place places[WIRE_TRACE_SLOTS];
};
_Static_assert(sizeof(struct wire_trace_place) == 192, "three lines");
_Static_assert(sizeof(struct wire_trace_kept) == WIRE_TRACE_KEPT, "as WIRE_TRACE_CHUNKS_AT has it");

/* What inserted code knows of a thread's state, from its begin. */
enum {
    WIRE_TRACE_STATE_MINE = 0, /* the number of its segment; 0 where it must begin another one */
    WIRE_TRACE_STATE_PUT = 8,
    WIRE_TRACE_STATE_LIMIT = 16,
    WIRE_TRACE_STATE_COUNTS = 24, /* its counts; 0: all is written */
    WIRE_TRACE_STATE_MASK = 32,   /* filter_slots less 1, times the bytes of a slot */
    WIRE_TRACE_STATE_SLOTS = 64   /* struct wire_trace_slot [WIRE_TRACE_SLOTS] */
};

struct wire_trace {
    uint64_t turn; /* 0: nobody traces */
    char magic[8];
    uint32_t version, chunks;
    uint32_t ends;                                 /* 1: nobody reads any more */
    uint32_t filter_slots;                         /* 0: nothing is left out; else a power of two */
    uint32_t modules __attribute__((aligned(64))); /* so many have been asked for; grows */
    uint32_t counted;                              /* so many counts have been asked for; grows */
    uint32_t filter_lines;                         /* of a place, 1 to WIRE_TRACE_LINES */
    uint32_t keeper;                               /* number of its counts, and 1; 0: nobody */
    uint64_t lost;                                 /* blocks that found no place */
    /* Chunks that are free: numbers free[taken % WIRE_TRACE_FREE] up to, not including, free[given % ...]. */
    uint64_t taken __attribute__((aligned(64)));
    uint64_t given __attribute__((aligned(64)));
    uint32_t gives; /* grows with `given`; futex */
    uint32_t waits; /* threads that wait for it */
};
_Static_assert(sizeof(struct wire_trace) <= WIRE_TRACE_PAGE, "it is a page");
#define WIRE_TRACE_FREE_AT 4096u /* u32 free[WIRE_TRACE_CHUNKS_MAX] */

struct wire_trace_module { /* a linked file in a process */
    uint32_t process;
    uint32_t state; /* 1: all else is there */
    uint64_t note;  /* where it has its section mtool_link */
    char path[496];
};
_Static_assert(sizeof(struct wire_trace_module) == 512, "as WIRE_TRACE_CHUNKS_AT has it");

struct wire_trace_chunk {
    uint64_t segment; /* its first one's number; 0: free */
    uint32_t module, thread;
    uint64_t fs; /* base of the thread's thread-local memory */
    uint64_t spare[5];
};
_Static_assert(sizeof(struct wire_trace_chunk) == 64, "words behind it are aligned");

#endif
