/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of fragments that the copy of each function is made of. Blocks come in the order of the original, each with
 * what is inserted on its way in and between its instructions; then stubs: for what is inserted on taken edges, table
 * edges and entrances that something else falls into, and hooks of system calls.
 *
 * needs: place. fills: funcs' fragments, label, edge_stub, group_edges' stub.
 */
#include "rewrite/impl.h"

#include <stdlib.h>

enum { SHORT_BYTES = 2, JCXZ_BYTES = 10, JUMP_BYTES = 5, RUN_MAX = UINT16_MAX / 15 };

struct lister { /* of all functions */
    struct rw *w;
    uint8_t *has_child;                 /* [loops] */
    uint32_t *group_first, *group_next; /* [funcs], [group_edges]: those that lead into a function */
};

struct list { /* of one function */
    const struct lister *of;
    struct rw *w;
    struct rw_fragments all; /* of the functions in front of it too */
    size_t first;
};

static uint32_t here(const struct list *l) { return (uint32_t)(l->all.len - l->first); }

static void add(struct list *l, enum rw_fragment_kind kind, uint32_t id, uint32_t bytes)
{
    rw_fragment_add(&l->all, (struct rw_fragment){.kind = (uint8_t)kind, .id = id, .bytes = (uint16_t)bytes});
}

static void insert(struct list *l, enum rw_where where, uint32_t at, uint32_t insn)
{
    if (l->w->instrument->insert)
        l->w->instrument->insert(l->w, (struct rw_point){where, at, insn}, &l->all);
}

/* ---- instructions ---- */

static bool is_branch(uint8_t kind)
{
    return kind == X86_JMP || kind == X86_JCC || kind == X86_JCXZ || kind == X86_XBEGIN;
}

static uint32_t branch_bytes(const struct cfg *c, uint32_t i)
{
    uint8_t kind = cfg_kind(c, i);
    return kind == X86_JCXZ ? JCXZ_BYTES : kind == X86_XBEGIN ? cfg_len(c, i) : SHORT_BYTES;
}

/* Where instructions from i on end to be merely copied. */
static uint32_t run_end(const struct rw *w, const struct cfg_block *blk, uint32_t i, uint32_t end)
{
    uint32_t last = blk->insn_first + blk->insn_count - 1;
    end = (uint32_t)min_u64(end, i + RUN_MAX);
    if (end > last && is_branch(cfg_kind(w->cfg, last)))
        end = last;
    if (!(blk->flags & CFG_BLOCK_SYSCALL) || !rw_has_words(w))
        return end;
    while (i < end && cfg_kind(w->cfg, i) != X86_SYSCALL)
        i++;
    return i;
}

static void list_insns(struct list *l, uint32_t b, uint32_t i, uint32_t end)
{
    const struct cfg *c = l->w->cfg;
    while (i < end) {
        uint32_t to = run_end(l->w, &c->blocks.data[b], i, end);
        if (to > i)
            add(l, RW_INSNS, i, (uint32_t)(cfg_insn_addr(c, to - 1) + cfg_len(c, to - 1) - cfg_insn_addr(c, i)));
        else if (is_branch(cfg_kind(c, i)))
            add(l, RW_BRANCH, b, branch_bytes(c, i));
        else
            add(l, RW_SYSCALL, i, RW_SYSCALL_BYTES);
        i = to > i ? to : i + 1;
    }
}

static uint32_t next_inserted(const struct rw *w, uint32_t b, uint32_t i)
{
    return w->instrument->next ? w->instrument->next(w, b, i) : ID_NONE;
}

static void list_body(struct list *l, uint32_t b)
{
    const struct cfg_block *blk = &l->w->cfg->blocks.data[b];
    uint32_t i = blk->insn_first, end = i + blk->insn_count;
    for (uint32_t at = next_inserted(l->w, b, i); at < end; at = next_inserted(l->w, b, at + 1)) {
        list_insns(l, b, i, at);
        insert(l, RW_BEFORE_INSN, b, at);
        i = at;
        if (l->w->instrument->has_behind && l->w->instrument->has_behind(l->w, at)) {
            list_insns(l, b, at, ++i);
            insert(l, RW_BEHIND_INSN, b, at);
        }
    }
    list_insns(l, b, i, end);
}

/* ---- ways in ---- */

