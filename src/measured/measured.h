/* SPDX-License-Identifier: Apache-2.0
 *
 * measured: what is known of the program without any model: exact counts, samples, times, where calls go, names and
 * places in the source, of each block, loop and function. Those of all modules are numbered through (module's base + id
 * in its cfg), so that a pass is a loop over one array. struct join is what the passes of prof/join.c share.
 */
#ifndef MTOOL_MEASURED_H
#define MTOOL_MEASURED_H

#include "cfg/cfg.h"
#include "debug/debug.h"
#include "image/image.h"
#include "measured/input.h"
#include "result/stats.h"
#include "rewrite/rewrite.h"

struct tally { /* sums over blocks */
    uint64_t instructions, memory_ops, samples;
    double cycles;         /* ideal */
    double branch_cycles;  /* more, for mispredicted branches */
    double cycles_var;     /* variance of `cycles` that comes from the random walks drawn */
    double branch_var;     /* likewise of `branch_cycles`, of windows */
    double simulated;      /* what the model alone says of `cycles` */
    double tlb, tlb_known; /* cycles more for misses of the first-level TLB; those of `cycles` of which that is known */
    double replayed, replayed_off; /* of `cycles`: in code validated by replays; how far these say that it may be off */
    double
        replayed_apart; /* what the model would have more of it: how owners share what was measured of them together */
};

struct join_replay {      /* what warm replays say of a loop's or function's own code */
    double factor;        /* measured over simulated cycles; 0: nothing is known of them */
    bool is_replayed;     /* measured of this code; else only as slices take it against the model on the whole */
    double error;         /* of the cycles, as a fraction; of the model's, if not replayed, beyond that of kernels; */
    double apart;         /* what they would be more if the model told how owners share them, as a fraction */
    double untrained_max; /* branches cost at most so much, as a fraction of the replayed cycles; NAN: not known */
    double windows;       /* that these two, and the factor, are of */
    double refuted;       /* so much less than by the model, likewise; replays show that the processor predicts it */
    bool knows_tlb;       /* what misses of the first-level TLB add: */
    double tlb;           /* as a fraction of the simulated cycles */
};

struct join_loop {
    struct tally self, incl; /* self: blocks whose innermost loop this is */
    uint64_t entries, iterations;
    double cycles_err; /* of self.cycles by the random walks drawn: standard error as a fraction */
    double branch_err; /* of self.branch_cycles by windows: standard error, cycles an instruction */
    struct join_replay replay;
    uint32_t object; /* its own, or ID_NONE */
};

struct join_func {
    struct tally self, incl; /* self: blocks in no loop */
    uint64_t calls;
    double cycles_err, branch_err;
    struct join_replay replay;
    const char *name; /* NULL until asked for */
    uint32_t object;
    bool is_counted;
};

struct join_module {
    const struct prof_input_module *in;
    const char *path;                      /* as in, but lives with the result */
    const struct cfg *cfg;                 /* NULL: not counted */
    struct cfg *own_cfg;                   /* the same, if it does not come with a map */
    struct image *img;                     /* of the original; NULL not counted, or the file has gone */
    struct lines *lines;                   /* NULL: no DWARF */
    struct scope_cache *scopes;            /* NULL likewise */
    uint64_t *edges, *enter;               /* counts by the cfg's own ids; enter: from outside, by block */
    struct rewrite_unexecuted *unexecuted; /* [unexecuted_count] what was not executed of blocks that faults ended */
    size_t unexecuted_count;
    uint32_t block_base, loop_base, func_base;
    uint64_t samples, functions, functions_rewritten, instructions, memory_ops;
};

struct join_unattributed { /* samples outside counted blocks, by function */
    const char *module, *function, *reason;
    uint64_t address, samples;
};

struct marked { /* a region that the source marks */
    const char *name;
    uint32_t module;
    const uint32_t *blocks; /* executed ones, of the module, ascending; of one function or, inlined, of several */
    size_t count;           /* 0: it never ran */
    bool is_unclear;        /* its markers do not fit together: it has no blocks */
    const char *file;
    uint32_t line_first, line_last;
    bool is_asked;
};

