/* SPDX-License-Identifier: Apache-2.0
 * The words that a thread wrote (wire/trace.h), expanded to the references that they stand for. */
#ifndef MTOOL_LD_TRACE_EXPAND_H
#define MTOOL_LD_TRACE_EXPAND_H

#include "ld/trace/program.h"
#include "ld/trace/sim.h"
#include "ld/trace/trace.h"
#include "wire/trace.h"

enum {
    LD_TRACE_BATCH = 1 << 14,
    LD_TRACE_NESTED_MAX = 16,
    LD_TRACE_KNOWN = 1 << 13,
    LD_TRACE_CHUNK_WORDS = (WIRE_TRACE_CHUNK - sizeof(struct wire_trace_chunk)) / 8
};

struct ld_trace_module {              /* a linked file in a process */
    struct ld_trace_program *program; /* NULL: it cannot be read */
    uint64_t above;                   /* run-time addresses, over those in the file */
    struct ld_trace_part *const *parts;
    uint64_t lo, span; /* of parts, at run time */
    uint32_t process;
    /* Of its parts, those that came last, by their addresses' low bits: the table of all is as long as the code. */
    struct ld_trace_known {
        uint64_t key; /* where it is at run time, shifted by 8, and how many words its record has */
        struct ld_trace_part *part;
    } * known; /* [LD_TRACE_KNOWN] */
};
struct ld_trace_pending { /* a part that is under way */
    const struct ld_trace_part *part;
    uint32_t op;
    uint16_t late;
    uint64_t values[LD_TRACE_VALUES_MAX];
};
#define LD_TRACE_STREAM(module, thread) ((uint64_t)(module) << 32 | (thread)) /* as in struct wire_trace_kept */
struct ld_trace_stream {                                                      /* what a thread does in a linked file */
    struct ld_trace_thread who;
    const struct ld_trace_module *module;
    uint64_t values[LD_TRACE_VALUES_MAX];                /* those that all parts share; behind them those of one */
    struct ld_trace_pending nested[LD_TRACE_NESTED_MAX]; /* interrupted by handlers of signals, and the last one */
    unsigned depth;
};
struct ld_trace_expand {
    ld_trace_take_fn *take;
    void *ctx;
    struct ld_trace_sim *sim; /* in its place, or NULL */
    struct map *streams;      /* LD_TRACE_STREAM -> struct ld_trace_stream */
    struct cache_ref refs[LD_TRACE_BATCH];
    size_t ref_count;
    uint64_t undone[4]; /* by kind: of parts that were left */
    struct ld_trace_stats stats;
};

enum ld_trace_stop { LD_TRACE_OPEN, LD_TRACE_SEGMENT, LD_TRACE_END };

/* How far the words of a segment are there, from word `at` of a chunk on. */
uint32_t ld_trace_extent(const struct ld_trace_stream *s, const volatile uint64_t *words, uint32_t at);
/* Expands records from word *from up to `end`, not beyond the segment, and moves *from behind them. LD_TRACE_SEGMENT:
 * *segment is the next one's number. */
enum ld_trace_stop ld_trace_give(struct ld_trace_expand *x, struct ld_trace_stream *s, const volatile uint64_t *words,
                                 uint32_t *from, uint32_t end, uint64_t *segment);
/* Parts that are under way come to no end. */
void ld_trace_leave(struct ld_trace_expand *x, struct ld_trace_stream *s);

#endif