static bool is_inner_loop_head(const struct cfg *c, const uint8_t *has_child, uint32_t b)
{
    const struct cfg_block *blk = &c->blocks.data[b];
    return (blk->flags & CFG_BLOCK_LOOP_HEADER) && blk->loop != ID_NONE && c->loops.data[blk->loop].header == b &&
           !has_child[blk->loop];
}

/* Of the edges by which control falls out of the block in front of b the one into b, else the last; ID_NONE: it falls
 * out by none. */
static uint32_t fall_edge(const struct cfg *c, const struct cfg_func *fn, uint32_t b)
{
    uint32_t fall = ID_NONE;
    if (b == fn->block_first)
        return ID_NONE;
    const struct cfg_block *prev = &c->blocks.data[b - 1];
    cfg_for_each_edge(prev, e) {
        if (c->edges.data[e].kind != CFG_EDGE_FALL)
            continue;
        fall = e;
        if (c->edges.data[e].to == b)
            break;
    }
    return fall;
}

/* From outside: only then can something be inserted on its entrance. */
static bool is_entered(const struct cfg_block *blk) { return blk->flags & CFG_BLOCK_EXT_IN; }

/* May that stand in line? Else something falls into it, and it gets a stub. Behind a call nothing does. */
static bool is_in_line(uint32_t fall) { return fall == ID_NONE; }

static void list_ways_in(struct list *l, const struct cfg_func *fn, uint32_t b)
{
    const struct cfg *c = l->w->cfg;
    const struct cfg_block *blk = &c->blocks.data[b];
    struct rw_label *label = &l->w->label[b];
    uint32_t fall = fall_edge(c, fn, b);
    if (b > fn->block_first && (blk[-1].flags & CFG_BLOCK_LOOP_HEADER))
        insert(l, RW_BEHIND_LOOP, b - 1, ID_NONE);
    label->first = here(l);
    if (fall != ID_NONE && c->edges.data[fall].to == b)
        insert(l, RW_ON_EDGE, fall, ID_NONE);
    if (is_inner_loop_head(c, l->of->has_child, b) && !rw_is_cold(l->w, b))
        add(l, RW_PADDING, b, 0);
    label->enter = here(l);
    if (is_entered(blk) && is_in_line(fall))
        insert(l, RW_ON_ENTRANCE, b, ID_NONE);
    label->body = here(l);
    if (blk->flags & CFG_BLOCK_LOOP_HEADER)
        insert(l, RW_BEFORE_LOOP, b, ID_NONE);
    label->again = here(l);
}

/* ---- stubs ---- */

/* A way of its own to block `to` for what is inserted at a point: its first fragment, ID_NONE if nothing is. */
static uint32_t list_stub(struct list *l, enum rw_where where, uint32_t at, uint32_t frame_of, uint32_t to)
{
    uint32_t stub = here(l);
    add(l, RW_STUB, frame_of, 0);
    insert(l, where, at, ID_NONE);
    if (here(l) == stub + 1) {
        l->all.len--;
        return ID_NONE;
    }
    add(l, RW_JUMP, to, JUMP_BYTES);
    return stub;
}

static void list_hooks(struct list *l, const struct cfg_block *blk)
{
    if (!(blk->flags & CFG_BLOCK_SYSCALL) || !rw_has_words(l->w))
        return;
    cfg_for_each_insn(blk, i) {
        if (cfg_kind(l->w->cfg, i) != X86_SYSCALL)
            continue;
        add(l, RW_STUB, i, 0);
        add(l, RW_HOOK, i, RW_SYSCALL_STUB_BYTES);
    }
}

static void list_behind_code(struct list *l, uint32_t b)
{
    const struct cfg_block *blk = &l->w->cfg->blocks.data[b];
    uint32_t end = blk->insn_first + blk->insn_count;
    for (uint32_t at = next_inserted(l->w, b, blk->insn_first); at < end; at = next_inserted(l->w, b, at + 1)) {
        add(l, RW_STUB, at, 0);
        insert(l, RW_BEHIND_CODE, b, at);
        if (l->all.data[l->all.len - 1].kind == RW_STUB)
            l->all.len--;
    }
}

