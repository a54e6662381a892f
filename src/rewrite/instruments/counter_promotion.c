/* SPDX-License-Identifier: Apache-2.0
 *
 * Counter promotion: in a hot loop that calls nothing, counters are in vector registers for as long as the loop is
 * under way, and are added to those in memory on the ways out:
 *
 *     ways in:   pxor xmm,xmm                             for every two counters
 *     inside:    paddq xmm,[rip->1 in one half]           one counter; changes no flags
 *     ways out:  paddq xmm,[rip->c]; movdqa [rip->c],xmm  for every two
 *
 * An increment in memory waits for the one before, and takes four operations of the processor where this takes two.
 * Of a counted loop inside, the ways out are counted so where the code says how many turns an entry takes.
 * The registers are such of xmm8 to xmm15 as no instruction of the module names. By the calling convention they keep
 * nothing across a call, and a compiler that departs from that within a file still names what it keeps; a signal's
 * handler gives them back.
 *
 * All counters inside a loop are promoted or none: then what a program that is killed in the loop leaves is what
 * it would have left if killed in front of it. So only loops are taken of which an earlier run said that they never
 * take long, and what registers held where a fault's handler left the loop is added by the solver (solve.c).
 *
 * needs: feedback, *_counter (plan), place, edge_how, steps. changes: *_counter, place, edge_how. fills: promoted,
 * promoted_of, vectors.
 */
#include "rewrite/impl.h"

#include <stdlib.h>

enum {
    HOT = 10000,            /* increments of a run that make a loop worth it */
    ENTRY_MAX = 1 << 20,    /* of an entry, in the mean: below a millisecond */
    ENTRY_COST = 2,         /* of an entry, in increments: of jumps that are taken on the way; */
    ENTRY_COST_OF_PAIR = 2, /* and for each register */
    PADDQ = 0xd4,
    MOVDQA_STORE = 0x7f
};

/* ---- which registers ---- */

/* Of one instruction, by a mask: those of RW_VECTORS that it may change or read. */
static uint8_t vectors_of(const struct rw *w, uint32_t i)
{
    struct x86_detail d;
    unsigned len = cfg_len(w->cfg, i);
    const uint8_t *p = image_at(w->img, cfg_insn_addr(w->cfg, i), len);
    if (!p || !x86_decode_detail(p, len, cfg_insn_addr(w->cfg, i), &d))
        return UINT8_MAX;
    bool is_avx = x86_mnemonic_name(d.insn.mnemonic)[0] == 'v'; /* beside it, SSE may have to wait */
    if (is_avx || d.reach.kind == X86_REACH_STATE)
        return UINT8_MAX;
    return (uint8_t)((d.order.reads | d.order.writes) >> (X86_REG_VEC0 + RW_VECTOR_FIRST));
}

/* Instructions of one shape name the same registers. */
static uint8_t unused_vectors(const struct rw *w)
{
    const struct cfg *c = w->cfg;
    uint8_t used = 0, *seen = xmalloc(X86_SHAPES_MAX / 8);
    for (uint32_t f = 0; f < c->funcs.len; f++)
        if (c->funcs.data[f].reason == CFG_REASON_UNDECODABLE || c->funcs.data[f].reason == CFG_REASON_OVERLAP)
            used = UINT8_MAX;
    for (uint32_t i = 0; i < c->insns.len && used != UINT8_MAX; i++) {
        uint32_t shape = x86_short_shape(&c->insns.data[i].what);
        if (seen[shape / 8] >> shape % 8 & 1)
            continue;
        seen[shape / 8] |= (uint8_t)(1u << shape % 8);
        if (x86_shape(shape)->insn.props & X86_PROP_VEC)
            used |= vectors_of(w, i);
    }
    free(seen);
    return (uint8_t)~used;
}

/* ---- which loops ---- */

struct candidate {
    const struct cfg_loop *loop;
    uint32_t count;         /* of counters inside */
    double inside, entries; /* increments, and entries, of the run that is known */
};

static bool is_in(const struct cfg *c, uint32_t block, const struct cfg_loop *loop)
{
    uint32_t l = c->blocks.data[block].loop;
    while (l != ID_NONE && &c->loops.data[l] != loop)
        l = c->loops.data[l].parent;
    return l != ID_NONE;
}

