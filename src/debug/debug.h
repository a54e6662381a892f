/* SPDX-License-Identifier: Apache-2.0
 *
 * debug/debug.h: source places of addresses, for the passes of prof. Reads debug information in the file itself or in
 * the separate file that the system keeps for it; never asks the network.
 */
#ifndef MTOOL_DEBUG_DEBUG_H
#define MTOOL_DEBUG_DEBUG_H

#include "base/base.h"

#include <elfutils/libdw.h>

/* ---- debugfile.c ---- */

#define DEBUG_ROOT "/usr/lib/debug" /* where packages of debug information have theirs */

struct debug_file {
    int fd;
    Dwarf *dwarf;
};
/* Finds the debug information of PATH: in it, else by its build id under ROOT/.build-id, else by its debug link beside
 * it and under ROOT (ROOT is /usr/lib/debug). False if there is none. */
bool debug_file_open(const char *path, const char *root, struct debug_file *out);
void debug_file_close(struct debug_file *f);

/* ---- symbols.c ---- */

typedef void (*debug_symbol_fn)(void *ctx, uint64_t address, const char *name); /* the name is as long as the call */
/* Each function that the symbol table beside the debug information of PATH names (found as debug_file_open does). */
void debug_symbols_each(const char *path, const char *root, debug_symbol_fn take, void *ctx);

/* ---- lines.c ---- */

struct file_names { /* paths of sources, each once; shared by all modules, which must be closed after it is done with */
    struct arena *arena;     /* holds the texts; the caller's */
    VEC(const char *) texts; /* by id */
    struct map by_pointer, by_text;
};
uint32_t file_names_id(struct file_names *n, const char *text); /* NULL: ID_NONE. The text must stay where it is */
void file_names_fini(struct file_names *n);

struct lines; /* of one module; opaque */
struct lines *lines_open(const char *path, const char *root,
                         struct file_names *names); /* NULL: no DWARF. Borrows names */
void lines_close(struct lines *l);

struct line_row {    /* a stretch of code that came from one line */
    uint64_t lo, hi; /* lo is the address asked for */
    uint32_t file;   /* id of its name; ID_NONE unknown */
    uint32_t line;   /* 0 unknown */
};
/* The stretch that holds ADDR; of unknown code one byte. False if nothing is known of ADDR. */
bool lines_at(struct lines *l, uint64_t addr, struct line_row *out);
/* The name of a source file as the unit's tables have it, from the root where they say in which folder it was compiled.
 */
uint32_t lines_file_id(struct lines *l, uint32_t unit, const char *path);
/* The unit whose code holds ADDR: its die (of a split unit the one with the functions too). False if none. */
bool lines_unit_at(struct lines *l, uint64_t addr, uint32_t *unit, Dwarf_Die *line_die, Dwarf_Die *code_die);

bool lines_unit(struct lines *l, uint32_t unit, Dwarf_Die *code_die); /* by number from 0; false: there are no more */

/* ---- variables.c: variables with an address, and what they are made of ---- */

struct layout_part { /* a member of a structure, of one that lies in it "outer.inner" */
    const char *name;
    uint64_t offset, bytes;
};
struct layout {
    const char *name;                /* of the type: "struct patient[40]" */
    uint64_t bytes;                  /* 0 unknown */
    uint64_t element_bytes;          /* of an array one element, else all; 0 unknown */
    const struct layout_part *parts; /* of an element, by offset; of what is no structure none */
    size_t part_count;
};
struct variables;                                 /* opaque */
struct variables *variables_new(struct lines *l); /* of all units. Borrows l */
void variables_free(struct variables *v);         /* with all layouts */
/* Of the variable that begins there; of thread-local ones the address is the offset in the module's. False: none. */
bool variables_layout(struct variables *v, uint64_t addr, bool is_thread_local, struct layout *out);

/* ---- frame_variables.c: variables on the stack ---- */

enum frame_base { FRAME_BASE_CFA, FRAME_BASE_RBP, FRAME_BASE_RSP, FRAME_BASE_COUNT }; /* what DW_OP_fbreg counts from */
struct frame_variables;                                                               /* opaque */
struct frame_variables *frame_variables_new(struct lines *l); /* of all units. Its texts are l's */
void frame_variables_free(struct frame_variables *v);
/* The variable whose home holds a place in the frame of the function at `addr`, or NULL; *begin: bytes in front of the
 * place in it. The place is told from each base (offset[base]) whose bit is set in `known`. */
const char *frame_variable_at(const struct frame_variables *v, uint64_t addr, const int64_t offset[FRAME_BASE_COUNT],
                              unsigned known, uint64_t *begin);

/* ---- scopes.c: functions and what was inlined into them ---- */

struct scope {
    uint32_t parent;               /* ID_NONE: the function itself */
    const char *name;              /* linkage name if it has one; NULL unknown */
    uint32_t call_file, call_line; /* where it was inlined, in its parent; of the function itself where it is defined */
};
struct scopes { /* of one function; [0] is the function */
    struct scope *scopes;
    size_t count;
    struct scope_span { /* sorted by lo, without gaps from the first on; scope ID_NONE: outside the function */
        uint64_t lo;
        uint32_t scope;
    } * spans;
    size_t span_count;
};
struct scope_cache; /* opaque */
struct scope_cache *scope_cache_new(struct lines *l);
void scope_cache_free(struct scope_cache *c);
const struct scopes *scopes_of(struct scope_cache *c,
                               uint64_t addr);            /* of the function that holds ADDR; NULL unknown */
uint32_t scope_at(const struct scopes *s, uint64_t addr); /* innermost; ID_NONE outside */

#endif
