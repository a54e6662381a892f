/* SPDX-License-Identifier: Apache-2.0
 * What the files of this folder share: the sections while they are moved. */
#ifndef MTOOL_DWARF_IMPL_H
#define MTOOL_DWARF_IMPL_H

#include "dwarf/dwarf.h"

struct place {        /* old: of code, or in a debug section */
    uint32_t section; /* 0: nowhere here */
    uint64_t offset;
};
struct shift { /* what stands from `old` on stands from `now` on */
    uint64_t old, now;
};
struct list { /* of ranges or locations, as an entry of .debug_info names it */
    uint64_t offset;
    struct place base; /* of offsets in it; section 0: it names its own */
    struct section *of_addresses;
    uint64_t addresses_at; /* the unit's part of .debug_addr */
    bool is_moved;
};
enum { RELOC_STEP = 32 };
enum reloc_end {              /* what the place is that a relocation names */
                 RANGE_BEGIN, /* or anything else */
                 RANGE_END,
                 HELD_FROM, /* of a location: see move_held */
                 HELD_TO
};
struct section {
    struct dwarf_section *s;
    uint8_t *how;            /* [relocs]: enum reloc_end */
    uint32_t *relocs_before; /* [bytes / RELOC_STEP + 2] how many are before that multiple */
    VEC(struct list) lists;
    bool is_anew; /* made anew in `out`; else changed in its place */
    struct strbuf out;
    VEC(struct dwarf_reloc) relocs_out;
    VEC(struct shift) shifts; /* by `old`; before the first nothing moved */
};
struct moving { /* each section's mover has its own */
    const struct dwarf_moves *moves;
    struct section *sections;
    size_t count;
    struct section **by_index; /* [index_count] NULL: no debug section */
    uint32_t index_count;
    const char *why; /* the first that cannot be moved */
};

/* Says why it cannot be; always false. */
static inline bool refuse(struct moving *m, const char *why)
{
    m->why = m->why ? m->why : why;
    return false;
}

/* ---- sections.c ---- */

struct section *find_section(struct moving *m, const char *name); /* NULL: there is none */
struct section *section_at(struct moving *m, uint32_t index);     /* NULL: no debug section */
struct cursor section_cursor(const struct section *s, uint64_t from, uint64_t end);
uint64_t section_offset(const struct cursor *c); /* where it stands */

size_t reloc_index(const struct section *s, uint64_t offset);                 /* of the first at or behind it */
const struct dwarf_reloc *reloc_at(const struct section *s, uint64_t offset); /* NULL: none */
struct place reloc_place(struct moving *m, const struct dwarf_reloc *r);
/* What is said in `len` bytes at the cursor: a place, if it is relocated; else the number, in no section. */
struct place read_place(struct moving *m, const struct section *s, struct cursor *c, unsigned len);
/* The same for a place in .debug_addr. */
struct place read_indexed(struct moving *m, const struct section *addresses, uint64_t at, uint64_t index);

uint64_t move_at(struct moving *m, struct place p);
uint64_t move_row(struct moving *m, struct place p);
uint64_t move_end(struct moving *m, struct place p);
/* From `base`, after the move, to what ends `length` bytes behind it now. */
uint64_t move_length(struct moving *m, struct place base, uint64_t length);

void put_uint(struct strbuf *out, uint64_t v, unsigned len);
void set_uint(struct section *s, uint64_t offset, uint64_t v, unsigned len);       /* in place */
void note_shift(struct section *s, uint64_t old);                                  /* to where `out` ends */
void copy_bytes(struct moving *m, struct section *s, uint64_t from, uint64_t end); /* with its relocations */
void put_address(struct moving *m, struct section *s, const struct dwarf_reloc *r, enum reloc_end how); /* in 8 bytes */
/* The window that `p` is inside of, its ends apart; NULL: none. */
const struct dwarf_window *window_around(struct moving *m, struct place p);
/* Of a location that holds from `from` to `length` bytes behind it: moved, without what is inside of a window, where
 * nobody knows when a value comes and goes. Both alike: it holds nowhere. */
void move_held(struct moving *m, struct place from, uint64_t length, uint64_t *start, uint64_t *end);
uint64_t shifted(const struct section *s, uint64_t old);
void move_relocs_of(struct moving *m, struct section *s); /* when all sections are moved */

/* A length as units begin with: 4 bytes, or 12. *offset_len: of offsets in it. 0: bad, or reaches behind the cursor. */
uint64_t read_unit_length(struct cursor *c, unsigned *offset_len);
/* Makes all units anew, each by `move`: from where it begins to its end. */
typedef bool (*unit_mover)(struct moving *m, struct section *s, uint64_t begin, uint64_t end, unsigned offset_len);
bool move_units(struct moving *m, struct section *s, unit_mover move);
void set_unit_length(struct section *s, uint64_t unit_out, unsigned offset_len); /* of `out`, to its end */

/* ---- what a file is called for ---- */

/* split.c: before all others. NULL, or why it cannot be done; *is_split: that it was. */
const char *join_split(struct dwarf_section *sections, size_t count, bool *is_split);

bool move_info(struct moving *m, struct section *s);    /* lengths in place; finds all lists */
bool move_aranges(struct moving *m, struct section *s); /* in place */
bool move_pairs(struct moving *m, struct section *s);   /* .debug_ranges, .debug_loc: in place */
bool move_lists(struct moving *m, struct section *s);   /* .debug_rnglists, .debug_loclists: anew */
bool move_lines(struct moving *m, struct section *s);   /* .debug_line: anew */

/* ---- rows.c: lines of instructions that changed places ---- */

struct row {
    uint64_t offset; /* in the code's section */
    uint64_t file, line, column, isa, discriminator;
    bool is_stmt, is_block, ends_prologue, begins_epilogue;
};
struct rows {
    VEC(struct row) rows; /* of one sequence, in order */
    uint32_t section;
    uint64_t end; /* offset */
};
/* The rows with each where its instruction went. */
void reorder_rows(struct moving *m, struct rows *r);
/* The opcodes of these, up to the end of the sequence; not the end itself. first: what was set before. */
void put_rows(struct strbuf *out, const struct rows *r, const struct row *first);

#endif
