/* SPDX-License-Identifier: Apache-2.0
 *
 * result: ONE result model of a job: what store writes, report paints and --json prints; whoever paints needs nothing
 * else. Also how results are merged, compared and judged. Unknown figures are NAN (null in JSON) or PROF_UNKNOWN for
 * counts; never 0. Seconds are CPU seconds of the untouched program unless the name says otherwise.
 */
#ifndef MTOOL_RESULT_H
#define MTOOL_RESULT_H

#include "base/base.h"

#define PROF_UNKNOWN UINT64_MAX
#define PROF_SCHEMA "mtool-report-1"

struct prof_interval { /* a figure with its 95 % interval; all NAN if unknown */
    double value, low, high;
};

enum prof_kind {
    PROF_LOOP,
    PROF_PROCEDURE,
    PROF_PIECE,
    PROF_REGION,
    PROF_KIND_COUNT
}; /* regions are candidates only */
extern const char *const prof_kind_name[PROF_KIND_COUNT];

struct prof_object { /* one m-object. Self figures: inner loops that are objects and callees are not part of it */
    uint32_t id;     /* its index in objects */
    enum prof_kind kind;
    const char *module;   /* path of the original file */
    const char *function; /* demangling is the painter's; "0x1234" form if nameless; with inlined-from where known */
    uint64_t address;     /* loop header or function entry, as in the file */
    const char *file;     /* source, NULL unknown */
    uint32_t line_first, line_last;              /* 0 unknown */
    uint32_t parent;                             /* enclosing object's id (outer loop or procedure), ID_NONE */
    uint32_t depth;                              /* loops: nesting, 1 outermost; procedures 0 */
    uint64_t entries, iterations;                /* procedures: calls, and PROF_UNKNOWN */
    uint64_t instructions, memory_ops;           /* self */
    uint64_t instructions_incl, memory_ops_incl; /* with inner loops, without callees */
    struct prof_interval ideal_s, actual_s,
        memory_s; /* self; memory_s = actual - ideal - branch, low end not cut at 0 */
    struct prof_interval ideal_incl_s, actual_incl_s, memory_incl_s; /* with inner loops */
    double branch_s;                                                 /* self, NAN unknown */
    double tlb_s; /* of memory_s: misses of the first-level TLB, as far as the second holds the pages; NAN unknown */
    struct prof_interval without_s; /* user time of the whole program if memory_s were gone; see whatif.c */
    double simulated_s;             /* what the simulated core alone says of ideal_s */
    double replayed_share;          /* of ideal_s: in code that warm replays vouch for; 0 with --quick */
    const char *ideal_method;       /* "simulated", "both" (corrected by replays), NULL */
    const char *actual_method;      /* "sampled", "probed", "both", NULL */
    double extra_cycles_per_memory_op;
    const char *bound_by; /* what limits the ideal: "chain", "load" (first-level latency), "unit NAME", "width", "front
                             end"; NULL */
    uint64_t samples;
    double memory_share; /* of all memory operations executed in counted code, self */
    bool is_significant; /* memory_s.low above 0, and 10 samples at least, and it is no wait loop */
    bool is_wait;        /* a loop in which a thread waits for another: its time says nothing of memory */
};

enum prof_verdict {               /* of the selection; see doc/design/objects.md */
                    PROF_TAKEN,   /* to be probed: timable and estimable */
                    PROF_SAMPLED, /* measured by samples only: the reason says why it is not probed */
                    PROF_COVERED, /* objects inside of it that are taken hold its memory operations */
                    PROF_DROPPED, /* it holds too little */
                    PROF_VERDICT_COUNT
};
extern const char *const prof_verdict_name[PROF_VERDICT_COUNT];
enum prof_estimable { /* why what it calls can be estimated */
                      PROF_ESTIMABLE_NOT,
                      PROF_ESTIMABLE_LEAF,       /* it calls nothing */
                      PROF_ESTIMABLE_ALONE,      /* Tot = TDES: what it calls works for it alone */
                      PROF_ESTIMABLE_CONSTANT,   /* the rest of what it calls takes the same time each time */
                      PROF_ESTIMABLE_MOST,       /* the rest is called by it 98 times in 100 */
                      PROF_ESTIMABLE_NEGLIGIBLE, /* the rest takes no time to speak of */
                      PROF_ESTIMABLE_COUNT
};
extern const char *const prof_estimable_name[PROF_ESTIMABLE_COUNT];

