/* SPDX-License-Identifier: Apache-2.0
 *
 * How often control is thought to pass each arc of the flow graph, so that the spanning tree takes the hot ones and the
 * counters stand on the cold ones. Each branch gets a probability from what its two ways look like (Ball and Larus
 * 1993), probabilities become frequencies loop by loop, inner ones first (Wu and Larus 1994). Nothing here is exact,
 * and nothing that is counted depends on it: a wrong guess only makes the counting slower.
 *
 * needs: funcs (decide). fills: weights of arcs.
 */
#include "rewrite/impl.h"

#include <stdlib.h>

/* How often branches go the taken way, as measured in compiled programs (gcc -O2: compressors, a database,
 * interpreters, a compiler), each branch weighted by the root of its count. */
#define TAKEN_LEAVES_FUNC 0.02f /* a part that the compiler moved out of the way */
#define TAKEN_NEVER 0.004f      /* to a call that does not return, or a trap */
#define TAKEN_BACK 0.85f        /* to the head of a loop around it */
#define TAKEN_EXIT 0.09f        /* out of the innermost loop; the other way stays inside */
#define TAKEN_STAYS 0.70f       /* the way out is to fall through */
#define TAKEN_OUT_OF_LINE 0.28f /* to a place that nothing falls into: laid out of the way */
#define TAKEN_TO_RETURN 0.30f
#define TAKEN_TO_CALL 0.32f
#define FALLS_TO_CALL 0.60f
#define LOOP_TURNS_MAX 64.0f
#define TAKEN_DETOUR 3.0f  /* a counter on a branch taken stands elsewhere: two jumps more, and another line of code */
#define FEEDBACK_DETOUR 19 /* half more, of 32 steps to twice as much: the same where counts are known */

/* by condition code: o no b ae e ne be a s ns p np l ge le g */
static const float taken_by_cond[16] = {0.05f, 0.9f,  0.55f, 0.35f, 0.38f, 0.46f, 0.42f, 0.30f,
                                        0.15f, 0.75f, 0.2f,  0.5f,  0.40f, 0.52f, 0.42f, 0.38f};

struct rw_flow { /* of one function at a time: what stands in arrays of the whole file is in no cache */
    const struct rw *w;
    const struct cfg *c;
    const struct cfg_func *fn;
    uint32_t edge_first;     /* of fn */
    VEC(float) prob;         /* [edges of fn] */
    VEC(float) freq;         /* [blocks of fn] */
    VEC(float) turns;        /* [loops of fn] */
    VEC(uint32_t) order;     /* [blocks of fn] reverse postorder, counted from its first */
    VEC(uint32_t) pos;       /* [blocks of fn] in order */
    VEC(uint32_t) stamp;     /* [blocks of fn] loop being looked at, plus 1 */
    VEC(uint32_t) way, next; /* [blocks of fn] of the search: blocks that are under way, and the edge to look at next */
};

static uint32_t own_block(const struct rw_flow *f, uint32_t b) { return b - f->fn->block_first; }
static float *turns_of(const struct rw_flow *f, uint32_t loop) { return &f->turns.data[loop - f->fn->loop_first]; }
static float *freq_of(const struct rw_flow *f, uint32_t b) { return &f->freq.data[own_block(f, b)]; }
static float *prob_of(const struct rw_flow *f, uint32_t e) { return &f->prob.data[e - f->edge_first]; }

/* ---- branches ---- */

static bool in_func(const struct rw_flow *f, uint32_t b) { return cfg_func_has_block(f->fn, b); }

static bool in_loop(const struct cfg *c, uint32_t b, uint32_t loop)
{
    uint32_t l = c->blocks.data[b].loop;
    while (l != ID_NONE && l != loop)
        l = c->loops.data[l].parent;
    return l == loop;
}

static bool heads_loop_of(const struct cfg *c, uint32_t to, uint32_t from)
{
    const struct cfg_block *t = &c->blocks.data[to];
    return (t->flags & CFG_BLOCK_LOOP_HEADER) && t->loop != ID_NONE && c->loops.data[t->loop].header == to &&
           in_loop(c, from, t->loop);
}

