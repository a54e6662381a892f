/* SPDX-License-Identifier: Apache-2.0
 * A linked file whose processes are traced: from the address of a block's part to what it fetches and reaches. */
#ifndef MTOOL_LD_TRACE_PROGRAM_H
#define MTOOL_LD_TRACE_PROGRAM_H

#include "cache/cache.h"
#include "rewrite/rewrite.h"

enum { LD_TRACE_PAGE_SHIFT = 12 };
/* What an operation's address is made of, by its number `value`, and `plus`: 0, by how much addresses are above those
 * in the file, the base of the thread's memory; then the part's words, those told later behind the others. */
enum { LD_TRACE_VALUE_NONE, LD_TRACE_VALUE_ABOVE, LD_TRACE_VALUE_THREAD, LD_TRACE_VALUE_WORDS };
enum { LD_TRACE_VALUES_MAX = LD_TRACE_VALUE_WORDS + 2 * REWRITE_TRACE_WORDS_MAX };

struct ld_trace_op {
    uint64_t plus;
    uint8_t value, value_more; /* value_more: of thread-local memory what is added too; else NONE */
    uint8_t kind;              /* enum cache_kind, or CACHE_MODIFY */
    uint8_t late;              /* so many late words must be there */
    uint16_t bytes;
    uint16_t repeat; /* of an instruction with elements: its number, and 1, in the part's repeats; 0 none */
};
enum ld_trace_elements {
    LD_TRACE_STRING,  /* one behind the other, `count` and `plus` times, less `rest` */
    LD_TRACE_INDEXED, /* each of the mask at its index times `scale` */
    LD_TRACE_EACH,    /* each of the mask in a row of all */
    LD_TRACE_SPAN,    /* from the first of the mask to the last, at once */
    LD_TRACE_PACKED,  /* so many as the mask has, at once */
    LD_TRACE_WHOLE,   /* all or none */
    LD_TRACE_BIT,     /* the word with the bit of that number */
    LD_TRACE_TABLE,   /* the byte of that number, of 8 bits */
    LD_TRACE_PIECES,  /* so many bytes, by LD_TRACE_PIECE */
};
enum { LD_TRACE_PIECE = 64 };
struct ld_trace_repeat {   /* an instruction; stands at its first operation */
    uint8_t elements;      /* enum ld_trace_elements; of others than strings: */
    uint8_t mask, indices; /* values: the mask, or a number; the first words of indices */
    uint8_t elements_max, index_bytes, scale;
    uint64_t fetch;      /* as lackey has it, it is fetched for each element, and once more where it has none left */
    int64_t plus;        /* of count; of the number */
    uint8_t count, rest; /* values; rest NONE: it does not end earlier */
    uint8_t fetch_bytes; /* 0: nobody asks for fetches */
    uint8_t ops;
};
struct ld_trace_part { /* first what each run looks at */
    uint64_t runs;     /* the reader's */
    struct ld_trace_op *ops;
    uint32_t op_count;
    uint16_t entry_count, late_count;
    bool is_plain; /* nothing repeats, nor is thread-local by a register */
    uint64_t at;   /* in the linked file */
    const struct ld_trace_repeat *repeats;
    uint64_t made[4]; /* operations that do not repeat, by kind; those that were left out, too */
};

/* Of the fetches those may be left out that nobody asks for: all, or but the first of each line of 1 << shift bytes
 * that they pass. */
enum ld_trace_fetches { LD_TRACE_FETCHES_ALL, LD_TRACE_FETCHES_NONE, LD_TRACE_FETCHES_LINES };

struct ld_trace_program; /* opaque */
/* 0, or -1 after one line. */
int ld_trace_program_open(const char *path, enum ld_trace_fetches fetches, unsigned shift,
                          struct ld_trace_program **out);
void ld_trace_program_close(struct ld_trace_program *p);
uint64_t ld_trace_program_note(const struct ld_trace_program *p); /* where its section mtool_link is in the file */
/* Of an address in the file; NULL: no part begins there, or its code cannot be read. */
struct ld_trace_part *ld_trace_program_part(struct ld_trace_program *p, uint64_t at);
bool ld_trace_program_has(const struct ld_trace_program *p,
                          uint64_t at); /* is it in a block, as far as the map says? */
/* Of those that were asked for, by address: [*span] from address *lo on; NULL: not yet asked for, or none. */
struct ld_trace_part *const *ld_trace_program_parts(const struct ld_trace_program *p, uint64_t *lo, uint64_t *span);
/* Adds all that were made, by kind: operations times runs; and runs. */
void ld_trace_program_count(const struct ld_trace_program *p, uint64_t made[4], uint64_t *runs);
uint64_t
ld_trace_program_unread(const struct ld_trace_program *p); /* blocks asked for whose code is not what the map says */
uint64_t
ld_trace_program_untold(const struct ld_trace_program *p); /* instructions in those, whose references are not told */

#endif
