/* SPDX-License-Identifier: Apache-2.0
 *
 * Markers (include/mtool.h) to block borders, and those of one name to the blocks between where it begins and where it
 * ends. A region that is left without an end, by a return or a jump around its end, is over where ways meet on which it
 * is not under way; one that ends where it is not under way on all ways is refused, with the place. The function's
 * parts that were outlined belong to it as far as jumps lead there; what a landing pad stands in is told by what
 * follows it, for nothing is known of what comes before.
 */
#include "cfg/impl.h"

#include <stdlib.h>

const char *const cfg_marked_problem_text[CFG_MARKED_PROBLEM_COUNT] = {
    [CFG_MARKED_NO_NOP] = "no nop of the program stands where its note says",
    [CFG_MARKED_REFUSED] = "it is in a function that mtool does not rewrite",
    [CFG_MARKED_NO_END] = "it begins here and does not end in the same function",
    [CFG_MARKED_NO_BEGIN] = "it ends here without having begun in the same function",
    [CFG_MARKED_UNCLEAR] = "it ends here, where it has begun on some ways and not on others",
};

static bool is_nop(const struct image *img, uint64_t addr)
{
    struct x86_insn insn;
    size_t more = 0;
    const uint8_t *p = cfg_code_bytes(img, addr, addr + 1, &more);
    return p && x86_decode(p, 1 + more, addr, &insn) && insn.props & X86_PROP_NOP;
}

/* needs: all other marks, and tables. fills: marks LEADER. */
void build_markers(struct build *b)
{
    for (size_t i = 0; i < b->img->marker_count; i++) {
        uint32_t insn = cfg_insn_at(b->c, b->img->markers[i].addr);
        if (insn != ID_NONE && cfg_shape(b->c, insn)->props & X86_PROP_NOP)
            b->marks[insn] |= MARK_LEADER;
    }
}

/* ---- the region of one name ---- */

enum { BEGINS = 1, ENDS = 2 };

struct finder {
    const struct cfg *c;
    const struct image *img;
    const char *name;
    uint8_t *what;        /* by block: BEGINS or ENDS at its first instruction */
    uint8_t *func_what;   /* by function: of its blocks */
    uint8_t *is_searched; /* by function */
    int *depth;           /* by block: 1 + how often it is under way before the block; 0 not known yet */
    int *relative;        /* likewise, of a part whose beginning is not known; FAR_BELOW more */
    VEC(uint32_t) work;
    struct cfg_marked *out;
};
enum { FAR_BELOW = 1 << 20 };

static void refuse_at(struct finder *f, enum cfg_marked_problem problem, uint64_t addr)
{
    if (f->out->problem == CFG_MARKED_FOUND) {
        f->out->problem = problem;
        f->out->at = addr;
    }
}

static void take_markers(struct finder *f)
{
    for (size_t i = 0; i < f->img->marker_count; i++) {
        const struct image_marker *m = &f->img->markers[i];
        uint32_t b = cfg_block_start(f->c, m->addr), func = cfg_func_at(f->c, m->addr);
        if (strcmp(m->name, f->name) != 0)
            continue;
        if (func != ID_NONE && f->c->funcs.data[func].reason != CFG_REASON_OK)
            refuse_at(f, CFG_MARKED_REFUSED, m->addr);
        else if (b == ID_NONE || !is_nop(f->img, m->addr) ||
                 (f->what[b] | (m->is_end ? ENDS : BEGINS)) == (BEGINS | ENDS))
            refuse_at(f, CFG_MARKED_NO_NOP, m->addr);
        else
            f->func_what[func] |= f->what[b] |= m->is_end ? ENDS : BEGINS;
    }
}

static uint32_t func_of(const struct finder *f, uint32_t block) { return f->c->blocks.data[block].func; }

/* An outlined part, and is jumped to in its middle, belongs to the function. */
static void take_functions(struct finder *f)
{
    bool is_more = true;
    for (uint32_t k = 0; k < f->c->funcs.len; k++)
        f->is_searched[k] = f->func_what[k] != 0;
    while (is_more) {
        is_more = false;
        for (uint32_t e = 0; e < f->c->edges.len; e++) {
            const struct cfg_edge *edge = &f->c->edges.data[e];
            if (edge->to == ID_NONE || edge->kind == CFG_EDGE_TAIL ||
                f->is_searched[func_of(f, edge->from)] == f->is_searched[func_of(f, edge->to)])
                continue;
            f->is_searched[func_of(f, edge->from)] = f->is_searched[func_of(f, edge->to)] = 1;
            is_more = true;
        }
    }
}

/* Does the region go on along this edge? A jump to the entry of a function that begins it is a call in all but name. */
static bool is_followed(const struct finder *f, const struct cfg_edge *e)
{
    if (e->to == ID_NONE || !f->is_searched[func_of(f, e->to)])
        return false;
    return e->kind != CFG_EDGE_TAIL || !(f->func_what[func_of(f, e->to)] & BEGINS);
}

static int change(const struct finder *f, uint32_t block)
{
    return f->what[block] == BEGINS ? 1 : f->what[block] == ENDS ? -1 : 0;
}

static void reach(struct finder *f, uint32_t block, int depth)
{
    if (f->depth[block] && f->depth[block] <= depth + 1)
        return;
    f->depth[block] = depth + 1;
    VEC_PUSH(&f->work, block);
}

static int depth_after(const struct finder *f, uint32_t block)
{
    int after = f->depth[block] - 1 + change(f, block);
    return after > 0 ? after : 0;
}

