/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pieces of the runtime share: system calls, the words in front of a module's counters, and the control page
 * of a counted process. Nothing here is known to the host (that is wire.h).
 *
 * One control page a process stands at a fixed address (WIRE_PCB_VADDR); the first module that starts makes it. In
 * front of it lies a page that the kernel clears in the child of a fork, and only there: so a child knows whether its
 * memory is its own, whatever its siblings do at the same time. exec drops both.
 */
#ifndef MTOOL_RT_H
#define MTOOL_RT_H

#include "wire/wire.h"

#include <asm/errno.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/signal.h>
#include <linux/time.h>

typedef __SIZE_TYPE__ size_t;

enum {
    SYS_read = __NR_read,
    SYS_close = __NR_close,
    SYS_mmap = __NR_mmap,
    SYS_mprotect = __NR_mprotect,
    SYS_munmap = __NR_munmap,
    SYS_rt_sigaction = __NR_rt_sigaction,
    SYS_rt_sigprocmask = __NR_rt_sigprocmask,
    SYS_access = __NR_access,
    SYS_sched_yield = __NR_sched_yield,
    SYS_mincore = __NR_mincore,
    SYS_madvise = __NR_madvise,
    SYS_nanosleep = __NR_nanosleep,
    SYS_alarm = __NR_alarm,
    SYS_setitimer = __NR_setitimer,
    SYS_prctl = __NR_prctl,
    SYS_seccomp = __NR_seccomp,
    SYS_getpid = __NR_getpid,
    SYS_clone = __NR_clone,
    SYS_wait4 = __NR_wait4,
    SYS_getppid = __NR_getppid,
    SYS_sigaltstack = __NR_sigaltstack,
    SYS_arch_prctl = __NR_arch_prctl,
    SYS_gettid = __NR_gettid,
    SYS_tkill = __NR_tkill,
    SYS_futex = __NR_futex,
    SYS_sched_setaffinity = __NR_sched_setaffinity,
    SYS_sched_getaffinity = __NR_sched_getaffinity,
    SYS_getrusage = __NR_getrusage,
    SYS_timer_create = __NR_timer_create,
    SYS_timer_settime = __NR_timer_settime,
    SYS_timer_delete = __NR_timer_delete,
    SYS_getpriority = __NR_getpriority,
    SYS_setpriority = __NR_setpriority,
    SYS_clock_gettime = __NR_clock_gettime,
    SYS_exit_group = __NR_exit_group,
    SYS_openat = __NR_openat,
    SYS_getcpu = __NR_getcpu,
    SYS_close_range = __NR_close_range
};
enum { PROT_RW = PROT_READ | PROT_WRITE, O_RDWR_CLOEXEC = O_RDWR | O_CLOEXEC };
enum { PAGE = 4096, PATH_BYTES = 512, SLOTS_MAX = 512 };

enum {
    CONFIG_SAMPLER = 1,
    CONFIG_STATIC = 2,
    CONFIG_GS = 4,
    CONFIG_PROBES = 8,
    CONFIG_FAULTS = 16,
    CONFIG_STREAM = 32,
    CONFIG_LINES = 64,
    CONFIG_PROBED = 128,    /* with CONFIG_PROBES: this module has some */
    CONFIG_LAST_SHIFT = 8,  /* a byte: how many lines of each place of the filter are kept (rt_last.S) */
    CONFIG_SHIFT_SHIFT = 16 /* a byte: log2 of the filter's lines */
};
struct rt_config {    /* filled in by the rewriter; distances from the start of the blob */
    int64_t data_rel; /* struct rt_data, and the counters PAGE bytes further */
    uint64_t bytes;   /* of the counters, a multiple of PAGE */
    uint64_t flags;   /* CONFIG_* */
    int64_t orig_rel; /* the original DT_INIT or e_entry; 0 none */
    uint8_t key[WIRE_KEY_BYTES];
    int64_t image_rel; /* the module's first byte */
    int64_t phdrs_rel; /* a library's program headers, behind which is a zero; 0 none */
};

