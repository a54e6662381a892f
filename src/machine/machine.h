/* SPDX-License-Identifier: Apache-2.0
 *
 * machine: the description of a machine, in the terms of Wall (1989, section 4.2) and what today's cores need besides:
 * classes of instructions, the units that they run on, result latency, issue latency, multiplicity, address latency,
 * maximum multiple issue; then fetch, fusion, forwarding, reorder limits, caches and TLBs, and how far its own
 * predictions are off (the error bar). doc/machine.md draws the text file.
 *
 *   lab/  experiments: code that is timed, by whatever executes it     calibrate/  from experiments to a description
 */
#ifndef MTOOL_MACHINE_H
#define MTOOL_MACHINE_H

#include "base/base.h"
#include "x86/x86.h"

enum {
    MACHINE_PORT_MAX = 32, /* instances of all units together */
    MACHINE_USE_MAX = 6,   /* units that one instruction may occupy */
    MACHINE_QUEUE_MAX = 16,
    MACHINE_CACHE_MAX = 8,
    MACHINE_NAME_LEN = 48
};

/* A unit of multiplicity m is m ports, numbered one after the other in the order of the file. */
struct machine_unit {
    char name[MACHINE_NAME_LEN];
    unsigned multiplicity, first_port;
    double issue; /* issue latency: cycles from one operation to the next on the same instance, unless the class says */
    int queue;    /* the scheduler that feeds it: index into queues, -1 none */
};

/* Units that an operation may choose among. Every unit's name is a group of its own too. */
struct machine_group {
    char name[MACHINE_NAME_LEN];
    uint32_t ports;
};

/* A scheduler: operations wait here from dispatch until they start. */
struct machine_queue {
    char name[MACHINE_NAME_LEN];
    unsigned size;
};

struct machine_use {
    uint32_t ports; /* one of them is taken */
    double issue;   /* for so many cycles */
};

/* Instructions that the core treats alike. The load and store part of an instruction with an operand in memory is
 * described by classes of their own ("load", "store", ...), see machine_access. */
struct machine_class {
    char name[MACHINE_NAME_LEN];
    double latency;        /* result latency: from the start to the start of an operation that uses the result */
    double latency_high;   /* for unfavourable operands (division); else as latency */
    double latency_second; /* of the second result (the high half of a product); 0: as the first */
    double latency_bypass; /* to operations of another family, or on other units; 0: as to those of its own */
    double latency_flags;  /* from the flags that it reads; 0: as from other operands */
    double occupies_high;  /* cycles that unfavourable operands keep the last use busy; 0: as others */
    double slots;          /* of maximum multiple issue */
    unsigned use_count;
    struct machine_use uses[MACHINE_USE_MAX];
};

/* "add r64,r64" -> class. measured_*: as timed by calibrate, cycles; negative if not. */
struct machine_form {
    char form[MACHINE_NAME_LEN];
    uint32_t class_id;
    double measured_latency, measured_interval;
};

enum machine_cache_kind {
    MACHINE_CACHE_DATA,
    MACHINE_CACHE_CODE,
    MACHINE_CACHE_BOTH,
    MACHINE_CACHE_TLB,
    MACHINE_CACHE_KIND_COUNT
};
struct machine_cache {
    char name[MACHINE_NAME_LEN]; /* "L1", "L2", "L1-tlb" ... nearest first */
    enum machine_cache_kind kind;
    uint64_t size_bytes; /* of a TLB: its reach, entries times page */
    unsigned line_bytes; /* of a TLB: the page */
    unsigned ways;       /* 0 unknown; equal to the number of lines: fully associative */
    double latency;      /* load to use in cycles; of a TLB: cycles more for a miss in it */
};

/* What the self-test found on kernels not used for fitting; relative errors of predicted cycles, 0.1 is 10 %. */
struct machine_error {
    char kernels[MACHINE_NAME_LEN]; /* class of kernels; "all" is the error bar of the machine */
    unsigned count;
    double median, p90, bias; /* bias: mean of (predicted - true) / true */
};

/* Processors that a description is of, in the terms of CPUID. */
struct machine_processor {
    char vendor[MACHINE_NAME_LEN]; /* "amd", "intel" */
    unsigned family, first_model, last_model;
};

