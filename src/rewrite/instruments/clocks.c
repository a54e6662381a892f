/* SPDX-License-Identifier: Apache-2.0
 *
 * The instrumentation of exact clocks, of relocatable objects: on each function's entrance, and in front of what leaves
 * it, a call of the runtime, which reads the time stamp counter (ldrt/clocks.c). By where that returns to it knows the
 * function, by the return address beside it the caller. All registers are kept; flags are dead there, and so is the red
 * zone. Small functions without calls and loops would take less time than is needed to look at the clock: they get a
 * counter on their entrance, and their time is their caller's, as if they were inlined.
 *
 *     enter: call mtool_enter; ...         leave: call mtool_leave; ret         landing pad: call mtool_landed; ...
 *
 * What has no entrance of a function (its part that is seldom executed, with a name of its own) leaves it all the same.
 * Left alone is code that passes flags to its caller.
 */
#include "rewrite/impl.h"

enum { CALL_BYTES = 5, SMALL_INSNS = 40, ENTRY_CFA = 8 };

enum clocked { LEFT_ALONE, SMALL, PART, WHOLE };

/* ---- which functions ---- */

static struct image_cfa cfa_at(const struct rw *w, const struct cfg_func *fn, uint64_t addr)
{
    return image_unwind_cfa(w->img, &w->cfg->unwind, &w->cfg->unwind.fdes[fn->fde], addr);
}

/* The return address is on top of the stack. */
static bool is_at_edge(const struct rw *w, const struct cfg_func *fn, uint64_t addr)
{
    struct image_cfa cfa = cfa_at(w, fn, addr);
    return cfa.reg == IMAGE_CFA_RSP && cfa.offset == ENTRY_CFA;
}

static bool is_small(const struct cfg *c, const struct cfg_func *fn)
{
    if (fn->insn_count > SMALL_INSNS || fn->loop_count)
        return false;
    cfg_for_each_block(fn, b) {
        const struct cfg_block *blk = &c->blocks.data[b];
        if (blk->term == X86_CALL || blk->term == X86_CALL_IND || blk->term == X86_JMP_IND ||
            blk->flags & CFG_BLOCK_SYSCALL)
            return false;
        cfg_for_each_edge(blk, e)
            if (c->edges.data[e].kind == CFG_EDGE_TAIL ||
                (c->edges.data[e].kind == CFG_EDGE_OUT && blk->term != X86_RET))
                return false;
    }
    return true;
}

static enum clocked clocked_of(const struct rw *w, uint32_t f)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    if (!w->funcs[f].is_moved || fn->fde == ID_NONE || (w->cfg->call_live && w->cfg->call_live[f].out))
        return LEFT_ALONE;
    if (!is_at_edge(w, fn, fn->addr))
        return PART;
    return !w->opt->all_blocks && is_small(w->cfg, fn) ? SMALL : WHOLE;
}

static void plan(struct rw *w)
{
    w->clocked = ARENA_ARRAY(w->arena, uint8_t, w->cfg->funcs.len + 1);
    for (uint32_t f = 0; f < w->cfg->funcs.len; f++) {
        w->clocked[f] = (uint8_t)clocked_of(w, f);
        if (w->clocked[f] == SMALL)
            w->enter_counter[w->cfg->funcs.data[f].block_first] = w->counter_count++;
    }
}

/* ---- where it stands ---- */

/* To the beginning of another function, as far as anybody knows, with its frame taken down. */
static bool jumps_away(const struct rw *w, const struct cfg_func *fn, const struct cfg_block *blk)
{
    bool leaves = false;
    cfg_for_each_edge(blk, e)
        leaves |= w->cfg->edges.data[e].kind == CFG_EDGE_TAIL || w->cfg->edges.data[e].kind == CFG_EDGE_OUT;
    return blk->term == X86_JMP && leaves &&
           is_at_edge(w, fn, cfg_insn_addr(w->cfg, blk->insn_first + blk->insn_count - 1));
}

static uint32_t next(const struct rw *w, uint32_t block, uint32_t insn)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[block];
    const struct cfg_func *fn = &w->cfg->funcs.data[blk->func];
    uint32_t last = blk->insn_first + blk->insn_count - 1;
    if (w->clocked[blk->func] < PART || last < insn)
        return ID_NONE;
    return blk->term == X86_RET || jumps_away(w, fn, blk) ? last : ID_NONE;
}

static void add_call(struct rw_fragments *out, enum rw_link_hook hook)
{
    rw_fragment_add(out, (struct rw_fragment){
                             .id = hook, .bytes = CALL_BYTES, .kind = RW_INSERTED, .how = rw_how(RW_FORM_CLOCK, 0, 0)});
}

static void insert(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[point.at];
    if (point.where == RW_BEFORE_INSN) {
        add_call(out, RW_LINK_LEAVE);
    } else if (point.where == RW_ON_ENTRANCE && w->clocked[blk->func] >= PART) {
        if (w->clocked[blk->func] == WHOLE && point.at == w->cfg->funcs.data[blk->func].block_first)
            add_call(out, RW_LINK_ENTER);
        else if (blk->flags & CFG_BLOCK_LANDING_PAD)
            add_call(out, RW_LINK_LANDED);
    } else if (point.where == RW_ON_ENTRANCE) {
        rw_counts.insert(w, point, out);
    }
}

static void put(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    if (rw_form_of(f->how) == RW_FORM_CLOCK)
        rw_put_call(at, addr, rw_link_hook(w, (enum rw_link_hook)f->id));
    else
        rw_counts.put(w, f, at, addr);
}

static void frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    if (rw_form_of(f->how) != RW_FORM_CLOCK)
        rw_counts.frames(w, f, out);
}

const struct rw_instrument rw_clocks = {.moves = true,
                                        .tails_enter = true,
                                        .plan = plan,
                                        .place = rw_place,
                                        .next = next,
                                        .insert = insert,
                                        .put = put,
                                        .frames = frames};
