/* SPDX-License-Identifier: Apache-2.0
 * The shared memory that all processes of a job write into (wire/trace.h): whoever reads it makes it. */
#ifndef MTOOL_LD_TRACE_BUFFER_H
#define MTOOL_LD_TRACE_BUFFER_H

#include "base/base.h"
#include "wire/trace.h"

struct ld_trace_buffer {
    int fd;
    uint8_t *base;
    volatile struct wire_trace *head;
    uint32_t handed_out; /* chunks, of WIRE_TRACE_CHUNKS_MAX that there could be */
    const char *path;
};

/* 0, or the number of the error; closed in either case. */
int ld_trace_buffer_open(struct ld_trace_buffer *b, struct arena *arena);
void ld_trace_buffer_close(struct ld_trace_buffer *b);

struct wire_trace_module *ld_trace_buffer_module(const struct ld_trace_buffer *b, uint32_t number);
struct wire_trace_chunk *ld_trace_buffer_chunk(const struct ld_trace_buffer *b, uint32_t chunk);
/* Of all that counted what they left out. */
uint32_t ld_trace_buffer_counted(const struct ld_trace_buffer *b);
const volatile uint64_t *ld_trace_buffer_counts(const struct ld_trace_buffer *b, uint32_t number);
volatile uint64_t *ld_trace_buffer_words(const struct ld_trace_buffer *b, uint32_t chunk);
/* A chunk that was read is empty, and may be written again. */
void ld_trace_buffer_give_back(struct ld_trace_buffer *b, uint32_t chunk);
/* Threads wait for room while all that is there was read: each may keep what it has. */
void ld_trace_buffer_grow(struct ld_trace_buffer *b);
/* Nobody reads any more: whoever waits for room goes on without. */
void ld_trace_buffer_end(struct ld_trace_buffer *b);

#endif
