/* SPDX-License-Identifier: Apache-2.0
 * What the files of this folder share. */
#ifndef MTOOL_MONSTER_IMPL_H
#define MTOOL_MONSTER_IMPL_H

#include "monster/monster.h"
#include "result/result.h"

/* ---- text.c ---- */

extern const char *const monster_stall_labels[WIRE_STALL_COUNT];
const char *monster_grouped(struct arena *a, double x); /* "1,234"; "-" if it is not known */
const char *monster_fixed(struct arena *a, double x, int digits);

/* ---- profile.c ---- */

extern const char *const monster_stall_keys[WIRE_STALL_COUNT]; /* "read_instruction", ... in JSON and profiles */

/* ---- code.c ---- */

struct monster_loop { /* of user code, with a thousandth of all instructions or cycles */
    const struct monster_function *function;
    uint32_t around; /* the loop around it, its place among the loops and 1; 0: none. It comes before this one */
    struct prof_object object;                                 /* its place and names, entries and iterations */
    uint64_t self[WIRE_COLUMN_COUNT], incl[WIRE_COLUMN_COUNT]; /* without and with loops that are told of too */
};
struct monster_procedure { /* where a function of user code is in the source */
    const struct monster_function *function;
    struct prof_object object;
};
struct monster_line {
    const char *file;
    uint32_t line;
    uint64_t of[WIRE_COLUMN_COUNT];
};
struct monster_code_read {
    VEC(struct monster_loop) loops;
    VEC(struct monster_procedure) procedures;
    VEC(struct monster_line) lines;
};
/* Texts, and warnings of files that are not those that ran, are `to`'s. */
void monster_code_read(const struct monster_result *from, struct prof_result *to, struct monster_code_read *out);
void monster_code_free(struct monster_code_read *c);
void monster_columns_less(uint64_t *from, const uint64_t *of); /* down to 0 */

/* ---- entries.c ---- */

struct cfg;
/* Of a function's loops: out[loop] is how often it was entered; PROF_UNKNOWN. counts: by block of the cfg. */
void monster_entries(const struct cfg *c, const uint64_t *counts, uint32_t func, uint64_t *out);

/* ---- compiler.c ---- */

struct guest_tree;
/* Of each compiler in the tree: the programs that it starts, what it links with, the headers of sources in the tree,
 * by the options of `command` (ends in NULL) if that is one. 0, or -1 after one line. */
int monster_add_compilers(struct guest_tree *t, const char *const *command);

/* ---- programs.c ---- */

/* "; nearest: NAME" of those that `at` gives from 0 on, until it is NULL; "" if none is like `wanted`. */
const char *monster_like(struct arena *a, const char *wanted, const char *(*at)(size_t i));

/* Checks the programs of state machines and writes them below `folder`; a line for each to the plugin's settings. 0, or
 * -1 after one line. */
int monster_programs_write(const struct monster_options *o, const char *kernel_symbols, const char *modules,
                           const char *folder, struct strbuf *settings);

#endif
