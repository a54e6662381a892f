/* SPDX-License-Identifier: Apache-2.0
 *
 * wire/bursts.h: the burst file, long windows of the instruction stream at near native speed. As with the window file
 * (wire.h) a timer forks snapshots off the program; but a snapshot executes translated code: blocks of the program's
 * own instructions that also note which block it is, and the values of registers that its addresses are made of. The
 * host translates, one block or a few at a time, whenever a snapshot comes to code that has no translation yet; what
 * one snapshot needed all later ones use. The program does not wait for snapshots. One at a time works.
 *
 * The file, mapped whole at one address by the program, and so by all snapshots:
 *
 *   0             struct wire_bursts
 *   pages_at      WIRE_PAGE_BYTES each: code of the program that was translated, copied by snapshots
 *   code_at       translated code; a snapshot may execute but not write it, the host writes it while the snapshot waits
 *   tables_at     where translations are, for jumps whose target is only known when they are made (see struct
 * wire_lookup) slots_at      slot_bytes each: the records of a window
 *
 * A record: the block's number (4 bytes), then values of 8 bytes each; how many the host knows. A snapshot ends where
 * its slot ends (the page behind is not accessible), at system calls and at whatever could lead out of translation, and
 * at faults.
 */
#ifndef MTOOL_WIRE_BURSTS_H
#define MTOOL_WIRE_BURSTS_H

#include <stdint.h>

#define WIRE_BURSTS_ENV "MTOOL_BURSTS"        /* value: absolute path of the burst file; taken from the environment */
#define WIRE_BURSTS_MAGIC 0x345352424c4f544du /* "MTOLBRS4" in memory order */
#define WIRE_PAGE_BYTES 4096u
#define WIRE_BURST_SLOTS 4

/* Known to translated code, which reaches it relative to its own address. */
struct wire_burst_state {
    uint64_t next;        /* address of the next record */
    uint64_t save[4];     /* registers that it needs for a moment */
    uint64_t target;      /* of an indirect jump, as the program has it */
    uint64_t translation; /* of that */
};

/* Two tables, the second for what collides in the first: the entry of address A is A mod 2^16, or A / 2^8 mod 2^16. */
#define WIRE_LOOKUPS 65536u
struct wire_lookup {
    uint64_t negated[WIRE_LOOKUPS]; /* 0 - address */
    uint64_t translation[WIRE_LOOKUPS];
};

/* Translated code hands over by a trap (int3), behind which this stands. */
enum wire_trap {
    WIRE_TRAP_DIRECT = 1, /* to the address in the 8 bytes behind, which has no translation */
    WIRE_TRAP_INDIRECT,   /* to wire_burst_state.target, which is in no table */
    WIRE_TRAP_END         /* the window ends: a system call, or what is not to be translated */
};

/* Who is to act; futex. */
enum wire_burst_turn { WIRE_BURST_SNAPSHOT, WIRE_BURST_HOST };
enum wire_burst_request {
    WIRE_BURST_BEGIN,     /* a snapshot is there; answered as the next */
    WIRE_BURST_TRANSLATE, /* `address` */
    WIRE_BURST_CHANGED,   /* a page of code is not what was translated: forget all of it */
    WIRE_BURST_PLACES,    /* where in the original are `place_count` places (struct wire_place) in the slot? */
    WIRE_BURST_ENDED      /* the window is whole; the snapshot is gone */
};
enum wire_burst_answer {
    WIRE_BURST_GO,   /* on at `translation` */
    WIRE_BURST_COPY, /* the page at `address` to place `page` first */
    WIRE_BURST_STOP  /* end the window */
};
enum wire_burst_end { WIRE_BURST_FULL, WIRE_BURST_CALL, WIRE_BURST_FAULT, WIRE_BURST_STOPPED, WIRE_BURST_LOST };

/* In a counted copy (the only run) the host says when a snapshot is due, by a signal that comes only while the program
 * executes its own code. The snapshot goes back to the original's code before anything is recorded: it maps the
 * original's text over that of the copy, and what it has of places in copies (program counter, return addresses)
 * becomes places in originals. */
enum wire_want { WIRE_WANT_NOTHING, WIRE_WANT_BURST, WIRE_WANT_BOTH /* and a window that is taken step by step */ };
#define WIRE_BURST_PIDS 4096u
struct wire_place {
    uint32_t module;    /* its place in the counter file's header */
    uint32_t is_return; /* a return address, else where the program stands, between two instructions of its own */
    uint64_t at;        /* from the image's first byte; the answer likewise, WIRE_NO_PLACE: there is none */
};
#define WIRE_NO_PLACE UINT64_MAX

