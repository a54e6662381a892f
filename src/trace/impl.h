/* SPDX-License-Identifier: Apache-2.0
 *
 * trace/impl.h: the readers of the two encodings (steps.c, records.c) behind the iterator (stream.c); what was
 * translated; a block between its planning (block.c) and its translation (emit.c).
 */
#ifndef MTOOL_TRACE_IMPL_H
#define MTOOL_TRACE_IMPL_H

#include "trace/trace.h"

/* ---- the readers: as the functions of trace.h whose names they have ---- */

enum { ALL_REGISTERS = 0xffff };
void steps_begin(struct trace_stream *s, uint64_t first);
bool steps_next(struct trace_stream *s, struct trace_step *out);
bool records_skip(struct trace_stream *s, uint64_t count); /* false: there are not so many */
bool records_next(struct trace_stream *s, struct trace_step *out);
bool records_next_branch(struct trace_stream *s, struct trace_branch *out);

/* ---- the translator ---- */

enum { TRACE_CHUNK = 4096, TRACE_CHUNKS_MAX = 4096 }; /* of blocks, which never move */

struct pending {       /* a jump that goes to a trap as long as its target has no translation */
    uint32_t at, next; /* distance's place in the code; next: place in the array plus 1, 0 none */
};

struct trace {
    struct trace_block *chunks[TRACE_CHUNKS_MAX];
    uint32_t block_count, insn_count; /* insn_count: in blocks */
    struct arena *arena;              /* of what is in blocks */
    /* of the translations there are now */
    struct map page_of;    /* address of a page -> place */
    struct map translated; /* address -> its translation's */
    struct map waiting;    /* address -> first pending jump plus 1 */
    VEC(struct pending) pending;
    uint64_t code_used;
    uint64_t copied;         /* address of the page that a snapshot was asked to copy last; 0 none */
    struct wire_bursts head; /* as the host wrote it, whatever stands in the file by now */
};

static inline uint32_t block_count(const struct trace *t) { return __atomic_load_n(&t->block_count, __ATOMIC_ACQUIRE); }
static inline struct trace_block *block_of(const struct trace *t, uint32_t block)
{
    return &t->chunks[block / TRACE_CHUNK][block % TRACE_CHUNK];
}

enum { PLAN_INSNS_MAX = 48, PLAN_LOGS_MAX = 32, EMIT_BYTES_MAX = 8192 };

struct plan {              /* a block, decoded */
    uint64_t address, end; /* end: behind its last instruction */
    struct trace_insn insn[PLAN_INSNS_MAX];
    struct x86_access access[PLAN_INSNS_MAX][X86_ACCESSES_MAX];
    uint32_t count;
    struct trace_log log[PLAN_LOGS_MAX]; /* by `before` */
    uint32_t logs;
    bool ends_window; /* what follows is not translated */
};

/* Code bytes from an address on, up to X86_MORE_BYTES, and how many there are. 0: none are known; *missing is then a
 * page. */
typedef size_t (*code_fetch)(void *ctx, uint64_t address, uint8_t bytes[X86_MORE_BYTES], uint64_t *missing);

/* block.c: false: a page is missing. */
bool plan_block(struct plan *p, uint64_t address, code_fetch fetch, void *ctx, uint64_t *missing);
void plan_shorten(struct plan *p, uint32_t count); /* to its first instructions; 0: the window ends here */

/* emit.c */
struct exit { /* a jump of 4 bytes' distance to a translation, or to a trap as long as there is none */
    uint64_t target;
    uint32_t at; /* of the distance, from the start of the code */
};
struct emitted {
    uint8_t *bytes; /* to write to */
    uint32_t len;
    uint64_t address;       /* in the program */
    uint64_t state, tables; /* addresses in the program: struct wire_burst_state, the two struct wire_lookup */
    struct exit exit[2];    /* `at` from bytes */
    uint32_t exits;
};
/* Writes at most EMIT_BYTES_MAX bytes. false: it cannot be translated. */
bool emit_block(const struct plan *p, uint32_t number, struct emitted *out);

#endif