struct machine {
    struct arena *arena; /* owns everything below and this struct */
    const char *name;    /* CPU model string */
    const char *date;    /* of calibration, "2026-01-31"; "" unknown */
    const char *source;  /* where it came from: "calibrated", "generic", "documents" */
    bool in_order;
#define X(group, field, name, value, text) double field;
#include "machine/params.def"
#undef X
    struct machine_unit *units;
    struct machine_group *groups; /* explicit ones; unit names are looked up too */
    struct machine_queue *queues;
    struct machine_class *classes;
    struct machine_form *forms;
    struct machine_cache caches[MACHINE_CACHE_MAX];
    struct machine_error *errors;
    struct machine_processor *processors;
    size_t processor_count, unit_count, group_count, queue_count, class_count, form_count, cache_count, error_count;
    struct map form_index, class_index; /* hash of the text -> index */
};

/* ---- machine.c ---- */

/* An empty description that owns an arena. machine_free frees it and all that it holds. */
struct machine *machine_new(void);
void machine_free(struct machine *m);
/* A generic core of today: what a machine is before it has been calibrated. Never NULL. */
struct machine *machine_default(void);
/* Building, for calibrate and tests: each returns the index of the new item, or of the old one with that name. */
uint32_t machine_add_unit(struct machine *m, const char *name, unsigned multiplicity, double issue);
uint32_t machine_add_group(struct machine *m, const char *name, uint32_t ports);
uint32_t machine_add_class(struct machine *m, const struct machine_class *c);
uint32_t machine_add_form(struct machine *m, const struct machine_form *f);
uint32_t machine_add_queue(struct machine *m, const char *name, unsigned size);
void machine_add_error(struct machine *m, const struct machine_error *e);
void machine_add_processor(struct machine *m, const struct machine_processor *p);
const struct machine_class *machine_class_named(const struct machine *m, const char *name); /* NULL if none */
uint32_t machine_ports_named(const struct machine *m, const char *name);                    /* 0 if none */
unsigned machine_port_count(const struct machine *m);
const char *machine_port_name(const struct machine *m, unsigned port); /* the unit's name */
/* The error bar for a class of kernels ("all" if that class was not tested); NULL before any self-test. */
const struct machine_error *machine_error_of(const struct machine *m, const char *kernels);

/* ---- family.c: from an instruction to its class ---- */

/* How well the description knows an instruction. */
enum machine_match { MACHINE_MATCH_FORM, MACHINE_MATCH_FAMILY, MACHINE_MATCH_OTHER };
/* The class of the operation itself (for a pure load or store NULL: machine_access has it all). Tried in this order:
 * the exact form, the form of another width of the same mnemonic, the class named like its family and width
 * ("fmul.y"), the family ("fmul"), the family's parents, the class "other", which every description has. */
const struct machine_class *machine_class_of(const struct machine *m, const struct x86_detail *d,
                                             enum machine_match *how);
const struct machine_form *machine_form_named(const struct machine *m,
                                              const char *form); /* NULL: only its family is known */
/* The class of the load or store part: "load", "load.x" (128 bits and less in a vector register), "load.y", "load.z",
 * "store", ... and "store-indexed", "store.x-indexed", ... for addresses with an index, where the description has them.
 * A wider one stands in for one that is missing. */
const struct machine_class *machine_access(const struct machine *m, const struct x86_detail *d, bool store);
/* The family of a form: "fmul" for "vmulsd x,x,x". Never NULL. */
const char *machine_family(const struct x86_detail *d, const struct x86_form *f); /* f: of d->form */

/* ---- gate.c: may what a description predicts be taken for more than a guess? ---- */

/* The self-test fails above these: relative errors, in the median and of nine kernels in ten. */
#define MACHINE_MEDIAN_MAX 0.15
#define MACHINE_P90_MAX 0.40
double machine_error_excess(double median, double p90); /* over the limits; 1: at one of them */
bool machine_error_passes(double median, double p90);   /* so does what is not known */
bool machine_passes(const struct machine *m);           /* so does a description that says nothing of its errors */
/* It failed, and was made by older experiments: measure anew. One that failed by these is kept, since the next would
 * fail as well. */
