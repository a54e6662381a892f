/* SPDX-License-Identifier: Apache-2.0
 *
 * lab: times pieces of code made at run time, in core cycles, on a machine that others use too. Private to this folder
 * and to sim. An experiment is a piece of code with a label; what times it is one of three: this processor (native.c),
 * the simulated core of a description (sim/simulated.c), or a tape of what another machine answered (tape.c).
 * The first two are a struct lab_core: they tell ticks of a time stamp counter, disturbed as it may be. Every sample
 * stands between two chains of dependent adds, which tell the clock of the core at that moment, and between two
 * canaries, runs of nops that only go at full speed while nobody shares the core (lab.c). */
#ifndef MTOOL_MACHINE_LAB_LAB_H
#define MTOOL_MACHINE_LAB_LAB_H

#include "base/base.h"

/* ---- code.c: code under construction ---- */

/* Registers with a fixed part in timed code: r14 points to LAB_DATA bytes of zeros (the last 512 are not), r15 counts
 * iterations. */
enum { LAB_DATA = 1 << 16, LAB_BASE = 14, LAB_COUNTER = 15, LAB_CODE = 1 << 16 };

/* What executing the code does, where its bytes alone do not say it: for a core that only simulates. Each is about the
 * instruction that begins at the place where the code ended when it was noted. */
enum lab_note_kind {
    LAB_GOES_TO, /* an indirect jump: to this offset; of several such notes each is for one visit */
    LAB_RANDOM,  /* a conditional jump, taken every second time, which nobody can predict */
    LAB_REPEATS, /* a rep string instruction: so many elements */
    LAB_LONG     /* a division whose operands make it take long */
};
struct lab_note {
    uint32_t at, value;
    enum lab_note_kind kind;
};
enum { LAB_NOTES = 128 };
struct lab_code { /* full: more was put than fits, never run */
    uint8_t bytes[LAB_CODE];
    size_t len;
    bool full;
    struct lab_note notes[LAB_NOTES];
    size_t note_count;
};
void lab_put(struct lab_code *c, const void *bytes, size_t len);
#define LAB_PUT(c, ...) lab_put((c), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))
void lab_put_nops(struct lab_code *c, size_t bytes);       /* as few instructions as possible */
void lab_align(struct lab_code *c, size_t to, size_t off); /* until the length is `off` modulo `to` */
void lab_put_le32(struct lab_code *c, uint32_t v);
void lab_put_le64(struct lab_code *c, uint64_t v);
/* An instruction with so many prefixes that mean nothing that it is `to` bytes long. Not for jumps. */
void lab_put_long(struct lab_code *c, const void *bytes, size_t len, size_t to);
void lab_note(struct lab_code *c, enum lab_note_kind kind, uint32_t value);
/* The end of an iteration: counts it in r15 (bare: rdi) and jumps back to the first byte. */
void lab_put_iteration_end(struct lab_code *c, bool bare);

/* ---- what executes ---- */

/* What vector registers hold when timed code starts. Their upper halves are empty, as instructions of the first
 * generations want them, unless LAB_FILL_WIDE is added. */
enum lab_fill { LAB_FILL_NONE, LAB_FILL_INT, LAB_FILL_FLOAT, LAB_FILL_DOUBLE, LAB_FILL_WIDE = 4 };

/* Pointers each to the next, one in each cell, in a random order through all of them. */
struct lab_ring {
    size_t cells, stride, skew; /* bytes apart; by so much the pointer moves on within its cell from one to the next */
    bool small_pages;
};

struct lab_core {
    void *ctx;
    /* Makes a loop over this code, which holds the end of its iteration, ready to be executed. bare: code that uses
     * rax, rcx, rdx only, entered with nothing set. Its number, or -1. Some 16 are kept, and all bare ones. */
    int (*prepare)(void *ctx, const struct lab_code *iteration, unsigned fill, bool bare);
    int (*prepare_ring)(void *ctx, const struct lab_ring *r); /* an iteration is a load; -1: no memory */
    int (*prepare_call)(void *ctx, void (*f)(uint64_t, void *),
                        void *data); /* -1: cannot execute code of this program */
    /* So many iterations, in ticks of the time stamp counter; -1: a signal stopped it, as for an instruction that the
     * core lacks. */
    double (*ticks)(void *ctx, int piece, uint64_t iterations);
    double (*now_s)(void *ctx); /* the core's own time */
    void *(*data)(void *ctx);   /* what r14 points to */
    bool (*has_vectors)(void *ctx, unsigned bits);
    void (*move)(void *ctx, int cpu); /* to the n-th of the CPUs that may be used; NULL: there is one */
    void (*free)(void *ctx);
    double tsc_ghz;
    double step;      /* the time stamp counter moves by so many ticks at once */
    const char *name; /* what the processor calls itself */
    char vendor[16];  /* "AuthenticAMD" */
    unsigned cpus, family, model;
};
/* native.c: this processor. NULL, reported: its clock is unusable, or there is no memory. */
struct lab_core *lab_native(void);
const char *native_cpu_name(void); /* what this processor calls itself, without opening it */
void lab_core_free(struct lab_core *c);

/* ---- lab.c: experiments ---- */

