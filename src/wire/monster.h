/* SPDX-License-Identifier: Apache-2.0
 *
 * What the first process of the guest, the plugin in the emulator and mtool tell each other.
 *
 * A marker is an instruction that does nothing, 0f 1f 84 00 and a number of 32 bits: a nop with a displacement. The
 * plugin sees it by its bytes. Its number is 'M' 'N' in the upper half and what it says in the lower. From
 * WIRE_MARK_USER on they are the program's own.
 *
 * The region is physical memory behind what the guest's kernel may use. A chunk of a stream: the guest writes the
 * bytes behind the head, fills `stream` and `bytes`, and executes the marker; when it goes on, they have been taken.
 */
#ifndef MTOOL_WIRE_MONSTER_H
#define MTOOL_WIRE_MONSTER_H

#include <stdint.h>

enum wire_mark {
    WIRE_MARK_BEGIN = 1, /* what is behind the jump that follows counts */
    WIRE_MARK_END,       /* this instruction counts no longer */
    WIRE_MARK_CHUNK,
    WIRE_MARK_DONE, /* the head says how the program ended */
    WIRE_MARK_USER = 16
};
#define WIRE_MARK_BYTES "\x0f\x1f\x84\x00"
#define WIRE_MARK_NUMBER(op) (0x4d4e0000u | (op))
#define WIRE_MARK_TEXT(op) ".byte 0x0f, 0x1f, 0x84, 0x00; .long 0x4d4e0000 + " #op "\n\t"
enum { WIRE_MARK_LEN = 8 };

/* Executed between the two readings of the clock and not counted: the marker and the jump at the begin, the marker and
 * rdtsc itself, which its reading holds, at the end. */
enum { WIRE_UNCOUNTED = 4 };

enum wire_stream { WIRE_STDOUT, WIRE_STDERR, WIRE_SYMBOLS, WIRE_TYPES, WIRE_STREAM_COUNT };
enum wire_end { WIRE_EXITED, WIRE_SIGNALLED, WIRE_NOT_STARTED }; /* value: status, signal, errno */

#define WIRE_REGION_MAGIC 0x4d4e5453524d4e47ull
enum { WIRE_REGION_BYTES = 4 << 20, WIRE_REGION_HEAD = 4096 };
struct wire_region {
    uint64_t magic;
    uint64_t stream, bytes;    /* of a chunk */
    uint64_t end, value;       /* enum wire_end */
    uint64_t begin_ns, end_ns; /* the guest's clock: an instruction takes it 1 << shift ns */
};

enum wire_column {
#define COLUMN(id, name) WIRE_##id,
#include "wire/monster.def"
#undef COLUMN
    WIRE_COLUMN_COUNT
};
enum { WIRE_MIX_COUNT = WIRE_MARKERS - WIRE_NOPS + 1, WIRE_STALL_COUNT = WIRE_STALL_TLB - WIRE_STALL_FETCH + 1 };
enum { WIRE_LEVELS_MAX = 4 };
enum { WIRE_PAGE_PARTS = 16, WIRE_PAGE_SHADES = 3 }; /* of marks of pages: white, grey, black */

/* /mtool/command in the guest: texts, each with its zero: what to do ("run", "symbols"), the region's address, the
 * folder, standard input ("": none), the disk ("": none; else nanoseconds of a request, a blank, bytes a second), the
 * number of arguments, the arguments, the environment. */
#define WIRE_COMMAND "/mtool/command"
/* Drivers of the disk, in the order in which they are loaded; where they are in the kernel's package, in the guest. */
#define WIRE_DRIVERS                                                                                                   \
    {                                                                                                                  \
        "fs/configfs/configfs.ko", "drivers/block/null_blk/null_blk.ko"                                                \
    }
#define WIRE_DRIVER_FOLDER "/mtool/drivers"

#endif