/* In the cold part stand stubs of its blocks, and those on edges to them. */
static void list_stubs_of_block(struct list *l, const struct cfg_func *fn, uint32_t b, bool cold)
{
    const struct cfg *c = l->w->cfg;
    const struct cfg_block *blk = &c->blocks.data[b];
    bool is_here = rw_is_cold(l->w, b) == cold;
    if (is_here && is_entered(blk) && !is_in_line(fall_edge(c, fn, b))) {
        uint32_t stub = list_stub(l, RW_ON_ENTRANCE, b, blk->insn_first, b);
        if (stub != ID_NONE)
            l->w->label[b].enter = stub;
    }
    cfg_for_each_edge(blk, e) {
        const struct cfg_edge *ed = &c->edges.data[e];
        if (ed->kind == CFG_EDGE_FALL || !rw_edge_inside(l->w, ed))
            continue;
        bool is_cold = rw_is_cold(l->w, b) || (cfg_func_has_block(fn, ed->to) && rw_is_cold(l->w, ed->to));
        if (is_cold == cold)
            l->w->edge_stub[e] = list_stub(l, RW_ON_EDGE, e, blk->insn_first + blk->insn_count - 1, ed->to);
    }
    if (!is_here)
        return;
    list_hooks(l, blk);
    list_behind_code(l, b);
}

/* ---- second copies ---- */

static void list_second_insns(struct list *l, uint32_t b, uint32_t i, uint32_t end)
{
    add(l, RW_STUB, i, 0);
    insert(l, RW_IN_SECOND, b, i);
    size_t copied = l->all.len;
    list_insns(l, b, i, end);
    for (size_t k = copied; k < l->all.len; k++)
        l->all.data[k].how = 1;
}

static void list_second_end(struct list *l, const struct cfg_func *fn, uint32_t b, uint32_t end)
{
    const struct cfg *c = l->w->cfg;
    const struct cfg_block *blk = &c->blocks.data[b];
    if (end < blk->insn_first + blk->insn_count) {
        bool has_tail = rw_has_tail(l->w, b);
        if (has_tail) {
            add(l, RW_STUB, end, 0);
            insert(l, RW_IN_SECOND, b, end);
        }
        add(l, RW_BACK, end, JUMP_BYTES);
        l->all.data[l->all.len - 1].how = has_tail;
        return;
    }
    bool falls = false;
    cfg_for_each_edge(blk, e)
        falls |= c->edges.data[e].kind == CFG_EDGE_FALL;
    bool is_next = b + 1 < fn->block_first + fn->block_count && rw_goes_on(l->w, b + 1);
    if (falls && !is_next)
        add(l, RW_JUMP, b + 1, JUMP_BYTES);
}

static void list_second(struct list *l, const struct cfg_func *fn, uint32_t b)
{
    uint32_t i = l->w->cfg->blocks.data[b].insn_first, end = i + rw_second(l->w, b);
    l->w->label[b].second = rw_has_second(l->w, b) ? here(l) : ID_NONE;
    if (!rw_has_second(l->w, b))
        return;
    while (i < end) {
        uint32_t to = (uint32_t)min_u64(end, next_inserted(l->w, b, i + 1));
        list_second_insns(l, b, i, to);
        i = to;
    }
    list_second_end(l, fn, b, end);
}

static void list_stubs_of_groups(struct list *l, uint32_t f)
{
    for (uint32_t g = l->of->group_first[f]; g != ID_NONE; g = l->of->group_next[g]) {
        struct rw_group_edge *ge = &l->w->group_edges.data[g];
        ge->stub = list_stub(l, RW_ON_GROUP, g, l->w->cfg->blocks.data[ge->to].insn_first, ge->to);
    }
}

/* ---- all ---- */

/* The blocks of one part. In the cold one each block begins with the frame that it has, as stubs do. */
static void list_blocks(struct list *l, const struct cfg_func *fn, bool cold)
{
    cfg_for_each_block(fn, b) {
        if (rw_is_cold(l->w, b) != cold)
            continue;
        if (cold)
            add(l, RW_STUB, l->w->cfg->blocks.data[b].insn_first, 0);
        list_ways_in(l, fn, b);
        list_body(l, b);
        if (rw_falls_over(l->w, fn, b) && fall_edge(l->w->cfg, fn, b + 1) != ID_NONE)
            add(l, RW_FALL, b + 1, JUMP_BYTES);
    }
}

static void list_part(struct list *l, const struct cfg_func *fn, bool cold)
{
    list_blocks(l, fn, cold);
    cfg_for_each_block(fn, b)
        list_stubs_of_block(l, fn, b, cold);
}

