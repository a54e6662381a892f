/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources of live share.
 */
#ifndef MTOOL_LIVE_IMPL_H
#define MTOOL_LIVE_IMPL_H

#include <time.h>

#include "live/bpf/shared.h"
#include "live/live.h"
#include "perf/perf.h"

/* ---- machine.c ---- */

struct live_names {
    const char *name[LIVE_PATTERNS];
    size_t count;
};
_Static_assert(LIVE_STATES <= LIVE_PATTERNS && LIVE_COUNTERS <= LIVE_PATTERNS && LIVE_TIMERS <= LIVE_PATTERNS,
               "names of each fit");
struct live_limits {
    unsigned patterns, states, counters /* and timers */;
    size_t entries; /* of the trace */
};
struct live_program {
    struct arena *arena;
    struct live_machine machine;
    struct live_names patterns, states, counters, timers;
    struct live_limits limits;
};

/* Whom a session watches. */
struct live_target {
    enum live_scope scope;
    pid_t pid;                          /* 0 of LIVE_SYSTEM */
    struct perf_target perf;            /* the threads of it that are there; none of LIVE_SYSTEM */
    const struct live_program *program; /* NULL: no state machine */
};

/* ---- sums.c: what events add up to ---- */

struct live_sums {
    struct live_table table;
    VEC(struct live_task) tasks;    /* those that ended too */
    VEC(struct live_entry) entries; /* of the trace */
    uint64_t entries_lost;
    uint64_t lost;               /* events, or tasks, that nobody took in time */
    uint64_t idle_ns;            /* no thread of the target had a processor, or wanted one if wakeups are seen */
    uint64_t begun_ns, ended_ns; /* 0: it never began */
};
void live_sums_fini(struct live_sums *s);
/* Last: calls that have not returned count as far as they came, those that never do (exit_group) and those that a
 * thread is in at `ended_ns`. */
void live_sums_unfinished(struct live_sums *s);
/* One more, unless the program has as many as it may have. */
void live_sums_trace(struct live_sums *s, const struct live_program *p, const struct live_entry *e);
/* What mtool's own system calls cost with and without events, by which calls are corrected; all in ns a call. */
struct live_cost {
    double plain;   /* a call without events, as a program sees it */
    double watched; /* with events */
    double timed;   /* what the clock says then */
    bool is_known;
};
void live_cost_begin(struct live_cost *c); /* without events */
/* With events, of this thread; read: their sums so far of the call that it makes. */
typedef struct live_call_sum (*live_cost_read)(void *ctx);
void live_cost_loop(struct live_cost *c, live_cost_read read, void *ctx);
uint32_t live_cost_call(void); /* number of the call that it makes */

/* ---- bpf.c ---- */

struct live_bpf;
/* NULL: *why says so, in `a`. */
struct live_bpf *live_bpf_open(const struct live_target *t, struct arena *a, const char **why);
void live_bpf_cost(struct live_bpf *b, struct live_cost *c);
void live_bpf_begin(struct live_bpf *b);
int live_bpf_fd(const struct live_bpf *b); /* to poll */
void live_bpf_drain(struct live_bpf *b);
void live_bpf_stop(struct live_bpf *b, struct live_sums *out);
void live_bpf_close(struct live_bpf *b);

/* ---- trace.c ---- */

struct live_trace;
enum live_depth {
    LIVE_TRACE_TURNS, /* who runs when */
    LIVE_TRACE_CALLS, /* and system calls */
    LIVE_TRACE_ALL    /* and page faults and interrupts */
};
/* NULL with *why if that is not to be had. */
struct live_trace *live_trace_open(const struct live_target *t, enum live_depth depth, struct arena *a,
                                   const char **why);
void live_trace_cost(struct live_cost *c);
void live_trace_begin(struct live_trace *t);
size_t live_trace_poll(const struct live_trace *t, struct pollfd *out, size_t max);
void live_trace_drain(struct live_trace *t);
void live_trace_stop(struct live_trace *t, struct live_sums *out);
void live_trace_close(struct live_trace *t);

