/* SPDX-License-Identifier: Apache-2.0
 *
 * live: what the running kernel tells of a command, a process or the whole system while it runs: where processor time
 * goes in user and kernel mode, system calls with their own time, page faults, interrupts, switches, idle time, regions
 * of the kernel. Each source is tried when a session begins; what none can tell is NAN or UINT64_MAX, with the reason.
 */
#ifndef MTOOL_LIVE_H
#define MTOOL_LIVE_H

#include <sys/types.h>

#include "base/base.h"

struct rusage;

/* ---- sources ---- */

enum live_source {
#define SOURCE(id, name, tells, cannot_see) LIVE_##id,
#include "live/sources.def"
#undef SOURCE
    LIVE_SOURCES
};
struct live_source_row {
    const char *name, *tells, *cannot_see;
};
extern const struct live_source_row live_source_rows[LIVE_SOURCES];
int live_source_find(const char *name, size_t len); /* -1: none has that name */
struct live_source_state {
    bool is_used;
    const char *found; /* what it is, or why it is not used */
};
/* Tries each, for a process of one's own. Texts in `a`. */
void live_probe(struct arena *a, struct live_source_state out[LIVE_SOURCES]);

/* ---- session.c ---- */

/* A state machine over events (machine.c), by the language of doc/monster-live.md; as_analyser: within the limits of
 * the paper's logic analyser. NULL after one line. */
struct live_program;
struct live_program *live_program_read(const char *path, bool as_analyser);
void live_program_free(struct live_program *p);

enum live_scope { LIVE_COMMAND, LIVE_PROCESS, LIVE_SYSTEM };
struct live_options {
    enum live_scope scope;
    double hertz;                       /* samples a second; 0: 997, less where one takes long (samples.c) */
    unsigned without;                   /* sources that are not to be tried, bits by enum live_source */
    const struct live_program *program; /* NULL: none; stays until the end */
};
enum { LIVE_HERTZ_MAX = 10000 }; /* above it sampling feeds on itself */

struct live_session;
/* pid: of LIVE_COMMAND a process that has not executed its program yet: all begins with that; of LIVE_PROCESS one that
 * runs; else 0. Never fails for what the kernel refuses: see the sources of the result. */
struct live_session *live_session_begin(const struct live_options *opt, pid_t pid);
/* Stops counting. usage: of the command, that ended, and its children; else NULL. */
void live_session_stop(struct live_session *s, const struct rusage *usage);
struct live_result *live_session_finish(struct live_session *s); /* after live_session_stop; frees the session */

/* ---- result ---- */

/* Parts of processor time. */
enum live_part {
#define PART(id, key, text) LIVE_PART_##id,
#include "live/parts.def"
#undef PART
    LIVE_PARTS
};
extern const char *const live_part_key[LIVE_PARTS], *const live_part_text[LIVE_PARTS];
enum live_how { LIVE_NOT_KNOWN, LIVE_EVENTS, LIVE_EVENTS_AND_SAMPLES, LIVE_SAMPLED, LIVE_TICKS };
extern const char *const live_how_text[];

struct live_figure {
    double s;     /* NAN: not known */
    double off_s; /* half of the 95 % interval that samples leave; 0: none */
    enum live_how how;
};
struct live_call { /* a system call */
    uint32_t number;
    const char *name; /* NULL: not known to the headers that mtool was built with */
    uint64_t count, errors;
    double own_s, waited_s; /* waited: off the processor within it */
};
struct live_vector { /* an interrupt */
    const char *name;
    uint64_t count;
    double s;
};
struct live_process {
    uint32_t pid, threads;
    const char *name;
    bool is_kernel;
    double cpu_s;                                 /* all of the following */
    double user_s, call_s, kernel_s, interrupt_s; /* user_s with page faults; NAN without events */
    double ready_s;                               /* wanted a processor and had none */
    uint64_t calls, faults_user, faults_kernel, switches, preemptions;
};
struct live_region {
    const char *name, *label; /* in JSON, for people */
    uint64_t samples;
    struct live_figure time;
};
struct live_function { /* of the kernel */
    const char *name, *region;
    uint64_t samples;
};
struct live_mark_row { /* a counter or timer of a state machine */
    const char *name;
    uint64_t count;
    double elapsed_s, own_s; /* of a timer: between start and stop, all and on a processor; else NAN */
};
struct live_trace_row {
    double time_s; /* since watching began */
    uint32_t pid, tid;
    const char *pattern, *state; /* which state it left */
};
struct live_counter {
    const char *name, *mode; /* "user" or "kernel" */
    double count;            /* NAN: not known */
    double part;             /* of the time it was counted */
    const char *why;         /* not known */
};
struct live_result {
    enum live_scope scope;
    double wall_s;
    uint32_t processors;
    struct live_figure parts[LIVE_PARTS];
    double kernel_s;                /* sum of what is the kernel's; NAN */
    double cpu_s;                   /* all but idle, by the most exact source; NAN */
    double unseen_s;                /* of LIVE_SYSTEM: processor time that no event told of; NAN: not known */
    double probes_s;                /* what the program spent in tracepoints, not in the figures; NAN: not known */
    double probe_ns, probe_bias_ns; /* of one call: outside of, and within what was timed; NAN: not calibrated */
    struct live_call *calls;        /* those with the most time first */
    size_t call_count;
    struct live_vector *vectors;
    size_t vector_count;
    struct live_process *processes;
    size_t process_count;
    struct live_region *regions; /* in the order of regions.def; none without symbols */
    size_t region_count;
    struct live_function *functions;
    size_t function_count;
    struct live_counter *counters;
    size_t counter_count;
    struct live_mark_row *marks; /* counters, then timers */
    size_t mark_count;
    struct live_trace_row *trace; /* in order of time */
    size_t trace_count;
    uint64_t trace_lost;
    bool has_program;                                                /* and events to move it */
    uint64_t faults_user, faults_kernel, faults_minor, faults_major; /* UINT64_MAX: not known */
    uint64_t switches, preemptions;                                  /* likewise */
    double account_user_s, account_system_s; /* by the kernel's own account, watching included; NAN */
    double samples_hz, sample_s;             /* sample_s: what one takes of the processor; NAN: not known */
    uint64_t samples, samples_user, samples_lost, events_lost;
    bool has_events, has_samples, has_kernel_samples;
    struct live_source_state sources[LIVE_SOURCES];
    struct arena *arena;
};
void live_result_free(struct live_result *r);

#endif
