/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share: one struct rel_object, filled from left to right by the passes in
 * relocatable.c's order. Each field says which pass fills it.
 *
 * Three kinds of addresses: an offset in a section of the object; an old address, which is where the section lies in
 * the synthetic image that the control flow is built of; a new address, where the emitter thinks that its code will be.
 */
#ifndef MTOOL_REWRITE_RELOCATABLE_RELOCATABLE_H
#define MTOOL_REWRITE_RELOCATABLE_RELOCATABLE_H

#include "dwarf/dwarf.h"
#include "rewrite/impl.h"

#include <elf.h>
#include <stddef.h>

struct rel_relas {
    Elf64_Rela *data;
    size_t len, cap;
};

struct rel_point { /* an instruction; offsets in its section */
    uint32_t old, len_old;
    uint32_t front; /* where what is inserted in front of it begins */
    uint32_t row;   /* where all ways to it have come together: not in front of what only some pass by */
    uint32_t at;    /* its copy */
    uint32_t len;
};

enum { REL_STEP = 16 };
struct rel_window { /* instructions that changed places among themselves; offsets in their section */
    uint32_t lo, hi;
    uint32_t first, count; /* into turns_* */
};

struct rel_section {
    const char *name;
    Elf64_Shdr h;
    const uint8_t *bytes; /* NULL: none in the file */
    Elf64_Rela *relas;    /* of it, by offset */
    size_t rela_count;
    uint32_t rela_section;           /* its relocations, 0 none */
    uint32_t group;                  /* the group that it is in, 0 none */
    bool is_code;                    /* not empty */
    bool is_moved;                   /* judge */
    uint64_t vaddr;                  /* synthetic: 0 none */
    uint32_t func_first, func_count; /* judge: of the cfg, if it is code */
    uint64_t vaddr_new, size_new;    /* layout */
    VEC(struct rel_point) points;    /* layout; by old */
    uint32_t *points_before;         /* layout: [old size / REL_STEP + 2] how many begin before that multiple */
    VEC(struct rel_window) windows;  /* order: ascending, as all that follows */
    VEC(uint32_t) turns_old;         /* order: where each instruction of a window stood, ... */
    VEC(uint32_t) turns_now;         /* ... and stands */
    VEC(struct dwarf_window) told;   /* order: the windows, for the mover of debug sections */
    bool has_new;                    /* these replace what was there */
    struct strbuf bytes_new;
    struct rel_relas relas_new;
};

/* What is linked in or left out together: the sections of one group, or all that are in none. */
struct rel_unit {
    uint32_t group; /* section, 0: none */
    uint32_t counter_count;
    uint32_t counters_symbol; /* of its section of counters: an index among all symbols of the result */
};

struct rel_ordered { /* a function whose blocks were looked at */
    uint32_t func;   /* of the cfg */
    uint32_t first, count;
};
struct rel_ordered_block {
    uint32_t offset; /* in its function */
    uint16_t insns;
    uint8_t depth;
    bool is_new;
    float cycles[2], stalls[2];
};

struct rel_lsda {     /* an exception table */
    uint64_t old, at; /* addresses: of the image; offset in its section's new bytes */
};

struct rel_object {
    const char *name;
    const uint8_t *bytes;
    size_t size;
    const struct rewrite_relocatable_options *opt;
    struct rewrite_relocatable_stats *stats;
    struct arena *arena;
    Elf64_Ehdr eh;
    struct rel_section *sections; /* read */
    uint32_t section_count;
    uint32_t symtab; /* section, 0 none */
    Elf64_Sym *syms;
    uint32_t sym_count, first_global;
    const char *strings;
    uint64_t strings_len;

    struct strbuf image;                 /* synthetic: an executable's bytes */
    uint64_t elsewhere_lo, elsewhere_hi; /* synthetic: addresses that stand for functions elsewhere, ... */
    uint64_t elsewhere_bytes;            /* ... so many for each symbol */
    const char **elsewhere;              /* synthetic: [sym_count] names of those that are not defined; NULL others */
    struct rw w;                         /* the rewriter's own passes work on it */
    struct rewrite_options rw_opt;
    struct rw_instrument instrument;
    struct rewrite_stats rw_stats;
    bool *is_relocated, *is_named;           /* judge: [cfg->insns.len] */
    uint8_t *displacements;                  /* judge: [cfg->insns.len] */
    bool has_hook[RW_LINK_COUNT];            /* code: it is called */
    uint32_t *section_of_func;               /* judge: [cfg->funcs.len] */
    struct map table_of;                     /* judge: old address of a relocated entry of a jump table -> table */
    VEC(struct rel_unit) units;              /* counters */
    uint32_t *unit_of_func, *counter_number; /* counters: [cfg->funcs.len]; [counters] within its unit */
    VEC(struct rel_lsda) lsdas;              /* frames: by old */
    VEC(struct rel_ordered) ordered;         /* order */
    VEC(struct rel_ordered_block) ordered_blocks;
};

/* ---- the record of what counters mean: see counters.c ---- */

#define REL_RECORD_MAGIC                                                                                               \
    {                                                                                                                  \
        'm', 't', 'o', 'o', 'l', 'r', 'e', 'l'                                                                         \
    }
enum { REL_RECORD_VERSION = 1, REL_RECORD_HEAD = 40 };
struct rel_record {
    char magic[8];
    uint32_t version, funcs;
    uint64_t bytes, map_bytes, counters;
};
struct rel_record_func {
    uint64_t addr;
    uint32_t first_block, end;
};
_Static_assert(sizeof(struct rel_record) == REL_RECORD_HEAD, "drawn in counters.c");

