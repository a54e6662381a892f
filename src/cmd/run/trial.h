/* SPDX-License-Identifier: Apache-2.0
 * Of mtool trace: which functions allocate, of a program that has no names for them. */
#ifndef MTOOL_CMD_RUN_TRIAL_H
#define MTOOL_CMD_RUN_TRIAL_H

#include "launch/launch.h"

#include <stdio.h>

/* 0, or -1 after one line: it is none that this is for. */
int trial_check(const struct launch_program *program);
struct trial; /* opaque */
/* Of a program all of whose functions are watched (rewrite_options.watch_all); the map is its copy's. */
struct trial *trial_new(const struct launch_program *program, const struct rewrite_map *map);
void trial_free(struct trial *t);
void trial_take(struct trial *t, const struct launch_chunk *c);
/* A line for each that is sure, as --allocator takes it. How many. */
size_t trial_write(const struct trial *t, FILE *out);

#endif
