/* SPDX-License-Identifier: Apache-2.0
 *
 * With samples: which blocks have a second copy, behind the function, that tells references without asking. The first
 * copy then has no sites in these, and looks whether a sample is taken only where control arrives in some other way
 * than from block to block forwards: at entrances, behind calls, at heads of loops (checks). From there the second copy
 * goes on by itself until such a place is reached again, of which there is only the first copy. So every cycle has a
 * check, whatever control does (Arnold and Ryder's full duplication, with the calls left out).
 *
 * A second copy ends in front of the first instruction that must stand once: calls, whose return addresses are then
 * all in first copies; system calls; what the runtime is called for. A call's own references are still told there (its
 * tail), so most of what is called costs first copies nothing. From there on sites ask one by one. Blocks where flags
 * are alive that a check would change have no second copy if they would need one; nor do functions whose exception
 * tables say more of an instruction than what its frame is.
 *
 * needs: references. fills: second, references' is_second.
 */
#include "rewrite/instruments/references.h"

static bool stands_twice(const struct rw *w, uint32_t i)
{
    uint8_t kind = cfg_kind(w->cfg, i);
    uint32_t id = w->references->of_insn[i];
    bool is_plain = kind == X86_PLAIN || kind == X86_JMP || kind == X86_JCC || kind == X86_RET || kind == X86_JMP_IND;
    return is_plain && (id == ID_NONE || !w->references->data[id].call);
}

static bool falls_to_next(const struct rw *w, uint32_t b)
{
    const struct cfg *c = w->cfg;
    bool any = false;
    cfg_for_each_edge(&c->blocks.data[b], e) {
        const struct cfg_edge *edge = &c->edges.data[e];
        if (edge->kind != CFG_EDGE_FALL)
            continue;
        if (edge->to != b + 1 || c->blocks.data[b + 1].func != c->blocks.data[b].func)
            return false;
        any = true;
    }
    return any;
}

static bool ends_well(const struct rw *w, uint32_t b)
{
    uint8_t term = w->cfg->blocks.data[b].term;
    return term == X86_JMP || term == X86_RET || term == X86_JMP_IND || falls_to_next(w, b);
}

/* Instructions of the block from its first that may stand in a second copy. What is watched at its first is told in
 * front of the check. */
static unsigned head_of(const struct rw *w, uint32_t b)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    uint32_t end = blk->insn_first + blk->insn_count, i = blk->insn_first;
    end = (uint32_t)min_u64(end, rw_watch_next(&w->references->watch, i + 1));
    while (i < end && stands_twice(w, i))
        i++;
    unsigned n = i - blk->insn_first;
    return n == blk->insn_count && !ends_well(w, b) ? n - 1 : n;
}

/* The instruction that ends the second copy stands in the first, its site in the second: what operands say, and no
 * return is watched there. */
static bool has_tail(const struct rw *w, uint32_t b, unsigned head)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    uint32_t i = blk->insn_first + head;
    if (head == blk->insn_count)
        return false;
    uint32_t id = w->references->of_insn[i];
    bool is_watched = head && rw_watch_next(&w->references->watch, i) == i;
    return id != ID_NONE && !w->references->data[id].call && x86_is_call(cfg_shape(w->cfg, i)) && !is_watched;
}

static bool is_whole(const struct rw *w, uint32_t b) { return rw_second(w, b) == w->cfg->blocks.data[b].insn_count; }

/* A block to which control comes only forwards, from whole second copies, needs no check. */
static void mark_successors(const struct rw *w, uint32_t b, uint8_t *arrives)
{
    const struct cfg *c = w->cfg;
    cfg_for_each_edge(&c->blocks.data[b], e) {
        const struct cfg_edge *edge = &c->edges.data[e];
        if (edge->to == ID_NONE)
            continue;
        bool is_forward = edge->to > b && c->blocks.data[edge->to].func == c->blocks.data[b].func;
        bool is_plain = edge->kind == CFG_EDGE_FALL || edge->kind == CFG_EDGE_TAKEN;
        if (!is_forward || !is_plain || !is_whole(w, b))
            arrives[edge->to] = 1;
    }
}

static void choose(struct rw *w, uint32_t b, uint8_t *arrives)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    bool has_flags = w->second[b] & RW_SECOND_FLAGS;
    bool needs_check = arrives[b] || blk->flags & (CFG_BLOCK_EXT_IN | CFG_BLOCK_LOOP_HEADER);
    w->second[b] = 0;
    if (!needs_check || !has_flags) {
        unsigned n = head_of(w, b);
        bool tail = has_tail(w, b, n);
        w->second[b] = (uint8_t)(n | (tail ? RW_SECOND_TAIL : 0) | ((n || tail) && needs_check ? RW_SECOND_CHECK : 0));
    }
    mark_successors(w, b, arrives);
}

/* Behind the last instruction whose site stands in the second copy. */
static uint32_t end_of_sites(const struct rw *w, uint32_t b)
{
    return w->cfg->blocks.data[b].insn_first + rw_second(w, b) + rw_has_tail(w, b);
}

static bool tells(const struct rw *w, uint32_t b)
{
    const struct cfg *c = w->cfg;
    const struct cfg_block *blk = &c->blocks.data[b];
    for (uint32_t i = blk->insn_first; i < end_of_sites(w, b); i++)
        if (w->references->of_insn[i] != ID_NONE)
            return true;
    cfg_for_each_edge(blk, e)
        if (is_whole(w, b) && c->edges.data[e].to != ID_NONE && rw_goes_on(w, c->edges.data[e].to))
            return true;
    return false;
}

static void mark_references(const struct rw *w, uint32_t b)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    for (uint32_t i = blk->insn_first; i < end_of_sites(w, b); i++)
        if (w->references->of_insn[i] != ID_NONE)
            w->references->data[w->references->of_insn[i]].is_second = true;
}

static bool may_have(const struct rw *w, uint32_t f)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    return w->funcs[f].is_moved && w->funcs[f].gs && !fn->is_plt && !w->funcs[f].edits_return &&
           (fn->fde == ID_NONE || !w->cfg->unwind.fdes[fn->fde].lsda);
}

static void find_in_func(struct rw *w, const struct cfg_func *fn, uint8_t *arrives)
{
    cfg_for_each_block(fn, b)
        choose(w, b, arrives);
    for (uint32_t b = fn->block_first + fn->block_count; b-- > fn->block_first;)
        if (!tells(w, b))
            w->second[b] = 0;
    cfg_for_each_block(fn, b)
        mark_references(w, b);
}

/* Backwards, or from another function. */
static void mark_arrivals(const struct cfg *c, uint8_t *arrives)
{
    for (size_t e = 0; e < c->edges.len; e++) {
        const struct cfg_edge *edge = &c->edges.data[e];
        if (edge->to != ID_NONE &&
            (edge->to <= edge->from || c->blocks.data[edge->to].func != c->blocks.data[edge->from].func))
            arrives[edge->to] = 1;
    }
}

void rw_versions(struct rw *w)
{
    const struct cfg *c = w->cfg;
    uint8_t *arrives = ARENA_ARRAY(w->arena, uint8_t, c->blocks.len + 1);
    mark_arrivals(c, arrives);
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        if (may_have(w, f))
            find_in_func(w, fn, arrives);
        else if (fn->block_count)
            memset(w->second + fn->block_first, 0, fn->block_count);
    }
}
