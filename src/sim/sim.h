/* SPDX-License-Identifier: Apache-2.0
 *
 * sim: pure models, no ELF and no files of programs. core.c and its stages: how many cycles a stream of instructions
 * takes on a described machine when every access hits the first-level cache, and what binds it. selftest.c: how far off
 * that is on this machine.
 *
 * Use of the core model:
 *     struct sim_shapes *shapes = sim_shapes_new();
 *     struct sim_insn *table = ...;                       one for each static instruction
 *     sim_insn_prepare(machine, shapes, bytes, avail, addr, &table[i]);
 *     struct sim_core *core = sim_core_new(machine, table, n, NULL);
 *     for each stretch: sim_core_reset_pipeline(core, 512); then sim_core_step(core, i, 0, flags) for each instruction
 *     sim_core_flush(core); sim_core_costs(core)[i].cycles / sim_core_costs(core)[i].count is the cost of instruction i
 */
#ifndef MTOOL_SIM_H
#define MTOOL_SIM_H

#include "base/base.h"
#include "machine/machine.h"

enum { SIM_USE_MAX = 6, SIM_READ_MAX = 10, SIM_WRITE_MAX = 6 };

struct sim_use {
    uint32_t ports;
    uint16_t busy; /* whole cycles ... */
    uint16_t part; /* ... and ticks more on average */
    uint8_t queue; /* scheduler; 255 none, 254 that of the unit chosen */
    uint8_t pad[3];
};

/* What instructions have in common, made ready for one machine, which differ only in place, immediate and displacement.
 * Its fields are the stages' own business. No gaps: shapes are compared byte by byte. */
struct sim_shape {
    struct sim_use uses[SIM_USE_MAX], load, store[2];
    int32_t latency, load_latency; /* ticks */
    int32_t slots;                 /* ticks of dispatch, when not fused ... */
    int32_t address_late;          /* ticks in load_latency for the kind of address */
    int32_t second_late;           /* ticks that the second result takes longer */
    int32_t latency_spread;        /* ticks: by so much latency depends on the operands (division); it is the middle */
    int32_t bypass_late;           /* ticks that results take longer to operations of another kind */
    int32_t flags_late;            /* ticks that they take longer from the flags */
    int32_t occupies_more;         /* ticks that unfavourable operands keep the last unit longer */
    uint32_t flags;
    uint16_t kind;       /* of operation: alike for those of a family on the same units; 0 none */
    uint8_t whole_slots; /* ... and how many slots those are, rounded, 1 to 64 */
    uint8_t use_count, store_use_count, read_count, write_count, addr_count;
    uint8_t reads[SIM_READ_MAX], writes[SIM_WRITE_MAX], addr_regs[3];
    uint8_t len, scale, base, index, effect, effect_dst, effect_src;
    uint8_t second;            /* which of the writes the second result is */
    uint8_t fuse, cond, bytes; /* bytes: of the access, at most 64 */
    bool is_wide, is_signed;   /* of 64 bits; of a division */
};
_Static_assert(sizeof(struct sim_shape) == (SIM_USE_MAX + 3) * sizeof(struct sim_use) + 80, "a shape has no gaps");

/* A static instruction, made ready. */
struct sim_insn {
    uint64_t addr;
    int64_t imm, disp;
    const struct sim_shape *shape;
};

/* ---- shapes.c ---- */

struct sim_shapes; /* opaque; owns the shapes of the instructions that were prepared with it */
struct sim_shapes *sim_shapes_new(void);
void sim_shapes_free(struct sim_shapes *s);
const struct sim_shape *sim_shapes_keep(struct sim_shapes *s,
                                        const struct sim_shape *shape); /* the one that is alike */

/* ---- prepare.c ---- */

/* Decodes and looks up. 0, or -1 if the bytes are no instruction (then *out takes a slot and no time, like a nop). */
int sim_insn_prepare(const struct machine *m, struct sim_shapes *shapes, const uint8_t *bytes, size_t avail,
                     uint64_t addr, struct sim_insn *out);

/* ---- core.c ---- */

/* What an instruction's cycles were lost to. */
enum sim_bound {
    SIM_BOUND_WIDTH, /* maximum multiple issue, retirement */
    SIM_BOUND_FETCH, /* fetch blocks, taken branches, calls; and mispredictions where the caller says so */
    SIM_BOUND_CHAIN, /* waiting for the result of an operation */
    SIM_BOUND_LOAD,  /* waiting for a loaded value: first-level latency, store forwarding */
    SIM_BOUND_UNIT,  /* waiting for a unit */
    SIM_BOUND_COUNT
};
const char *sim_bound_name(enum sim_bound b); /* "width", "fetch", "chain", "load", "unit" */

