/* SPDX-License-Identifier: Apache-2.0
 *
 * result: ONE result model of a job: what store writes, report paints and --json prints; whoever paints needs nothing
 * else. Also how results are merged, compared and judged. Unknown figures are NAN (null in JSON) or PROF_UNKNOWN for
 * counts; never 0. Seconds are CPU seconds of the untouched program unless the name says otherwise (of a described
 * machine, where a warning says so).
 */
#ifndef MTOOL_RESULT_H
#define MTOOL_RESULT_H

#include "base/base.h"
#include "observed/observed.h"

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
                      PROF_ESTIMABLE_EXCLUSIVE,  /* Tot = TDES: what it calls works for it alone */
                      PROF_ESTIMABLE_CONSTANT,   /* the rest of what it calls takes the same time each time */
                      PROF_ESTIMABLE_MOST,       /* the rest is called by it 98 times in 100 */
                      PROF_ESTIMABLE_NEGLIGIBLE, /* the rest takes no time to speak of */
                      PROF_ESTIMABLE_COUNT
};
extern const char *const prof_estimable_name[PROF_ESTIMABLE_COUNT];

enum prof_data_kind {
    PROF_DATA_HEAP,
    PROF_DATA_GLOBAL,
    PROF_DATA_THREAD, /* thread-local */
    PROF_DATA_STACK,
    PROF_DATA_MAPPING,
    PROF_DATA_CODE, /* and literals */
    PROF_DATA_OTHER,
    PROF_DATA_KIND_COUNT
};
extern const char *const prof_data_kind_name[PROF_DATA_KIND_COUNT];
enum prof_data_owner { /* whose misses they are */
                       PROF_OWNER_PROGRAM,
                       PROF_OWNER_OBJECT,
                       PROF_OWNER_CELL,
                       PROF_OWNER_LINE,
                       PROF_OWNER_FIELD,
                       PROF_OWNER_PROCESS,
                       PROF_DATA_OWNER_COUNT
};
extern const char *const prof_data_owner_name[PROF_DATA_OWNER_COUNT];

#define TYPE(name, c, sql, unknown) typedef c prof_##name;
#include "result/types.def"
#undef TYPE

/* Rows of the lists below: struct prof_object and so on, see rows.def. */
#define BEGIN(name, type, table, list, count, doc) struct type {
#define END                                                                                                            \
    }                                                                                                                  \
    ;
#define FIELD(type, member, media, merge, place, term, doc) prof_##type member;
#define NAMED(type, member, column, key, media, merge, place, term, doc) prof_##type member;
#define SPAN(stem, unit, media, merge, place, term, doc) struct prof_interval stem##unit;
#define SHOWN(type, member, key)
#define INDEX(column, key, doc)
#include "result/rows.def"
#undef BEGIN
#undef END

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

struct prof_result {
#define PART(name) struct {
#define PART_END(member)                                                                                               \
    }                                                                                                                  \
    member;