struct prof_candidate { /* a loop, procedure or piece that was considered for probes. Figures are of all that is done in
                           it and on its behalf, unless they say own: those are without inner loops and callees */
    enum prof_kind kind;
    const char *module, *function;
    const char
        *region; /* name of a region that the source marks, else NULL; function is then the first that holds it */
    uint64_t address, address_end; /* loop header, entry or first byte; pieces: the byte behind the last, else 0 */
    const char *file;
    uint32_t line_first, line_last;
    uint32_t object; /* id of the loop or procedure in objects, of a piece that of what it is a piece of; ID_NONE */
    uint32_t depth;
    uint64_t entries;
    uint64_t memory_ops;                  /* with inner loops, without callees: what is measured by measuring it */
    uint64_t own_instructions, own_lines; /* in the file, executed; lines 0 unknown */
    uint32_t pieces;                      /* that its own code was cut into; 0: it is small enough */
    double memory_ops_all, time_s;        /* time_s: expected, from samples or else from the ideal time */
    struct prof_interval ideal_s, sampled_s;
    struct prof_interval
        system_s;       /* of those that are taken: in the kernel, by samples; unknown as sampled_s by calls */
    double uncounted_s; /* likewise; of sampled_s: in code that is not counted */
    struct prof_interval sampled_all_s; /* both: what probed_s is to be compared with */
    bool is_sampled_whole; /* sampled_s is of samples whose calls lead to it; else shared out by counts of calls */
    uint64_t samples;      /* of sampled_s, likewise; PROF_UNKNOWN: shared out */
    struct prof_interval probed_s, memory_s; /* what probes measured, waiting left out; memory: less ideal, system_s and
                                                uncounted_s. Unknown if not probed */
    double waiting_s;                        /* that threads were not running between its probes */
    uint64_t probed_entries;                 /* PROF_UNKNOWN: not probed */
    uint32_t agrees;     /* 1: the intervals of what probes and samples say meet, 0: they do not; ID_NONE: not known */
    bool is_summed;      /* one of the disjoint objects whose overheads are added up */
    bool is_asked;       /* named by the user */
    bool is_in_circle;   /* of a region: it calls what leads back to it. Probes see the first entry only */
    double pairs_inside; /* of others' probes in it and on its behalf; of those that are taken */
    double probe_s;      /* that probes of it would cost */
    double tot, tdes;
    enum prof_estimable estimable;
    enum prof_verdict verdict;
    const char *reason; /* of the verdict, in words */
};

struct prof_refused { /* not counted: a function, or a whole module with function NULL */
    const char *module, *function, *reason;
    uint64_t address;
    double time_share; /* of user samples, NAN unknown */
};

struct prof_module {
    const char *path, *build_id;
    bool is_counted;
    uint64_t functions, functions_rewritten, instructions, memory_ops;
    double time_share; /* of user samples */
};

struct prof_line { /* per source line, where there is DWARF */
    const char *file;
    uint32_t line;
    uint64_t instructions, memory_ops, samples;
};

struct prof_insn {   /* an executed instruction of an object that matters; by module and address */
    uint32_t object; /* the innermost that holds it */
    uint64_t address;
    const char *text;    /* Intel syntax; of a call with the function in <> */
    uint32_t memory_ops; /* loads and stores of one execution */
    uint64_t count, samples;
    double ideal_s;       /* its part of the object's; NAN unknown */
    const char *bound_by; /* what it waits for in that time, as of an object; NULL unknown, or nothing */
};