/* ---- relocations ---- */

enum rel_class {
    REL_NONE,
    REL_ABSOLUTE, /* the symbol's address plus the addend */
    REL_RELATIVE, /* less the place */
    REL_NAMED,    /* by the symbol as such: of a table that the linker makes, a thread's offset, a size */
    REL_UNKNOWN
};
enum rel_class rel_class_of(uint32_t type);
unsigned rel_width(uint32_t type); /* bytes that it changes */
static inline uint32_t rel_type(const Elf64_Rela *r) { return (uint32_t)ELF64_R_TYPE(r->r_info); }
static inline uint32_t rel_sym(const Elf64_Rela *r) { return (uint32_t)ELF64_R_SYM(r->r_info); }
/* The section of code that a symbol is defined in, or NULL. */
struct rel_section *rel_code_of_symbol(const struct rel_object *o, uint32_t sym);
/* By what the addend of a relocation relative to its place is less than the target's: of one in an instruction, the
 * bytes from the field to the instruction's end. -1: no instruction is known there. */
int rel_bias(const struct rel_object *o, const struct rel_section *s, const Elf64_Rela *r);

/* Of a function of the runtime: behind the object's own and the units', until write.c gives it its number. */
static inline uint32_t rel_hook_symbol(const struct rel_object *o, unsigned hook)
{
    return o->sym_count + (uint32_t)o->units.len + hook;
}

/* ---- the passes ---- */

int rel_read(struct rel_object *o);        /* read.c: 0, or -1 after one line */
void rel_synthesize(struct rel_object *o); /* synthetic.c: the image */
void rel_judge(struct rel_object *o);      /* judge.c: which sections are moved; units' borders in the cfg */
void rel_refuse(struct rel_object *o, struct rel_section *s, enum rewrite_relocatable_reason why, uint64_t at);
void rel_refuse_all(struct rel_object *o, enum rewrite_relocatable_reason why);
bool rel_is_compiled(const struct rel_object *o); /* judge.c: not by an assembler alone */
void rel_order(struct rel_object *o);             /* order.c: in place of all that follow but debug and write */
void rel_order_pack(const struct rel_object *o, struct strbuf *out, struct rel_relas *relas); /* order_record.c */
const struct dwarf_window *rel_window_behind(const struct rel_section *s,
                                             uint64_t off); /* ends behind off; NULL none */
/* Of a place in front of an instruction: the one with as many instructions of the window before it. */
uint64_t rel_slot(const struct rel_section *s, uint64_t off);
void rel_count(struct rel_object *o);  /* counters.c: units, and numbers of counters in them */
void rel_layout(struct rel_object *o); /* layout.c */
void rel_code(struct rel_object *o);   /* code.c: bytes and relocations of sections that are moved */
bool rel_frames(struct rel_object *o); /* frames.c: unwind and exception tables; false: not understood */
struct rel_mover {
    struct rel_object *o;
    struct rel_section *code; /* rel_moved_func: that of the function */
};
/* Of the function of an FDE what the emitter of tables wants; false: it is not known. Addresses for it. */
bool rel_moved_func(struct rel_mover *w, uint32_t fde, struct rw_frames *frames, struct image_moved_func *out);
uint64_t rel_moved_addr(void *ctx, uint32_t fde, uint64_t addr_old, bool is_landing_pad);
/* debug_frame.c: as an .eh_frame what .debug_frame says, if there is none; empty: nothing. `out` is made anew. */
void rel_frames_told(struct rel_object *o, struct strbuf *out);
void rel_debug_frames(struct rel_object *o); /* debug_frame.c */
/* Of a section with SHF_COMPRESSED the plain bytes, appended to `out`, which is empty. False: damaged, or not by zlib.
 */
bool rel_unpack(const uint8_t *bytes, uint64_t len, struct strbuf *out);
bool rel_is_debug(const struct rel_section *s);
void rel_debug(struct rel_object *o);                     /* debug.c: sections of debug information */
void rel_references(struct rel_object *o);                /* references.c: relocations of all others, symbols */
void rel_write(struct rel_object *o, struct strbuf *out); /* write.c */
void rel_map_pack(const struct rel_object *o, const struct rel_unit *u, struct strbuf *out, struct rel_relas *relas);

/* ---- from old places to new ones; offsets in a section that is moved ---- */

/* Where control is sent that was sent there from outside; a block's start, or behind a function. */
uint64_t rel_entrance(const struct rel_object *o, const struct rel_section *s, uint64_t off);
uint64_t rel_front(const struct rel_object *o, const struct rel_section *s, uint64_t off); /* begins of ranges */
uint64_t rel_row(const struct rel_object *o, const struct rel_section *s, uint64_t off);   /* an instruction */
uint64_t rel_end(const struct rel_object *o, const struct rel_section *s, uint64_t off);   /* ends of ranges */
const struct rel_point *rel_point_at(const struct rel_section *s, uint64_t off);           /* the one that holds off */
/* The addend that says `target` (an offset in the symbol's section) in the new section, by the same symbol. */
int64_t rel_addend(const struct rel_object *o, uint32_t sym, uint64_t target_new, int bias);
/* Of a place inside a function, that nobody enters by this symbol: whoever does has a relocation. */
static inline bool rel_is_label(const Elf64_Sym *sym)
{
    return ELF64_ST_BIND(sym->st_info) == STB_LOCAL && ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE;
}
uint64_t rel_symbol_new(const struct rel_object *o, uint32_t sym); /* its value */

#endif
