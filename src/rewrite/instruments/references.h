/* SPDX-License-Identifier: Apache-2.0
 *
 * What references.c, which finds them, and reference_code.c, which writes the code of their sites, share. */
#ifndef MTOOL_REWRITE_INSTRUMENTS_REFERENCES_H
#define MTOOL_REWRITE_INSTRUMENTS_REFERENCES_H

#include "rewrite/impl.h"

enum { /* of a fragment: how */
       RW_REFERENCE_SLOTS = 7,
       RW_REFERENCE_NOTE = 8,  /* keeps a register for what stands behind the instruction; moves no stack pointer */
       RW_REFERENCE_CALL = 16, /* calls the runtime; the slots are the bytes that store a vector */
       RW_REFERENCE_WATCH = 32,
       RW_REFERENCE_RANGE = 64,
       RW_REFERENCE_COLD = 128,
       RW_REFERENCE_CHECK = RW_REFERENCE_WATCH | RW_REFERENCE_COLD, /* of a block: to its second copy */
       /* Of a site that stands behind the function: what asks in front of its instruction; and the way back */
       RW_REFERENCE_ASK = RW_REFERENCE_NOTE | RW_REFERENCE_COLD,
       RW_REFERENCE_BACK = RW_REFERENCE_CALL | RW_REFERENCE_COLD
};

struct rw_site { /* an access of an instruction; its number is its place among all of the module */
    uint64_t addr;
    struct x86_access access;
    uint16_t flags; /* enum rewrite_site_flag */
};
/* Its address hangs on no register. */
static inline bool rw_is_number(const struct x86_access *a)
{
    return a->base == X86_REG_NONE && a->index == X86_REG_NONE && a->segment == X86_SEGMENT_NONE;
}

enum { RW_REFERENCE_ACCESSES_MAX = 8 };
struct rw_reference {        /* an instruction whose accesses are told, and those behind it that are told with them */
    uint64_t addr;           /* in the original */
    uint32_t insn, first;    /* first: of its sites */
    uint32_t hot, cold;      /* describe: offsets in its function's copy of what stands before it, and far behind */
    uint32_t ask;            /* likewise of RW_REFERENCE_ASK, where `hot` stands behind too */
    uint8_t count;           /* of sites */
    uint8_t told;            /* with samples: of its block's first: references of the block, at most 127; else 0 */
    uint32_t block, counter; /* of such: how often the block was executed in samples */
    uint8_t entry, address;  /* registers */
    uint8_t saved[2], saves; /* those of the two that are alive, and how many */
    bool is_late;            /* with sets: `entry` is alive, which the cold part alone needs, and saves */
    bool saves_flags;        /* they are alive */
    bool is_range;           /* a string instruction that repeats */
    bool is_untold;          /* only that it was executed; count 0 */
    bool is_rip;             /* its first access is relative to its own address */
    bool is_behind;          /* what it reaches is known when it is done */
    bool is_second;          /* it stands in its block's second copy only, and does not ask */
    bool is_near;            /* several accesses by the same registers, within the length of a line */
    uint8_t call; /* its operands do not say where it reaches, the runtime does: how its fragment is; else 0 */
};
struct rw_watch_point { /* in front of an instruction */
    uint32_t insn;
    uint32_t what; /* number of a watched function, and WIRE_CALL_*; RW_WATCH_RETURN: it returns there; WIRE_CALL_NAMES:
                      number of a naming of the file */
};
#define RW_WATCH_RETURN 0x80000000u
struct rw_watch {
    VEC(struct rw_watch_point) points; /* by instruction */
    VEC(struct rw_site) sites;         /* the functions that are watched, as sites of no reference */
};
struct rw_references {
    struct rw_reference *data;
    struct rw_site *sites;
    uint32_t count, site_count;
    uint32_t *of_insn; /* ID_NONE: none */
    struct rw_watch watch;
};

/* reference_code.c: what stands in front of the instruction, and behind the function for a chunk that is full. A byte
 * says what unwinders must know. */
/* In the copy, by the offset in that of its function. */
uint64_t rw_reference_address(const struct rw *w, const struct rw_reference *r, uint32_t off);
uint8_t rw_reference_how(const struct rw_reference *r, bool is_cold);
unsigned rw_reference_bytes(const struct rw *w, const struct rw_reference *r, bool is_cold);
void rw_put_reference(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr);
void rw_reference_frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out);
/* With samples: a site that asks, and needs no flags for it: that takes two instructions in line. */
bool rw_reference_is_far(const struct rw *w, const struct rw_reference *r);

/* With samples: where the second copy is left alone as long as none is taken. Flags must be dead there. */
enum { RW_CHECK_BYTES = 16 };
void rw_put_check(const struct rw *w, uint8_t *at, uint64_t addr, uint64_t to);
enum { RW_BACK_BYTES = 5 };

/* reference_versions.c */
void rw_versions(struct rw *w);

/* reference_calls.c: of instructions whose operands do not say where they reach. False: of this one nobody can. */
bool rw_call_can_tell(const struct x86_detail *d);
bool rw_call_is_behind(const struct x86_detail *d);
enum { RW_CALL_SITES_MAX = 2 };
unsigned rw_call_sites(const struct x86_detail *d, struct rw_site out[RW_CALL_SITES_MAX]); /* how many */
uint8_t rw_call_how(const struct x86_detail *d);
/* With how RW_REFERENCE_CALL, in front of it or behind; with RW_REFERENCE_NOTE what stands in front, if not that. */
unsigned rw_call_bytes(const struct rw *w, const struct rw_reference *r, uint8_t how);
void rw_put_call_site(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr);
void rw_call_frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out);

/* watch.c: entrances and returns of the functions whose names the options list. */
void rw_watch_find(struct rw *w, struct rw_watch *out);
void rw_watch_fini(struct rw_watch *watch);
/* The first instruction from `insn` on that has one in front; ID_NONE if none has. */
uint32_t rw_watch_next(const struct rw_watch *watch, uint32_t insn);
void rw_watch_insert(const struct rw_watch *watch, uint32_t insn, struct rw_fragments *out);
void rw_put_watch(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr);
void rw_watch_frames(const struct rw_fragment *f, struct rw_frames *out);

#endif