/* What straight-line code from block b comes to. */
enum fate { FATE_OPEN, FATE_CALL, FATE_RETURN, FATE_NEVER };
static enum fate fate_of(const struct cfg *c, uint32_t b)
{
    for (int steps = 0; steps < 3; steps++) {
        const struct cfg_block *k = &c->blocks.data[b];
        if ((k->flags & CFG_BLOCK_NORETURN) || k->term == X86_TRAP)
            return FATE_NEVER;
        if (k->term == X86_CALL || k->term == X86_CALL_IND)
            return FATE_CALL;
        if (k->term == X86_RET)
            return FATE_RETURN;
        if (k->edge_count != 1 || c->edges.data[k->edge_first].to == ID_NONE)
            break;
        b = c->edges.data[k->edge_first].to;
    }
    return FATE_OPEN;
}

/* Does nothing fall into block b, nor return there? */
static bool is_out_of_line(const struct cfg *c, uint32_t b)
{
    const struct cfg_block *prev = &c->blocks.data[b - 1];
    cfg_for_each_edge(prev, e)
        if (c->edges.data[e].kind == CFG_EDGE_FALL || c->edges.data[e].kind == CFG_EDGE_RETURN)
            return false;
    return true;
}

/* Two opinions make one (Dempster and Shafer). */
static float both(float a, float b) { return a * b / (a * b + (1 - a) * (1 - b)); }

static float plain_branch(const struct rw_flow *f, uint32_t from, uint32_t taken, enum fate of_taken, enum fate of_fall)
{
    const struct cfg_block *b = &f->c->blocks.data[from];
    float p = taken_by_cond[cfg_shape(f->c, b->insn_first + b->insn_count - 1)->cond & 15];
    if (taken > f->fn->block_first && is_out_of_line(f->c, taken))
        p = both(p, TAKEN_OUT_OF_LINE);
    if (of_taken == FATE_RETURN)
        p = both(p, TAKEN_TO_RETURN);
    if (of_taken == FATE_CALL)
        p = both(p, TAKEN_TO_CALL);
    if (of_fall == FATE_CALL)
        p = both(p, FALLS_TO_CALL);
    return p;
}

static float taken_probability(const struct rw_flow *f, uint32_t from, uint32_t taken, uint32_t fall)
{
    const struct cfg *c = f->c;
    if (!in_func(f, taken))
        return TAKEN_LEAVES_FUNC;
    enum fate of_taken = fate_of(c, taken), of_fall = fate_of(c, fall);
    if ((of_taken == FATE_NEVER) != (of_fall == FATE_NEVER))
        return of_taken == FATE_NEVER ? TAKEN_NEVER : 1 - TAKEN_NEVER;
    bool back_taken = heads_loop_of(c, taken, from), back_fall = heads_loop_of(c, fall, from);
    if (back_taken != back_fall)
        return back_taken ? TAKEN_BACK : 1 - TAKEN_BACK;
    uint32_t loop = c->blocks.data[from].loop;
    if (loop != ID_NONE) {
        bool exit_taken = !in_loop(c, taken, loop), exit_fall = !in_loop(c, fall, loop);
        if (exit_taken != exit_fall)
            return exit_taken ? TAKEN_EXIT : TAKEN_STAYS;
    }
    return plain_branch(f, from, taken, of_taken, of_fall);
}

static void branch_probabilities(struct rw_flow *f, uint32_t b)
{
    const struct cfg *c = f->c;
    const struct cfg_block *blk = &c->blocks.data[b];
    uint32_t fall = ID_NONE, other = ID_NONE, first = blk->edge_first;
    for (uint32_t e = first; e < first + blk->edge_count; e++) {
        *prob_of(f, e) = 1.0f / (float)blk->edge_count;
        *(c->edges.data[e].kind == CFG_EDGE_FALL ? &fall : &other) = e;
    }
    if (blk->edge_count != 2 || fall == ID_NONE || other == ID_NONE || blk->term != X86_JCC)
        return;
    float taken = taken_probability(f, b, c->edges.data[other].to, c->edges.data[fall].to);
    *prob_of(f, other) = taken;
    *prob_of(f, fall) = 1 - taken;
}

/* ---- frequencies ---- */

