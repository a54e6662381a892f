/* SPDX-License-Identifier: Apache-2.0
 *
 * wire: what the injected runtime writes and the host reads. Freestanding: no libc header, only fixed-width integers.
 *
 * The counter file (created and sized by the host, mapped shared by the runtime):
 *
 *   offset 0                      struct wire_header, WIRE_HEADER_BYTES in all
 *   WIRE_HEADER_BYTES             area 0: the counters of the first process, all modules one after the other
 *   + area_bytes                  area 1: of the next process (a fork) or thread, ... up to area_max
 *
 * A module's counters are 64-bit numbers at module.offset inside an area. Areas are additive and never cleared by the
 * runtime, so the sum over areas is the count of the whole process tree (as far as it was made by fork).
 *
 * The host names the file in the environment variable WIRE_ENV of the program; the first module that starts removes it
 * from the environment, so that the program does not see it and programs that it executes are not counted (unless the
 * host wants them followed).
 */
#ifndef MTOOL_WIRE_H
#define MTOOL_WIRE_H

#include "wire/stream.h"

#include <stdint.h>

#define WIRE_ENV "MTOOL_COUNTERS" /* value: absolute path of the counter file */
/* Programs that were executed later find the file here: the host binds it over this file, which every Linux has and
 * hardly anybody reads, in the program's mount namespace, if they are to be counted too. */
#define WIRE_FOLLOW_PATH "/proc/execdomains"
#define WIRE_MAGIC 0x31544e434c4f544du /* "MTOLCNT1" in memory order */
#define WIRE_HEADER_BYTES (256u << 10)
#define WIRE_KEY_BYTES 16
#define WIRE_MODULES_MAX 1024
/* Where a counted process keeps its private control page: below where programs and their heaps lie, in what sanitizers
 * of threads and memory take for the program's own. */
#define WIRE_PCB_VADDR 0x55006d746000ull

enum wire_flag {
    WIRE_LOST = 1,    /* some counters could not be mapped (out of areas, no memory, file gone): counts are too low */
    WIRE_THREADS = 2, /* the program created a thread */
    WIRE_NOT_SERIALIZED =
        4, /* threads that had to be serialized could not be kept on one processor: counts are not exact */
    WIRE_SERIALIZED = 8, /* some threads had no area of their own: those that share one were bound to one processor, so
                       that none interrupts another's increment */
};

struct wire_module {
    uint8_t key[WIRE_KEY_BYTES]; /* identity of the rewritten module, as embedded in it */
    uint64_t offset;             /* of its counters inside an area; a multiple of 4096 */
    uint64_t bytes;              /* a multiple of 4096 */
    uint32_t loaded;             /* set by the runtime: how many processes mapped it */
    uint32_t pad;
    uint64_t addr; /* where the root process mapped its counters (the load address follows from it) */
};

struct wire_area {
    uint32_t pid, parent; /* of the process that counts into it */
    uint64_t time_ns;     /* CLOCK_MONOTONIC, when it was taken */
    uint32_t threads;     /* that counted into it, one after the other; 0: a process's first thread, or none */
    uint32_t thread;      /* the last of them: the so-many-th that was created, from 1 */
};
#define WIRE_AREAS_MAX 4096

/* A place at which the handler of a fault found a block: how many more of these did not come back there than came (by
 * jumping out of the handler, by an exception, or since the handler made the program go on elsewhere); less than none
 * where handlers made it go on. */
struct wire_side_exit {
    uint64_t key; /* 0: free; module + 1 in the upper half, in the lower how far in front of the page before the
                     module's counters the instruction is */
    int64_t count;
    uint64_t regs[16];    /* sums of what registers held, rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 ... r15 */
    uint64_t vectors[16]; /* of xmm8 ... xmm15, two halves each, the lower first */
};
#define WIRE_SIDE_EXITS_MAX 256