bool machine_is_outdated(const struct machine *m);
bool machine_is_better(const struct machine *a,
                       const struct machine *b); /* by their self-tests; untested ones are worst */

/* ---- overlay.c: what a failed calibration is good for ---- */

/* The description shipped for this processor with what can be relied on of a calibration put over it: clocks, caches,
 * latencies. A new one without an error bar of its own: the self-test comes after it. NULL, reported, if there is none.
 */
struct machine *machine_overlay(const struct machine *shipped, const struct machine *measured);

/* ---- text.c: the file ---- */

/* Reads a description. 0 and *out, or -1 after one line that says file, line, column, what is wrong and what to do. */
int machine_read(const char *path, struct machine **out);
/* The same from memory; `name` stands for the file in messages. */
int machine_parse(const char *name, const char *text, size_t len, struct machine **out);
/* Writes the whole file or none; -1 after one line. */
int machine_write(const struct machine *m, const char *path);
void machine_format(const struct machine *m, struct strbuf *out);

/* ---- tape.c: what a calibration's experiments told, kept (doc/tape.md) ---- */

struct tape;                         /* opaque */
struct tape *machine_tape_new(void); /* empty, for recording */
void machine_tape_free(struct tape *t);
void machine_tape_clear(struct tape *t); /* forgets what was recorded: a calibration is made anew */
int machine_tape_write(const struct tape *t, const char *path); /* -1 after one line */
int machine_tape_read(const char *path, struct tape **out);     /* -1 after one line: file, line, what is wrong */
/* The same in memory; `name` stands for the file in messages. */
void machine_tape_format(const struct tape *t, struct strbuf *out);
int machine_tape_parse(const char *name, const char *text, size_t len, struct tape **out);
struct machine *
machine_tape_shipped(const struct tape *t); /* for the processor that it was recorded on; NULL: there is none */
struct machine_tape_gaps {                  /* after it was played */
    const char *program;                    /* version of the mtool that wrote it */
    size_t missing, changed, used, unused;  /* asked for and not there; made of other code by now; entries */
    size_t doubted;            /* what no processor could have told: taken for missing, not counted there */
    const char *first_doubted; /* NULL: none */
    const char *const *labels; /* of those missing; the tape's */
    size_t label_count;
};
void machine_tape_gaps(const struct tape *t, struct machine_tape_gaps *out);

/* ---- shipped.c: the descriptions that are built in ---- */

/* The description shipped for a processor, by CPUID's vendor ("amd", "intel"), display family and display model: the
 * caller's to free. NULL if none is for it. */
struct machine *machine_shipped(const char *vendor, unsigned family, unsigned model);
struct machine *machine_shipped_here(void); /* for the processor that this runs on */
/* Name ("zen5.machine") and text of the i-th of all of them; NULL behind the last. */
const char *machine_shipped_text(size_t i, const char **name);

/* ---- calibrate.c: the running machine ---- */

/* What is timed; all NULL: this processor. */
struct lab_core; /* lab.h */
struct machine_bench {
    struct lab_core
        *core;         /* borrowed; stands in for this processor: the simulated one of a description (sim_bench_new) */
    struct tape *play; /* nothing is timed, the tape answers */
    struct tape *record; /* what is timed is written there too */
};

/* Of the calibration's experiments and what is made of them, and of the self-test: counts up when a change of them
 * makes other descriptions, so that one that failed before is measured anew. */
enum { MACHINE_EXPERIMENTS = 2 };

struct machine_calibrate_options {
    const struct machine_bench *bench; /* NULL: this processor */
    double budget_s;                   /* seconds it may take; 0: 45. Beyond 60 is cut to 60 */
    bool quick;                        /* a tenth of the time, for tests: fewer repetitions, the common forms only */
};
/* Measures this machine: needs neither counters nor privileges. 0 and *out, or -1 after one line (no usable clock,
 * ...). The residuals are not in it yet: sim_selftest adds them. */
int machine_calibrate(const struct machine_calibrate_options *options, struct machine **out);