#include "result/run.def"
#undef PART
#undef PART_END
    const char **command;        /* NULL-terminated */
    struct prof_object *objects; /* in order of memory_s, largest first */
    size_t object_count;
    struct prof_candidate
        *candidates; /* procedure by procedure, most memory operations first; inner loops before outer ones */
    size_t candidate_count;
    struct prof_pairs *pairs; /* of probes that run within each other; in no profile */
    size_t pairs_count;
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
    struct prof_arc *arcs; /* with blocks; executed calls whose target is known */
    size_t arc_count;
    struct prof_pc_sample *pc_samples; /* with blocks */
    size_t pc_sample_count;
    struct prof_stall *stalls; /* of a described machine; else none */
    size_t stall_count;
    struct prof_page *pages; /* likewise, of policies of mapping */
    size_t page_count;
    struct prof_page_bin *page_bins;
    size_t page_bin_count;
    struct prof_warning *warnings;
    size_t warning_count;
    struct prof_spy *spy; /* one, or none: mtool spy followed no references, and all lists below are empty */
    size_t spy_count;
    struct prof_cache *caches;
    size_t cache_count;
    struct prof_data *data; /* most of the stall first; a row's index is its id */
    size_t data_count;
    struct prof_data_frame *data_frames; /* by object, then depth */
    size_t data_frame_count;
    struct prof_data_cell *data_cells; /* most of the stall first; a row's index is its id, as of lines and fields */
    size_t data_cell_count;
    struct prof_data_line *data_lines;
    size_t data_line_count;
    struct prof_data_field *data_fields; /* by object, then offset */
    size_t data_field_count;
    struct prof_data_process *data_processes; /* most of the stall first; a row's index is its id */
    size_t data_process_count;
    struct prof_data_miss *data_misses; /* by owner, then owner_id, then cache */
    size_t data_miss_count;
    struct prof_data_evictor *data_evictors; /* by object, then cache, most misses first */
    size_t data_evictor_count;
    struct prof_data_sharing *data_sharing; /* most misses first; a row's index is its id */
    size_t data_sharing_count;
    struct prof_data_site *data_sites; /* by sharing */
    size_t data_site_count;
    struct prof_data_curve *data_curves; /* ID_NONE first, then by object; each by bytes */
    size_t data_curve_count;
    struct prof_data_picture *data_pictures; /* by object */
    size_t data_picture_count;
    struct prof_data_touched *data_touched; /* by object, then time, then part */
    size_t data_touched_count;
    struct prof_data_advice *data_advice; /* most gain first */
    size_t data_advice_count;
    struct arena *arena; /* owns everything */
};
#undef FIELD
#undef NAMED
#undef SPAN
#undef SHOWN
#undef INDEX

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
bool prof_is_validated(const struct prof_result *r, double replayed_share);

/* ---- probes.c ---- */

/* Is it one of those that are probed in this module? Their cells are numbered in the order of candidates. */
bool prof_is_probed_in(const struct prof_candidate *o, const char *module);
struct prof_pairs { /* of a candidate's probes, within another candidate's */
    uint32_t inner, outer;
    double pairs;
};
struct prof_seen {   /* samples of the program with nothing inserted */
    double period_s; /* 0: the kernel's time is not in them */
    uint64_t kernel; /* in the kernel, */
    uint64_t loader; /* and in the dynamic linker's code, which is never counted */
};
/* Puts to each candidate what its probes measured, says where that is unlike its samples or its counts, and what of the
 * program's overhead they do not explain. Terms: what
 * a pair of probes takes, in its own interval and in the time of others around it. */
struct prof_probe_terms {
    double ticks_a_second;
    double inside_ticks, pair_ticks, look_ticks;
    double run_share; /* of the wall time that the program ran on a processor: what intervals that had no end are taken
                         to have */
    double user_s, system_s;      /* of the run with probes */
    double start_s, after_exit_s; /* of both: before its own code, and behind it; 0: not known */
    struct prof_seen seen;
    double begin_ticks, end_ticks; /* what a start and a stop see of themselves where these are measured: the begin is
                                      part of inside_ticks, both are of pair_ticks */
    double look_seen_ticks;        /* likewise of one that looks at the processor time */
    double landed_s; /* of user_s and system_s: what ending intervals took that exceptions and longjmp had left */
};
/* paths: of the modules that the probes name by index. */
void prof_probes_take(struct prof_result *r, const char *const *paths, const struct observed_probe *probes,
                      size_t count, const struct prof_probe_terms *terms);

/* Of how many objects both probes and samples tell the time, and of how many their intervals meet. */
struct prof_crosschecks {
    size_t known, agree;
};
struct prof_crosschecks prof_crosschecks_of(const struct prof_result *r);

/* ---- extra.c ---- */

/* Fills the baseline and extras of r, from the same program joined with `threads` threads. */
void prof_extra_build(struct prof_result *r, const struct prof_result *base, uint32_t threads);

#endif
