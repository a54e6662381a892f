/* SPDX-License-Identifier: Apache-2.0
 *
 * wire/stream.h: the stream of references that copies made for it (REWRITE_REFERENCES) write while the program runs and
 * the host reads at the same time. Each area of the counter file (wire.h) has one; it is mapped as if it were a module
 * whose counters are at WIRE_STREAM_VADDR, so a thread of gs base D has its own at WIRE_STREAM_VADDR + D, and code
 * addresses it as gs:[number] without a base register. One thread at a time writes to it, one thread of the host reads.
 *
 *   0                            struct wire_stream, in whole pages
 *   WIRE_STREAM_RING             WIRE_CHUNKS chunks of WIRE_CHUNK_BYTES, used in turn
 *   + the chunks                 WIRE_STREAM_SLACK bytes that are written to by mistake at most
 *   WIRE_STREAM_PATHS            struct wire_paths, written by the host
 *   WIRE_STREAM_LOST             of a process's first thread: a bit for each of WIRE_LINES, and
 *   WIRE_STREAM_MISSED           another one, likewise
 *
 * A chunk is a row of entries of 16 bytes, in the order in which the thread made the references:
 *
 *   a reference   0  address       8  site, a number of its module's map   12  module, wire_stream_module of its key
 *   an event      0  bit 63 is set; bits 16 to 23 say which (enum wire_event_kind), bits 0 to 15 how many entries
 * behind it belong to it 8  site          12  module                              16  ... as drawn at the kinds
 *
 * Where a signal comes between the reservation of an entry and its making, and its handler fills the chunk, the entry
 * is lost: zeros, which the reader leaves. It must take any bytes all the same.
 */
#ifndef MTOOL_WIRE_STREAM_H
#define MTOOL_WIRE_STREAM_H

#include <stdint.h>

#define WIRE_STREAM_VADDR 0x7f000000u
#define WIRE_STREAM_HEAD 12288u
#define WIRE_STREAM_RING WIRE_STREAM_HEAD
#define WIRE_CHUNKS 16u
#define WIRE_CHUNK_BYTES 65536u
#define WIRE_CHUNK_SPARE 4096u /* of a chunk: its limit is so far in front of its end */
#define WIRE_STREAM_SLACK 65536u
#define WIRE_STREAM_PATHS (WIRE_STREAM_RING + WIRE_CHUNKS * WIRE_CHUNK_BYTES + WIRE_STREAM_SLACK)
#define WIRE_STREAM_LOST (WIRE_STREAM_PATHS + sizeof(struct wire_paths))
#define WIRE_STREAM_MISSED (WIRE_STREAM_LOST + WIRE_LINES / 8)
#define WIRE_STREAM_BYTES (WIRE_STREAM_MISSED + WIRE_LINES / 8)

struct wire_entry {
    uint64_t address;
    uint32_t site, module;
};

/* X(NAME, what stands behind the header's entry) */
#define WIRE_EVENTS(X)                                                                                                 \
    X(RANGE, "struct wire_range: a string instruction of known length")                                                \
    X(ENTER, "struct wire_call or wire_short: a watched function is entered; site: its number among them")             \
    X(LEAVE, "likewise: it returns, by the value in arguments[0]")                                                     \
    X(UNTOLD, "nothing: an instruction whose references are not told (REWRITE_SITE_UNTOLD)")                           \
    X(REACH, "struct wire_reach: so many bytes in a row, as instructions with masks reach them")                       \
    X(ORDER, "nothing: the last lines of a place of the filter have changed their order (below)")                      \
    X(PAUSE, "struct wire_pause: nothing was told for so long")                                                        \
    X(GIVEN,                                                                                                           \
      "struct wire_given or wire_given_alone: a watched function was entered and has returned; site: its number, "     \
      "and in the upper half that of the path, which was known")
enum wire_event_kind {
#define X(name, what) WIRE_EVENT_##name,
    WIRE_EVENTS(X)
#undef X
        WIRE_EVENT_COUNT
};

struct wire_range {    /* 2 entries */
    uint64_t address;  /* of the first element */
    uint64_t elements; /* of the site's bytes each */
    uint64_t flags;    /* rflags: with WIRE_FLAG_DOWN elements go down from there */
    uint64_t unused;
};
#define WIRE_FLAG_DOWN 0x400u

struct wire_reach { /* 1 entry; counts as one reference for each of the site's bytes that it has, or begins */
    uint64_t address, bytes;
};

