/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/model/walk.h: what the files of this folder share: the model's table of instructions, and what was played.
 */
#ifndef MTOOL_ESTIMATE_MODEL_WALK_H
#define MTOOL_ESTIMATE_MODEL_WALK_H

#include "estimate/model/targets.h"
#include "estimate/model/walks.h"
#include "estimate/model/windows.h"
#include "estimate/replays/replays.h"

#define WARM 400 /* before them: about a reorder buffer */

enum { INSN_RET, INSN_JUMP, INSN_FIRST }; /* a return and a jump where code is not known; then the program's own */

struct played { /* of an owner, by a core: since the last batch, and before */
    double cycles, insns, last_cycles, last_insns;
};
struct spread { /* sums over batches: for the ratio of cycles and instructions */
    double cycles, insns, cycles2, insns2, cross;
    uint32_t batches;
};
struct owner { /* a loop's or function's own code */
    struct played core, mispredicting;
    struct spread ideal, branch; /* with every branch predicted; more for those that are not, in windows */
    bool is_met;
};

struct walks {
    struct join *j;
    const struct machine *m;
    struct paths paths;
    struct sim_insn *table;
    struct sim_shapes *shapes;
    struct sim_feed *core,
        *mispredicting; /* branchy: with mispredicted branches, in windows of the real stream; or NULL */
    bool is_branchy;    /* it plays too, for now */
    float *predicted;   /* by block: cycles in what `branchy` played, with every branch predicted */
    uint32_t *first;    /* by block: its first instruction in the table; 0: not made ready */
    uint32_t used, max, batches;
    VEC(uint32_t) visited;       /* blocks made ready */
    VEC(uint32_t) visited_owner; /* of each of these: its owner */
    struct owner *owners;        /* loops, then functions */
    VEC(uint32_t) owners_met;    /* of visited blocks */
    struct replays *replays;     /* NULL: no windows */
    struct targets *targets;     /* likewise */
    uint64_t steps;              /* instructions played */
    uint64_t spent, spent_max;   /* the same with what else costs time, for the budget */
};

/* ---- walks.c ---- */
uint64_t walk_for_program(const struct walks *w); /* of the budget: for walks through the whole program */

/* ---- table.c ---- */
uint32_t walk_owner_of(const struct walks *w, uint32_t block); /* of loops, then functions */
const struct tally *walk_owner_self(const struct walks *w, uint32_t owner);
bool walk_make_ready(struct walks *w, uint32_t block); /* false: no room, or no bytes */
/* Cycles of one execution, and how many the core met. */
double walk_block_cycles(const struct walks *w, const struct sim_core *core, uint32_t block, uint64_t *executions);
uint64_t walk_times_played(const struct walks *w, uint32_t block);
uint32_t walk_table_max(const struct walks *w); /* instructions that it may need */
void walk_prepare_opaque(struct walks *w);

/* ---- batches.c ---- */
void walk_end_batch(struct walks *w);
double walk_owner_error(const struct walks *w, const struct owner *h); /* standard error, as a fraction */
/* Cycles for mispredicted branches of an instruction, standard error; INFINITY: less than two batches met it. */
double walk_branch_error(const struct owner *h);
double walk_owner_share(const struct walks *w, uint32_t owner); /* of all instructions */
bool walk_has_converged(const struct walks *w);                 /* more batches would tell nothing */

/* ---- random_walks.c ---- */
void walk_program(struct walks *w);
void walk_owners(struct walks *w);
void walk_unseen(struct walks *w);

/* ---- recorded.c ---- */
void walk_windows(struct walks *w);

/* ---- blocks.c ---- */
bool walk_take_results(struct walks *w); /* false: nothing was played */

#endif