struct prof_call { /* calls from an object's own code to one function; by object, most memory operations first */
    uint32_t object;
    const char *module, *function; /* called; through pointers as far as windows saw it */
    uint64_t address;
    uint64_t calls;
    bool is_estimated;   /* calls: some were made through pointers and shared out as windows saw them go; else exact */
    uint64_t memory_ops; /* of the called function with its loops, shared out among its callers as its calls are */
};

struct prof_process { /* a program in a process, or a process that only forked; in order of time */
    uint32_t pid, parent;
    const char *command;   /* NULL not known */
    bool is_fork;          /* goes on with its parent's program */
    uint32_t exit_status;  /* as a shell sees it, ID_NONE not known */
    uint64_t instructions; /* executed in counted code, PROF_UNKNOWN: none of it was counted */
    const char *refused;   /* why its executable is not counted, NULL if it is */
};

struct prof_thread { /* of the program's first process, in the sampled run; the parts add up to wall_s */
    uint32_t tid;
    uint32_t rank;          /* in a merged profile; else ID_NONE */
    bool has_ended;         /* else it was there when the program ended */
    double begin_s, wall_s; /* from the program's beginning; it lived so long */
    double compute_s;   /* in counted code: as if every access hit the first-level cache, mispredicted branches in */
    double memory_s;    /* in counted code, what memory cost */
    double uncounted_s; /* in all other code, and where the ideal time is not known */
    double system_s;    /* in the kernel; NAN: part of the others */
    double spin_s;      /* synchronisation: waited for another thread with a processor, */
    double blocked_s;   /* and without */
    double asleep_s;    /* waited for anything else: input, output, time */
    double ready_s;     /* wanted a processor and had none */
    uint64_t samples;   /* of its user time */
};
struct prof_extra { /* an object beside the run with fewer threads; self */
    uint32_t object;
    uint64_t instructions, base_instructions;
    double ideal_s, base_ideal_s, extra_s; /* extra_s = ideal_s - base_ideal_s */
};
struct prof_region { /* code that threads execute together, with all that it calls; the first of them by wait_s */
    uint32_t id;     /* its index in regions */
    const char
        *function; /* a run-time library calls it, or a thread begins with it; NULL: what is outside of all regions */
    const char *module, *file;
    uint64_t address;
    uint32_t line_first, line_last; /* 0 unknown */
    uint32_t object;                /* the procedure, ID_NONE */
    uint32_t threads, thread_most;  /* that worked there; the one that did most */
    double work_s, mean_s, max_s;   /* processor time without waiting: of all, of a thread */
    double imbalance;               /* max_s / mean_s */
    double wait_s;                  /* of all: waited in it, or for others that worked there */
};
struct prof_region_thread {
    uint32_t region, thread;
    double work_s, wait_s;
};
struct prof_rank { /* one process of a parallel job, in a merged profile */
    uint32_t rank;
    const char *profile; /* its own */
    int exit_status;
    double wall_s, user_s, system_s, predicted_user_s;
    double compute_s, memory_s; /* of all its threads */
    double sync_s;              /* its first thread waited for others, with a processor and without */
    uint64_t instructions, memory_ops;
};
struct prof_rank_object { /* an object in one rank; self */
    uint32_t rank, object;
    uint64_t instructions, memory_ops, samples;
    double ideal_s, actual_s, memory_s;
};
struct prof_spread {                   /* an object's actual time over the ranks */
    uint32_t object, ranks, rank_most; /* ranks that executed it; the one that took longest */
    double min_s, mean_s, max_s;       /* over all ranks of the profile */
    double imbalance;                  /* max_s / mean_s */
};
struct prof_wait { /* synchronisation: who asked for it, by which function */
    uint32_t thread;
    uint32_t object;  /* whose code did; ID_NONE not known, or none (a worker of a run-time library) */
    const char *into; /* the function that it called, or waited in; NULL: a loop of its own */
    double spin_s, blocked_s;
};
struct prof_thread_object { /* parts of a thread's time that belong to an object; self */
    uint32_t thread, object;
    double compute_s, memory_s, spin_s, blocked_s;
    uint64_t samples;
    uint64_t instructions, memory_ops; /* in the counted run, exact; PROF_UNKNOWN */
};