struct rt_data {       /* in the module's own writable page */
    uint64_t early;    /* what rt_early gave to the dynamic linker */
    uint64_t self;     /* own address, once registered: tells a live module from memory used again after dlclose */
    uint64_t counting; /* 1: the control page is there and this process is counted */
    uint64_t at_exit;  /* what the executable was given to call at its end; 0 none */
};

struct rt_module {
    uint64_t data, bytes;
    uint64_t offset; /* of its counters inside an area; NOWHERE: the file has no place for it */
    uint32_t wire;   /* its place in the header */
    uint32_t is_mapped;
    const struct rt_config *config; /* valid while the module is loaded; 0: it is the stream of references */
    uint64_t text_bytes;            /* new code begins so far in front of data */
    uint64_t has_probes;            /* 1: more than the cell that is no probe's */
};
#define NOWHERE UINT64_MAX

struct rt_slot {    /* an area that one thread at a time counts into: see slots.c */
    uint64_t delta; /* gs base of its thread: distance from a module's counters to its own */
    uint64_t area, parent_gs;
    int32_t tid;       /* of the thread that has it; 0 none; SLOT_PENDING: is being made */
    int32_t creator;   /* tid of the thread that makes it */
    uint32_t is_stale; /* the area is the parent process's */
    uint32_t pad;
};
enum { SLOT_PENDING = -1 };

struct rt_caught { /* a handler of faults, and what the kernel calls in its stead */
    uint64_t handler, thunk;
};
enum { CAUGHT_MAX = 32 };

struct rt_pcb {
    uint64_t magic;
    struct wire_header *header; /* shared mapping; 0: not looked for yet */
    uint64_t area;              /* of the first thread */
    uint32_t module_count, slot_count, slot_hint;
    uint32_t is_serialized; /* threads are serialized on the processor `serial_cpu` */
    uint32_t serial_cpu, no_slots, no_wipe, has_fsgsbase;
    uint64_t stack_top;   /* of the first thread's stack what is known to be there; 0: nothing */
    uint32_t is_confined; /* it may have forbidden itself system calls */
    uint32_t no_copies;   /* of the stack: a child of a fork that is not followed */
    uint32_t no_lines;    /* filters hold nothing: there are too many threads, or no room for lines' words */
    int32_t windows_pid;  /* of the process whose ticks come from the host; 0 none */
    int32_t lock;         /* tid */
    int64_t slot_next, slot_step;
    uint64_t fork_area, fork_filled; /* of the last fork, as wire_stream.parent */
    char path[PATH_BYTES];
    struct rt_module modules[WIRE_MODULES_MAX];
    struct rt_slot slots[SLOTS_MAX];
    struct rt_caught caught[CAUGHT_MAX];
};
#define WIPED ((uint64_t *)WIRE_PCB_VADDR) /* 1, and 0 in the child of a fork */
#define PCB ((struct rt_pcb *)(WIRE_PCB_VADDR + PAGE))
#define PCB_BYTES (PAGE + (sizeof(struct rt_pcb) + PAGE - 1) / PAGE * PAGE)

static inline int64_t sys(uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    register uint64_t r10 __asm__("r10") = d;
    register uint64_t r8 __asm__("r8") = e;
    register uint64_t r9 __asm__("r9") = f;
    int64_t rc;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return rc;
}

static inline int failed(int64_t rc) { return rc < 0 && rc > -4096; }

static inline uint64_t clock_ns(int clock)
{
    uint64_t t[2] = {0, 0};
    sys(SYS_clock_gettime, (uint64_t)clock, (uint64_t)t, 0, 0, 0, 0);
    return t[0] * 1000000000u + t[1];
}

#pragma GCC visibility push(hidden) /* else the compiler goes through a GOT that the blob does not have */
extern const struct rt_config rt_config;
extern const char rt_blob[], rt_blob_end[];

