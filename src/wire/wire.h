/* SPDX-License-Identifier: Apache-2.0
 *
 * wire: what the injected runtime writes and the host reads. Freestanding: no libc header, only fixed-width integers.
 *
 * The counter file (created and sized by the host, mapped shared by the runtime):
 *
 *   offset 0                      struct wire_header, WIRE_HEADER_BYTES in all
 *   WIRE_HEADER_BYTES             area 0: the counters of the first process, all modules one after the other
 *   + area_bytes                  area 1: of the next process (a fork) or thread, ... up to area_most
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

#include <stdint.h>

#define WIRE_ENV "MTOOL_COUNTERS"      /* value: absolute path of the counter file */
/* Programs that were executed later find the file here: the host binds it over this file, which every Linux has and
 * hardly anybody reads, in the program's mount namespace, if they are to be counted too. */
#define WIRE_FOLLOW_PATH "/proc/execdomains"
#define WIRE_MAGIC 0x31544e434c4f544du /* "MTOLCNT1" in memory order */
#define WIRE_HEADER_BYTES (256u << 10)
#define WIRE_KEY_BYTES 16
#define WIRE_MODULES_MOST 1024
/* Where a counted process keeps its private control page: below where programs and their heaps lie, in what sanitizers of
 * threads and memory take for the program's own. */
#define WIRE_PCB_VADDR 0x55006d746000ull

enum wire_flag {
    WIRE_LOST = 1,    /* some counters could not be mapped (out of areas, no memory, file gone): counts are too low */
    WIRE_THREADS = 2, /* the program created a thread */
    WIRE_THREADS_APART = 4, /* threads that had to take turns could not be kept on one processor: counts are not exact */
    WIRE_TURNS = 8, /* some threads had no area of their own: those that share one were bound to one processor, so that
                       none interrupts another's increment */
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
};
#define WIRE_AREAS_MOST 4096

struct wire_header {
    uint64_t magic;
    uint64_t area_bytes; /* a multiple of 4096 */
    uint32_t area_most;  /* areas that the file has room for */
    uint32_t area_next;  /* next free area; taken with an atomic addition; starts at 0 */
    uint32_t flags;      /* WIRE_*; set with an atomic or */
    uint32_t forks;      /* processes made by fork */
    uint32_t threads;    /* threads created */
    uint32_t execs;      /* not used by the first version: 0 */
    uint32_t module_count; /* grows while the program runs if programs that it executes are followed */
    uint32_t follows;      /* 1: areas say whose they are (no process asks the kernel for it otherwise) */
    struct wire_module modules[WIRE_MODULES_MOST];
    struct wire_area areas[WIRE_AREAS_MOST];
};

/* The sample file, where perf_event is refused: the executable's copy carries only the runtime (its code is untouched
 * and in place), which starts a CPU-time timer of the process and notes where each tick found it. The host learns what
 * was mapped where by reading /proc/PID/maps while the program runs. Created and sized by the host. The timer is not
 * inherited by children and ends at exec. */
#define WIRE_SAMPLES_ENV                                                                                               \
    "MTOOL_SAMPLES" /* value: absolute path of the sample file; taken from the environment likewise */
#define WIRE_SAMPLES_MAGIC 0x31504d534c4f544du /* "MTOLSMP1" in memory order */
struct wire_samples {
    uint64_t magic;
    uint64_t capacity;  /* of pc */
    uint64_t next;      /* samples taken; those beyond capacity are lost */
    uint64_t period_ns; /* of CPU time (user and system) */
    uint64_t started;   /* 1: the runtime has set its timer; 0: it could not */
    uint64_t reserved[3];
    uint64_t pc[]; /* addresses as the process saw them */
};

/* The window file: stretches of the instruction stream of the program's first thread, each instruction with the general
 * registers before it. The executable's copy is the one that samples; a timer of the thread's processor time starts
 * a window after a random interval, and the trap flag takes the thread through it. Created and sized by the host.
 *
 * An instruction is one word, its address in the low 48 bits and in the upper 16 a bit for each register (rax, rcx, rdx,
 * rbx, rsp, rbp, rsi, rdi, r8 ... r15) that differs from the instruction before, then the new values of these, lowest
 * first. A window begins with all of them. */
#define WIRE_WINDOWS_ENV "MTOOL_WINDOWS" /* value: absolute path of the window file; taken from the environment likewise */
#define WIRE_WINDOWS_MAGIC 0x314e49574c4f544du /* "MTOLWIN1" in memory order */
#define WIRE_WINDOWS_MOST 1000
struct wire_window {
    uint64_t first; /* its first word in data */
    uint64_t steps; /* instructions */
};
struct wire_windows {
    uint64_t magic;
    uint64_t capacity;     /* words of data */
    uint64_t used;         /* words of whole windows */
    uint64_t interval_ns;  /* mean processor time from the end of a window to the start of the next */
    uint64_t seed;         /* of the intervals; not 0 */
    uint32_t steps_most;   /* instructions of a window */
    uint32_t window_most;  /* no window begins after so many */
    uint32_t window_count; /* whole windows */
    uint32_t started;      /* 1: the runtime has set its timer; 0: it could not */
    uint64_t reserved[2];
    struct wire_window windows[WIRE_WINDOWS_MOST];
    uint64_t data[];
};
#define WIRE_STEP_WORDS_MOST 17

/* The next instruction of a window: its address; regs are brought up to date. *at moves on. */
static inline uint64_t wire_step_next(const uint64_t **at, uint64_t regs[16])
{
    uint64_t word = *(*at)++;
    for (unsigned mask = (unsigned)(word >> 48); mask; mask &= mask - 1)
        regs[__builtin_ctz(mask)] = *(*at)++;
    return word & 0xffffffffffffu;
}

#endif