/* The file of originals: its head, then pages of text. A word is a pointer that leads into the copy's text. */
#define WIRE_ORIGINALS_MAGIC 0x314749524f4f544du /* "MTOORIG1" in memory order */
struct wire_original {
    uint32_t module, is_word;
    uint64_t from;      /* from the image's first byte */
    uint64_t bytes, at; /* of text: whole pages; where in the file */
    uint64_t copy, was; /* of a word: where it leads in the copy, and in the original, from the image's first byte */
};
struct wire_originals {
    uint64_t magic, bytes; /* bytes: of the head */
    uint32_t count, pad;
    struct wire_original part[];
};

struct wire_bursts {
    uint64_t magic;
    uint64_t bytes; /* of the file */
    uint64_t pages_at, code_at, tables_at, slots_at;
    uint64_t code_bytes, slot_bytes;
    uint64_t interval_ns; /* mean processor time between snapshots */
    uint64_t seed;        /* of the intervals; not 0 */
    uint32_t page_max;
    uint32_t system_share; /* of the program's own system time beside its user time, in 1024ths; 0: not known */
    uint32_t window_max;   /* no window begins after so many */
    uint32_t by_process;   /* 1: processor time of all threads; 0: of the first */
    char steps_path[256];  /* a window file (wire.h), for windows that are taken step by step; empty: none */
    uint32_t steps_apart;  /* 0: those begin where bursts begin; else one in so many ticks is for them, or the next one
                              at which nothing is at work */
    uint32_t by_host;      /* 1: `wanted` tells what the next tick is for, there is no timer */
    char originals_path[256]; /* by_host: struct wire_originals */
    uint32_t nice;  /* by_host: by how much bursts beside the program are nicer, and what mtool does with them */
    uint32_t waits; /* by_host: 1: a snapshot sleeps until it is granted, mostly when the program has ended */
    /* by the program */
    int32_t program;   /* by_host: its pid */
    uint32_t given_up; /* by_host: 1: it wants the signal for itself */
    int32_t snapshot;  /* by_host: made at the last tick; -1 none, 0: not yet (the host puts that) */
    uint64_t fault_ns; /* by_host: what a page takes that is written for the first time since a snapshot */
    uint64_t spent_ns; /* by_host: processor time for making snapshots */
    uint64_t faults;   /* by_host: pages that it touched for the first time, or since a snapshot, so far */
    uint32_t started;  /* 1: the runtime has set its timer; 0: it could not */
    uint64_t base;     /* where it is mapped */
    uint32_t begun;    /* snapshots */
    uint32_t number;   /* of the one at work, from 1 */
    uint32_t skipped;  /* ticks at which the last snapshot was still busy, or no slot was free */
    uint32_t refused;  /* forks that failed */
    uint32_t busy;     /* a snapshot is at work, or its window not yet taken by the host, which clears this */
    int32_t thread;    /* that it was made in */
    uint64_t at_ns;    /* processor time of the process then */
    /* by the snapshot */
    int32_t pid;
    uint32_t request; /* enum wire_burst_request */
    uint64_t address;
    uint32_t is_indirect; /* the address came out of an indirect jump, which looks for it in the tables */
    uint64_t fs, gs;      /* bases */
    uint32_t closed;      /* by_host: 1: it has closed its files; futex */
    uint32_t place_count;
    int32_t checkpoint; /* by_host: made by this snapshot, waits to be granted its window; 0 none */
    uint32_t pid_count;
    int32_t pids[WIRE_BURST_PIDS]; /* by_host: of all snapshots so far, each once or twice */
    uint32_t end;                  /* enum wire_burst_end */
    /* by the host */
    uint32_t turn;   /* enum wire_burst_turn */
    uint32_t answer; /* enum wire_burst_answer */
    uint32_t page;
    uint64_t translation;
    uint32_t slot;       /* the next window's */
    uint32_t slot_used;  /* bytes that its records may take, a multiple of WIRE_PAGE_BYTES */
    uint32_t abandoned;  /* 1: a snapshot is to end, nobody waits any more */
    uint32_t page_count; /* pages copied */
    uint32_t untaken;    /* a bit for each slot whose window is not taken yet */
    int32_t host;        /* by_host: its pid; snapshots that wait end when it is not their parent any more */
    int32_t granted;     /* by_host: pid of the snapshot that may go on; futex */
    uint32_t wanted;     /* enum wire_want, with by_host; taken by the program, which puts WIRE_WANT_NOTHING */
    struct wire_burst_state state;
};

/* The head with the address of each copied page behind it, in whole pages. */
#define WIRE_BURST_ADDRESSES(b) ((uint64_t *)((b) + 1))

#endif