struct wire_pause {    /* 1 entry; site and module mean nothing; of a filter among threads */
    uint64_t from, to; /* time stamps: of the last reference to a line that was told, and of the next one */
};
#define WIRE_PAUSE_TICKS 20000u /* shorter ones are not told */

struct wire_call { /* 5 entries, then the copy of the stack, in whole entries, if `path` is 0 and it is asked for */
    uint64_t arguments[5]; /* rdi rsi rdx rcx r8; at the return [0] is rax */
    uint64_t frame, stack; /* rbp and rsp: where the return address is; the copy begins there */
    uint64_t time;         /* time stamp; of a program that has forbidden itself system calls the greatest number */
    uint64_t open;         /* the stack pointer of the innermost call that is under way (below); 0: of none */
    uint64_t path;         /* number of the path that led there, as the host told it (below); 0: not known */
};
struct wire_short { /* 2 entries: the same of calls of which no more is asked */
    uint64_t argument, stack, time;
    uint64_t open; /* from bit WIRE_CALL_PATH_SHIFT on the path */
};
struct wire_least { /* 1 entry: likewise of entrances; the time is as before */
    uint64_t argument, open;
};
/* A function that gives memory, by one argument, where nothing was told of between its entrance and its return. */
struct wire_given {                                        /* 3 entries */
    uint64_t address, argument, stack, time, open, unused; /* time: of the return; open: at the entrance */
};
struct wire_given_alone { /* 1 entry: the same where no other was open; the time is as before */
    uint64_t address, argument;
};
/* A call of a watched function whose return is told is under way from its entrance on, until that; or until the stack
 * pointer is above it, or its return address is no longer where it was, or (of malloc and its like) it lies beyond
 * WIRE_CALL_NEAR bytes: it left by an exception. The thread keeps the last ones. */
#define WIRE_OPEN_MAX 32u
#define WIRE_OPEN_OWN (1ull << 63) /* of the return address: a function of the program's own, which may be far away */
struct wire_open {
    uint64_t stack, return_address;
    uint64_t argument, kept; /* kept: of an entrance that was not told yet the path, and in the upper half the site; the
                                next event is GIVEN, or has the entrance in front of it. 0: it was told */
};
#define WIRE_CALL_JUMPS 0x40000000u /* of the site of ENTER: it goes on elsewhere, by a jump */
#define WIRE_CALL_NAMES                                                                                                \
    0x20000000u               /* likewise: it is no function, but the so-many-th place of its file that names memory:  \
                                 arguments[1] bytes at arguments[0] */
#define WIRE_CALL_STACK 8192u /* bytes of the copy at an entrance; less where the stack ends, in whole entries */
#define WIRE_CALL_NEAR 512u   /* at a return */
#define WIRE_CALL_ENTRIES (sizeof(struct wire_call) / sizeof(struct wire_entry))
#define WIRE_SHORT_ENTRIES (sizeof(struct wire_short) / sizeof(struct wire_entry))
#define WIRE_LEAST_ENTRIES (sizeof(struct wire_least) / sizeof(struct wire_entry))
#define WIRE_GIVEN_ENTRIES (sizeof(struct wire_given) / sizeof(struct wire_entry))
#define WIRE_GIVEN_ALONE_ENTRIES (sizeof(struct wire_given_alone) / sizeof(struct wire_entry))
#define WIRE_CALL_PATH_SHIFT 48
#define WIRE_PATH_MAX 65535u /* numbers of paths */

/* What is told of a watched function beside its number: inserted code says it to the runtime, events do not have it. */
#define WIRE_CALL_OPENS 0x10000000u     /* its return is told, and so is the path to it */
#define WIRE_CALL_STORES 0x08000000u    /* at its return the stack is, where it has put what it gives */
#define WIRE_CALL_ARGUMENTS 0x04000000u /* it takes more than one */
#define WIRE_CALL_OWN 0x02000000u       /* as WIRE_OPEN_OWN */
#define WIRE_CALL_TOLD 0x60ffffffu      /* what events have of all that */

/* The word that begins an event: what an instruction can store as a number of 32 bits that is extended by its sign. */
#define WIRE_EVENT(kind, entries) ((int32_t)(0x80000000u | (uint32_t)(kind) << 16 | (entries)))
static inline int wire_is_event(const struct wire_entry *e) { return (int64_t)e->address < 0; }
static inline uint32_t wire_event_kind(const struct wire_entry *e) { return e->address >> 16 & 0xff; }
static inline uint32_t wire_event_entries(const struct wire_entry *e) { return e->address & 0xffff; }

