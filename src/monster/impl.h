/* SPDX-License-Identifier: Apache-2.0
 * What the files of this folder share. */
#ifndef MTOOL_MONSTER_IMPL_H
#define MTOOL_MONSTER_IMPL_H

#include "monster/monster.h"

/* ---- text.c ---- */

extern const char *const monster_stall_labels[WIRE_STALL_COUNT];
const char *monster_grouped(struct arena *a, double x); /* "1,234"; "-" if it is not known */
const char *monster_fixed(struct arena *a, double x, int digits);

#endif