struct join {
    struct prof_result *r;
    const struct prof_input *in;
    struct arena *scratch; /* gone after the join */
    struct join_module *modules;
    uint32_t module_count, block_count, loop_count, func_count;
    uint64_t *counts;     /* by block */
    uint64_t *samples;    /* by block */
    float *cycles;        /* ideal, of one execution, by block; NULL: no machine */
    float *branch_cycles; /* more for mispredicted branches; NULL: no windows, or they saw too little */
    struct join_loop *loops;
    struct join_func *funcs;
    uint64_t samples_all, samples_counted, samples_unexpected; /* unexpected: in counted code of count 0 */
    VEC(struct join_unattributed) unattributed;
    uint64_t instructions, memory_ops; /* of all counted code */
    struct marked *marked;
    size_t marked_count;
    struct file_names files;
    const struct calls *calls;     /* where they go */
    struct walks *walks;           /* NULL: no ideal times */
    const struct targets *targets; /* NULL: no windows */
    double core_hz;                /* NAN unknown */
    double core_share;             /* above 0, at most 1 */
    struct {
        double median, p90, bias;
    } model_error; /* of (predicted - true) / true */
};

/* ---- counts.c ---- */
/* Solves every module's counters, then entries, iterations and calls, and the sums of instructions and memory
 * operations. */
void counts_solve(struct join *j);
/* Adds up tallies of loops and functions from all per-block arrays that are there. Called again when more are filled.
 */
void counts_sum(struct join *j);
void tally_add(struct tally *to, const struct tally *t);
struct tally tally_of_block(const struct join *j, const struct cfg_block *b,
                            uint32_t number); /* number: of all blocks */

/* ---- stored.c: counts that a profile holds, in place of counters ---- */
/* Opens the module's file and builds its cfg, if it was counted. 0, or -1 after one line: the file has changed since.
 */
int stored_open(struct join *j, struct join_module *m);
void stored_close(struct join_module *m);
void stored_counts(struct join *j, struct join_module *m); /* fills counts, edges, enter */

/* ---- actual.c ---- */
void actual_locate(struct join *j);                                     /* samples to blocks; the others to `lost` */
void actual_whole(struct join *j);                                      /* user and system seconds of the whole */
struct prof_interval actual_of(const struct join *j, uint64_t samples); /* seconds; all NAN without samples */

/* ---- calls.c: where calls go, by number over all modules ---- */

struct call_site {
    uint32_t block; /* ends in a call or tail jump to the target */
    uint64_t up_to; /* count of this site and all before it of the same target */
};
struct calls {
    uint32_t *to; /* by block: the block that its call (or jump out of the module) goes to; ID_NONE unknown or none */
    uint32_t *from_first; /* by block: into sites; [block_count] is the end */
    struct call_site *sites;
};
/* Direct calls; calls through linkage stubs or slots are followed by the symbol of the slot's relocation to the module
 * that defines it. Fills j->calls. */
void calls_resolve(struct join *j);
/* The slot that the code at addr jumps through, if that is all it does: endbr64; jmp *slot(%rip). 0 if not. */
uint64_t calls_stub_slot(const struct image *img, uint64_t addr);

/* ---- names.c ---- */
const char *join_func_name(struct join *j, struct join_module *m, uint32_t func); /* never NULL */
const char *join_file_name(const struct join *j, uint32_t file);                  /* NULL for ID_NONE */

/* ---- places.c ---- */
void places_open(struct join *j); /* debug information of the modules that ran */
void places_close(struct join *j);
/* Source file, lines and, for a loop that was inlined, the function of an object whose address is set. Loop ID_NONE:
 * the procedure. Leaves all as it is where nothing is known. */
void places_of_object(struct join *j, struct join_module *m, uint32_t func, uint32_t loop, struct prof_object *o);
/* Different lines of source that `blocks` (of one function) come from, code inlined deeper than their common scope at
 * the line where it was inlined; and the first and last of them in the file of the first block. 0: not known. */
struct place_lines {
    const char *file;
    uint32_t count, first, last;
};
struct place_lines places_of_blocks(struct join *j, struct join_module *m, const uint32_t *blocks, size_t count);
void places_sum_lines(struct join *j); /* the rows by source line */

/* ---- marked.c ---- */
void marked_find(struct join *j); /* needs counts and debug information; fills marked */

/* ---- module of a block ---- */
const struct join_module *walk_module(const struct join *j, uint32_t block);
static inline const struct cfg_block *walk_block(const struct join *j, uint32_t block)
{
    const struct join_module *m = walk_module(j, block);
    return &m->cfg->blocks.data[block - m->block_base];
}

#endif