static bool is_plain(const struct cfg *c, const struct cfg_block *blk)
{
    bool ends = blk->term == X86_PLAIN || blk->term == X86_JMP || blk->term == X86_JCC || blk->term == X86_JCXZ;
    for (uint32_t k = 0; ends && k + 1 < blk->insn_count; k++)
        ends = cfg_kind(c, blk->insn_first + k) == X86_PLAIN;
    return ends && !(blk->flags & (CFG_BLOCK_EXT_IN | CFG_BLOCK_SYSCALL));
}

/* False: something about the block stands against it. */
static bool look_at_block(const struct rw *w, uint32_t b, struct candidate *k)
{
    const struct cfg *c = w->cfg;
    const struct cfg_block *blk = &c->blocks.data[b];
    if (!is_plain(c, blk) || w->promoted_of[b] != ID_NONE || w->enter_counter[b] != ID_NONE)
        return false;
    if (w->block_counter[b] != ID_NONE) {
        const struct rw_step *step = rw_step_of(w, b);
        if (step && !step->turns)
            return false;
        k->count++;
        k->inside += rw_feedback_count(w->feedback_block[b]) / (step ? step->turns : 1);
    }
    cfg_for_each_edge(blk, e) {
        const struct cfg_edge *ed = &c->edges.data[e];
        if ((ed->kind != CFG_EDGE_FALL && ed->kind != CFG_EDGE_TAKEN) || !rw_block_moved(w, ed->to))
            return false;
        double passed = rw_feedback_count(w->feedback_edge[e]);
        if (!is_in(c, ed->to, k->loop)) {
            k->entries += passed;
        } else if (w->edge_counter[e] != ID_NONE) {
            k->count++;
            k->inside += passed;
        }
    }
    return true;
}

static bool pays(const struct rw *w, struct candidate *k)
{
    cfg_for_each_member(k->loop, m)
        if (!look_at_block(w, w->cfg->loop_members.data[m], k))
            return false;
    unsigned pairs = (k->count + 1) / 2;
    double cost = k->entries * (ENTRY_COST + ENTRY_COST_OF_PAIR * pairs);
    return k->inside >= HOT && k->inside > cost && k->inside <= k->entries * ENTRY_MAX &&
           pairs <= (unsigned)__builtin_popcount(w->vectors);
}

/* ---- taking one ---- */

static uint8_t how_of(const struct rw *w, unsigned lane)
{
    return rw_how(RW_FORM_VECTOR, rw_vector_at(w->vectors, lane / 2) | (lane % 2) << 3, 0);
}

static void take(struct rw *w, const struct cfg_loop *loop)
{
    const struct cfg *c = w->cfg;
    struct rw_promoted p = {.header = loop->header, .counter = ALIGN_UP(w->counter_count, 2u)};
    cfg_for_each_member(loop, m) {
        uint32_t b = c->loop_members.data[m];
        w->promoted_of[b] = (uint32_t)w->promoted.len;
        if (w->block_counter[b] != ID_NONE) {
            w->place[b] = (struct rw_place){0, how_of(w, p.count)};
            w->block_counter[b] = p.counter + p.count++;
        }
        cfg_for_each_edge(&c->blocks.data[b], e) {
            if (w->edge_counter[e] == ID_NONE || !is_in(c, c->edges.data[e].to, loop))
                continue;
            w->edge_how[e] = how_of(w, p.count);
            w->edge_counter[e] = p.counter + p.count++;
        }
    }
    w->counter_count = ALIGN_UP(p.counter + p.count, 2u);
    VEC_PUSH(&w->promoted, p);
}

/* A loop of a larger one that was taken is a part of it. */
static void promote_func(struct rw *w, uint32_t f)
{
    const struct cfg *c = w->cfg;
    const struct cfg_func *fn = &c->funcs.data[f];
    uint32_t deepest = 0;
    cfg_for_each_loop(fn, l)
        deepest = c->loops.data[l].depth > deepest ? c->loops.data[l].depth : deepest;
    for (uint32_t d = 1; d <= deepest; d++)
        cfg_for_each_loop(fn, l) {
            struct candidate k = {.loop = &c->loops.data[l]};
            bool is_hot = rw_feedback_count(w->feedback_block[k.loop->header]) * k.loop->member_count >= HOT;
            if (k.loop->depth == d && is_hot && pays(w, &k))
                take(w, k.loop);
        }
}

