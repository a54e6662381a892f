/* SPDX-License-Identifier: Apache-2.0
 *
 * rt/windows.h: what the timer (windows.c), the processes that it makes (checkpoint.c, bursts.c) and the replays
 * (replay.c) share.
 */
#ifndef MTOOL_RT_WINDOWS_H
#define MTOOL_RT_WINDOWS_H

#include "rt/rt.h"

#include <asm/prctl.h>

enum { G_RSP = 15, G_RAX = 13, G_RIP = 16, G_FLAGS = 17 }; /* in gregs */
enum {
    CONTEXT_STACK = 16, /* the alternate one as it was set: address, flags, bytes */
    CONTEXT_GREGS = 40,
    CONTEXT_VECTORS = 224, /* pointer to the state of the vector registers */
    CONTEXT_MASK = 296,    /* signals blocked */
    TRAP_FLAG = 0x100
};

struct kernel_action {
    uint64_t handler, flags, restorer, mask;
};

enum { PROCESSOR_WORDS = 64 };

struct windows_state {
    struct wire_bursts *bursts;
    struct wire_windows *file; /* 0: none are taken step by step */
    uint64_t file_bytes;
    uint64_t random;
    int32_t pid, tid; /* tid 0: every thread has ticks */
    uint32_t timer, given_up;
    uint64_t snapshots_ns;     /* of system time, for snapshots, so far */
    uint64_t window_ns;        /* of the program's own time, when a window began that was taken step by step */
    uint32_t steps_busy;       /* a thread waits for its window that is taken step by step */
    uint32_t ticks, steps_due; /* steps_due: ticks for which such a window has been wanted; 0: none is */
    /* of the recorder */
    uint64_t regs[16]; /* of the instruction noted last */
    uint64_t word;     /* next free one */
    uint32_t is_first, is_checkpoint, slice, pushed_flags;
    uint64_t step;
    uint32_t stops; /* how often the checkpoint is still to come to stop_at natively; 0: it goes step by step */
    uint32_t may_stop, stop_byte; /* stop_byte: the code's own */
    uint64_t stop_at;
    uint64_t area;         /* where replays have their code */
    uint64_t going_back;   /* original.c's, in a snapshot that has gone back to the original's code; 0 none */
    uint32_t has_stack;    /* that of the signals is there */
    uint32_t chain;        /* ticks of the canary before, see struct wire_canary; 0 none */
    uint32_t canary_times; /* 0: not known yet */
    uint32_t chance;       /* of replays */
    uint32_t knows_processors;
    uint64_t processors[PROCESSOR_WORDS]; /* that replays may run on, once they are known */
    uint64_t noted[2048];                 /* addresses whose bytes were told, by hash */
};
#define WINDOWS_VADDR (WIRE_PCB_VADDR - 8 * PAGE)
#define WINDOWS ((struct windows_state *)WINDOWS_VADDR)
_Static_assert(sizeof(struct windows_state) <= 6 * PAGE, "the pages below the control page");

#pragma GCC visibility push(hidden)
extern const uint8_t rt_greg_order[16]; /* in gregs: rax, rcx, ... */

/* checkpoint.c: in the child of the tick's fork; returns into the program's code under the trap flag, or not at all. */
void rt_checkpoint(void *context);
_Noreturn void rt_leave(void);
/* Closes all files and takes away access to shared memory, but for the file that is mapped at `at`. 0: it cannot. */
int rt_cut_off(uint64_t at, uint64_t bytes);
/* Faults and traps go to the handler, nothing else comes. 0: it cannot. */
int rt_take_signals(void *context, void (*handler)(int sig, const void *info, void *context));
/* After rt_restore_original: is a checkpoint from here on, and begins. */
void rt_become_checkpoint(void);
void rt_checkpoint_resume(void *context);
/* Neither ends a window nor tells of the trap flag. */
int rt_may_step(const uint64_t *gregs);
void rt_close_files(void);

/* bursts.c: likewise; goes on in translated code. */
void rt_burst(void *context);
void rt_burst_on(void *context);
_Noreturn void rt_leave_burst(void);
uint32_t rt_ask_host(uint32_t request); /* enum wire_burst_request; the answer */

/* original.c: in a snapshot of a counted process; goes on as what is wanted (enum wire_want), or not at all. */
void rt_restore_original(void *context, uint32_t want);
int rt_is_in_copy(uint64_t address); /* only in a snapshot that has gone back */
void rt_note_snapshot(int64_t pid);

/* replay.c: the slice whose first step is next. */
void rt_replay(struct wire_slice *s, const uint64_t *gregs, const void *vectors);
/* The code at `at`, which has so many bytes, may be written. 0: it may not. */
int rt_open_code(uint64_t at, uint64_t bytes);

/* rt_replay.S */
extern const char rt_area_code[], rt_area_exit[], rt_area_code_end[];
uint64_t rt_chain(uint32_t turns), rt_width(uint32_t turns); /* ticks */
#pragma GCC visibility pop

#endif
