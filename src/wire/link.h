/* SPDX-License-Identifier: Apache-2.0
 *
 * What `mtool ld` leaves in a linked file, and what that file writes when it ends.
 *
 * The section mtool_link, one in each linked file (executable or shared object), 320 bytes:
 *
 *   0   "mtoollnk"   8 version u32   12 tool u32: its line in ld/tools.def
 *   16  id: 32 hex digits of a hash of what was linked
 *   48  extension of what it writes   64  its base name; zeros behind both
 *
 * A file of counts: these 320 bytes, then u64 the process, u64 how many counters, then these, as they stand in the
 * section mtool_counters.
 */
#ifndef MTOOL_WIRE_LINK_H
#define MTOOL_WIRE_LINK_H

#include <stdint.h>

#define WIRE_LINK_SECTION "mtool_link"
#define WIRE_LINK_MAGIC "mtoollnk"
#define WIRE_LINK_ENV "MTOOL_LD_OUT" /* where counts are written: %n the linked file's name, %p the process */
enum { WIRE_LINK_VERSION = 2, WIRE_LINK_ID = 32, WIRE_LINK_EXTENSION = 16, WIRE_LINK_NAME = 256 };

struct wire_link {
    char magic[8];
    uint32_t version, tool;
    char id[WIRE_LINK_ID];
    char extension[WIRE_LINK_EXTENSION], name[WIRE_LINK_NAME];
};
_Static_assert(sizeof(struct wire_link) == 320, "as drawn above");

struct wire_link_counts {
    struct wire_link link;
    uint64_t pid, count;
};

#endif