/* Its second copies, and what sites do in them, stand apart: few turns come there, and the first copies of functions
 * fill the processor's lines and pages. */
static void list_func_of_two(struct list *l, uint32_t f)
{
    const struct cfg_func *fn = &l->w->cfg->funcs.data[f];
    bool is_apart = rw_can_part(l->w, f);
    list_blocks(l, fn, false);
    if (is_apart)
        l->w->funcs[f].cold_first = here(l);
    cfg_for_each_block(fn, b)
        list_stubs_of_block(l, fn, b, false);
    list_stubs_of_groups(l, f);
    cfg_for_each_block(fn, b)
        list_second(l, fn, b);
    if (!is_apart)
        l->w->funcs[f].cold_first = here(l);
}

static void list_func(struct list *l, uint32_t f)
{
    const struct cfg_func *fn = &l->w->cfg->funcs.data[f];
    l->first = l->all.len;
    if (l->w->second) {
        list_func_of_two(l, f);
    } else {
        rw_find_cold(l->w, f);
        list_part(l, fn, false);
        list_stubs_of_groups(l, f);
        l->w->funcs[f].cold_first = here(l);
        if (l->w->is_cold)
            list_part(l, fn, true);
    }
    l->w->funcs[f].fragment_count = here(l);
}

enum { FRAGMENTS_A_BLOCK = 3 }; /* usually at most */

static size_t blocks_of(const struct cfg *c, size_t first_func, size_t end_func)
{
    size_t n = 0;
    for (size_t f = first_func; f < end_func; f++)
        n += c->funcs.data[f].block_count;
    return n;
}

static void list_range(void *ctx, size_t first, size_t end)
{
    const struct lister *of = ctx;
    struct list l = {.of = of, .w = of->w};
    VEC_RESERVE(&l.all, FRAGMENTS_A_BLOCK * blocks_of(of->w->cfg, first, end));
    for (size_t f = first; f < end; f++)
        if (of->w->funcs[f].is_moved)
            list_func(&l, (uint32_t)f);
    VEC_SHRINK(&l.all);
    struct rw_fragment *at = l.all.data; /* it stays there from now on */
    for (size_t f = first; f < end; f++) {
        of->w->funcs[f].fragments = at;
        if (at) /* NULL: none has any */
            at += of->w->funcs[f].fragment_count;
    }
    of->w->fragments[first / RW_FUNCS_A_RANGE] = l.all;
}

static void find_children(struct lister *of)
{
    const struct cfg *c = of->w->cfg;
    of->has_child = ARENA_ARRAY(of->w->arena, uint8_t, c->loops.len + 1);
    for (size_t k = 0; k < c->loops.len; k++)
        if (c->loops.data[k].parent != ID_NONE)
            of->has_child[c->loops.data[k].parent] = 1;
}

static void find_groups(struct lister *of)
{
    const struct rw *w = of->w;
    size_t funcs = w->cfg->funcs.len;
    of->group_first = ARENA_ARRAY(w->arena, uint32_t, funcs + 1);
    of->group_next = ARENA_ARRAY(w->arena, uint32_t, w->group_edges.len + 1);
    memset(of->group_first, 0xff, (funcs + 1) * sizeof *of->group_first);
    for (size_t g = w->group_edges.len; g-- > 0;) {
        uint32_t *first = &of->group_first[w->cfg->blocks.data[w->group_edges.data[g].to].func];
        of->group_next[g] = *first;
        *first = (uint32_t)g;
    }
}

void rw_fragments(struct rw *w)
{
    const struct cfg *c = w->cfg;
    struct lister of = {.w = w};
    w->fragment_lists = c->funcs.len / RW_FUNCS_A_RANGE + 1;
    w->fragments = ARENA_ARRAY(w->arena, struct rw_fragments, w->fragment_lists);
    w->label = ARENA_ARRAY(w->arena, struct rw_label, c->blocks.len + 1);
    w->edge_stub = ARENA_ARRAY(w->arena, uint32_t, c->edges.len + 1);
    memset(w->edge_stub, 0xff, (c->edges.len + 1) * sizeof *w->edge_stub);
    if (w->feedback_block && w->instrument == &rw_counts && !w->moved_address && !w->is_relocated && !w->second)
        w->is_cold = ARENA_ARRAY(w->arena, uint8_t, c->blocks.len + 1);
    find_children(&of);
    find_groups(&of);
    parallel_for(c->funcs.len, RW_FUNCS_A_RANGE, list_range, &of);
}