static void propagate(struct finder *f, uint32_t from, int depth)
{
    reach(f, from, depth);
    while (f->work.len) {
        uint32_t b = f->work.data[--f->work.len];
        const struct cfg_block *block = &f->c->blocks.data[b];
        cfg_for_each_edge(block, e)
            if (is_followed(f, &f->c->edges.data[e]))
                reach(f, f->c->edges.data[e].to, depth_after(f, b));
    }
}

/* ---- parts that are entered in ways that are not seen ---- */

/* `least`: depth that the part must begin with, so that nothing ends in it, or behind it, that is not under way. */
static void reach_relative(struct finder *f, uint32_t block, int relative, int *min)
{
    int wanted = f->depth[block] ? f->depth[block] - 1 - relative : f->what[block] == ENDS ? 1 - relative : 0;
    *min = wanted > *min ? wanted : *min;
    if (f->depth[block] || f->relative[block])
        return;
    f->relative[block] = relative + FAR_BELOW;
    VEC_PUSH(&f->work, block);
}

static void solve(struct finder *f, uint32_t from)
{
    int min = 0;
    reach_relative(f, from, 0, &min);
    while (f->work.len) {
        uint32_t b = f->work.data[--f->work.len];
        const struct cfg_block *block = &f->c->blocks.data[b];
        cfg_for_each_edge(block, e)
            if (is_followed(f, &f->c->edges.data[e]))
                reach_relative(f, f->c->edges.data[e].to, f->relative[b] - FAR_BELOW + change(f, b), &min);
    }
    propagate(f, from, min);
}

/* Nobody was seen to jump there: a landing pad, dead code, or the entry of a function that does not begin the region.
 */
static void begin_anew(struct finder *f, uint32_t b)
{
    const struct cfg_block *block = &f->c->blocks.data[b];
    bool is_called = (block->flags & CFG_BLOCK_ENTRY) && !(block->flags & CFG_BLOCK_LANDING_PAD);
    if (is_called && f->func_what[block->func] == ENDS)
        propagate(f, b, 0);
    else
        solve(f, b);
}

/* Functions that begin it first, since what they jump to depends on them; then landing pads, likewise. */
static void propagate_all(struct finder *f)
{
    const struct cfg *c = f->c;
    for (uint32_t k = 0; k < c->funcs.len; k++)
        if (f->func_what[k] & BEGINS)
            propagate(f, c->funcs.data[k].block_first, 0);
    for (int pads_only = 1; pads_only >= 0; pads_only--)
        for (uint32_t b = 0; b < c->blocks.len; b++)
            if (f->is_searched[func_of(f, b)] && !f->depth[b] &&
                (!pads_only || c->blocks.data[b].flags & CFG_BLOCK_LANDING_PAD))
                begin_anew(f, b);
}

/* ---- what was found ---- */

static bool comes_to_end(struct finder *f, uint32_t from)
{
    uint8_t *visited = xmalloc(f->c->blocks.len + 1);
    bool ends = false;
    VEC_PUSH(&f->work, from);
    while (f->work.len) {
        uint32_t b = f->work.data[--f->work.len];
        const struct cfg_block *block = &f->c->blocks.data[b];
        ends |= f->what[b] == ENDS;
        cfg_for_each_edge(block, e) {
            const struct cfg_edge *edge = &f->c->edges.data[e];
            if (is_followed(f, edge) && !visited[edge->to]++)
                VEC_PUSH(&f->work, edge->to);
        }
    }
    free(visited);
    return ends;
}

static void check_block(struct finder *f, uint32_t b)
{
    uint8_t of_function = f->func_what[func_of(f, b)];
    if (f->what[b] == ENDS && f->depth[b] == 1)
        refuse_at(f, of_function & BEGINS ? CFG_MARKED_UNCLEAR : CFG_MARKED_NO_BEGIN, f->c->blocks.data[b].addr);
    if (f->what[b] == BEGINS && !(of_function & ENDS) && !comes_to_end(f, b))
        refuse_at(f, CFG_MARKED_NO_END, f->c->blocks.data[b].addr);
}

static void take_blocks(struct finder *f)
{
    for (uint32_t b = 0; b < f->c->blocks.len; b++) {
        check_block(f, b);
        if (f->depth[b] && depth_after(f, b))
            VEC_PUSH(&f->out->blocks, b);
    }
}

void cfg_marked_find(const struct cfg *c, const struct image *img, const char *name, struct cfg_marked *out)
{
    size_t blocks = c->blocks.len + 1, funcs = c->funcs.len + 1;
    *out = (struct cfg_marked){.problem = CFG_MARKED_FOUND};
    struct finder f = {.c = c,
                       .img = img,
                       .name = name,
                       .out = out,
                       .what = xmalloc(blocks),
                       .func_what = xmalloc(funcs),
                       .is_searched = xmalloc(funcs),
                       .depth = xmalloc(blocks * sizeof *f.depth),
                       .relative = xmalloc(blocks * sizeof *f.relative)};
    take_markers(&f);
    if (out->problem == CFG_MARKED_FOUND) {
        take_functions(&f);
        propagate_all(&f);
        take_blocks(&f);
    }
    if (out->problem != CFG_MARKED_FOUND)
        out->blocks.len = 0;
    VEC_FREE(&f.work);
    free(f.what);
    free(f.func_what);
    free(f.is_searched);
    free(f.depth);
    free(f.relative);
}
