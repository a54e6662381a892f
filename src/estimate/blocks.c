/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks: what the model and the replays say of each block: ideal cycles of one execution, cycles more for mispredicted
 * branches, and errors of loops and procedures. What is still left (more code than the budget can visit) gets the
 * average of its surroundings. */
#include "estimate/branches.h"
#include "estimate/model/walk.h"

#include <math.h>
#include <stdlib.h>

#define BRANCHES_COVERED 0.3 /* of the instructions, by windows: less says nothing of the rest */
#define TOOK_MAX 1.25        /* times what samples say of an owner at most; they may fall behind it */
#define UNSEEN_ERROR 0.5     /* of cycles that are an average of the surroundings */

struct average {
    double cycles, insns; /* of seen blocks, all their executions */
    double unseen_insns;
};

static void add_covered(struct walks *w, struct average *owners, struct average *whole)
{
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i], owner = walk_owner_of(w, block);
        uint64_t executions = 0;
        double insns = (double)w->j->counts[block] * walk_block(w->j, block)->insn_count;
        double cycles = w->first[block] ? walk_block_cycles(w, sim_feed_core(w->core), block, &executions) : 0;
        if (executions == 0) {
            owners[owner].unseen_insns += insns;
            whole->unseen_insns += insns;
            w->j->cycles[block] = -1;
            continue;
        }
        w->j->cycles[block] = (float)cycles;
        owners[owner].insns += insns;
        whole->insns += insns;
        owners[owner].cycles += cycles * (double)w->j->counts[block];
        whole->cycles += cycles * (double)w->j->counts[block];
    }
}

/* What mispredicted branches add to one execution of a block that windows saw; below 0: they did not. */
static double branch_cycles_covered(const struct walks *w, uint32_t block)
{
    uint64_t executions = 0;
    double cycles = w->first[block] ? walk_block_cycles(w, sim_feed_core(w->mispredicting), block, &executions) : 0;
    return executions ? fmax(0, cycles - (double)w->predicted[block]) : -1;
}

static double branch_rate(const struct average *owner, const struct average *whole)
{
    const struct average *a = owner->insns > 0 ? owner : whole;
    return a->cycles / a->insns;
}

static double *owner_branch_error(const struct walks *w, uint32_t owner)
{
    uint32_t loops = w->j->loop_count;
    return owner < loops ? &w->j->loops[owner].branch_err : &w->j->funcs[owner - loops].branch_err;
}

/* What windows met once or never is off by all that is told of it, as far as they know. */
static void set_branch_errors(struct walks *w, const struct average *owners, const struct average *whole)
{
    for (uint32_t h = 0; h < w->j->loop_count + w->j->func_count; h++) {
        double drawn = walk_branch_error(&w->owners[h]);
        *owner_branch_error(w, h) =
            isinf(drawn) ? fmax(branch_rate(&owners[h], whole), branch_rate(whole, whole)) : drawn;
    }
}

/* Blocks that no window met get the average of their surroundings. */
static void take_branches(struct walks *w)
{
    struct average whole = {0}, *owners = xmalloc((w->j->loop_count + w->j->func_count + 1) * sizeof *owners);
    float *out = ARENA_SPARSE(w->j->scratch, float, w->j->block_count + 1);
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        double insns = (double)w->j->counts[block] * walk_block(w->j, block)->insn_count,
               cycles = branch_cycles_covered(w, block);
        out[block] = (float)cycles;
        if (cycles < 0) {
            whole.unseen_insns += insns;
            continue;
        }
        struct average *owner = &owners[walk_owner_of(w, block)];
        owner->insns += insns;
        whole.insns += insns;
        owner->cycles += cycles * (double)w->j->counts[block];
        whole.cycles += cycles * (double)w->j->counts[block];
    }
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        if (out[block] < 0)
            out[block] =
                (float)(branch_rate(&owners[walk_owner_of(w, block)], &whole) * walk_block(w->j, block)->insn_count);
    }
    if (whole.insns >= BRANCHES_COVERED * (whole.insns + whole.unseen_insns)) {
        w->j->branch_cycles = out;
        set_branch_errors(w, owners, &whole);
    }
    free(owners);
}

static void fill_unseen(struct walks *w, const struct average *owners, const struct average *whole)
{
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        const struct average *a = &owners[walk_owner_of(w, block)];
        if (!(w->j->cycles[block] < 0))
            continue;
        if (!(a->insns > 0))
            a = whole;
        w->j->cycles[block] = (float)(a->cycles / a->insns * walk_block(w->j, block)->insn_count);
    }
}

static void set_errors(struct walks *w, const struct average *owners)
{
    for (uint32_t h = 0; h < w->j->loop_count + w->j->func_count; h++) {
        double all = owners[h].insns + owners[h].unseen_insns;
        if (!(all > 0))
            continue;
        double drawn = fmin(UNSEEN_ERROR, walk_owner_error(w, &w->owners[h]));
        double err = hypot(drawn, UNSEEN_ERROR * owners[h].unseen_insns / all);
        if (h < w->j->loop_count)
            w->j->loops[h].cycles_err = err;
        else
            w->j->funcs[h - w->j->loop_count].cycles_err = err;
    }
}

