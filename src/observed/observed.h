/* SPDX-License-Identifier: Apache-2.0
 *
 * observed: what is seen of a program while it runs, in the terms of its files: which module (an index into the list of
 * those that it loads) and which address in that file. Made by launch, brought back from copies to originals by
 * rewrite, read by measured and all that stands on it. Headers only.
 */
#ifndef MTOOL_OBSERVED_H
#define MTOOL_OBSERVED_H

#include <stdbool.h>
#include <stdint.h>

struct observed_place {
    uint32_t module; /* ID_NONE: none of them, then vaddr is OBSERVED_VADDR_* */
    uint64_t vaddr;  /* as in the file */
};
#define OBSERVED_VADDR_UNKNOWN 0 /* user code outside of any file: vdso, made at run time (JIT) */
#define OBSERVED_VADDR_KERNEL 1

/* A place as one number, of 47 bits: the module in the upper 11 and the address in the lower 36. */
#define OBSERVED_PLACE_UNKNOWN 0x7fffffffffffu
#define OBSERVED_PLACE_MODULES 2047u
#define OBSERVED_PLACE(module, vaddr) ((uint64_t)(module) << 36 | (vaddr))
#define OBSERVED_PLACE_MODULE(place) ((uint32_t)((place) >> 36))
#define OBSERVED_PLACE_VADDR(place) ((place)&0xfffffffffu)

struct observed_sample { /* aggregated: one row a distinct place */
    uint32_t module;     /* as in a place */
    uint64_t vaddr;
    uint64_t count;
};
enum observed_activity { OBSERVED_RUNS, OBSERVED_IN_KERNEL, OBSERVED_BLOCKED, OBSERVED_ACTIVITY_COUNT };
struct observed_thread_sample { /* aggregated */
    uint32_t thread;            /* index into threads */
    enum observed_activity activity;
    int32_t syscall; /* OBSERVED_BLOCKED: in which; else -1 */
    uint32_t stack;  /* index into frames: where; in the kernel: from where */
    uint64_t count;  /* weighs against others of the thread that do the same: the processor has a clock of its own */
};
struct observed_frame { /* of a chain of calls; the address of a caller lies inside its call */
    uint32_t parent;    /* the caller's, an index below its own; ID_NONE: this is the first of the thread */
    uint32_t module;    /* as in a place; in no module: what is above is not known */
    uint64_t vaddr;
};
struct observed_moment {
    double time_s;   /* since the program's beginning */
    uint32_t sample; /* index into the thread samples */
};
struct observed_probe { /* of one object, summed over threads and processes: in ticks, with what the probes took
                           themselves; see struct wire_probe */
    uint32_t module, cell;
    uint64_t ticks, count, clocked_ticks, clocked_ns, cut, looks, restarts;
    struct observed_stamps {
        uint64_t seen, ticks, squares; /* how many stamped twice, what they took, and its squares */
    } begin, end;                      /* of starts, of stops */
    uint64_t look_seen, look_ticks;    /* of those that looked at the processor time likewise, but all of them */
    uint64_t open, open_ticks;         /* under way when the program ended; ticks until then, not part of ticks */
    uint64_t open_ns;                  /* processor time of these; 0: not known (of threads, or it made processes) */
};
struct observed_thread { /* in order of their beginnings; the first is the program's first */
    uint32_t tid;
    bool has_ended;         /* else it was there when the program ended */
    double begin_s, wall_s; /* since the program's beginning; from its beginning to its end */
    double cpu_s, ready_s;  /* it had a processor; it wanted one and had none. NAN not known */
};

#endif
