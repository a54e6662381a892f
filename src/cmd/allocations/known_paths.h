/* SPDX-License-Identifier: Apache-2.0
 * Paths to allocators that the host has found out, for the program's threads to know again (wire/stream.h). */
#ifndef MTOOL_CMD_ALLOCATIONS_KNOWN_PATHS_H
#define MTOOL_CMD_ALLOCATIONS_KNOWN_PATHS_H

#include "data/data.h"
#include "wire/stream.h"

/* Of an area, while its thread looks there. What cannot be put, for there is no room, or it ends where another one goes
 * on and may not stand for all of those, is not known again: the thread copies its stack each time. */
void known_paths_add(struct wire_paths *to, const struct data_path *path);

#endif
