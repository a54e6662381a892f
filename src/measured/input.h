/* SPDX-License-Identifier: Apache-2.0
 *
 * measured/input.h: what the join is made of, filled by cmd from launch, rewrite and machine.
 */
#ifndef MTOOL_MEASURED_INPUT_H
#define MTOOL_MEASURED_INPUT_H

#include "observed/observed.h"
#include "result/result.h"

struct rewrite_map;
struct rewrite_flow;
struct machine;
struct prof_input_module {
    const char *path;
    const struct rewrite_map *map; /* NULL: not counted */
    const uint64_t *counters;      /* NULL likewise, or never loaded */
    const struct rewrite_side_exit
        *side_exits; /* [side_exit_count] where faults left blocks in the run that was counted */
    size_t side_exit_count;
    struct rewrite_flow
        *flow;           /* the solution of these counters, if it is known: the join takes it over and changes it */
    const char *refused; /* why the whole module was not rewritten, NULL */
    bool is_interp;      /* ld.so */
};
struct prof_request {     /* an object that the user named: a function, or a line of a file */
    const char *text;     /* as it was typed */
    const char *function; /* NULL: a line */
    const char *file;
    uint32_t line;
};
struct wire_slice;
struct trace_window;
struct prof_input_window { /* a stretch of the instruction stream, slices of which were replayed */
    const struct trace_window *window;
    uint32_t slice_count;
    const struct wire_slice *slices; /* replayed, or not */
};
struct prof_input_burst { /* a longer stretch, beside which a predictor looked on */
    const struct trace_window *window;
    const uint8_t *wrong; /* a bit for each branch (trace_is_branch), in order: mispredicted */
};
struct prof_input_spied; /* prof/prof.h */
struct prof_input {
    const struct prof_input_window *windows;
    size_t window_count;
    const struct prof_input_burst *bursts;
    size_t burst_count;
    void (*windows_read)(void *ctx); /* told when neither will be read again: they may be freed then. NULL: nobody is */
    void *windows_ctx;
    const struct prof_input_module *modules;
    size_t module_count;
    uint64_t *const *const *thread_counters; /* [thread][module that has counters]: of each thread of the counted run
                                                alone, in the order of their making; NULL: it executed nothing there */
    size_t thread_counters_len;              /* 0: not known */
    const struct observed_sample *samples;   /* user samples */
    size_t sample_count;
    uint64_t samples_lost;
    double sample_period_s;
    double sampled_system_s; /* of the run that they were taken of; 0: not known */
    const struct observed_thread *threads;
    size_t thread_count;
    const struct observed_thread_sample *activity;
    size_t activity_count;
    const struct observed_frame *frames;
    size_t frame_count;
    const struct observed_moment *moments; /* in no order */
    size_t moment_count;
    bool samples_user_only;                      /* the kernel's time is not in them */
    const double *plain_user_s, *plain_system_s; /* one for each plain run */
    size_t plain_runs;
    const double *guise_user_s; /* of runs of the same work in another guise (sampled, counted): how much runs differ */
    size_t guise_runs;
    bool ran_once;     /* there was no plain run: these are times of the counted one */
    double counting_s; /* then: less what counters took, which is this; NAN not known */
    double windows_s;  /* then: system time is less what windows took, which is this; NAN none */
    const struct prof_result
        *known; /* take the counts that this holds in place of counters; modules are then its modules */
    const struct machine *machine; /* NULL: counts only */
    /* Told which forms of instructions much of the work is that `machine` lacks and this processor could time, the most
     * executed first; may add them to it. NULL: nobody asks. */
    void (*time_forms)(void *ctx, const char *const *forms, size_t count);
    void *time_forms_ctx;
    double core_per_tsc, core_share; /* beside the plain runs: see struct machine_speed; 0 or NAN unknown */
    bool want_blocks;                /* fill blocks and edges too */
    const struct prof_request *requested, *unprobed; /* to be probed; not to be */
    size_t requested_count, unprobed_count;
    bool (*names)(const char *function, const char *requested); /* is the function called so? */
    double probe_s;                                             /* what a pair of probes costs; 0: 40 ns */
    double sim_budget_s;                                        /* time that the core model may take; 0: 4 s */
    uint64_t seed;
    const struct prof_input_spied *spied; /* NULL: nothing was */
};

/* ---- counts.c ---- */

/* Instructions executed in one module, from its counters. */
uint64_t prof_instructions(const struct rewrite_map *map, const uint64_t *counters);

#endif