/* What a site that calls the runtime says in rcx, beside its number in the lower half; rax is the address, rdx the mask
 * or a number, and the stack has WIRE_TOLD_ROOM bytes, at the lower end of which are indices, below the program's. */
#define WIRE_TOLD_KINDS(X)                                                                                             \
    X(ELEMENTS, "a gather or scatter: an entry for each element that is asked for")                                    \
    X(MASKED, "REACH from the first element that is asked for to the last")                                            \
    X(FIXED, "REACH of so many bytes as rdx says")                                                                     \
    X(BIT, "an entry: the element that has bit number rdx")                                                            \
    X(COMPARED, "RANGE of what a repeated string instruction compared, when it has ended")                             \
    X(CALLED, "REACH of what a system call read, and with the next site of what it wrote, when it has returned")       \
    X(STATE, "REACH of what xsave and its like reach by edx:eax; the element's field is X86_STATE_*")
enum wire_told_kind {
#define X(name, what) WIRE_TOLD_##name,
    WIRE_TOLD_KINDS(X)
#undef X
        WIRE_TOLD_COUNT
};
enum {                         /* where it says what */
       WIRE_TOLD_ELEMENT = 32, /* log2 of the bytes; with IS_WHOLE of all */
       WIRE_TOLD_SCALE = 35,   /* log2 of what indices are multiplied by */
       WIRE_TOLD_STORES = 37,
       WIRE_TOLD_INDEX_8 = 38, /* indices have 8 bytes, else 4 */
       WIRE_TOLD_PACKED = 39,  /* the elements asked for come one behind another; COMPARED: it has two operands */
       WIRE_TOLD_ELEMENTS_MAX = 40,
       WIRE_TOLD_WHOLE = 47,  /* all bytes, if any bit is set */
       WIRE_TOLD_FILTER = 48, /* log2 of the filter's lines; 0: there is none */
       WIRE_TOLD_KIND = 52,
       WIRE_TOLD_ROOM = 192
};

/* What entries call a module by; the host refuses two that have the same. */
static inline uint32_t wire_stream_module(const uint8_t *key)
{
    return (uint32_t)key[0] | (uint32_t)key[1] << 8 | (uint32_t)key[2] << 16 | (uint32_t)key[3] << 24;
}

/* The exact filter: a reference to a line that is the last one referred to with the same low bits (its place) changes
 * nothing. Nor does one to a line that came a few lines before that, but for the order of use, in which it is the last
 * one then. So of each place the last lines are kept in that order, up to WIRE_LAST_LINES of them, as many as all
 * caches have whatever comes. What is left out so is told with the next line that is told of the place, by an ORDER in
 * front of it: the module is the place, and the site has in each 4 bits, from the lowest on, which one of the lines as
 * they were told last (0: the last one) stands there now. Whoever reads keeps as many, and brings each line that is
 * told to the front. */
#define WIRE_FILTER_SLOTS 64u
#define WIRE_LAST_LINES 8u
#define WIRE_ORDER_AS_TOLD 0x76543210u

/* Among threads the filter may hold a line only as long as nobody else's reference to it changes what caches have: of
 * each line a word says by a bit each which threads (by their number) have referred to it, or in bit 63 that one has
 * written what another had referred to; of those filters hold nothing, and each reference is told. A filter holds
 * a line that its thread alone has referred to, or that several have and none has written since the second came; then
 * not as written. Lines whose numbers have the same low bits share a word. Who is
 * gone counts no more. It is the process's own memory, which the host never sees; in front of it is where the streams
 * of its threads are, by their numbers, and behind these the bits of those that may be there.
 *
 * With bit 63 the word says who has written it, in bits 56 to 61, and when, in those below: a position in its stream
 * (chunks filled << 16, and bytes of the one that is being filled). Bit 62: another thread has referred to it since.
 * When the host has simulated all up to there (wire_paths.simulated), and no thread has lost a line of that word
 * (WIRE_STREAM_LOST), who wrote it has it alone, or it is one that several have: WIRE_LINES_OTHERS stands for them. If
 * one has lost it, but none has come back for it (WIRE_STREAM_MISSED), who wrote it has it alone but has to tell what
 * he writes (WIRE_LINES_WATCHED), until another one comes. */
