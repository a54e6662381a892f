/* SPDX-License-Identifier: Apache-2.0
 * What the writer of the compact form and its reader share. */
#ifndef MTOOL_LD_TRACE_WRITE_H
#define MTOOL_LD_TRACE_WRITE_H

#include "ld/trace/trace.h"

#define LD_TRACE_COMPACT_MAGIC                                                                                         \
    {                                                                                                                  \
        'm', 't', 'o', 'o', 'l', 'c', 't', 'r'                                                                         \
    }
enum { LD_TRACE_COMPACT_VERSION = 1, LD_TRACE_COMPACT_NEXT = 0x80, LD_TRACE_COMPACT_BYTES_MAX = 29 };
enum {
    LD_TRACE_COMPACT_THREAD = 0xf8,
    LD_TRACE_COMPACT_END = 0xfc
}; /* a reference of 30 bytes would look like these */
struct ld_trace_compact_head {
    char magic[8];
    uint32_t version, zero;
};
struct ld_trace_last { /* of a thread: where its last fetch, and other reference, ended */
    uint64_t fetch, data;
};

#endif