struct wire_header {
    uint64_t magic;
    uint64_t area_bytes;   /* a multiple of 4096 */
    uint32_t area_max;     /* areas that the file has room for */
    uint32_t area_next;    /* next free area; taken with an atomic addition; starts at 0 */
    uint32_t flags;        /* WIRE_*; set with an atomic or */
    uint32_t forks;        /* processes made by fork */
    uint32_t threads;      /* threads created */
    uint32_t execs;        /* not used by the first version: 0 */
    uint32_t module_count; /* grows while the program runs if programs that it executes are followed */
    uint32_t follows;      /* 1: areas say whose they are (no process asks the kernel for it otherwise) */
    uint64_t begin_ns; /* with probes: of processor time, when the first of the process's code came to this file: behind
                          exec and the dynamic linker's work, before any of its own; 0: not known */
    uint64_t exit_ns;  /* with probes: of processor time, when the process had run its exit handlers; 0: not known */
    uint64_t landed_ns; /* with probes: of processor time, what it took to end what exceptions and longjmp had left;
                           atomic additions */
    struct wire_streams streams;
    struct wire_module modules[WIRE_MODULES_MAX];
    struct wire_area areas[WIRE_AREAS_MAX];
    struct wire_side_exit
        side_exits[WIRE_SIDE_EXITS_MAX]; /* a hash table; taken by a compare-and-swap of the key, never given back */
};
_Static_assert(sizeof(struct wire_header) <= WIRE_HEADER_BYTES, "areas begin behind it");

/* Probes: in a copy that probes, the counters of a module are these cells instead; the first is no probe's. A probe is
 * under way from the first entry on; entries further down the stack are recursion and pass. A reading is a time stamp
 * and the thread's processor time together. An interval that begins more than WIRE_PROBE_READING ticks after the last
 * reading of its probe begins with another, and so it ends: clocked_ticks and clocked_ns are how far these came from
 * reading to reading at the ends of intervals, so what the thread did not run of them is the difference.
 * A stamp is the first thing that a probe does, before it has touched its cell or its code, so what a start takes is in
 * the interval and what a stop takes is behind it. Of some, drawn at random, a second stamp at their end tells how long
 * that was, WIRE_PROBE_COST_MAX at most: what took longer was interrupted. */
#define WIRE_PROBE_BYTES 128
#define WIRE_PROBE_READING (1u << 20)
#define WIRE_PROBE_SHARE 32 /* one in so many stamps twice */
#define WIRE_PROBE_COST_MAX 8192
#define WIRE_PROBE_LOOK_MAX (1u << 16) /* likewise where it looks at the processor time */
struct wire_probe {
    uint64_t start; /* time stamp; 0: not under way */
    uint64_t stack; /* the stack pointer where it began, or where its function's return address is */
    uint64_t reading_ticks, reading_ns; /* its last reading */
    uint64_t ticks, count;              /* of whole intervals */
    uint64_t clocked_ticks, clocked_ns;
    uint32_t cut;        /* intervals whose end was not seen (longjmp), and left out */
    uint32_t looks;      /* readings that were taken, outside of its own intervals: each is a system call */
    uint32_t restarts;   /* of these at a start: it stamped anew, so what it took is not in the interval */
    uint32_t look_seen;  /* of these, all but what was interrupted, */
    uint64_t look_ticks; /* what the start or stop took with them */
    uint64_t begin_ticks, begin_squares; /* of starts that stamped twice: what they took, and its squares */
    uint64_t end_ticks, end_squares;     /* of stops likewise */
    uint32_t begin_seen, end_seen;       /* how many did */
};
_Static_assert(sizeof(struct wire_probe) == WIRE_PROBE_BYTES, "two lines of the cache");

/* The sample file, where perf_event is refused: the executable's copy carries only the runtime (its code is untouched
 * and in place), which starts a CPU-time timer of the process and notes where each tick found it. The host learns what
 * was mapped where by reading /proc/PID/maps while the program runs. Created and sized by the host. The timer is not
 * inherited by children and ends at exec. */
#define WIRE_SAMPLES_ENV                                                                                               \
    "MTOOL_SAMPLES" /* value: absolute path of the sample file; taken from the environment likewise */
#define WIRE_SAMPLES_MAGIC 0x32504d534c4f544du /* "MTOLSMP2" in memory order */
struct wire_sample {
    uint64_t pc; /* address as the process saw it */
    uint32_t tid, pad;
};
struct wire_samples {
    uint64_t magic;
    uint64_t capacity;  /* of sample */
    uint64_t next;      /* samples taken; those beyond capacity are lost */
    uint64_t period_ns; /* of CPU time (user and system) */
    uint64_t started;   /* 1: the runtime has set its timer; 0: it could not */
    uint64_t reserved[3];
    struct wire_sample sample[];
};