struct sim_cost {
    uint64_t count;               /* times attributed */
    double cycles;                /* core cycles; over all instructions they sum up to the time of the stream */
    float bound[SIM_BOUND_COUNT]; /* the same cycles by what bound them */
    float unit_cycles;            /* of bound[SIM_BOUND_UNIT]: those of the unit that bound most often ... */
    uint8_t unit;                 /* ... its port, for machine_port_name, unless those are 0 */
};

struct sim_options {
    uint32_t seed; /* of the values that stand for unknown registers; 0: 1 */
};

struct sim_core; /* opaque */
/* Borrows m and insns, and their shapes, for its life; the table may not move, and need not be prepared beyond what is
 * stepped. */
struct sim_core *sim_core_new(const struct machine *m, const struct sim_insn *insns, size_t count,
                              const struct sim_options *options);
void sim_core_free(struct sim_core *c);
/* As it was when it was new, for a table that holds other instructions now. */
void sim_core_restart(struct sim_core *c);

/* Starts a new stretch of instructions: an empty pipeline, registers of unknown value. The first `warm` instructions
 * fill the pipeline and are not attributed; about the size of the reorder buffer does. */
void sim_core_reset_pipeline(struct sim_core *c, uint32_t warm);

enum {
    SIM_TAKEN = 1, /* control goes elsewhere than to the next instruction in memory (jumps, calls, returns too) */
    SIM_MISPREDICTED = 2, /* what follows is fetched only after this branch has been resolved */
    SIM_REPEAT_SHIFT = 8, /* flags >> 8: number of elements of a rep string instruction, 0: unknown (16 are assumed) */
};
/* One executed instruction. `addr`: address of its memory operand (the stack slot if it has no other), 0 unknown. Then
 * addresses come from values that the model gives the registers: a fresh number for what it cannot follow, the true
 * sum for moves, lea, add and sub, push, pop, and loads of what was stored; so equal addresses are found equal where
 * plain arithmetic shows it (stack slots, the same element twice), and all others are taken as different. */
void sim_core_step(struct sim_core *c, uint32_t index, uint64_t addr, uint32_t flags);
/* Sets a general register (0 rax ... 15 r15), or all of them, to known values; those set give true addresses. */
void sim_core_set_reg(struct sim_core *c, unsigned reg, uint64_t value);
void sim_core_set_regs(struct sim_core *c, const uint64_t regs[16]);
/* Ends the stretch: what is still in flight retires and is attributed. */
void sim_core_flush(struct sim_core *c);

double sim_core_cycles(const struct sim_core *c);                /* attributed since sim_core_new */
const struct sim_cost *sim_core_costs(const struct sim_core *c); /* one for each instruction of the table */

bool sim_insn_is_branch(const struct sim_insn *i); /* calls and returns too */
bool sim_insn_is_call(const struct sim_insn *i);
bool sim_insn_is_return(const struct sim_insn *i);
bool sim_insn_is_rep(const struct sim_insn *i); /* a string instruction that repeats */

/* ---- pipeline.c: issue in order, instruction by instruction ---- */

/* What the core model says of an in-order description, without what fetching adds, in a state that can be copied; of an
 * out-of-order one as if it issued in order. Times are ticks, SIM_CYCLE of them a cycle, from the last reset on. */
enum { SIM_CYCLE = 1024, SIM_UNITS = MACHINE_PORT_MAX };
struct sim_pipeline;                                            /* opaque */
struct sim_pipeline *sim_pipeline_new(const struct machine *m); /* empty; borrows m */
void sim_pipeline_free(struct sim_pipeline *p);
void sim_pipeline_reset(struct sim_pipeline *p);                                  /* empty again */
void sim_pipeline_copy(struct sim_pipeline *to, const struct sim_pipeline *from); /* of one machine */
void sim_pipeline_issue(struct sim_pipeline *p, const struct sim_insn *i);
/* When its first part would start if it came next. */
int64_t sim_pipeline_start(const struct sim_pipeline *p, const struct sim_insn *i);
int64_t sim_pipeline_ticks(const struct sim_pipeline *p);  /* when the next instruction may start at the earliest */
int64_t sim_pipeline_stalls(const struct sim_pipeline *p); /* of these those beyond what the width allows at best */
int64_t sim_pipeline_ready(const struct sim_pipeline *p, unsigned reg); /* when a register's value is there */
int64_t sim_pipeline_unit(const struct sim_pipeline *p, unsigned unit); /* when it is free for good; of SIM_UNITS */
/* Forgets what no instruction to come can notice, and counts from SIM_BEGIN cycles before the one at hand on: pipelines
 * in which all goes on alike are the same. Returns the ticks that clocks were put back by; stalls count anew. */