#define WIRE_LINES_VADDR 0x7c000000u
#define WIRE_LINES (1u << 22)
#define WIRE_LINES_BYTES (WIRE_LINES * 8ull)
#define WIRE_LINES_STREAMS_BYTES 4096u
#define WIRE_LINES_THREADS 61u
#define WIRE_LINES_WATCHED (1ull << 61) /* beside the bit of a thread */
#define WIRE_LINES_OTHERS (1ull << 62)  /* of bits of threads: some that are there */
/* Of a line that is one of the last ones: the filter may not hold it, but it keeps its rank; it was written to. */
#define WIRE_NOT_HELD (1ull << 63)
#define WIRE_IS_WRITTEN (1ull << 62)
/* What a site says of several lines; below: bytes. */
enum {
    WIRE_LINES_STORES = 16,   /* they are written */
    WIRE_LINES_MAY_PASS = 17, /* what is to one line alone need not be told in any case */
    WIRE_LINES_SHIFT = 24     /* log2 of a line, from this bit on */
};

/* What a register was in front of an instruction that changes it, and whose stack that was: a handler of a signal may
 * have come between. By the number of a site; of system calls by the stack pointer's low bits. */
#define WIRE_BEFORE_SLOTS 32u
struct wire_before {
    uint64_t stack, value;
};

/* Paths to allocators by what is on the stack, as the host found out from copies: a tree whose nodes each say where to
 * look next, and whose edges are what is found there. Who has come to a node that says nothing more has come by its
 * path, and tells the path's number alone; the words that were passed are all that the path hangs on, and were all the
 * same. Nodes lie in a table: one that another leads to right behind that, if the place was free, else by where the
 * edge begins and its value; who looks for one tries that place, and those from its own on until a free one. The host
 * adds nodes, and never changes where one leads; it writes `from` last. */
#define WIRE_PATH_BITS 16u
#define WIRE_PATH_NODES_MAX 49152u /* of the places, so that the last one stays free and free ones are near */
#define WIRE_PATH_PLACES (65536u + 126u)
#define WIRE_PATH_ROOT 2u /* says: look where the stack pointer is */
struct wire_path_node {
    uint64_t value;  /* of the edge */
    uint32_t from;   /* where in `places` the edge's node is, in bytes, and 1; WIRE_PATH_ROOT; 0: the place is free */
    uint32_t look;   /* bytes from the stack pointer to the next word, or WIRE_PATH_RBP; 0: nowhere */
    uint32_t number; /* of the path that ends here, or of all paths through here that are not known; 0: none */
    uint32_t unused[3];
};
#define WIRE_PATH_RBP 0x80000000u   /* the edge is how far the register leads from the stack pointer */
#define WIRE_PATH_LEADS 0x40000000u /* of a word: the edge is how far it leads from there, else it is the word */
#define WIRE_PATH_OFFSET 0x3fffffffu
struct wire_paths {
    uint64_t is_near;   /* by the host: 1: no path was far of late, so WIRE_CALL_NEAR bytes are copied at most */
    uint64_t count;     /* likewise: nodes */
    uint64_t simulated; /* likewise: all that the thread told up to there, a position (WIRE_LINES_VADDR) */
    uint64_t unused[5];
    struct wire_path_node places[WIRE_PATH_PLACES];
};
/* Of the place `at` bytes behind the begin of the so-many-th chunk, from 0. */
static inline uint64_t wire_position(uint64_t chunk, uint64_t at) { return (chunk << 16) + at; }
static inline uint32_t wire_path_place(uint32_t from, uint64_t value)
{
    return ((from * 2654435761u) ^ (uint32_t)value) * 2246822519u >> (32 - WIRE_PATH_BITS);
}

#define WIRE_CHUNK_FORKS 1u /* the thread makes a process by fork, if that does not fail */
#define WIRE_CHUNK_LOADS 2u /* the process has got a file: what is mapped should be looked at, for which it waits */
struct wire_chunk {
    uint64_t begin, end; /* time stamps */
    uint32_t bytes;
    uint32_t thread; /* of its process: 0 the first, else it is the so-many-th that was created */
    uint64_t fs;     /* base of the thread's thread-local memory, at the chunk's end; 0: not known, or it has none */
    uint64_t event;  /* WIRE_CHUNK_*: what comes behind it, or came last in it; else 0 */
};

#define WIRE_PLACES_AT 2048u
struct wire_slot { /* of the filter, of lines with the same low bits */
    /* By the thread: where the line begins that was referred to last; the same if it was written to since it came
     * there, else 0. */
    uint64_t touched, written;
    uint32_t order; /* likewise: how the last lines differ from what was told (ORDER), WIRE_ORDER_AS_TOLD taken from it
                       by exclusive or */
    uint8_t taken;  /* by other threads: 1: what the filter may hold of this place has to be looked up again. Whoever
                       sets it takes the last line out of `touched` and `written` behind that */
} __attribute__((aligned(64)));