/* ---- symbols.c: functions of the kernel ---- */

struct live_symbols;
struct live_symbols *live_symbols_read(const char *path, struct arena *a, const char **why); /* NULL with *why */
uint32_t live_symbols_find(const struct live_symbols *s, uint64_t address);                  /* ID_NONE: in none */
const char *live_symbols_name(const struct live_symbols *s, uint32_t id);
size_t live_symbols_count(const struct live_symbols *s);
void live_symbols_free(struct live_symbols *s);

/* ---- regions.c ---- */

enum live_region_id {
#define REGION(id, name, label, functions) LIVE_REGION_##id,
#include "live/regions.def"
#undef REGION
    LIVE_REGIONS
};
extern const char *const live_region_name[LIVE_REGIONS], *const live_region_label[LIVE_REGIONS];
enum live_region_id live_region_of(const char *function);
/* What code of the kernel that is entered by this function does: LIVE_PART_FAULT, _CALL, _INTERRUPT, else -1. */
int live_entry_of(const char *function);

/* ---- samples.c ---- */

/* Seconds of processor time that a sample takes here, less what it spoils in caches; NAN: not to be measured. */
double live_pace_measure(void);
double live_pace(double sample_s); /* samples a second that take a hundredth of it, 997 at most */
struct live_samples;
struct live_samples *live_samples_open(const struct live_target *t, double hertz, struct arena *a, const char **why);
void live_samples_begin(struct live_samples *s);
void live_samples_drain(struct live_samples *s);
void live_samples_close(struct live_samples *s);
struct live_sampled {
    uint64_t all, lost, parts[LIVE_PARTS];
    bool is_user_only;
    double period_s, sample_s; /* sample_s: processor time that one takes; NAN: not known */
    struct map functions;      /* id of symbol -> samples */
    uint64_t unnamed;          /* of the kernel, in no function that is known */
};
const struct live_sampled *live_samples_result(const struct live_samples *s);
const struct live_symbols *live_samples_symbols(const struct live_samples *s); /* NULL: hidden */

/* ---- accounts.c ---- */

struct live_accounts { /* NAN, UINT64_MAX: not known */
    double user_s, system_s, idle_s;
    uint64_t faults_minor, faults_major, switches, preemptions;
};
struct live_accounts live_accounts_none(void);
/* So far, of a process and the children that it waited for, or of the system (pid 0). False: it is gone. */
bool live_accounts_read(pid_t pid, struct live_accounts *out);
struct live_accounts live_accounts_of(const struct rusage *u);
struct live_accounts live_accounts_less(const struct live_accounts *a, const struct live_accounts *b);
bool live_is_kernel_thread(pid_t tid);
/* The threads of a process; the count, 0: it is gone. In *tids, on the heap. */
size_t live_threads_of(pid_t pid, pid_t **tids);

/* ---- calls.c ---- */

const char *live_call_name(uint32_t number); /* NULL: not known */
const char *live_vector_name(struct arena *a, uint32_t vector);
int live_vector_find(const char *name); /* local_timer, ..., softirq-N, device-N; -1 */

/* ---- counters.c ---- */

struct live_counters;
struct live_counters *live_counters_open(const struct live_target *t, struct arena *a, const char **why);
bool live_counters_any(const struct live_counters *c);
void live_counters_read(const struct live_counters *c, struct live_result *r);
void live_counters_close(struct live_counters *c);

/* ---- result.c ---- */

struct live_found { /* all that a session has */
    enum live_scope scope;
    double wall_s;
    bool has_events; /* system calls, interrupts, faults */
    bool has_turns;  /* who ran when */
    bool sees_idle;
    struct live_sums *sums;
    struct live_cost cost;
    struct live_accounts accounts;
    const struct live_sampled *samples; /* NULL: none */
    const struct live_symbols *symbols; /* NULL likewise */
    const struct live_program *program; /* NULL likewise */
};
void live_result_fill(const struct live_found *f, struct live_result *r);

#endif