static struct join_replay *owner_replay(struct walks *w, uint32_t owner)
{
    return owner < w->j->loop_count ? &w->j->loops[owner].replay : &w->j->funcs[owner - w->j->loop_count].replay;
}

static struct branches_owner *branches_of_owners(const struct walks *w, const struct join_replay *measured,
                                                 uint32_t count)
{
    struct branches_owner *owners = ARENA_ARRAY(w->j->scratch, struct branches_owner, count + 1);
    for (uint32_t h = 0; h < count; h++)
        owners[h].replay = measured[h];
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        struct branches_owner *owner = &owners[walk_owner_of(w, block)];
        double factor = owner->replay.factor > 0 ? owner->replay.factor : 1;
        owner->branch += (double)w->j->counts[block] * (double)w->j->branch_cycles[block];
        owner->cycles += (double)w->j->counts[block] * (double)w->j->cycles[block] * factor;
        owner->samples += w->j->samples[block];
    }
    return owners;
}

static void add_branch_error(const struct walks *w, uint32_t owner, double cycles)
{
    double *error = owner_branch_error(w, owner), insns = (double)walk_owner_self(w, owner)->instructions;
    if (insns > 0)
        *error = hypot(*error, cycles / insns);
}

static void take_judged_branches(struct walks *w, const struct join_replay *measured, uint32_t count)
{
    struct branches_owner *owners = branches_of_owners(w, measured, count);
    branches_judge(w->j, owners, count);
    for (uint32_t h = 0; h < count; h++)
        add_branch_error(w, h, owners[h].error);
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        w->j->branch_cycles[block] *= (float)owners[walk_owner_of(w, block)].part;
    }
}

/* Of each owner, what the model says of an instruction on average, and what the program took for it at most. */
static struct fit_known cycles_an_instruction(const struct walks *w, uint32_t count)
{
    struct arena *a = w->j->scratch;
    double *cycles = ARENA_ARRAY(a, double, count + 1), *max = ARENA_ARRAY(a, double, count + 1),
           *instructions = ARENA_ARRAY(a, double, count + 1);
    uint64_t *samples = ARENA_ARRAY(a, uint64_t, count + 1);
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i], h = walk_owner_of(w, block);
        cycles[h] += (double)w->j->counts[block] * (double)w->j->cycles[block];
        instructions[h] += (double)w->j->counts[block] * walk_block(w->j, block)->insn_count;
        samples[h] += w->j->samples[block];
    }
    for (uint32_t h = 0; h < count; h++) {
        double took = TOOK_MAX * actual_of(w->j, samples[h]).high * w->j->core_hz;
        cycles[h] = instructions[h] > 0 ? cycles[h] / instructions[h] : 0;
        max[h] = isfinite(took) && instructions[h] > 0 ? took / instructions[h] : INFINITY;
    }
    return (struct fit_known){cycles, max, w->j->model_error.p90};
}

static void take_replays(struct walks *w)
{
    uint32_t count = w->j->loop_count + w->j->func_count;
    struct join_replay *measured = ARENA_ARRAY(w->j->scratch, struct join_replay, count + 1);
    struct fit_known known = cycles_an_instruction(w, count);
    replays_tell(w->replays, sim_feed_core(w->core), &known, count, measured);
    if (w->j->branch_cycles)
        take_judged_branches(w, measured, count);
    for (uint32_t h = 0; h < count; h++)
        *owner_replay(w, h) = measured[h];
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i], h = walk_owner_of(w, block);
        if (measured[h].factor > 0)
            w->j->cycles[block] *= (float)measured[h].factor;
    }
}

bool walk_take_results(struct walks *w)
{
    struct average whole = {0};
    struct average *owners = xmalloc((w->j->loop_count + w->j->func_count + 1) * sizeof *owners);
    w->j->cycles = ARENA_SPARSE(w->j->scratch, float, w->j->block_count + 1);
    add_covered(w, owners, &whole);
    bool any = whole.insns > 0;
    if (any) {
        fill_unseen(w, owners, &whole);
        set_errors(w, owners);
        if (w->mispredicting)
            take_branches(w);
        sim_feed_free(w->mispredicting);
        w->mispredicting = NULL;
        if (w->replays)
            take_replays(w);
        double unseen = whole.unseen_insns / (whole.insns + whole.unseen_insns);
        if (unseen > 0.02)
            prof_warn(w->j->r, PROF_WARN_MODEL_COVERAGE,
                      "%.0f %% of the instructions got an average of their surroundings", 100 * unseen);
    } else {
        w->j->cycles = NULL;
    }
    free(owners);
    return any;
}
