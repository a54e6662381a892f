/* SPDX-License-Identifier: Apache-2.0
 * A linked file whose processes are traced: from the address of a block's part to what it fetches and reaches. */
#ifndef MTOOL_LD_TRACE_PROGRAM_H
#define MTOOL_LD_TRACE_PROGRAM_H

#include "cache/cache.h"
#include "rewrite/rewrite.h"

enum ld_trace_from { LD_TRACE_FROM_NUMBER, LD_TRACE_FROM_FILE, LD_TRACE_FROM_THREAD }; /* what `plus` is added to */
struct ld_trace_op {
    uint64_t plus;
    int16_t word; /* of the part, added too; NO_WORD: none */
    int16_t count_word, rest_word;
    int64_t count_plus;
    uint16_t bytes;
    uint8_t kind; /* enum cache_kind, or CACHE_MODIFY */
    uint8_t from;
    uint8_t late; /* so many late words must be there */
};
struct ld_trace_part {
    uint64_t at; /* in the linked file */
    const struct ld_trace_op *ops;
    uint32_t op_count;
    uint16_t entry_count, late_count;
};

struct ld_trace_program; /* opaque */
/* 0, or -1 after one line. */
int ld_trace_program_open(const char *path, struct ld_trace_program **out);
void ld_trace_program_close(struct ld_trace_program *p);
uint64_t ld_trace_program_note(const struct ld_trace_program *p); /* where its section mtool_link is in the file */
/* Of an address in the file; NULL: no part begins there, or its code cannot be read. */
const struct ld_trace_part *ld_trace_program_part(struct ld_trace_program *p, uint64_t at);
uint64_t
ld_trace_program_unread(const struct ld_trace_program *p); /* blocks asked for whose code is not what the map says */
uint64_t
ld_trace_program_untold(const struct ld_trace_program *p); /* instructions in those, whose references are not told */

#endif
