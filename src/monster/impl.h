/* SPDX-License-Identifier: Apache-2.0
 * What the files of this folder share. */
#ifndef MTOOL_MONSTER_IMPL_H
#define MTOOL_MONSTER_IMPL_H

#include "monster/monster.h"

/* ---- text.c ---- */

extern const char *const monster_stall_labels[WIRE_STALL_COUNT];
const char *monster_grouped(struct arena *a, double x); /* "1,234"; "-" if it is not known */
const char *monster_fixed(struct arena *a, double x, int digits);

/* ---- profile.c ---- */

extern const char *const monster_stall_keys[WIRE_STALL_COUNT]; /* "read_instruction", ... in JSON and profiles */

/* ---- programs.c ---- */

/* Checks the programs of state machines and writes them below `folder`; a line for each to the plugin's settings. 0, or
 * -1 after one line. */
int monster_programs_write(const struct monster_options *o, const char *kernel_symbols, const char *modules,
                           const char *folder, struct strbuf *settings);

#endif
