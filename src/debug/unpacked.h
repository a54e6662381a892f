/* SPDX-License-Identifier: Apache-2.0
 * Debug information that is compressed, unpacked once. */
#ifndef MTOOL_DEBUG_UNPACKED_H
#define MTOOL_DEBUG_UNPACKED_H

#include "base/base.h"

/* A file with what libdw reads of the ELF file FD, nothing of it compressed: from the cache, or made now. The caller
 * closes it. -1: there is none, and FD itself is to be read. */
int debug_unpacked(int fd);

#endif