void rw_fragments_free(struct rw *w)
{
    for (size_t r = 0; r < w->fragment_lists; r++)
        VEC_FREE(&w->fragments[r]);
    w->fragment_lists = 0;
}

/* ---- questions ---- */

const struct rw_fragment *rw_fragment_of(const struct rw_func *fn, enum rw_fragment_kind kind, uint32_t id)
{
    const struct rw_fragment *f = fn->fragments;
    while (f->kind != kind || f->id != id)
        f++;
    return f;
}

/* Where in its function an edge inside arrives. */
static uint32_t arrival(const struct rw *w, const struct cfg_edge *e, bool is_second)
{
    const struct rw_label *label = &w->label[e->to];
    bool is_same = w->cfg->blocks.data[e->to].func == w->cfg->blocks.data[e->from].func;
    if (is_second && is_same && rw_goes_on(w, e->to))
        return label->second;
    if (!is_same && w->instrument->tails_enter && w->cfg->blocks.data[e->to].flags & CFG_BLOCK_ENTRY)
        return label->enter;
    return e->to == e->from ? label->again : label->body;
}

bool rw_branch_arrives(const struct rw *w, uint32_t block, bool is_second, struct rw_arrival *out)
{
    const struct cfg *c = w->cfg;
    const struct cfg_block *blk = &c->blocks.data[block];
    cfg_for_each_edge(blk, e) {
        const struct cfg_edge *ed = &c->edges.data[e];
        if (ed->kind == CFG_EDGE_FALL || ed->kind == CFG_EDGE_RETURN)
            continue;
        *out = (struct rw_arrival){blk->func, w->edge_stub[e]};
        if (out->label != ID_NONE)
            return true;
        if (!rw_edge_inside(w, ed))
            continue;
        *out = (struct rw_arrival){c->blocks.data[ed->to].func, arrival(w, ed, is_second)};
        return true;
    }
    return false;
}

/* Does a fragment of the original's code hold instruction i? */
static bool holds(const struct cfg *c, const struct rw_fragment *f, uint32_t i, uint32_t *first)
{
    if (f->kind == RW_BRANCH)
        *first = c->blocks.data[f->id].insn_first + c->blocks.data[f->id].insn_count - 1;
    else if (f->kind == RW_INSNS || f->kind == RW_SYSCALL)
        *first = f->id;
    else
        return false;
    return i == *first || (f->kind == RW_INSNS && cfg_insn_addr(c, i) - cfg_insn_addr(c, *first) < f->bytes);
}

uint32_t rw_insn_off(const struct rw *w, uint32_t b, uint32_t i)
{
    const struct cfg *c = w->cfg;
    const struct rw_func *fn = &w->funcs[c->blocks.data[b].func];
    const struct rw_fragment *f = &fn->fragments[w->label[b].first];
    uint32_t front = f->off, first; /* front: what the original has in front of it ends there */
    for (; !holds(c, f, i, &first); f++)
        if (f->kind != RW_INSERTED && f->kind != RW_PADDING)
            front = f->off + f->bytes;
    return i == first ? front : f->off + (uint32_t)(cfg_insn_addr(c, i) - cfg_insn_addr(c, first));
}

uint32_t rw_insn_own_off(const struct rw *w, uint32_t b, uint32_t i)
{
    const struct rw_fragment *f = &w->funcs[w->cfg->blocks.data[b].func].fragments[w->label[b].first];
    uint32_t first;
    while (!holds(w->cfg, f, i, &first))
        f++;
    return f->off + (uint32_t)(cfg_insn_addr(w->cfg, i) - cfg_insn_addr(w->cfg, first));
}

uint32_t rw_end_off(const struct rw *w, uint32_t b, bool with_jump)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    const struct rw_func *fn = &w->funcs[blk->func];
    const struct rw_fragment *f = &fn->fragments[w->label[b].first];
    uint32_t first;
    while (!holds(w->cfg, f, blk->insn_first + blk->insn_count - 1, &first))
        f++;
    bool has_jump = f + 1 < fn->fragments + fn->fragment_count && f[1].kind == RW_FALL;
    return f->off + f->bytes + (with_jump && has_jump ? f[1].bytes : 0);
}
