/* SPDX-License-Identifier: Apache-2.0
 * Of mtool trace: which functions allocate, of a program that has no names for them. */
#ifndef MTOOL_CMD_ALLOCATIONS_DETECTOR_H
#define MTOOL_CMD_ALLOCATIONS_DETECTOR_H

#include "launch/launch.h"

#include <stdio.h>

/* 0, or -1 after one line: it is none that this is for. */
int detector_check(const struct launch_program *program);
struct detector; /* opaque */
/* Of a program all of whose functions are watched (rewrite_options.watch_all); the map is its copy's. */
struct detector *detector_new(const struct launch_program *program, const struct rewrite_map *map);
void detector_free(struct detector *t);
void detector_take(struct detector *t, const struct launch_chunk *c);
/* A line for each that is sure, as --allocator takes it. How many. */
size_t detector_write(const struct detector *t, FILE *out);

#endif