struct prof_phase { /* of the whole job */
    const char *name;
    double wall_s;
};

struct prof_warning {
    const char *id, *text;
};
enum prof_warn { /* what the join may have to say; a paragraph of doc/warnings.md each */
#define X(name, id, meaning, cause, remedy) PROF_WARN_##name,
#include "result/warnings.def"
#undef X
                 PROF_WARN_COUNT
};
struct prof_warn_about {
    const char *id, *meaning, *cause, *remedy;
};
extern const struct prof_warn_about prof_warn_about[PROF_WARN_COUNT];

struct prof_block_row { /* exact counts, for dump counts and the store */
    uint32_t module;    /* index into modules */
    uint64_t address;
    uint32_t size_bytes, instructions, memory_ops;
    const char *function, *file; /* NULL unknown */
    uint32_t line;
    uint64_t count;
};
struct prof_edge_row {
    uint32_t module;
    uint64_t from, to; /* block addresses */
    uint64_t count;
};

struct prof_result {
    const char *program;
    const char **command; /* NULL-terminated */
    const char *started;  /* ISO 8601 UTC */
    const char *mtool_version;
    int exit_status;           /* as a shell sees it */
    const char *options;       /* the mtool command line */
    uint32_t rank, rank_count; /* in a parallel job; ID_NONE none, or not known */
    struct {
        const char *cpu, *description, *kernel; /* description: path or name of the machine file */
        double tsc_hz, cycles_per_tsc;
        double ideal_error_median, ideal_error_p90, ideal_bias; /* of the self-test, as fractions */
    } machine;
    struct prof_interval predicted_user_s, actual_user_s, actual_system_s, overhead; /* overhead: fraction */
    struct prof_interval branch_user_s;      /* part of predicted: mispredicted branches */
    double simulated_user_s, replayed_share; /* as in the objects: of predicted without branches and uncounted code */
    uint32_t plain_runs;
    uint64_t samples, samples_lost;
    const char *sampler;     /* text */
    const char *launch_mode; /* text */
    uint32_t processes, threads;
    struct {
        uint64_t functions, functions_rewritten;   /* of the modules that were loaded */
        uint64_t instructions_counted, memory_ops; /* executed, exact */
        double instructions_counted_share;         /* of user time by samples in counted code, NAN unknown */
        double memory_ops_measured;                /* share of memory operations inside reported objects */
        double memory_ops_probed;                  /* likewise, in and on behalf of disjoint objects that were probed */
        struct prof_interval unexplained_overhead; /* of the run with probes, less the sum over these objects; as a
                                                      fraction of predicted */
    } coverage;
    double counting_user_s;  /* of a program that ran once: what counters took, not part of actual; NAN: it did not, or
                                not known */
    double windows_system_s; /* likewise windows that were taken in that run, about */
    double probed_user_s, probed_system_s; /* of the run with probes, without what they took; NAN: there was none */
    struct prof_object *objects;           /* in order of memory_s, largest first */
    size_t object_count;
    struct prof_candidate
        *candidates; /* procedure by procedure, most memory operations first; inner loops before outer ones */
    size_t candidate_count;
    struct prof_module *modules;
    size_t module_count;
    struct prof_refused *refused; /* in order of time_share; every function left alone, executed or not */
    size_t refused_count;
    struct prof_process *process; /* each, where programs that it executes are followed; else none */
    size_t process_count;
    struct prof_thread *thread; /* each, in order of their beginnings; the first is the program's first */
    size_t thread_count;
    struct prof_thread_object *thread_objects; /* by thread, then object; those that have something */
    size_t thread_object_count;
    struct prof_phase *phases; /* in the order in which they began */
    size_t phase_count;
    struct prof_wait *waits; /* the longest first */
    size_t wait_count;
    uint32_t baseline_threads; /* of the run that extras compare with; ID_NONE: there was none */
    double baseline_user_s;
    uint64_t baseline_instructions;
    struct prof_extra *extras; /* most extra_s first; no wait loops */
    size_t extra_count;
    struct prof_region *regions; /* none: the program has none, or chains of calls are not known */
    size_t region_count;
    struct prof_region_thread *region_threads; /* by region, then thread */
    size_t region_thread_count;
    struct prof_rank *ranks; /* of a merged profile, in order of rank */
    size_t rank_row_count;
    struct prof_rank_object *rank_objects; /* by object, then rank */
    size_t rank_object_count;
    struct prof_spread *spreads; /* by object */
    size_t spread_count;
    struct prof_line *lines;
    size_t line_count;
    struct prof_insn *insns; /* of objects that matter, without samples none */
    size_t insn_count;
    struct prof_call *calls; /* likewise */
    size_t call_count;
    struct prof_block_row *blocks; /* executed blocks only */
    size_t block_count;
    struct prof_edge_row *edges; /* executed edges only */
    size_t edge_count;
    struct prof_warning *warnings;
    size_t warning_count;
    struct arena *arena; /* owns everything */
};

