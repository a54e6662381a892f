/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What the BPF program and the host tell each other, and what a clock keeps (clock.h).
 */
#ifndef MTOOL_LIVE_BPF_SHARED_H
#define MTOOL_LIVE_BPF_SHARED_H

#include <linux/types.h>

enum {
    LIVE_NEST = 4,    /* interrupts within interrupts; the kernel does not nest deeper */
    LIVE_CALLS = 512, /* system calls by number, larger numbers in the last */
    LIVE_SOFT = 64,   /* vectors: below are those of interrupts.def, here softirqs begin, */
    LIVE_DEVICE = 80, /* and here devices, by number */
    LIVE_VECTORS = 512,
    LIVE_COMM = 16
};
enum live_context {
    LIVE_UNKNOWN, /* until the first event that tells: entry says it was user mode, exit a system call */
    LIVE_USER,    /* outside of calls and interrupts: user mode, and page faults out of it */
    LIVE_CALL,
    LIVE_KERNEL, /* a kernel thread */
    LIVE_IDLE    /* the idle thread of a processor */
};
struct live_call_sum {
    __u64 count, errors;
    __u64 own_ns;    /* on a processor, without interrupts */
    __u64 waited_ns; /* off it, since the call waited or was pre-empted */
};
struct live_vector_sum {
    __u64 count, ns;
};
/* ---- state machines (step.h): every thread is in a state, events lead to others ---- */

enum { LIVE_PATTERNS = 32, LIVE_STATES = 32, LIVE_MOVES = 128, LIVE_COUNTERS = 32, LIVE_TIMERS = 4 };
enum { LIVE_MARKS = LIVE_COUNTERS + LIVE_TIMERS };
enum live_event {
#define EVENT(id, name, number, flag) LIVE_EVENT_##id,
#include "live/events.def"
#undef EVENT
    LIVE_EVENTS_COUNT
};
struct live_pattern { /* what an event must be; all of it */
    __u64 low, high;  /* address */
    __u64 comm[2];    /* of the thread */
    __u32 number;     /* of the call, or the vector */
    __u8 event, has_number, has_comm;
    __u8 flag; /* 0 any, 1 not, 2 so */
};
struct live_move { /* of a state, on a pattern; all but `pattern`: 0 none, else 1 more */
    __u8 pattern, count, start, stop, target, is_traced;
};
struct live_machine {
    __u32 pattern_count, events; /* events that there are patterns for, a bit each */
    struct live_pattern patterns[LIVE_PATTERNS];
    __u8 first[LIVE_STATES + 1]; /* moves of state i are those from first[i] up to first[i + 1] */
    struct live_move moves[LIVE_MOVES];
};
struct live_mark { /* a counter, or a timer: how often stopped, and what passed between start and stop */
    __u64 count, elapsed_ns, own_ns;
};
struct live_timer { /* of a thread; 0: not started */
    __u64 begin_ns, own_ns;
};
struct live_entry { /* of the trace */
    __u64 time_ns;
    __u32 tid, tgid;
    __u8 pattern, state, padding[6]; /* it left that state */
};

struct live_table { /* of the host; in the kernel each is a map */
    struct live_call_sum calls[LIVE_CALLS];
    struct live_vector_sum vectors[LIVE_VECTORS];
    struct live_mark marks[LIVE_MARKS];                   /* counters, then timers */
    void (*trace)(void *ctx, const struct live_entry *e); /* NULL: nothing is traced */
    void *ctx;
};
struct live_task {
    /* what a system call touches, together */
    __u64 since_ns; /* of what was not charged yet; 0: off the processor */
    __u64 user_ns, call_ns;
    __u64 this_call_ns, this_off_ns; /* of the call that it is in */
    __u64 off_ns;                    /* since when it is off the processor; 0: it is on it, or never was */
    __u32 calls;
    __u16 call; /* number + 1; 0: none that was seen to begin */
    __u8 context, depth;
    __u16 nest[LIVE_NEST];
    __u64 pending_ns, kernel_ns, idle_ns, interrupt_ns;
    __u64 ready_ns, waited_ns; /* off the processor: it wanted one, it waited for something else */
    __u64 address;             /* of the task, in the kernel; 0: not known */
    __u32 tid, tgid;
    __u32 faults_user, faults_kernel, switches, preemptions;
    __u8 was_preempted, is_counted /* among those that run or want to */;
    __u8 is_waiting /* for its exec, before which nothing counts */, state, padding[4];
    char comm[LIVE_COMM]; /* zero to its end */
    struct live_timer timers[LIVE_TIMERS];
};

enum { LIVE_TASKS_MAX = 32768, LIVE_DEAD_BYTES = 4 << 20, LIVE_TRACE_BYTES = 4 << 20 };
/* What an interrupt told while another event was being dealt with, which the next event deals with first. */
enum { LIVE_PUT_OFF = 32 };
enum live_put_off_kind { LIVE_PUT_OFF_INTERRUPT, LIVE_PUT_OFF_RESUME, LIVE_PUT_OFF_FAULT };
struct live_put_off {
    __u64 time_ns, address;
    __u32 vector, kind;
};
struct live_cpu {     /* of a processor: a copy of the entry of the thread that runs, until it stops */
    __u32 tid;        /* 0 the idle thread */
    __u32 generation; /* all before it is forgotten when live_state has another */
    __u32 is_ours;
    __u32 is_busy;         /* an event is being dealt with: nobody else may touch `task` */
    __u32 head, tail;      /* of put_off: how many were put in, and taken out */
    struct live_task task; /* valid if is_ours */
    struct live_put_off put_off[LIVE_PUT_OFF];
};
/* The idle thread of a processor has this for its number, and the processor's. */
#define LIVE_IDLE_BIT 0x80000000u

struct live_config {      /* constants of a load */
    __u32 is_system;      /* all tasks count, else those that are in the map, and what they fork */
    __u32 waits_for_exec; /* nothing counts before the first thread executes a program */
    /* Of mtool's own pid namespace, in whose numbers live_state.root is; 0: the host put all threads into the map. */
    __u64 namespace_device, namespace_inode;
    struct live_machine machine;
};
struct live_state {       /* one, changed by the program */
    __u64 begun_ns;       /* counting began */
    __u64 lost;           /* tasks and ended tasks that there was no room for */
    __u64 trace_lost;     /* entries of the trace that nobody took in time */
    __u64 idle_ns;        /* no counted thread had a processor or wanted one, while one of them was alive */
    __u64 idle_since_ns;  /* 0: not so now */
    __s64 active;         /* threads that run or want to */
    __u64 apart[8];       /* what changes often from what each event reads */
    __u32 is_on;          /* 0: nothing is counted */
    __u32 generation;     /* the host adds 1 when it has changed the map of tasks */
    __u32 root, reserved; /* with config.namespace_inode: the process that is found when it runs */
};

#endif
