/* SPDX-License-Identifier: Apache-2.0
 *
 * random_walks: walks drawn along the counts (paths.c): through the whole program, then into loops and procedures that
 * matter and got few instructions, then one for each block that was never on the way. */
#include "estimate/model/walk.h"

#include <stdlib.h>

#define BATCHES 48
#define BATCHES_MIN 6
#define WALK_INSNS 4000   /* attributed instructions */
#define OWNER_SHARE 0.001 /* of all instructions: matters */
#define OWNER_MIN 4000    /* instructions that it should get */
#define OWNER_WALKS 40
#define PATH_MAX 512
#define SWEEP_ENOUGH 0.005 /* of all instructions: no sweep for so few */
#define SWEEP_AFTER 32     /* instructions that follow the block of a sweep */

static bool goes_elsewhere(const struct walks *w, const struct join_module *m, const struct cfg_block *b, uint32_t next,
                           bool opaque)
{
    if (b->term == X86_PLAIN)
        return false;
    if (opaque || next == ID_NONE)
        return b->term != X86_JCC;
    return walk_module(w->j, next) != m || walk_block(w->j, next)->addr != b->addr + b->size;
}

/* A call that does not land where it points went through a linkage stub. */
static bool is_through_stub(const struct walks *w, const struct cfg_block *b, uint32_t next, bool opaque)
{
    return b->term == X86_CALL && !opaque && next != ID_NONE && b->call_target != walk_block(w->j, next)->addr;
}

static bool play(struct walks *w, uint32_t block, uint32_t next, bool opaque)
{
    if (!walk_make_ready(w, block))
        return false;
    const struct join_module *m = walk_module(w->j, block);
    const struct cfg_block *b = &m->cfg->blocks.data[block - m->block_base];
    uint32_t last = w->first[block] + b->insn_count - 1;
    for (uint32_t i = w->first[block]; i < last; i++)
        sim_feed_step(w->core, i, 0);
    sim_feed_step(w->core, last, goes_elsewhere(w, m, b, next, opaque) ? SIM_TAKEN : 0);
    if (is_through_stub(w, b, next, opaque))
        sim_feed_step(w->core, INSN_JUMP, SIM_TAKEN);
    if (opaque)
        sim_feed_step(w->core, INSN_RET, SIM_TAKEN);
    w->steps += b->insn_count;
    w->spent += b->insn_count;
    return true;
}

/* Plays from `start` on, after `warm` instructions of the way that led there, until `insns` instructions are
 * attributed. */
static void walk(struct walks *w, uint32_t start, uint32_t warm, uint32_t insns)
{
    uint32_t path[PATH_MAX], count = paths_before(&w->paths, start, warm, path, PATH_MAX);
    uint64_t begin, warmed = 0;
    bool opaque;
    for (uint32_t i = 0; i < count; i++)
        warmed += walk_block(w->j, path[i])->insn_count;
    sim_feed_reset_pipeline(w->core, (uint32_t)min_u64(warmed, UINT32_MAX));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = i + 1 < count ? path[i + 1] : start;
        paths_follow(&w->paths, path[i], next, &opaque);
        if (!play(w, path[i], next, opaque))
            break;
    }
    begin = w->steps;
    for (uint32_t at = start, next; at != ID_NONE && w->steps - begin < insns; at = next) {
        next = paths_next(&w->paths, at, &opaque);
        if (next == ID_NONE)
            next = paths_draw_entry(&w->paths);
        if (!play(w, at, next, opaque))
            w->steps++, w->spent++; /* so that a program that is all unknown ends too */
    }
}

void walk_program(struct walks *w)
{
    for (int i = 0; i < BATCHES && !(i >= BATCHES_MIN && walk_has_converged(w)); i++) {
        while (w->spent < walk_for_program(w) * (uint64_t)(i + 1) / BATCHES)
            walk(w, paths_draw_start(&w->paths), WARM, WALK_INSNS);
        walk_end_batch(w);
        diag_progress("simulating", w->spent, w->spent_max);
    }
}

/* A block of the owner, in proportion to what it executed. */
static uint32_t draw_in_owner(struct walks *w, const struct join_module *m, uint32_t func, uint32_t loop, uint64_t all)
{
    const struct cfg_func *f = &m->cfg->funcs.data[func];
    uint64_t pick = rng_below(&w->paths.rng, all);
    cfg_for_each_block(f, b) {
        const struct cfg_block *block = &m->cfg->blocks.data[b];
        uint64_t n = block->loop == loop ? w->j->counts[m->block_base + b] * block->insn_count : 0;
        if (pick < n)
            return m->block_base + b;
        pick -= n;
    }
    return ID_NONE;
}

static void walk_owner(struct walks *w, const struct join_module *m, uint32_t func, uint32_t loop, uint32_t owner)
{
    uint64_t all = walk_owner_self(w, owner)->instructions;
    double lacks = OWNER_MIN - w->owners[owner].core.last_insns;
    if (all == 0 || walk_owner_share(w, owner) < OWNER_SHARE || lacks <= 0)
        return;
    for (int i = 0; i < OWNER_WALKS && w->spent < w->spent_max * 4 / 5; i++)
        walk(w, draw_in_owner(w, m, func, loop, all), WARM / 2, OWNER_MIN / OWNER_WALKS * 2);
}

void walk_owners(struct walks *w)
{
    for (uint32_t i = 0; i < w->j->module_count; i++) {
        const struct join_module *m = &w->j->modules[i];
        if (!m->cfg)
            continue;
        for (uint32_t l = 0; l < m->cfg->loops.len; l++)
            walk_owner(w, m, m->cfg->loops.data[l].func, l, m->loop_base + l);
        for (uint32_t f = 0; f < m->cfg->funcs.len; f++)
            walk_owner(w, m, f, ID_NONE, w->j->loop_count + m->func_base + f);
    }
    sim_feed_reset_pipeline(w->core, 0);
}

struct weighed {
    uint64_t weight;
    uint32_t block;
};

static int compare_weighed(const void *a, const void *b)
{
    const struct weighed *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->block < y->block ? -1 : x->block > y->block;
}

/* Blocks that no walk met, the heaviest first, until the budget is used up. */
void walk_unseen(struct walks *w)
{
    VEC(struct weighed) v = {0};
    uint64_t left = 0;
    for (uint32_t i = 0; i < w->paths.executed.count; i++) {
        uint32_t block = w->paths.executed.blocks[i];
        uint64_t before = i ? w->paths.executed.up_to[i - 1] : 0;
        if (!walk_times_played(w, block))
            VEC_PUSH(&v, ((struct weighed){w->paths.executed.up_to[i] - before, block}));
    }
    if (v.len)
        qsort(v.data, v.len, sizeof *v.data, compare_weighed);
    for (size_t i = 0; i < v.len; i++)
        left += v.data[i].weight;
    for (size_t i = 0; i < v.len && w->spent < w->spent_max; i++) {
        if ((double)left < SWEEP_ENOUGH * (double)w->j->instructions)
            break;
        walk(w, v.data[i].block, WARM / 4, walk_block(w->j, v.data[i].block)->insn_count + SWEEP_AFTER);
        left -= v.data[i].weight;
    }
    sim_feed_reset_pipeline(w->core, 0);
    VEC_FREE(&v);
}
