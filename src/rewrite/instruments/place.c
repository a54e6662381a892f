/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in its block a counter stands, and in which form: anywhere before the terminator where the flags are dead
 * ("flags before registers"), else a form that leaves the flags alone with a register that is certainly overwritten
 * later, else with one saved on the stack below the red zone.
 *
 * needs: *_counter (plan). fills: place, edge_how, enter_how, steps.
 */
#include "rewrite/impl.h"

enum { LOOK_MAX = 40 }; /* instructions of a block looked at */

/* One instruction does it, and writes flags. */
static uint8_t how_locked(struct cfg_live live)
{
    return rw_how(live.flags & ~X86_CF ? RW_FORM_PUSH : RW_FORM_INC, 0, 0);
}

/* Never by rbp: before pop rbp its value is dead, but unwinders of a signal find the frame by it. */
static uint8_t how_at(struct cfg_live live, bool gs)
{
    if (!(live.flags & ~X86_CF))
        return rw_how(RW_FORM_INC, 0, gs);
    for (unsigned r = 0; r < 16; r++)
        if (r != X86_RSP && r != X86_RBP && r != X86_R12 && (live.gpr_dead >> r & 1))
            return rw_how(RW_FORM_REG, r, gs);
    return rw_how(RW_FORM_PUSH, 0, gs);
}

/* The first place with dead flags; else the first with a dead register; else the start. */
static struct rw_place best_in_block(const struct cfg_liveness *l, uint32_t b, uint8_t at_start, bool locked)
{
    const struct cfg_block *blk = &l->c->blocks.data[b];
    struct cfg_live live[LOOK_MAX];
    struct rw_place best = {0, at_start};
    if (rw_form_of(best.how) == RW_FORM_INC)
        return best;
    cfg_live_inside(l, b, live, LOOK_MAX);
    for (uint32_t k = 1; k < blk->insn_count && k < LOOK_MAX && rw_form_of(best.how) != RW_FORM_INC; k++) {
        if (cfg_kind(l->c, blk->insn_first + k - 1) == X86_SYSCALL)
            break; /* may not come back */
        uint8_t how = locked ? how_locked(live[k]) : how_at(live[k], rw_gs_of(at_start));
        if (rw_form_of(how) < rw_form_of(best.how))
            best = (struct rw_place){(uint16_t)k, how};
    }
    return best;
}

struct steps {
    struct rw_step *data;
    size_t len, cap;
};

static void place_func(struct rw *w, uint32_t f, struct cfg_liveness *l, struct steps *steps)
{
    const struct cfg *c = w->cfg;
    const struct cfg_func *fn = &c->funcs.data[f];
    bool locked = w->opt->locked, gs = w->funcs[f].gs;
    cfg_liveness_build(c, f, l);
    cfg_for_each_block(fn, b) {
        const struct cfg_block *blk = &c->blocks.data[b];
        struct cfg_live live = cfg_live_before(l, b);
        w->enter_how[b] = locked ? how_locked(live) : how_at(live, gs);
        cfg_for_each_edge(blk, e) {
            uint32_t to = c->edges.data[e].to;
            if (w->edge_counter[e] != ID_NONE && c->blocks.data[to].func == f)
                w->edge_how[e] = locked ? how_locked(cfg_live_before(l, to)) : how_at(cfg_live_before(l, to), gs);
        }
        if (w->block_counter[b] == ID_NONE)
            continue;
        w->place[b] = best_in_block(l, b, w->enter_how[b], locked);
        bool has_next = b + 1 < fn->block_first + fn->block_count;
        struct rw_step step;
        if (has_next && !locked && !live.flags && !cfg_live_before(l, b + 1).flags && rw_induction(w, b, &step)) {
            VEC_PUSH(steps, step);
            w->place[b].how = rw_how(RW_FORM_NONE, 0, 0);
        }
    }
}

#define FUNCS_A_RANGE 64

struct placing {
    struct rw *w;
    struct steps *steps; /* [ranges of functions] */
};

static void place_range(void *ctx, size_t first, size_t end)
{
    const struct placing *p = ctx;
    struct cfg_liveness l = {0};
    for (size_t f = first; f < end; f++)
        if (p->w->funcs[f].is_moved)
            place_func(p->w, (uint32_t)f, &l, &p->steps[first / FUNCS_A_RANGE]);
    cfg_liveness_fini(&l);
}

#define EDGES_A_RANGE 65536

/* Forms as they are for edges into another function: nothing is known there. And which blocks are entered from other
 * blocks than the one before. */
static void edges_of_range(void *ctx, size_t first, size_t end)
{
    const struct rw *w = ctx;
    const struct cfg *c = w->cfg;
    for (size_t e = first; e < end; e++) {
        const struct cfg_edge *ed = &c->edges.data[e];
        w->edge_how[e] = rw_how(RW_FORM_PUSH, 0, w->funcs[c->blocks.data[ed->from].func].gs);
        bool is_expected = ed->to == ed->from || (ed->to == ed->from + 1 && ed->kind == CFG_EDGE_FALL);
        if (ed->to != ID_NONE && !is_expected)
            __atomic_store_n(&w->is_joined[ed->to], true, __ATOMIC_RELAXED);
    }
}

static void take_steps(struct rw *w, struct steps *steps)
{
    for (size_t k = 0; k < steps->len; k++) {
        struct rw_step *s = &steps->data[k];
        if (!s->turns)
            s->pending = w->counter_count++;
        VEC_PUSH(&w->steps, *s);
    }
    VEC_FREE(steps);
}

void rw_place(struct rw *w)
{
    struct cfg *c = w->cfg;
    w->place = ARENA_ARRAY(w->scratch, struct rw_place, c->blocks.len + 1);
    w->mark = ARENA_ARRAY(w->arena, uint16_t, c->blocks.len + 1);
    w->enter_how = ARENA_ARRAY(w->scratch, uint8_t, c->blocks.len + 1);
    w->edge_how = ARENA_ARRAY(w->scratch, uint8_t, c->edges.len + 1);
    w->is_joined = ARENA_ARRAY(w->scratch, bool, c->blocks.len + 1);
    parallel_for(c->edges.len, EDGES_A_RANGE, edges_of_range, w);
    if (!w->counter_count)
        return;
    size_t ranges = c->funcs.len / FUNCS_A_RANGE + 1;
    struct placing p = {w, ARENA_ARRAY(w->scratch, struct steps, ranges)};
    parallel_for(c->funcs.len, FUNCS_A_RANGE, place_range, &p);
    for (size_t r = 0; r < ranges; r++)
        take_steps(w, &p.steps[r]);
    rw_promote(w);
}
