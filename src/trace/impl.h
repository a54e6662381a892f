/* SPDX-License-Identifier: Apache-2.0
 *
 * trace/impl.h: a block between its planning (block.c) and its translation (emit.c).
 */
#ifndef MTOOL_TRACE_IMPL_H
#define MTOOL_TRACE_IMPL_H

#include "trace/trace.h"

enum { PLAN_INSNS_MOST = 48, PLAN_LOGS_MOST = 32, EMIT_BYTES_MOST = 8192 };

struct plan { /* a block, decoded */
    uint64_t address, end; /* end: behind its last instruction */
    struct x86_insn x[PLAN_INSNS_MOST];
    struct trace_insn insn[PLAN_INSNS_MOST];
    struct x86_access access[PLAN_INSNS_MOST][X86_ACCESSES_MOST];
    uint32_t count;
    struct trace_log log[PLAN_LOGS_MOST]; /* by `before` */
    uint32_t logs;
    bool ends_window; /* what follows is not translated */
};

/* Code bytes from an address on, up to X86_MORE_BYTES, and how many there are. 0: none are known; *missing is then a page. */
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
    uint8_t *bytes;      /* to write to */
    uint32_t len;
    uint64_t address;    /* in the program */
    uint64_t state, tables; /* addresses in the program: struct wire_burst_state, the two struct wire_lookup */
    struct exit exit[2]; /* `at` from bytes */
    uint32_t exits;
};
/* Writes at most EMIT_BYTES_MOST bytes. false: it cannot be translated. */
bool emit_block(const struct plan *p, uint32_t number, struct emitted *out);

#endif
