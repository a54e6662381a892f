/* SPDX-License-Identifier: Apache-2.0
 *
 * recorded: windows of the real instruction stream through the core model, their slices to the replays, and where their
 * indirect branches went. */
#include "estimate/model/walk.h"
#include "observed/observed.h"

#define SHARED_SAID 1.05 /* by so much replays may be too long without a word */

/* ID_NONE: in no block that was executed. */
static uint32_t block_of_place(const struct walks *w, uint64_t place)
{
    uint32_t module = OBSERVED_PLACE_MODULE(place);
    if (module >= w->j->module_count || !w->j->modules[module].cfg)
        return ID_NONE;
    const struct join_module *m = &w->j->modules[module];
    uint32_t b = cfg_block_at(m->cfg, OBSERVED_PLACE_VADDR(place));
    return b == ID_NONE || w->j->counts[m->block_base + b] == 0 ? ID_NONE : m->block_base + b;
}

static uint32_t index_of_place(void *ctx, uint64_t place)
{
    struct walks *w = ctx;
    uint32_t b = block_of_place(w, place);
    if (b == ID_NONE || !walk_make_ready(w, b))
        return ID_NONE;
    for (uint32_t i = w->first[b]; i < w->first[b] + walk_block(w->j, b)->insn_count; i++)
        if (w->table[i].addr == OBSERVED_PLACE_VADDR(place))
            return i;
    return ID_NONE;
}

static uint32_t owner_of_place(void *ctx, uint64_t place) { return walk_owner_of(ctx, block_of_place(ctx, place)); }

/* Of calls and jumps whose target the code does not tell. */
static void see_target(void *ctx, uint64_t from, uint64_t to)
{
    struct walks *w = ctx;
    uint32_t site = block_of_place(w, from), target = block_of_place(w, to);
    const struct cfg_block *b = walk_block(w->j, site);
    if ((b->term != X86_CALL_IND && b->term != X86_JMP_IND) || w->j->calls->to[site] != ID_NONE)
        return;
    bool is_known = target != ID_NONE && walk_block(w->j, target)->addr == OBSERVED_PLACE_VADDR(to);
    targets_see(w->targets, site, is_known ? target : ID_NONE);
}

/* What blocks cost with every branch predicted, in the same stretches that the other core played. */
static void remember_predicted(struct walks *w)
{
    uint64_t executions;
    w->predicted = ARENA_SPARSE(w->j->scratch, float, w->j->block_count + 1);
    for (size_t v = 0; v < w->visited.len; v++)
        w->predicted[w->visited.data[v]] =
            (float)walk_block_cycles(w, sim_feed_core(w->core), w->visited.data[v], &executions);
}

static void walk_bursts(struct walks *w, struct window_player *p)
{
    for (size_t i = 0; i < w->j->in->burst_count; i++) {
        uint64_t played = window_play(p, w->j->in->bursts[i].window, w->j->in->bursts[i].wrong);
        w->steps += played;
        w->spent += played;
        walk_end_batch(w);
    }
}

static void warn_of_neighbour(const struct walks *w)
{
    double shared = replays_shared(w->replays);
    if (shared > SHARED_SAID)
        prof_warn(w->j->r, PROF_WARN_REPLAYS_CONTENDED,
                  "SMT contention during nearly all replays: ideal times may be up to %.0f %% lower",
                  100 * (1 - 1 / shared));
}

void walk_windows(struct walks *w)
{
    struct window_known known = {.of = NULL};
    struct window_player p = {.core = w->core,
                              .table = w->table,
                              .index_of = index_of_place,
                              .went = see_target,
                              .ctx = w,
                              .warm = WARM,
                              .known = &known};
    if (!w->j->in->window_count && !w->j->in->burst_count)
        return;
    w->targets = ARENA_ARRAY(w->j->scratch, struct targets, 1);
    p.mispredicting = w->mispredicting = sim_feed_new(sim_core_new(w->m, w->table, w->max, NULL));
    p.core_of_slice = sim_core_new(w->m, w->table, w->max, NULL);
    w->is_branchy = true;
    walk_bursts(w, &p);
    p.branches_known = w->j->in->burst_count > 0;
    w->is_branchy = !p.branches_known;
    if (p.branches_known)
        remember_predicted(w);
    p.predictor = sim_predictor_new();
    w->replays = replays_new(owner_of_place, w);
    replays_see(w->replays, w->j->in->windows, w->j->in->window_count);
    warn_of_neighbour(w);
    for (size_t i = 0; i < w->j->in->window_count; i++) {
        replays_add(w->replays, &p, &w->j->in->windows[i]);
        uint64_t played = window_play(&p, w->j->in->windows[i].window, NULL);
        w->steps += played;
        w->spent += played;
        walk_end_batch(w);
    }
    if (!p.branches_known)
        remember_predicted(w);
    w->is_branchy = false;
    targets_share(w->j, w->paths.outside, w->targets);
    w->j->targets = w->targets;
    VEC_FREE(&known.index_of);
    sim_core_free(p.core_of_slice);
    sim_predictor_free(p.predictor);
    if (w->j->in->windows_read)
        w->j->in->windows_read(w->j->in->windows_ctx);
}
