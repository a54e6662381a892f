/* SPDX-License-Identifier: Apache-2.0
 *
 * walks: random walks, drawn by paths.c, through the core model; out come the ideal cycles of one execution
 * of every executed block. Three rounds: walks over the whole program, in equal batches whose differences give the
 * error of drawing; walks into loops and procedures that matter and got few; one short walk for each block that was
 * never on the way. What is still left (more code than the budget can visit) gets the average of its surroundings. The
 * budget is counted in instructions, never in seconds, so that the same input gives the same figures.
 */
#include "estimate/model/walk.h"

#include <stdlib.h>

#define STEPS_A_SECOND 4e6 /* what the model manages at least; turns seconds of budget into instructions */
#define COVERED_TIMES 32   /* of a block in windows: enough to go by */
#define COVERED_ENOUGH 0.9 /* of all instructions are in such blocks: no walks through the whole program */
#define WINDOWS_LONG 8     /* windows that take one in so many of the walks' instructions need none of them either */

/* Of the budget: for walks through the whole program. */
uint64_t walk_for_program(const struct walks *w) { return w->spent_max * 3 / 5; }

/* Are windows of the real stream all that is needed? Walks go by what is likely: they know of no addresses, and of few
 * targets of indirect calls. */
static bool windows_are_enough(const struct walks *w)
{
    uint64_t observed = 0;
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        if (walk_times_played(w, block) >= COVERED_TIMES)
            observed += w->j->counts[block] * walk_block(w->j, block)->insn_count;
    }
    return w->spent >= walk_for_program(w) / WINDOWS_LONG ||
           (double)observed >= COVERED_ENOUGH * (double)w->j->instructions;
}

static bool has_code(const struct join *j)
{
    for (uint32_t i = 0; i < j->module_count; i++)
        if (j->modules[i].img && j->modules[i].instructions)
            return true;
    return false;
}

void walks_run(struct join *j)
{
    if (!j->in->machine || !(j->core_hz > 0) || !has_code(j))
        return;
    for (uint32_t i = 0; i < j->module_count; i++) /* symbols, relocations and the like are read */
        if (j->modules[i].img)
            image_rest(j->modules[i].img);
    struct walks *w = xmalloc(sizeof *w);
    w->j = j;
    w->m = j->in->machine;
    paths_init(&w->paths, j, j->in->seed);
    w->max = walk_table_max(w);
    w->shapes = sim_shapes_new();
    w->table = xmalloc_sparse(w->max * sizeof *w->table);
    w->first = xmalloc_sparse((j->block_count + 1) * sizeof *w->first);
    w->owners = xmalloc_sparse((j->loop_count + j->func_count + 1) * sizeof *w->owners);
    walk_prepare_opaque(w);
    w->core = sim_feed_new(sim_core_new(w->m, w->table, w->max, NULL));
    w->spent_max = (uint64_t)((j->in->sim_budget_s > 0 ? j->in->sim_budget_s : 4) * STEPS_A_SECOND);
    walk_windows(w);
    if (!windows_are_enough(w))
        walk_program(w);
    walk_owners(w);
    walk_unseen(w);
    diag_debug(2, "walks: %llu steps in %u batches over %zu blocks", (unsigned long long)w->steps, w->batches,
               w->visited.len);
    diag_progress_end();
    if (walk_take_results(w))
        j->walks = w;
    else
        walks_free(w);
}

void walks_free(struct walks *w)
{
    if (!w)
        return;
    sim_feed_free(w->core);
    sim_feed_free(w->mispredicting);
    if (w->replays)
        replays_free(w->replays);
    xfree_sparse(w->table);
    sim_shapes_free(w->shapes);
    xfree_sparse(w->first);
    xfree_sparse(w->owners);
    VEC_FREE(&w->visited);
    VEC_FREE(&w->visited_owner);
    VEC_FREE(&w->owners_met);
    free(w);
}