struct wire_stream {
    /* By the thread. Addresses are those of gs base 0. */
    uint64_t put;             /* where the next entry goes */
    uint64_t limit;           /* who has written there or further up ends the chunk */
    uint64_t start, begin;    /* of this chunk: its first entry; its time stamp */
    uint32_t thread, process; /* process: the area of its first thread */
    uint64_t self;            /* its own address, with the thread's gs base */
    uint64_t drops;           /* 1: nobody reads, entries are thrown away */
    uint64_t lost;            /* bytes of entries that were */
    uint64_t filled;          /* chunks so far; the next one is filled % WIRE_CHUNKS */
    uint32_t waits;           /* 1: the thread waits for `emptied` */
    uint32_t is_confined;     /* 1: the program has forbidden itself system calls */
    uint32_t is_busy;         /* then, instead of signals that are blocked: 1: a chunk is being ended */
    uint32_t is_alone; /* 1: no thread was made yet; then calls have the time of their chunk's begin, which is all
                          that an order of one thread needs */
    uint64_t fs;       /* base, when its last chunk ended */
    int64_t left;      /* references of a sample that are still to be told, where code takes samples: each block
                          takes its own from it, those that a filter leaves out too, and tells nothing when it
                          is not above 0. Set by the host */
    /* Of the first thread of a process that was made by fork, where the header's areas say whose they are: the area of
     * the thread that made it and 1, and how many chunks that one had filled then. Else 0. */
    uint64_t parent, parent_filled;
    uint64_t
        stack_top; /* of the process's first thread: its stack is there up to this address at least; 0: not known */
    /* By the host. */
    uint64_t emptied __attribute__((aligned(64))); /* chunks that it has read; its low half is a futex */
    struct wire_open open[WIRE_OPEN_MAX] __attribute__((aligned(64))); /* watched functions that are under way,
                                                                          innermost last */
    uint64_t open_count;
    uint64_t own;    /* the thread's bit of lines' words; 0: its filter holds nothing (WIRE_LINES_VADDR) */
    uint64_t told;   /* then: time stamp of the last reference to a line that was told; 0: none yet */
    uint64_t shown;  /* so many chunks the host has to read before the thread goes on */
    uint64_t copies; /* bytes of the stack that are copied where a path is not known; 0 of a child of a fork that nobody
                        follows, which no path is told */
    struct wire_chunk chunks[WIRE_CHUNKS];
    /* The filter. What is asked in line of a line at page offset x lies at page offset x + WIRE_PLACES_AT, and so does
     * `last`: a load waits for a store with the same page offset, and a program that goes on to store where it has
     * just loaded, or the other way, would wait for itself at each reference. */
    struct wire_slot places[WIRE_FILTER_SLOTS] __attribute__((aligned(WIRE_PLACES_AT)));
    /* Where the last lines of each place begin, the last one first, with WIRE_NOT_HELD and WIRE_IS_WRITTEN; 0: none.
     * The thread alone changes them. */
    uint64_t last[WIRE_FILTER_SLOTS][WIRE_LAST_LINES];
    struct wire_before before[WIRE_BEFORE_SLOTS]; /* of string instructions that compare: rcx */
    struct wire_before calls[WIRE_BEFORE_SLOTS];  /* of system calls: their numbers */
};
_Static_assert(sizeof(struct wire_stream) <= WIRE_STREAM_HEAD, "the ring begins behind it");
_Static_assert(WIRE_STREAM_VADDR % 4096 == 0 && __builtin_offsetof(struct wire_stream, places) == WIRE_PLACES_AT &&
                   __builtin_offsetof(struct wire_stream, last) % 4096 == WIRE_PLACES_AT,
               "a line's place has the line's page offset, half a page on");

/* In the counter file's header. */
struct wire_streams {
    uint64_t bytes;     /* of each area, from its start: WIRE_STREAM_BYTES; 0: there is none */
    uint64_t heartbeat; /* grows while the host reads */
    uint32_t ends;      /* 1: it reads no more */
    uint32_t filled;    /* grows with each chunk of any area; futex */
    uint32_t waits;     /* 1: the host waits for that */
    uint32_t unwoken;   /* 1: somebody fills chunks who must not wake it */
};

#endif
