/* SPDX-License-Identifier: Apache-2.0
 *
 * lab: times pieces of code made at run time, in core cycles, on a machine that others use too. Private to this folder
 * and to the self-test. Every sample stands between two chains of dependent adds, which tell the clock of the core at
 * that moment, and between two canaries, runs of nops that only go at full speed while nobody shares the core. */
#ifndef MTOOL_MACHINE_LAB_H
#define MTOOL_MACHINE_LAB_H

#include "base/base.h"

/* Registers with a fixed part in timed code: r14 points to LAB_DATA bytes of zeros (the last 512 are not), r15 counts
 * turns. */
enum { LAB_DATA = 1 << 16, LAB_BASE = 14, LAB_COUNTER = 15, LAB_CODE = 1 << 16 };

struct lab_code { /* code under construction; full: more was put than fits, never run */
    uint8_t bytes[LAB_CODE];
    size_t len;
    bool full;
};
void lab_put(struct lab_code *c, const void *bytes, size_t len);
#define LAB_PUT(c, ...) lab_put((c), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))
void lab_put_nops(struct lab_code *c, size_t bytes);       /* as few instructions as possible */
void lab_align(struct lab_code *c, size_t to, size_t off); /* until the length is `off` modulo `to` */
void lab_put_le32(struct lab_code *c, uint32_t v);
void lab_put_le64(struct lab_code *c, uint64_t v);

/* What vector registers hold when timed code starts. Their upper halves are empty, as instructions of the first
 * generations want them, unless LAB_FILL_WIDE is added. */
enum lab_fill { LAB_FILL_NONE, LAB_FILL_INT, LAB_FILL_FLOAT, LAB_FILL_DOUBLE, LAB_FILL_WIDE = 4 };

struct lab; /* opaque */
/* Pins the thread to a quiet CPU and finds the undisturbed speed. NULL, reported, if the clock is unusable. */
struct lab *lab_open(double budget_s);
void lab_close(struct lab *l); /* gives back memory, signal handlers, CPU affinity */

/* Cycles for one turn of a loop with this body, entered with the registers above; -1 if the code was stopped by a
 * signal (an instruction that this CPU lacks), -2 if the time is over and no sample could be taken.
 * rdi at entry is the number of turns, rsi LAB_DATA bytes. */
double lab_loop_cycles(struct lab *l, const struct lab_code *body, unsigned fill);
/* The same for code that is not a loop: called as void f(uint64_t turns, void *data), `turns` times `per_turn` cycles
 * are expected. Returns cycles per turn. */
double lab_call_cycles(struct lab *l, void (*f)(uint64_t turns, void *data), void *data, uint64_t turns);
/* One sample of any function: cycles, or -1 if it was disturbed. */
double lab_sample(struct lab *l, void (*f)(uint64_t turns, void *data), void *data, uint64_t turns);

/* Ticks of the time stamp counter for LAB_CHAIN dependent adds, a cycle each, and for LAB_CANARY nops. */
enum { LAB_CHAIN = 4000, LAB_CANARY = 4000 };
double lab_chain_ticks(void);
double lab_clock_cost(void); /* of which so many are for reading the clock */
double lab_canary_ticks(void);

/* Makes the code executable for a call; valid until 16 more have been made. */
void (*lab_make(struct lab *l, const struct lab_code *c))(uint64_t, void *);
void *lab_data(struct lab *l);
/* The next part of the work takes about so many measurements and should take so many seconds: how long each may wait
 * for a quiet moment follows from it. A part that is late goes on, with less patience. */
void lab_plan(struct lab *l, unsigned measurements, double seconds);
bool lab_part_is_over(const struct lab *l); /* what is left of the part had better be left away */
/* Was the last measurement taken without enough quiet samples? */
bool lab_was_unsure(const struct lab *l);
double lab_seconds_left(const struct lab *l);
double lab_core_per_tsc(const struct lab *l); /* median over all samples */
double lab_tsc_ghz(const struct lab *l);
double lab_noise(const struct lab *l);  /* median relative spread of samples */
double lab_quantile(double *v, size_t n, double q); /* sorts v; q 0 ... 1, 0.5 the median */
double lab_canary(const struct lab *l); /* cycles a nop takes when nothing disturbs */
double lab_disturbed_share(const struct lab *l);
bool lab_has_vectors(const struct lab *l, unsigned bits); /* 256, 512 usable? */

#endif