/* rt_entry.S */
void rt_sigreturn(void);
extern const char rt_thunks[]; /* THUNK_BYTES each */
enum { THUNK_BYTES = 10 };
void rt_fault_return(void);

/* rt.c */
void rt_start(char **envp);
uint64_t rt_register(void);
void rt_new_process(void);
int rt_open(const char *path);
void rt_flag(uint32_t bits); /* WIRE_* in the file's header */
uint64_t rt_take_area(void); /* UINT64_MAX: none left */
int rt_take_env(char **envp, const char *name, char *path);
int rt_is_alive(const struct rt_module *m);
void rt_resolve(struct rt_module *m); /* finds its place in the file */
/* Puts the file's counters of the present area over a module's; what it has counted so far is added if `keep`, else
 * lost on purpose (a child's copy of its parent's counts). 0: it cannot, counts go to private memory. */
int rt_map_counters(struct rt_module *m, int keep);
struct rt_module *rt_free_entry(uint64_t lo, uint64_t hi);
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);

/* slots.c */
void rt_note_clone(uint64_t nr, uint64_t a0, uint64_t a1);
void rt_after_clone(int64_t rc);
void rt_slots_add(const struct rt_module *m);    /* a module appears: all slots get counters of it */
void rt_slots_remove(const struct rt_module *m); /* it is gone */
void rt_slots_forked(void);
struct rt_mask {
    uint64_t before;
};
uint64_t rt_own_delta(void); /* of the calling thread: gs base, or 0 */
void rt_lock(struct rt_mask *m);
void rt_unlock(const struct rt_mask *m);

/* probes.c */
void rt_probes_landed(uint64_t stack);
void rt_probes_forget(uint64_t delta); /* of a thread that is gone, whose cells another gets */
uint64_t rt_probes_exit(void);         /* the process ends; what it was to call then, 0 none */

/* stream.c; all but the last three with the lock held, or before there are threads */
void rt_stream_enter(void);                          /* makes it, if it is not there yet */
void rt_stream_open(struct rt_module *m);            /* the counter file is known now */
void rt_stream_thread(uint64_t delta, uint32_t nth); /* that has this gs base begins */
void rt_stream_loads(void);                          /* the calling thread has loaded a file */
void rt_stream_hand_out(uint64_t delta);             /* who has this gs base makes a thread; with signals blocked */
void rt_stream_forks(void);                          /* the thread makes a process */
void rt_stream_forked(void);
void rt_stream_confine(void);       /* the program is going to forbid itself system calls */
void rt_stream_full_confined(void); /* without one, and with signals as they are */
void rt_stream_no_lines(void);      /* filters of threads hold nothing from now on */
void rt_stream_full(void);          /* the thread's chunk is; with signals blocked */
struct wire_stream *rt_own_stream(void);

/* told.c: by rt_told.S */
struct told;
enum { RT_CALLS_MAX = 512 };
extern const uint8_t rt_calls_known[RT_CALLS_MAX]; /* by number: 1: calls.def has it */
void rt_stream_told(const struct told *t, uint64_t site, uint32_t word);

/* faults.c */
int rt_is_readable(uint64_t at); /* so much as an action has, 32 bytes; by a system call */
int64_t rt_sigaction(uint64_t sig, const uint64_t *act, uint64_t *old, uint64_t bytes);
uint64_t rt_fault_came(uint64_t thunk, uint64_t *frame);
void rt_fault_returned(const uint64_t *context);

/* sampler.c */
void rt_start_sampling(char **envp);

/* windows.c */
int32_t rt_start_windows(char **envp); /* see rt_pcb.windows_pid */
void rt_give_up_windows(void);
#pragma GCC visibility pop

static inline struct rt_data *own_data(void) { return (struct rt_data *)(rt_blob + rt_config.data_rel); }
static inline int is_counting(void) { return own_data()->counting != 0; }

#endif