/* Sums in which what is unknown adds nothing; unknown in both stays unknown. */
double prof_sum(double a, double b);
uint64_t prof_sum_counts(uint64_t a, uint64_t b);
void prof_interval_add(struct prof_interval *sum, const struct prof_interval *x);
struct prof_interval prof_interval_scaled(const struct prof_interval *i, double factor);

struct prof_result *prof_result_new(void); /* empty, all figures unknown */
void prof_result_free(struct prof_result *r);
void prof_warn(struct prof_result *r, enum prof_warn id, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void prof_warn_add(struct prof_result *r, const char *id,
                   const char *text); /* one of another folder; an id and text twice is once */

/* ---- gate.c: what may be said with a model of the processor that failed its self-test ---- */

/* The self-test of the machine description that the ideal times rest on says that it cannot be relied on. */
bool prof_model_failed(const struct prof_result *r);
/* May a loss to memory be told from an ideal time of which so much was replayed? Not from one that is mostly the word
 * of a model that failed. */
bool prof_is_vouched(const struct prof_result *r, double replayed_share);

/* ---- probes.c ---- */

/* Is it one of those that are probed in this module? Their cells are numbered in the order of candidates. */
bool prof_is_probed_in(const struct prof_candidate *o, const char *module);
struct prof_probed { /* in ticks, with what the probes themselves took */
    const char *module;
    uint32_t cell;
    uint64_t count, ticks, window_ticks, window_ns, cut, open, open_ticks;
    uint64_t open_ns; /* processor time of those under way when the program ended; 0: not known */
};
/* Puts to each candidate what its probes measured, says where that is unlike its samples or its counts, and what of the
 * program's overhead they do not explain. Terms: what
 * a pair of probes takes, in its own interval and in the time of others around it. */
struct prof_probe_terms {
    double ticks_a_second;
    double inside_ticks, pair_ticks;
    double run_share; /* of the wall time that the program ran on a processor: what intervals that had no end are taken
                         to have */
    double user_s, system_s; /* of the run with probes */
};
void prof_probes_take(struct prof_result *r, const struct prof_probed *probed, size_t count,
                      const struct prof_probe_terms *terms);

/* Of how many objects both probes and samples tell the time, and of how many their intervals meet. */
struct prof_witnesses {
    size_t known, agree;
};
struct prof_witnesses prof_witnesses_of(const struct prof_result *r);

/* ---- extra.c ---- */

/* Fills the baseline and extras of r, from the same program joined with `threads` threads. */
void prof_extra_build(struct prof_result *r, const struct prof_result *base, uint32_t threads);

#endif