struct lab;           /* opaque */
struct machine_bench; /* machine.h */
/* On what `bench` names; NULL: this processor, on a quiet CPU. Finds the undisturbed speed. NULL, reported, if the
 * clock is unusable. */
struct lab *lab_open(const struct machine_bench *bench, double budget_s);
void lab_close(struct lab *l); /* gives back memory, signal handlers, CPU affinity */

/* Names the next experiments, as printf: tapes find them by that. Unlike things need unlike names. */
void lab_name(struct lab *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Cycles for one iteration of a loop with this body, entered with the registers above; -1 if the code was stopped by a
 * signal (an instruction that this CPU lacks), -2 if the time is over and no sample could be taken, -3 if a tape has it
 * not, or if it is a figure that cannot be. rdi at entry is the number of iterations, rsi LAB_DATA bytes. */
double lab_loop_cycles(struct lab *l, const struct lab_code *body, unsigned fill);
/* The same for code that is not a loop: called as void f(uint64_t iterations, void *data); iterations 0: as many as
 * make a sample. Returns cycles per iteration. -3 also where the core only simulates. */
double lab_call_cycles(struct lab *l, void (*f)(uint64_t iterations, void *data), void *data, uint64_t iterations);
/* Cycles a load in the ring, walked warm. Far from the core time is long and neighbours matter less: what comes out
 * least of a few walks is taken even if none was quiet. */
double lab_ring_cycles(struct lab *l, const struct lab_ring *r);

/* What the caller knows of the named experiment without any timing, for the tape. */
void lab_tell(struct lab *l, double cycles);
/* What is no timing and yet not the same everywhere (what the system says of its caches): `value`, or what it was when
 * a tape that is played was recorded. */
double lab_fact(struct lab *l, const char *what, double value);
double lab_recall(struct lab *l, const char *what,
                  double otherwise); /* the tape's half of it: lab_tell is the other one */

void *lab_data(struct lab *l);
/* The next part of the work takes about so many measurements and should take so many seconds: how long each may wait
 * for a quiet moment follows from it. A part that is late goes on, with less patience. */
void lab_plan(struct lab *l, unsigned measurements, double seconds);
bool lab_part_is_over(struct lab *l); /* what is left of the part had better be left away */
/* Was the last measurement taken without enough quiet samples? */
bool lab_was_unsure(const struct lab *l);
double lab_seconds_left(const struct lab *l);
double lab_core_per_tsc(const struct lab *l); /* median over all samples */
double lab_tsc_ghz(const struct lab *l);
double lab_noise(const struct lab *l);              /* median relative spread of samples */
double lab_quantile(double *v, size_t n, double q); /* sorts v; q 0 ... 1, 0.5 the median */
double lab_canary(const struct lab *l);             /* cycles a nop takes when nothing disturbs */
double lab_disturbed_share(const struct lab *l);
bool lab_has_vectors(const struct lab *l, unsigned bits); /* can this CPU execute them? */
const struct lab_core *lab_core_of(const struct lab *l);  /* NULL: a tape */
const char *lab_cpu_name(const struct lab *l);

/* ---- brackets: chains and canaries, for lab.c and speed.c ---- */

struct lab_bracket {
    const struct lab_core *core;
    int chain, canary;                            /* pieces */
    uint64_t chain_iterations, canary_iterations; /* of 40 adds, of 80 nops: so many that the clock resolves them */
    double chain_cost;                            /* ticks of a chain of none */
};
enum { LAB_CHAIN_ADDS = 40, LAB_CANARY_NOPS = 160 }; /* an iteration */
void lab_bracket_open(struct lab_bracket *b, const struct lab_core *core);
double lab_chain_ticks(const struct lab_bracket *b);  /* a cycle each add */
double lab_canary_ticks(const struct lab_bracket *b); /* of canary_iterations */
double lab_chain_cycles(const struct lab_bracket *b); /* core cycles in a chain */
double lab_canary_nops(const struct lab_bracket *b);

/* ---- tape.c: machine.h has what others do with tapes (machine_tape_*) ---- */

struct tape_entry { /* what one experiment told */
    const char *label;
    uint64_t hash;        /* of its code; 0 unknown */
    double cycles, ticks; /* an iteration; cycles below 0: as lab_loop_cycles */
    unsigned quiet;       /* undisturbed samples; under 3 the figure is unsure */
    bool used;            /* when played */
};
struct tape;
/* A tape that is recorded; entries are kept in their order. */
void tape_add(struct tape *t, const char *label, uint64_t hash, double cycles, double ticks, unsigned quiet);
/* The next entry of that label, the last one again and again; NULL: there is none, which is counted. */
const struct tape_entry *tape_next(struct tape *t, const char *label, uint64_t hash);
bool tape_has(const struct tape *t, const char *label);
void tape_doubt(struct tape *t, const char *label); /* its figure cannot be: counted */
/* The scalar of that name ("tsc-ghz"), NAN if it is missing. */
double tape_number(const struct tape *t, const char *name);
void tape_set_number(struct tape *t, const char *name, double v);
const char *tape_name(const struct tape *t); /* of the file that it was read from */
const char *tape_cpu(const struct tape *t);
void tape_set_cpu(struct tape *t, const char *name, const char *vendor, unsigned family, unsigned model);

#endif