enum { SIM_BEGIN = 64 };
int64_t sim_pipeline_rebase(struct sim_pipeline *p);
uint64_t sim_pipeline_hash(const struct sim_pipeline *p); /* rebased ones */
bool sim_pipeline_is_same(const struct sim_pipeline *a, const struct sim_pipeline *b);
int64_t sim_insn_latency(const struct sim_insn *i); /* from its start to its result */

/* ---- feed.c: a core that a thread of its own steps ---- */

struct sim_feed;                                      /* opaque */
struct sim_feed *sim_feed_new(struct sim_core *core); /* owns it. Where there is one processor, the caller's thread */
void sim_feed_free(struct sim_feed *f);
/* As those of the core of the same names. Table entries must not change once they were stepped. */
void sim_feed_reset_pipeline(struct sim_feed *f, uint32_t warm);
void sim_feed_step(struct sim_feed *f, uint32_t index, uint32_t flags);
void sim_feed_set_reg(struct sim_feed *f, unsigned reg, uint64_t value);
void sim_feed_set_regs(struct sim_feed *f, const uint64_t regs[16]);
/* When all that was fed has been stepped: the core may be asked, and stepped, until more is fed. */
struct sim_core *sim_feed_core(struct sim_feed *f);

/* ---- simulated.c: the simulated core as what executes a calibration's experiments ---- */

/* What disturbs a shared virtual machine, all in one: a neighbour that takes half the width in random stretches of 1 to
 * 50 ms, a clock that drifts by 5 %, interrupts, time that the host steals, a time stamp counter that moves in steps.
 */
struct sim_noise {
    uint32_t seed;    /* of what comes by chance */
    double neighbour; /* share of the time that it is there */
    double drift;     /* of the clock: 0.05 is 5 % up and down */
    double interrupts_per_s, stolen_per_s;
    double step; /* ticks that the time stamp counter moves by at once; 0: 1 */
};
/* The core of a description, to be measured as if it were a processor. NULL, reported: it is in-order, which
 * calibration does not know how to measure. Borrows m. */
struct lab_core *sim_bench_new(const struct machine *m, const struct sim_noise *noise);
void sim_bench_free(struct lab_core *c);

/* ---- predict.c: which branches a processor would have mispredicted ---- */

struct sim_predictor;                          /* opaque; about 200 KB */
struct sim_predictor *sim_predictor_new(void); /* knows nothing yet */
struct sim_predictor *sim_predictor_copy(const struct sim_predictor *p);
void sim_predictor_free(struct sim_predictor *p);
/* The instruction at `pc` was executed and control went to `to` (taken) or to what follows it. True: mispredicted;
 * false also for what is no branch. Learns from it. */
bool sim_predict(struct sim_predictor *p, const struct sim_insn *i, uint64_t pc, bool taken, uint64_t to);
/* The same for a branch of which no more is known than what it is. next: address of the instruction behind it. */
enum sim_branch {
    SIM_BRANCH_CONDITIONAL,
    SIM_BRANCH_CALL,
    SIM_BRANCH_CALL_INDIRECT,
    SIM_BRANCH_INDIRECT,
    SIM_BRANCH_RETURN
};
bool sim_predict_branch(struct sim_predictor *p, enum sim_branch kind, uint64_t pc, uint64_t next, uint64_t to);

/* ---- selftest.c: how far off the core model is on this machine ---- */

struct sim_selftest_options {
    double budget_s;                   /* seconds it may take; 0: 10 */
    uint32_t seed;                     /* of the draw of kernels for fitting and for scoring; 0: 1 */
    bool keep;                         /* score only: neither fit nor change the description */
    const struct machine_bench *bench; /* what times the kernels; NULL: this processor */
    struct sim_streams *streams;       /* recorded where they are not yet; NULL: for this time only */
    const struct machine *given; /* the truth is what the core model says of this description; NULL: it is timed */
};
struct sim_streams; /* of the kernels' instructions, kept from one self-test to the next */
struct sim_streams *sim_streams_new(void);
void sim_streams_free(struct sim_streams *s);
struct sim_selftest_case {
    const char *name, *kind; /* of the kernel: "integer", "float", "memory", "branch" */
    bool wide;               /* compiled for 256-bit vectors */
    bool fitted;             /* used for fitting; else for scoring */
    double instructions;     /* of one run of the kernel */
    double true_cycles, predicted_cycles;
};
struct sim_selftest_result {
    struct sim_selftest_case *cases; /* in the caller's arena */
    size_t count;
};
/* Runs small kernels on this CPU, timed, and in the model, on the recorded stream of the same code. Half of them, drawn
 * at random, fit the few parameters that calibration cannot measure; the errors of the other half are written into m
 * (machine_error_of) as its error bar. 0, or -1 after one line. result and a may be NULL. */
int sim_selftest(struct machine *m, const struct sim_selftest_options *options, struct arena *a,
                 struct sim_selftest_result *result);

#endif
