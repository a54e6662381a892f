/* SPDX-License-Identifier: Apache-2.0
 *
 * What an instrumentation is. The copy of a function is one list of fragments, made once (fragments.c): instructions of
 * the original, and between them what the instrumentation inserts. layout.c sizes the list, emit.c writes it, unwind.c
 * and map.c describe it; none of them knows what is inserted.
 *
 * To add one: a file of its own that ends in a struct rw_instrument, like counts.c or probes.c, and a line in
 * instruments.def.
 */
#ifndef MTOOL_REWRITE_INSTRUMENTS_INSTRUMENT_H
#define MTOOL_REWRITE_INSTRUMENTS_INSTRUMENT_H

#include "base/base.h"
#include "image/image.h"

struct rw;

/* ---- fragments ---- */

enum rw_fragment_kind {
    RW_INSNS,    /* instructions of the original from `id` on, changed only where they hold a distance */
    RW_BRANCH,   /* the direct branch at the end of block `id` */
    RW_SYSCALL,  /* the system call `id`, with a way to its hook */
    RW_INSERTED, /* the instrumentation's; `id` and `how` are its own business */
    RW_PADDING,  /* in front of block `id`, the head of an innermost loop */
    RW_STUB,     /* no bytes: a stub begins, where the frame is that of instruction `id` */
    RW_JUMP,     /* the end of a stub: to the body of block `id` */
    RW_FALL,     /* from a block into the next, block `id`, that stands in the other part of the function */
    RW_BACK,     /* the end of a second copy: to instruction `id` in the first, and what is inserted in front of it;
                    `how` 1: that has been done, to the instruction itself */
    RW_HOOK      /* of the system call `id` */
};
struct rw_fragment { /* small: there are millions */
    uint32_t off;    /* layout: from the start of the function's copy */
    uint32_t id;
    uint16_t bytes; /* of branches the least, which layout enlarges; of padding 0, which layout sizes */
    uint8_t kind;   /* enum rw_fragment_kind */
    uint8_t how;    /* RW_INSERTED: its own business too; else 1 in a second copy */
};
struct rw_fragments {
    struct rw_fragment *data;
    size_t len, cap;
};
static inline void rw_fragment_add(struct rw_fragments *list, struct rw_fragment f)
{
    if (list->len == list->cap)
        VEC_RESERVE(list, list->len + 1);
    list->data[list->len++] = f;
}

/* ---- where something may be inserted ---- */

enum rw_where {
    RW_ON_EDGE,     /* where control takes edge `at` */
    RW_ON_ENTRANCE, /* where it enters block `at` from outside: by a call, a return, the unwinder */
    RW_ON_GROUP,    /* where it takes group edge `at`: from a table that several jumps share */
    RW_BEFORE_LOOP, /* on every way into loop header `at` but the edge from itself */
    RW_BEHIND_LOOP, /* where it falls out of the end of such a block: in front of what is on that edge */
    RW_BEFORE_INSN, /* in front of `insn` of block `at` */
    RW_BEHIND_INSN, /* behind it, before control goes anywhere: of instructions that has_behind says */
    RW_IN_SECOND,   /* in front of `insn` in the second copy of block `at` */
    RW_BEHIND_CODE  /* what belongs to that, and is seldom executed: behind the function, and ends in a jump */
};
struct rw_point {
    enum rw_where where;
    uint32_t at, insn;
};

/* ---- frames ---- */

struct rw_frames { /* of a function's copy, in the order of addresses */
    struct image_state *data;
    size_t len, cap;
};
/* From off on the stack pointer is `pushed` bytes below where it was in front of what was inserted. */
void rw_frame(struct rw_frames *frames, uint32_t off, uint32_t pushed);

/* ---- operands ---- */

enum { RW_OPERANDS_MAX = 128 };
struct rw_operand {
    uint32_t insn; /* of the original, whose operand it is */
    unsigned end;  /* in the fragment: behind its last byte, where the inserted instruction ends */
    int64_t more;  /* than the displacement there */
};

/* ---- the instrumentation ---- */

enum rw_runtime { /* flags of the runtime's configuration, as in rt.h */
                  RW_RUNTIME_SAMPLER = 1,
                  RW_RUNTIME_STATIC = 2,
                  RW_RUNTIME_GS = 4,
                  RW_RUNTIME_PROBES = 8,
                  RW_RUNTIME_FAULTS = 16,
                  RW_RUNTIME_STREAM = 32,
                  RW_RUNTIME_LINES = 64,
                  RW_RUNTIME_PROBED = 128,
                  RW_RUNTIME_LAST_SHIFT = 8,
                  RW_RUNTIME_SHIFT_SHIFT = 16
};

/* All functions may be NULL: nothing. Those that take a const struct rw are called for several functions at once. */
struct rw_instrument {
    bool moves;       /* functions have copies; else all code stays where it is */
    bool has_runtime; /* the runtime begins before the program does */
    bool tails_enter; /* a jump to another function's entry passes what stands on its entrance */
    bool has_words;   /* and maps counter_count words: hooks tell it of new processes and threads */

    void (*plan)(struct rw *w);   /* what is inserted; sets counter_count */
    void (*place)(struct rw *w);  /* where in blocks, and in which form */
    void (*forget)(struct rw *w); /* frees what is not in the arena */

    /* The first of block's instructions from insn on that something is inserted in front of, or ID_NONE. */
    uint32_t (*next)(const struct rw *w, uint32_t block, uint32_t insn);
    bool (*has_behind)(const struct rw *w, uint32_t insn); /* of those that next gives; NULL: none */
    /* Adds what stands at a point: fragments RW_INSERTED, whose bytes are final. */
    void (*insert)(const struct rw *w, struct rw_point point, struct rw_fragments *out);
    void (*put)(const struct rw *w, const struct rw_fragment *f, uint8_t *to, uint64_t addr); /* writes it */
    void (*frames)(const struct rw *w, const struct rw_fragment *f,
                   struct rw_frames *out);         /* if it moves the stack pointer */
    void (*describe)(struct rw *w, uint32_t func); /* for the map, once offsets are known */
    /* Of relocatable objects: operands of the original's instructions, with a displacement that only the linker knows,
     * that are in what was inserted. Returns how many, by `end`. */
    unsigned (*operands)(const struct rw *w, const struct rw_fragment *f, struct rw_operand out[RW_OPERANDS_MAX]);

    uint32_t (*runtime)(const struct rw *w);                                              /* RW_RUNTIME_* */
    struct image_moved_func (*runtime_frames)(const struct rw *w, struct rw_frames *out); /* of code that it calls */
};

/* instruments.c: [enum rewrite_plan] */
extern const struct rw_instrument *const rw_instruments[];

#endif