/* ---- extend.c: forms met later ---- */

/* Can the running machine time what this instruction does beside its access to memory, and leave nothing behind? */
bool machine_can_time(const struct x86_detail *d);
/* Times forms that a description of the running machine lacks and adds them, with their classes. Returns how many were
 * added: none to the description of another machine, and not those timed while others disturbed the core. */
size_t machine_extend(struct machine *m, const char *const *forms, size_t count, double budget_s);

/* ---- clock.c: the time stamp counter beside the system's clock, and the processors beside each other ---- */

struct machine_reading { /* both clocks at one moment */
    uint64_t ticks;
    double seconds, error_s; /* error_s: how long it took to read both */
};
struct machine_reading machine_clock_read(void);
enum { MACHINE_CLOCK_READINGS = 8 };
/* A millisecond apart: what later readings are judged by. */
void machine_clock_read_rate(struct machine_reading readings[MACHINE_CLOCK_READINGS]);

enum machine_clock_fault {
    MACHINE_CLOCK_GOOD,
    MACHINE_CLOCK_STOPS, /* it fell behind */
    MACHINE_CLOCK_BACKWARDS,
    MACHINE_CLOCK_JUMPS, /* ahead */
    MACHINE_CLOCK_FAULT_COUNT
};
extern const char *const machine_clock_fault_text[MACHINE_CLOCK_FAULT_COUNT]; /* "stands still at times" */
struct machine_clock {
    double hz;                      /* ticks a second, median; NAN unknown */
    enum machine_clock_fault fault; /* the worst between two readings */
    double off_s;                   /* seconds by which it was off then */
};
/* Of readings in order of time, most of them good. */
struct machine_clock machine_clock_judge(const struct machine_reading *readings, size_t count);

struct machine_cpu_clock {
    int cpu;
    double tsc_hz, core_hz;
};
/* Do cores differ by more than cores of one kind do, or counters at all? Which are the slowest and the fastest
 * (indices). */
bool machine_cpus_differ(const struct machine_cpu_clock *cpus, size_t count, size_t *slowest, size_t *fastest);
/* Looks at each processor that this thread may run on, at most `max` of them, 12 ms each. 0, or -1 after one line:
 * there is no usable counter. */
int machine_cpus_look(struct machine_cpu_clock *cpus, size_t max, size_t *count);

/* ---- speed.c ---- */

/* Was the description made on a processor that calls itself as this one does? */
bool machine_is_this(const struct machine *m);

struct machine_speed {
    double core_per_tsc; /* core cycles in one tick of the time stamp counter now; NAN unknown */
    double share; /* of the core's full width that this thread gets: 1 alone, about 0.5 beside a busy neighbour; NAN */
};
/* Looks for some milliseconds at the processor that it runs on; all unknown if m describes another. */
struct machine_speed machine_speed_now(const struct machine *m);

/* ---- pages.c ---- */

/* What part of the cost of misses in the TLB huge pages take away here; NAN: it cannot be told. */
struct machine_huge_pages_at {
    double pages;       /* of 4 KB, that are gone through again and again */
    double waiting;     /* where each reference waits for the one before */
    double overlapping; /* where many are under way */
};
enum { MACHINE_PAGE_TRIES = 8 };
struct machine_huge_pages {
    size_t count;
    struct machine_huge_pages_at at[MACHINE_PAGE_TRIES]; /* by pages */
};
struct machine_huge_pages machine_try_huge_pages(uint64_t reach_bytes);
struct machine_huge_pages_at machine_huge_pages_of(const struct machine_huge_pages *h, double pages);

/* ---- nodes.c ---- */

struct machine_nodes {
    unsigned count;  /* with memory; 1 where the system does not say */
    double distance; /* to the others from the first, by that to itself, as the firmware tells it; NAN: of one, or not
                        told */
};
/* Of the folder that is /sys/devices/system/node. */
struct machine_nodes machine_nodes(const char *root);

/* ---- overlap.c ---- */

/* What part of the time that misses take one after the other is left if all are prefetched, of lines in memory. Tries
 * it out, for some tens of milliseconds. NAN: there is no room for that. */
double machine_try_overlap(void);

#endif
