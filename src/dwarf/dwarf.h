/* SPDX-License-Identifier: Apache-2.0
 *
 * dwarf: the debug sections of a relocatable object (DWARF 2 to 5) for code that moved: line tables, ranges, location
 * lists, lengths, and the relocations of all of them. Knows bytes and relocations, no file and no code.
 */
#ifndef MTOOL_DWARF_DWARF_H
#define MTOOL_DWARF_DWARF_H

#include "base/base.h"

struct dwarf_reloc { /* as Elf64_Rela has it, at most one for a place */
    uint64_t offset;
    int64_t addend;
    uint32_t symbol, type;
};
struct dwarf_section {
    uint32_t index; /* in the object's table of sections */
    const char *name;
    struct strbuf bytes; /* not compressed */
    VEC(struct dwarf_reloc) relocs;
};
struct dwarf_symbol {
    uint32_t section;          /* where it is defined; 0 nowhere here */
    uint64_t value, value_new; /* its offset there, before and after the move */
    bool is_section;           /* the section's own: it names offset 0 before and after */
};
/* Instructions of [lo, hi) that changed places among themselves. */
struct dwarf_window {
    uint64_t lo, hi;
    uint32_t count;
    const uint32_t *old, *now; /* [count]: where each stood, ascending, and stands, as offsets in the section */
};
/* Where code went. Of sections that did not move all are the offset itself; none may turn the order of two places of a
 * function round. Of code that was put in front of an instruction `at` says where it begins, and `row` from where on it
 * belongs to the instruction's line: what only some ways pass belongs to the line before. */
struct dwarf_moves {
    void *ctx;
    struct dwarf_symbol (*symbol)(void *ctx, uint32_t symbol);
    uint64_t (*at)(void *ctx, uint32_t section, uint64_t offset);  /* of a range that begins at offset */
    uint64_t (*row)(void *ctx, uint32_t section, uint64_t offset); /* of the instruction there, in a table of lines */
    uint64_t (*end)(void *ctx, uint32_t section, uint64_t offset); /* of a range that ends at offset, or a call */
    /* The first window that ends behind offset, NULL: there is none. May be NULL: no instructions changed places. Rows
     * of lines follow their instructions; a variable is where it is said to be only outside of windows. */
    const struct dwarf_window *(*window)(void *ctx, uint32_t section, uint64_t offset);
};

bool dwarf_is_debug(const char *section_name); /* one that dwarf_move wants to be given: not .debug_frame */

/* Changes bytes and relocations (then ordered by offset) of all debug sections of one object. NULL, or what cannot be
 * moved, and where ("…"): then the sections are in an undefined state. The text lives as long as the program.
 * *is_split: its entries are in another file (-gsplit-dwarf); what is left tells lines and ranges alone. */
const char *dwarf_move(struct dwarf_section *sections, size_t count, const struct dwarf_moves *moves, bool *is_split);

#endif