/* Blocks in an order where all but the edges that close a cycle lead forward. */
static void order_blocks(struct rw_flow *f)
{
    const struct cfg *c = f->c;
    uint32_t at = f->fn->block_count, *order = f->order.data, *pos = f->pos.data, *way = f->way.data,
             *next = f->next.data;
    memset(pos, 0xff, at * sizeof *pos);
    for (uint32_t r = f->fn->block_count; r-- > 0;) { /* the entry last: it comes first in the order */
        uint32_t depth = 0;
        if (pos[r] != ID_NONE ||
            (r && !(c->blocks.data[f->fn->block_first + r].flags & (CFG_BLOCK_EXT_IN & ~CFG_BLOCK_RETURN_POINT))))
            continue;
        way[depth++] = r;
        pos[r] = next[r] = 0;
        while (depth) {
            uint32_t k = way[depth - 1];
            const struct cfg_block *blk = &c->blocks.data[f->fn->block_first + k];
            if (next[k] == blk->edge_count) {
                order[--at] = k;
                pos[k] = at;
                depth--;
                continue;
            }
            uint32_t to = c->edges.data[blk->edge_first + next[k]++].to, own = own_block(f, to);
            if (!in_func(f, to) || pos[own] != ID_NONE)
                continue;
            pos[own] = next[own] = 0;
            way[depth++] = own;
        }
    }
    while (at) /* not reached */
        order[--at] = ID_NONE;
}

/* Sends the frequency of each block of order[from..to) that bears `stamp` (0: of each) forward along its edges. Returns
 * what comes back to `head`. */
static float send_forward(struct rw_flow *f, uint32_t from, uint32_t to, uint32_t stamp, uint32_t head)
{
    const struct cfg *c = f->c;
    float back = 0, *freq = f->freq.data;
    for (uint32_t k = from; k < to; k++) {
        uint32_t own = f->order.data[k], b = f->fn->block_first + own;
        if (own == ID_NONE || (stamp && f->stamp.data[own] != stamp))
            continue;
        const struct cfg_block *blk = &c->blocks.data[b];
        if (b != head && (blk->flags & CFG_BLOCK_LOOP_HEADER) && blk->loop != ID_NONE &&
            c->loops.data[blk->loop].header == b)
            freq[own] *= *turns_of(f, blk->loop);
        cfg_for_each_edge(blk, e) {
            uint32_t t = c->edges.data[e].to;
            if (t == head)
                back += freq[own] * *prob_of(f, e);
            else if (in_func(f, t) && f->pos.data[own_block(f, t)] > k &&
                     (!stamp || f->stamp.data[own_block(f, t)] == stamp))
                freq[own_block(f, t)] += freq[own] * *prob_of(f, e);
        }
    }
    return back;
}

static void loop_turns(struct rw_flow *f, uint32_t l)
{
    const struct cfg *c = f->c;
    const struct cfg_loop *loop = &c->loops.data[l];
    uint32_t last = 0, head = f->pos.data[own_block(f, loop->header)];
    cfg_for_each_member(loop, m) {
        uint32_t own = own_block(f, c->loop_members.data[m]), pos = f->pos.data[own];
        f->stamp.data[own] = l + 1;
        f->freq.data[own] = 0;
        last = pos > last && pos != ID_NONE ? pos : last;
    }
    *freq_of(f, loop->header) = 1;
    float back = head == ID_NONE ? 0 : send_forward(f, head, last + 1, l + 1, loop->header);
    float stay = 1 - 1 / LOOP_TURNS_MAX;
    *turns_of(f, l) = 1 / (1 - (back < stay ? back : stay));
}

/* How often a block is entered from outside its function, the function's entry being 1. */
static float entered(const struct cfg_block *b)
{
    if (b->flags & CFG_BLOCK_ENTRY)
        return 1;
    if (b->flags & CFG_BLOCK_CALLED)
        return 0.5f;
    return b->flags & CFG_BLOCK_ADDR_TAKEN ? 0.02f : 0.001f;
}

static void func_frequencies(struct rw_flow *f)
{
    const struct cfg *c = f->c;
    uint32_t deepest = 0, n = f->fn->block_count;
    order_blocks(f);
    cfg_for_each_block(f->fn, b)
        branch_probabilities(f, b);
    cfg_for_each_loop(f->fn, l)
        deepest = c->loops.data[l].depth > deepest ? c->loops.data[l].depth : deepest;
    for (uint32_t d = deepest; d > 0; d--)
        cfg_for_each_loop(f->fn, l)
            if (c->loops.data[l].depth == d)
                loop_turns(f, l);
    cfg_for_each_block(f->fn, b)
        *freq_of(f, b) = entered(&c->blocks.data[b]);
    send_forward(f, 0, n, 0, ID_NONE);
}