/* The window file: stretches of the instruction stream, each instruction with the general registers before it. The
 * executable's copy is the one that samples. A timer of the first thread's processor time makes, after a random
 * interval, a snapshot of the process by fork, which no wait of the program's own sees: the checkpoint. The program
 * stands still until that has ended. A second fork, the recorder, goes on from there under the trap flag, notes what it
 * executes until the window is full, and ends. Neither reaches anything outside itself: no system call, no open file,
 * no memory that is shared. Both may go on for a moment after the program has ended. Created and sized by the host.
 *
 * An instruction is one word: its address in the low 47 bits, bit 47 if its bytes follow, and in the upper 16 a bit for
 * each register (rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 ... r15) that differs from the instruction before. Then the
 * new values of these, lowest first; then, where said, two words with the bytes from its address on (zeros for what
 * cannot be read). A window begins with all registers. */
#define WIRE_TICK 64 /* the signal at which snapshots are made: the last real-time one, nobody's */
#define WIRE_WINDOWS_MAGIC 0x414e49574c4f544du /* "MTOLWINA" in memory order */
#define WIRE_WINDOWS_MAX 1000
#define WIRE_STEP_ADDRESS 0x7fffffffffffu
#define WIRE_STEP_BYTES (1ull << 47)
struct wire_window {
    uint64_t first;  /* its first word in data */
    uint64_t steps;  /* instructions */
    uint64_t fs, gs; /* bases */
    uint64_t burst;  /* number of the burst that began at the same instruction, from 1; 0: none */
};

/* Slices: pieces of a window that the checkpoint executes natively, again and again from the same state (warm replay).
 * The host chooses them while the checkpoint waits. A slice begins before step `first` of the window and is replayed in
 * one or two forms that end differently: before step `last` the whole, and sooner the short one, so that what a
 * replay's begin and end take is in both and not in their difference. So that neither learns where it ends by a jump
 * that is made to go the other way, which the program's own would not, a third form goes on behind both their ends and
 * is executed between their replays. At a form's end an instruction is replaced by a jump to a stub that ends the
 * replay. A loop that would not come to an end in time is given another bound; or the stub counts how often it is
 * passed. A slice too short to be timed alone goes round: the stub at its end adds to each register what brings it back
 * to what it was, so that what waits for it goes on waiting, and jumps to its first instruction. */
enum {
    WIRE_STUB_BYTES = 224,
    WIRE_FIXES_MAX = 20,
    WIRE_LINES_MAX = 320,
    WIRE_FORMS_MAX = 2,
    WIRE_LONGER = WIRE_FORMS_MAX, /* form that is executed before those that are timed */
    WIRE_BATCHES = 8,
    WIRE_REPLAYS = 24,       /* of a batch, at most; */
    WIRE_REPLAYS_ROUND = 12, /* of forms that go round, which are long */
    WIRE_SLICES_MAX = 12     /* of a window */
};
enum wire_target { WIRE_TARGET_EXIT = 1, WIRE_TARGET_COUNTER, WIRE_TARGET_CHANGE /* + register */ };
struct wire_fix { /* a 32-bit distance in a stub, from the byte behind it; some instructions have `behind` bytes more */
    uint32_t at, behind;
    uint64_t target; /* an address, or enum wire_target */
};
struct wire_stub {
    uint32_t bytes, fixes;
    struct wire_fix fix[WIRE_FIXES_MAX];
    uint8_t code[WIRE_STUB_BYTES];
};
struct wire_canary { /* at the core */
    uint32_t times;  /* how often what follows was executed: the more, the coarser the clock */
    uint32_t chain,
        width; /* TSC ticks of 2048 dependent additions; of 4608 instructions that need all of the core's width */
};
struct wire_batch {
    uint32_t form, replays;    /* replays: how many of ticks; */
    struct wire_canary canary; /* before, or behind if that is more */
    uint32_t empty;            /* ticks of a replay of nothing, the least */
    uint32_t ticks[WIRE_REPLAYS];
};
enum wire_slice_state {
    WIRE_SLICE_PLANNED,
    WIRE_SLICE_DONE,
    WIRE_SLICE_DIVERGED,   /* the checkpoint did not come to its first step with the same registers */
    WIRE_SLICE_NO_ROOM,    /* no memory near its code, or the code cannot be written */
    WIRE_SLICE_NO_VECTORS, /* the state of the vector registers is not to be had */
    WIRE_SLICE_DIFFERS     /* a replay ended with other registers than the program */
};
struct wire_form {
    uint64_t last;           /* step before which it ends */
    uint64_t patch_at;       /* 5 bytes */
    uint64_t iterations;     /* of the loop that it goes round; 1: none */
    uint64_t enter[16];      /* registers as a replay begins with them, */
    uint64_t end[16];        /* and as it must end */
    uint64_t rounds;         /* of a replay; a form that goes round ends with `enter` again, others have 1 */
    uint64_t change[16];     /* what the stub adds at the end of each round, or puts in place, if there are several */
    uint64_t bound_patch_at; /* bytes that are changed for the replays, so that a loop ends by itself */
    uint32_t bound_patch_bytes; /* 0 to 8 */
    uint32_t counts;            /* 1: the stub is passed at each turn */
    uint8_t bound_patch[8];
    struct wire_stub stub;
};
struct wire_slice {
    uint64_t first, last; /* steps */
    uint64_t begin[16];   /* registers before `first`, as the program has them */
    uint64_t begin_at;    /* address of the instruction at `first` */
    uint32_t state, forms;
    struct wire_form form[WIRE_FORMS_MAX + 1]; /* the whole; a short one, which begins alike; WIRE_LONGER */
    uint32_t has_longer;                       /* 1: there is that form */
    uint32_t visits;     /* how often that is executed behind the slice before, up to `first`; 0: better step by step */
    uint32_t is_wide;    /* 1: it may reach more pages than the first-level TLB holds */
    uint32_t line_count; /* lines of 64 bytes that it writes */
    uint64_t lines[WIRE_LINES_MAX]; /* their addresses */
    struct wire_batch batches[WIRE_BATCHES];
    struct wire_second { /* replay of all, whose branches are hardly trained; a batch that is tried again has none such
                          */
        uint32_t ticks, empty;
        struct wire_canary canary;
    } second;
    uint32_t batch_count;
    uint32_t differs; /* with WIRE_SLICE_DIFFERS: register, batch, turn; 8 bits each */
};
enum wire_turn { WIRE_TURN_NONE, WIRE_TURN_RECORDING, WIRE_TURN_PLANNING, WIRE_TURN_REPLAYING };
#define WIRE_SLICED_WINDOWS 64 /* windows that have slices: the first ones */