/* Where control may arrive by a table that several jumps share, no edge tells where it comes from. */
static void leave_targets_of_groups(struct rw *w)
{
    for (size_t g = 0; g < w->group_edges.len; g++)
        w->promoted_of[w->group_edges.data[g].to] = ID_NONE - 1;
}

void rw_promote(struct rw *w)
{
    const struct cfg *c = w->cfg;
    if (!w->feedback_block || w->opt->locked || w->opt->all_blocks || w->is_relocated)
        return;
    w->vectors = unused_vectors(w);
    if (!w->vectors)
        return;
    w->promoted_of = ARENA_ARRAY(w->arena, uint32_t, c->blocks.len + 1);
    memset(w->promoted_of, 0xff, (c->blocks.len + 1) * sizeof *w->promoted_of);
    leave_targets_of_groups(w);
    for (uint32_t f = 0; f < c->funcs.len; f++)
        if (w->funcs[f].is_moved && c->funcs.data[f].loop_count && !cfg_is_gap_func(&c->funcs.data[f]))
            promote_func(w, f);
}

/* ---- the code ---- */

static uint8_t *put_access(uint8_t *at, uint64_t *addr, bool gs, uint8_t op, unsigned reg, uint64_t target)
{
    if (gs)
        *at++ = 0x65;
    at = rw_put_bytes(at, "\x66\x44\x0f", 3);
    *at++ = op;
    *at++ = (uint8_t)(0x05 | reg << 3);
    *addr += gs ? 10 : 9;
    return rw_put32(at, target - *addr);
}

enum { CLEAR_BYTES = 5, ADD_BYTES = 9 };

unsigned rw_vector_bytes(uint8_t how)
{
    switch (rw_form_of(how)) {
    case RW_FORM_LOOP_ENTER:
        return CLEAR_BYTES;
    case RW_FORM_LOOP_LEAVE:
        return 2 * (ADD_BYTES + rw_gs_of(how));
    default:
        return ADD_BYTES;
    }
}

void rw_put_vector(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    uint8_t reg = rw_reg_of(f->how) & 7;
    uint64_t ones = w->counters_vaddr - RW_DATA_ONES_BYTES, counter = w->counters_vaddr + 8ull * f->id;
    switch (rw_form_of(f->how)) {
    case RW_FORM_LOOP_ENTER:
        at = rw_put_bytes(at, "\x66\x45\x0f\xef", 4);
        *at = (uint8_t)(0xc0 | reg << 3 | reg);
        return;
    case RW_FORM_LOOP_LEAVE:
        at = put_access(at, &addr, rw_gs_of(f->how), PADDQ, reg, counter);
        put_access(at, &addr, rw_gs_of(f->how), MOVDQA_STORE, reg, counter);
        return;
    default:
        put_access(at, &addr, false, PADDQ, reg, ones + (rw_reg_of(f->how) >> 3) * 16u);
        return;
    }
}

static void insert_all(const struct rw *w, uint32_t loop, enum rw_form form, bool gs, struct rw_fragments *out)
{
    const struct rw_promoted *p = &w->promoted.data[loop];
    for (uint32_t k = 0; k < p->count; k += 2) {
        uint8_t how = rw_how(form, RW_VECTOR_FIRST + rw_vector_at(w->vectors, k / 2), gs);
        rw_fragment_add(
            out, (struct rw_fragment){
                     .id = p->counter + k, .bytes = (uint16_t)rw_vector_bytes(how), .kind = RW_INSERTED, .how = how});
    }
}

static uint32_t loop_of(const struct rw *w, uint32_t block)
{
    return w->promoted_of && block != ID_NONE && w->promoted_of[block] < w->promoted.len ? w->promoted_of[block]
                                                                                         : ID_NONE;
}

/* What stands on an edge out of such a loop, into one, or both. */
void rw_insert_vectors(const struct rw *w, uint32_t edge, struct rw_fragments *out)
{
    const struct cfg_edge *e = &w->cfg->edges.data[edge];
    uint32_t from = loop_of(w, e->from), to = loop_of(w, e->to);
    bool gs = w->funcs[w->cfg->blocks.data[e->from].func].gs;
    if (from == to)
        return;
    if (from != ID_NONE)
        insert_all(w, from, RW_FORM_LOOP_LEAVE, gs, out);
    if (to != ID_NONE)
        insert_all(w, to, RW_FORM_LOOP_ENTER, gs, out);
}
