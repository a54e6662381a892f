/* SPDX-License-Identifier: Apache-2.0
 * What the parts of the calibration share: the bench (lab.h), what has been timed, and the units found. */
#ifndef MTOOL_MACHINE_CALIBRATE_CALIB_H
#define MTOOL_MACHINE_CALIBRATE_CALIB_H

#include "machine/impl.h"
#include "machine/lab/lab.h"

enum { CALIB_BASIS_MAX = 32, CALIB_PORT_MAX = 14 };

struct timed_form {
    const char *form;
    struct x86_form parsed;
    double latency, interval, slots; /* cycles, cycles, slots; negative unknown */
    double latency_second;           /* of the second result, where it comes later; else 0 */
    double latency_high;             /* of divisions: for long quotients ... */
    double interval_high;            /* ... and the interval; 0: not known */
    double latency_flags;            /* of conditional moves: from the flags, where that is longer; else 0 */
    uint32_t ports[MACHINE_USE_MAX]; /* sets of ports of its operations, as far as mixes told them */
    unsigned part_count;
    bool unsure; /* timed while others disturbed the core */
};

/* ---- timing.c: one form ---- */

struct calib {
    struct lab *lab;
    struct arena *arena;
    double width;                                                /* slots a cycle */
    enum filler { FILLER_ZERO, FILLER_NOP, FILLER_MOVE } filler; /* that takes a slot and no unit here */
    size_t length;    /* bytes of an instruction that come at the full width: shorter ones get prefixes */
    unsigned fillers; /* put since this was last cleared */
    bool quick;
    bool is_here; /* this processor is timed, not a stand-in */
    VEC(struct timed_form) forms;
    bool unsure;       /* some timing since this was last cleared was disturbed */
    size_t classified; /* of the forms: their classes are in m */
    struct port_family *basis;
    size_t basis_count;
    unsigned ports;    /* of the basis */
    struct machine *m; /* under construction */
};
/* calibrate.c: executes code that was named by lab_name, frees it; cycles of an iteration by `parts`, negative: not on
 * this CPU. */
double calib_run(struct calib *k, struct lab_code *c, double parts, unsigned fill);

/* What lab_loop_cycles must fill vector registers with for this form. */
unsigned timing_fill(const struct x86_form *f);
double timing_latency(struct calib *k, const char *form);  /* negative: not on this CPU, or no chain could be made */
double timing_interval(struct calib *k, const char *form); /* negative: not on this CPU */
/* Negative: unknown. latency: of its result, or negative. */
double timing_slots(struct calib *k, const char *form, double interval, double latency);
/* Cycles of one round of a of form f among b of form g. */
double timing_mix(struct calib *k, const char *f, unsigned a, const char *g, unsigned b);
/* Times it once more: its latency, interval, slots. */
void timing_again(struct calib *k, struct timed_form *t);
double timing_chained(
    const struct timed_form *t); /* of what chains in all registers could do, the share that copies of it did */
bool timing_is_chained(const struct timed_form *t); /* do its copies wait for each other, for want of registers? */
/* Can copies of it be made? */
bool timing_can(const struct x86_form *f);
/* Timed into k->forms: of each family one or two forms; then all others of forms.def that this CPU has. */
void timing_essential(struct calib *k);
void timing_rest(struct calib *k);
/* The timed form of that name, timed now if it was not; NULL if the CPU lacks it. */
const struct timed_form *timing_of(struct calib *k, const char *form);

/* ---- filler.c: what takes a slot and no unit on this core ---- */

void filler_put(struct calib *k, struct lab_code *c, size_t bytes); /* one of 2 to 4 bytes; of 1 byte a nop */
void filler_align(struct calib *k, struct lab_code *c, size_t to);  /* with as many as it takes */

/* ---- division.c: integer divisions, which need their operands laid out ---- */

bool division_is(const char *form);
enum { DIVISION_FEEDERS = 2 }; /* instructions that division_put puts before the division */
void division_put(struct lab_code *c, const char *form);
double division_latency(struct calib *k, const char *form, bool long_quotient); /* negative: could not be timed */
double division_interval(struct calib *k, const char *form);                    /* of long quotients; likewise */
/* Do integer and floating point divisions wait for each other? */
bool division_is_shared(struct calib *k);

/* ---- ports.c: units from timings; knows no machine ---- */

struct port_family { /* a form of one operation that keeps one of several ports busy for a cycle */
    const char *form;
    double interval;
    uint32_t ports;                                                             /* found */
    enum port_file { PORT_FILE_ANY, PORT_FILE_GENERAL, PORT_FILE_VECTOR } file; /* of the registers that it works on */
    bool is_chained; /* it reads what it writes: where units are bound at dispatch, chains hold it up, and it has more
                        ports than it shows */
};
struct port_mix { /* `a` of family i among `b` of family j take so many cycles a round */
    unsigned i, j, a, b;
    double cycles;
};
/* Finds a set of ports for each family that explains all intervals and mixes as well as it can. Returns the number of
 * ports, and the mean relative deviation in *misfit. Where no mix of general and vector operations loses by it, the two
 * kinds have ports of their own: with as many units as slots or more, mixes alone cannot tell. Deterministic. */
unsigned ports_solve(struct port_family *families, size_t family_count, const struct port_mix *mixes, size_t mix_count,
                     double width, double *misfit);

/* What the sets found say of a mix: cycles of a round. */
double ports_predict(const struct port_family *families, const struct port_mix *m, double width);

/* ---- the parts ---- */

void calib_width(struct calib *k); /* filler.c: slots a cycle, fillers; must run first, because the others use it */
void calib_clock(struct calib *k); /* clock_check.c: does what has been timed agree with the clock? Else it warns */
/* The unit that (nearly) all latencies are multiples of: 1 if they agree with the clock or are too few to say, 0 if
 * there is none. */
double calib_clock_unit(const double *latencies, size_t n);
void calib_frontend(struct calib *k); /* fetch, taken branches, calls, misprediction, fusion */
void calib_reorder(struct calib *k);  /* reorder buffer, registers, schedulers */
void calib_units(struct calib *k);    /* units.c: units; classes and forms of what has been timed so far */
void calib_rest(struct calib *k);     /* units.c: classes and forms of all others */
/* units.c: these forms too, beside the units that k->m has; k->forms holds what it knows. */
void calib_more(struct calib *k, const char *const *forms, size_t count, double budget_s);
void calib_memory(struct calib *k);  /* memory.c: loads, stores, forwarding, caches, TLBs */
void calib_special(struct calib *k); /* special.c: divisions, strings, locked operations */
void calib_bypass(struct calib *k);  /* bypass.c: results that operations of another kind get later */

#endif