struct wire_windows {
    uint64_t magic;
    uint64_t capacity;     /* words of data */
    uint64_t used;         /* words of whole windows */
    uint32_t steps_max;    /* instructions of a window */
    uint32_t window_max;   /* no window begins after so many */
    uint32_t window_count; /* whole windows */
    uint32_t slices;       /* 1: the host plans slices */
    uint32_t turn;         /* window * 4 + enum wire_turn: who is to act; set by a compare-and-swap */
    int32_t busy;          /* the process that works at a window, after the program's end too; 0: none */
    uint32_t abandoned;    /* 1: it is to end, nobody waits any more */
    int32_t granted;       /* in a counted run: the checkpoint that may begin; several wait meanwhile; futex */
    uint64_t quiet_max_ns; /* so long batches may wait for a core that nobody shares, in all slices together; */
    uint64_t quiet_now_ns; /* and so long until the window that is taken ends */
    uint64_t min_width;    /* of all canaries so far, in 1/65536 of the chain beside it; 0 none */
    uint32_t
        diverged; /* checkpoints that the kernel ended, since another way than the recorded one led them to call it */
    uint32_t enough;      /* 1: the host knows all that it wants to know of the code met so far */
    uint64_t limit_ns;    /* of what the program may wait for windows in all; 0 none */
    uint64_t expected_ns; /* of the program's processor time: the limit is spread over it; 0 not known */
    struct wire_waited {  /* ns of the wall clock that the program waited: for bursts to end; for windows as a whole; of
                             these for the recorder, for the host's plan, and for a core that nobody shares */
        uint64_t bursts, windows, recording, planning, quiet;
    } waited;
    struct wire_window windows[WIRE_WINDOWS_MAX];
    uint32_t slice_count[WIRE_SLICED_WINDOWS]; /* [window] */
    struct wire_slice slice[WIRE_SLICED_WINDOWS][WIRE_SLICES_MAX];
    uint64_t data[];
};
#define WIRE_STEP_WORDS_MAX 19

/* The next instruction of a window: its address; regs are brought up to date; *bytes (unless NULL) points to 16 bytes
 * from its address on if they are told, else it stays. *at moves on. */
static inline uint64_t wire_step_next(const uint64_t **at, uint64_t regs[16], const uint8_t **bytes)
{
    uint64_t word = *(*at)++;
    for (unsigned mask = (unsigned)(word >> 48); mask; mask &= mask - 1)
        regs[__builtin_ctz(mask)] = *(*at)++;
    if (word & WIRE_STEP_BYTES) {
        if (bytes)
            *bytes = (const uint8_t *)*at;
        *at += 2;
    }
    return word & WIRE_STEP_ADDRESS;
}

#endif