/* ---- arcs ---- */

/* Positive floats are ordered as their bits are. Three bits behind the exponent's will do: with more, arcs of one
 * function are far apart in the order, and the planner waits for memory. */
static uint16_t weight_of(float freq)
{
    uint32_t bits;
    memcpy(&bits, &freq, 4);
    return (uint16_t)(bits >> 20);
}

static float arc_frequency(const struct rw_flow *f, const struct rw_arc *a)
{
    const struct cfg *c = f->c;
    switch ((enum rw_arc_kind)a->kind) {
    case RW_ARC_BLOCK:
        return *freq_of(f, a->id);
    case RW_ARC_EDGE:
        return *freq_of(f, c->edges.data[a->id].from) * *prob_of(f, a->id) *
               (c->edges.data[a->id].kind == CFG_EDGE_FALL ? 1 : TAKEN_DETOUR);
    case RW_ARC_ENTER:
        return c->blocks.data[a->id].flags & CFG_BLOCK_RETURN_POINT ? *freq_of(f, a->id)
                                                                    : entered(&c->blocks.data[a->id]);
    case RW_ARC_GROUP:
        return *freq_of(f, f->w->group_edges.data[a->id].to) * TAKEN_DETOUR;
    case RW_ARC_OUT:
        break;
    }
    return 0;
}

static uint16_t with_detour(uint16_t known)
{
    return known ? (uint16_t)min_u64(known + FEEDBACK_DETOUR, RW_WEIGHT_FORCED - 1) : 0;
}

/* Profile feedback about the arc from an earlier run of the same file; 0: none. */
static uint16_t feedback_weight(const struct rw *w, const struct rw_arc *a)
{
    if (!w->feedback_block)
        return 0;
    switch ((enum rw_arc_kind)a->kind) {
    case RW_ARC_BLOCK:
        return w->feedback_block[a->id];
    case RW_ARC_EDGE:
        return w->cfg->edges.data[a->id].kind == CFG_EDGE_FALL ? w->feedback_edge[a->id]
                                                               : with_detour(w->feedback_edge[a->id]);
    case RW_ARC_ENTER:
        return w->feedback_enter[a->id];
    case RW_ARC_GROUP:
        return with_detour(w->feedback_block[w->group_edges.data[a->id].to]);
    case RW_ARC_OUT:
        break;
    }
    return 0;
}

uint16_t rw_weight(const struct rw_flow *f, const struct rw_arc *a)
{
    uint16_t known = feedback_weight(f->w, a);
    return known ? known : weight_of(arc_frequency(f, a));
}

#define ROOM(v, n) (VEC_RESERVE(v, n), (v)->len = (n))

void rw_weigh(struct rw_flow *f, uint32_t func)
{
    const struct cfg *c = f->c;
    const struct cfg_func *fn = f->fn = &c->funcs.data[func];
    const struct cfg_block *first = &c->blocks.data[fn->block_first], *last = first + fn->block_count - 1;
    f->edge_first = first->edge_first;
    ROOM(&f->prob, last->edge_first + last->edge_count - first->edge_first);
    ROOM(&f->freq, fn->block_count);
    ROOM(&f->turns, fn->loop_count);
    ROOM(&f->order, fn->block_count);
    ROOM(&f->pos, fn->block_count);
    ROOM(&f->stamp, fn->block_count);
    ROOM(&f->way, fn->block_count);
    ROOM(&f->next, fn->block_count);
    for (uint32_t k = 0; k < fn->loop_count; k++)
        f->turns.data[k] = 0;
    memset(f->stamp.data, 0, fn->block_count * sizeof *f->stamp.data);
    func_frequencies(f);
}

struct rw_flow *rw_flow_new(const struct rw *w)
{
    struct rw_flow *f = xmalloc(sizeof *f);
    f->w = w;
    f->c = w->cfg;
    return f;
}

void rw_flow_free(struct rw_flow *f)
{
    VEC_FREE(&f->prob);
    VEC_FREE(&f->freq);
    VEC_FREE(&f->turns);
    VEC_FREE(&f->order);
    VEC_FREE(&f->pos);
    VEC_FREE(&f->stamp);
    VEC_FREE(&f->way);
    VEC_FREE(&f->next);
    free(f);
}
