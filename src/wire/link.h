/* SPDX-License-Identifier: Apache-2.0
 *
 * What `mtool ld` leaves in a linked file, and what that file writes when it ends.
 *
 * The section mtool_link, one in each linked file (executable or shared object), 320 bytes:
 *
 *   0   "mtoollnk"   8 version u32   12 tool u32: its line in ld/tools.def
 *   16  id: 32 hex digits of a hash of what was linked
 *   48  extension of what it writes   60 u32 flags   64  its base name; zeros behind the texts
 *
 * A file of counts: these 320 bytes, then u64 the process, u64 how many counters, zeros up to 4096; then these, as they
 * stand in the section mtool_counters, of which this may be the memory.
 *
 * In that section are tables, too, which the runtime of a tool keeps; all words are u64:
 *
 *   0   "mtooltab"   8 kind   16 its own address at run time   24 entries that there is room for   32 lost: what found
 *   none   40 three spare words: by kind   64 entries of three words in any order, with gaps: a zero, else
 *     WIRE_TABLE_ARCS     the target of a call through a pointer, its site (where the runtime's call returns), calls
 *     WIRE_TABLE_SLOTS    what the start-up chose for a word of the linker's (IFUNC), the word's address, 1
 *     WIRE_TABLE_SAMPLES  an address, 1, samples there. Spare: nanoseconds of processor time that the process used
 *     WIRE_TABLE_CLOCKS   two entries each: the function (an address in it), where it was called (the return address),
 *                         calls; ticks of its own, of all, and of all where it was not under way already. Spare: ticks
 *                         and nanoseconds that the process took; what a call's two looks at the clock take, in parts
 *                         of a tick, those between the two in the upper half. Where short calls are sampled, of such an
 * arc besides, with a bit in the function: CLOCKS_SAMPLED: the same of calls that were timed one in many;
 *                         CLOCKS_UNTIMED: calls between those; ticks that they are taken to take of their own, the sum
 *                         of the squares of such ticks of sampled calls (or the most that there is), 1 if it was seen
 *                         to call itself. What is not between the looks is not in such a program's callers' time, nor
 *                         is what untimed calls took. With both bits, of no function: how much less the looks
 *                         may have taken of a call than is told, in parts of a tick
 *
 * An entry may be there twice. Addresses are those of the process.
 */
#ifndef MTOOL_WIRE_LINK_H
#define MTOOL_WIRE_LINK_H

#include <stdint.h>

#define WIRE_LINK_SECTION "mtool_link"
#define WIRE_LINK_MAGIC "mtoollnk"
#define WIRE_LINK_ENV "MTOOL_LD_OUT" /* where counts are written: %n the linked file's name, %p the process */
enum { WIRE_LINK_VERSION = 4, WIRE_LINK_ID = 32, WIRE_LINK_EXTENSION = 12, WIRE_LINK_NAME = 256 };
enum { WIRE_LINK_COUNTS_AT = 4096 }; /* in a file of counts */

enum wire_link_flags {
    WIRE_LINK_SHARED = 1,       /* a shared object */
    WIRE_LINK_SAMPLE_SHORT = 2, /* clocks: of short calls some are timed */
    WIRE_LINK_IN_LINE = 4,      /* and calls that are not go past the runtime */
};

struct wire_link {
    char magic[8];
    uint32_t version, tool;
    char id[WIRE_LINK_ID];
    char extension[WIRE_LINK_EXTENSION];
    uint32_t flags; /* enum wire_link_flags */
    char name[WIRE_LINK_NAME];
};
_Static_assert(sizeof(struct wire_link) == 320, "as drawn above");

/* Functions that inserted code calls, and words; src/ldrt has them. Functions keep all registers but flags. */
#define WIRE_LINK_HOOKS(X)                                                                                             \
    X(INDIRECT, "mtool_indirect")               /* r11: target of the call whose site returns here */                  \
    X(INDIRECT_LOCKED, "mtool_indirect_locked") /* the same, of several threads at once */                             \
    X(ENTER, "mtool_enter")                     /* a function begins: the one that it returns to */                    \
    X(LEAVE, "mtool_leave")                     /* it ends */                                                          \
    X(LANDED, "mtool_landed")                   /* an exception arrived in it */                                       \
    X(PLACE, "mtool_place")                     /* a word: the stack pointer where the last timed function ends */     \
    X(TRACE, "mtool_trace")                     /* see ldrt/trace.c; all on the stack */                               \
    X(TRACE_LINE, "mtool_trace_line")           /* likewise */                                                         \
    X(TRACE_RANGE, "mtool_trace_range")         /* likewise */                                                         \
    X(TRACE_TURN, "mtool_last_page")            /* a word: whose turn it is (wire/trace.h) */                          \
    X(TRACE_STATE, "mtool_trace_state")         /* a word of the thread */

/* Clocks in line: what stands where a function begins, and calls the runtime only where it must.
 *
 *     0 push rax; 1 mov rax,[rsp+8]; 6 cmp [caller],rax; 13 jne 27; 15 dec qword [left]; 22 js 27; 24 pop rax; 25 jmp
 * 33 27 pop rax; 28 call mtool_enter; 33
 *
 * By where that returns to, the runtime finds the words that it looks at, by where the `cmp` says that they are: the
 * caller of whom so many calls are not timed, how many are left, and what the runtime keeps there. */
enum wire_clocks_word { WIRE_CLOCKS_CALLER, WIRE_CLOCKS_LEFT, WIRE_CLOCKS_OWN, WIRE_CLOCKS_WORDS };
enum { WIRE_CLOCKS_ENTER_BYTES = 33, WIRE_CLOCKS_CMP_AT = 6, WIRE_CLOCKS_CMP_END = 13 };

#define WIRE_TABLE_MAGIC "mtooltab"
enum wire_table_kind { WIRE_TABLE_ARCS = 1, WIRE_TABLE_SAMPLES, WIRE_TABLE_SLOTS, WIRE_TABLE_CLOCKS };
#define WIRE_CLOCKS_SAMPLED (1ull << 63)
#define WIRE_CLOCKS_UNTIMED (1ull << 62)
enum { WIRE_CLOCKS_PARTS = 256 };
struct wire_table {
    char magic[8];
    uint64_t kind, address, room, lost, spare[3];
};
struct wire_table_entry {
    uint64_t what, where, count;
};

struct wire_link_counts {
    struct wire_link link;
    uint64_t pid, count;
};

#endif
