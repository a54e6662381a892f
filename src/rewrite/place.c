/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in its block a counter stands, and in which form: anywhere before the terminator where the flags are dead
 * ("flags before registers"), else a form that leaves the flags alone with a register that is certainly overwritten
 * later, else with one saved on the stack below the red zone.
 *
 * needs: *_counter (plan). fills: place, edge_place, enter_place.
 */
#include "rewrite/impl.h"

enum { LOOK_MOST = 40 }; /* instructions of a block looked at */

static struct rw_place form_at(struct cfg_live live, bool gs)
{
    struct rw_place p = {.form = RW_FORM_INC, .gs = gs};
    if (!(live.flags & ~X86_CF))
        return p;
    for (uint8_t r = 0; r < 16; r++) {
        if (r == X86_RSP || r == X86_R12 || !(live.gpr_dead >> r & 1))
            continue;
        p.form = RW_FORM_REG;
        p.reg = r;
        return p;
    }
    p.form = RW_FORM_PUSH;
    return p;
}

/* The first place with dead flags; else the first with a dead register; else the start, which is `best`. */
static struct rw_place best_in_block(const struct cfg_liveness *l, uint32_t b, struct rw_place best)
{
    const struct cfg_block *blk = &l->c->blocks.data[b];
    struct cfg_live live[LOOK_MOST];
    if (best.form == RW_FORM_INC)
        return best;
    cfg_live_inside(l, b, live, LOOK_MOST);
    for (uint32_t k = 1; k < blk->insn_count && k < LOOK_MOST && best.form != RW_FORM_INC; k++) {
        if (cfg_kind(l->c, blk->insn_first + k - 1) == X86_SYSCALL)
            break; /* may not come back */
        struct rw_place p = form_at(live[k], best.gs);
        if (p.form < best.form) {
            best = p;
            best.at = (uint16_t)k;
        }
    }
    return best;
}

static void place_func(struct rw *w, uint32_t f, struct cfg_liveness *l)
{
    const struct cfg *c = w->cfg;
    const struct cfg_func *fn = &c->funcs.data[f];
    cfg_liveness_build(c, f, l);
    cfg_for_each_block(c, fn, b)
    {
        const struct cfg_block *blk = &c->blocks.data[b];
        struct cfg_live live = cfg_live_before(l, b);
        w->enter_place[b] = form_at(live, w->funcs[f].gs);
        for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
            uint32_t to = c->edges.data[e].to;
            if (w->edge_counter[e] != ID_NONE && c->blocks.data[to].func == f)
                w->edge_place[e] = form_at(cfg_live_before(l, to), w->funcs[f].gs);
        }
        if (w->block_counter[b] == ID_NONE)
            continue;
        w->place[b] = best_in_block(l, b, w->enter_place[b]);
        bool has_next = b + 1 < fn->block_first + fn->block_count;
        if (has_next && !live.flags && !cfg_live_before(l, b + 1).flags)
            rw_induction(w, b);
    }
}

#define FUNCS_A_RANGE 64

static void place_range(void *ctx, size_t first, size_t end)
{
    struct rw *w = ctx;
    struct cfg_liveness l = {0};
    for (size_t f = first; f < end; f++)
        if (w->funcs[f].is_moved)
            place_func(w, (uint32_t)f, &l);
    cfg_liveness_fini(&l);
}

#define EDGES_A_RANGE 65536

/* As they are for edges into another function: nothing is known there. */
static void edge_places_of_range(void *ctx, size_t first, size_t end)
{
    const struct rw *w = ctx;
    const struct cfg *c = w->cfg;
    for (size_t e = first; e < end; e++) {
        w->edge_place[e].form = RW_FORM_PUSH;
        w->edge_place[e].gs = w->funcs[c->blocks.data[c->edges.data[e].from].func].gs;
    }
}

void rw_place(struct rw *w)
{
    struct cfg *c = w->cfg;
    w->place = ARENA_ARRAY(w->arena, struct rw_place, c->blocks.len + 1);
    w->step = ARENA_ARRAY(w->arena, struct rw_step, c->blocks.len + 1);
    w->enter_place = ARENA_ARRAY(w->arena, struct rw_place, c->blocks.len + 1);
    w->edge_place = ARENA_ARRAY(w->arena, struct rw_place, c->edges.len + 1);
    parallel_for(c->edges.len, EDGES_A_RANGE, edge_places_of_range, w);
    if (w->opt->plan == REWRITE_PROBE)
        rw_probes_place(w);
    if (!w->counter_count || w->opt->plan != REWRITE_COUNT)
        return;
    parallel_for(c->funcs.len, FUNCS_A_RANGE, place_range, w);
    for (uint32_t b = 0; b < c->blocks.len; b++)
        if (w->step[b].step)
            w->step[b].pending = w->counter_count++;
}
