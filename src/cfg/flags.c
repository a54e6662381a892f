/* SPDX-License-Identifier: Apache-2.0
 *
 * Flags that cross calls. Compilers let none do so, but hand-written code passes a carry into a local function or has
 * one answer in ZF. For each function: which flags it reads before it writes them, and which of those it leaves some
 * direct caller reads after the call. Flags across indirect calls and between modules are not looked for.
 */
#include "cfg/impl.h"

#include <stdlib.h>

enum { BLOCKS_MAX = 16 }; /* looked at for one answer; beyond them every flag counts as live */

struct question {
    const struct cfg *c;
    bool any_in; /* some function has flags coming in */
    unsigned left;
};

static uint8_t live_out_of(struct question *q, const struct cfg_block *b, uint8_t open);

/* Of the flags in `open`, those that are read before they are written from the start of block b on. */
static uint8_t live_in(struct question *q, uint32_t block, uint8_t open)
{
    const struct cfg *c = q->c;
    if (block == ID_NONE || q->left == 0)
        return open;
    q->left--;
    const struct cfg_block *b = &c->blocks.data[block];
    uint8_t out = 0;
    cfg_for_each_insn(b, i) {
        const struct x86_insn *in = cfg_shape(c, i);
        uint32_t g;
        switch ((enum x86_kind)in->kind) {
        case X86_CALL:
            g = q->any_in ? cfg_func_at(c, cfg_insn_target(c, i)) : ID_NONE;
            return g == ID_NONE ? out : out | (open & c->call_live[g].in);
        case X86_RET:
            return out | (open & c->call_live[b->func].out);
        case X86_CALL_IND:
        case X86_JMP_IND:
        case X86_TRAP:
            return out;
        default:
            break;
        }
        out |= open & in->flags_read;
        if (!(in->props & X86_PROP_FLAGS_MAYBE))
            open &= (uint8_t)~in->flags_written;
        if (!open)
            return out;
    }
    return out | live_out_of(q, b, open);
}

static uint8_t live_out_of(struct question *q, const struct cfg_block *b, uint8_t open)
{
    uint8_t out = b->edge_count ? 0 : open;
    for (uint32_t e = b->edge_first; e < b->edge_first + b->edge_count && out != open; e++)
        if (q->c->edges.data[e].to != ID_NONE || !cfg_is_elsewhere(q->c, b->call_target))
            out |= live_in(q, q->c->edges.data[e].to, open & (uint8_t)~out);
    return out;
}

static uint8_t live_in_at(const struct cfg *c, uint32_t block, bool any_in)
{
    struct question q = {c, any_in, BLOCKS_MAX};
    return live_in(&q, block,
                   X86_ALL_FLAGS & ~X86_AF); /* no branch reads AF, and many instructions leave it undefined */
}

/* Returns how many functions changed. */
static uint32_t fill_in(struct cfg *c, bool any_in)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        uint8_t in = fn->block_count ? live_in_at(c, fn->block_first, any_in) : 0;
        n += in != c->call_live[f].in;
        c->call_live[f].in = in;
    }
    return n;
}

static uint32_t add_out(struct cfg *c, uint32_t f, uint8_t flags)
{
    if (f == ID_NONE || !(flags & (uint8_t)~c->call_live[f].out))
        return 0;
    c->call_live[f].out |= flags;
    return 1;
}

/* A function answers for those that it jumps to. */
static uint32_t propagate_out(struct cfg *c, uint32_t f)
{
    uint32_t n = 0;
    const struct cfg_func *fn = &c->funcs.data[f];
    cfg_for_each_block(fn, b) {
        const struct cfg_block *blk = &c->blocks.data[b];
        cfg_for_each_edge(blk, e)
            if (c->edges.data[e].to != ID_NONE && c->blocks.data[c->edges.data[e].to].func != f)
                n += add_out(c, c->blocks.data[c->edges.data[e].to].func, c->call_live[f].out);
    }
    return n;
}

/* Those that are read after the call that ends block b. */
static uint8_t live_in_of_call(const struct cfg *c, uint32_t b, bool any_in)
{
    const struct cfg_block *blk = &c->blocks.data[b];
    if (blk->term != X86_CALL || !blk->call_target || blk->flags & CFG_BLOCK_NORETURN || b + 1 >= c->blocks.len ||
        c->blocks.data[b + 1].func != blk->func)
        return 0;
    return live_in_at(c, b + 1, any_in);
}

static uint32_t fill_out(struct cfg *c, bool any_in)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < c->blocks.len; b++) {
        const struct cfg_block *blk = &c->blocks.data[b];
        uint8_t flags = live_in_of_call(c, b, any_in);
        if (flags)
            n += add_out(c, cfg_func_at(c, blk->call_target), flags);
    }
    for (uint32_t f = 0; f < c->funcs.len; f++)
        if (c->call_live[f].out)
            n += propagate_out(c, f);
    return n;
}

/* ---- nearly always: none at all ---- */

struct looking {
    const struct cfg *c;
    bool any;
};

static void look_at_range(void *ctx, size_t first, size_t end)
{
    struct looking *l = ctx;
    const struct cfg *c = l->c;
    bool any = __atomic_load_n(&l->any, __ATOMIC_RELAXED);
    for (size_t f = first; f < end && !any; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        any = fn->block_count && live_in_at(c, fn->block_first, false);
        cfg_for_each_block(fn, b)
            any = any || live_in_of_call(c, b, false);
    }
    if (any)
        __atomic_store_n(&l->any, true, __ATOMIC_RELAXED);
}

#define FUNCS_A_RANGE 64

/* needs: blocks. fills: call_live. */
void build_flags(struct cfg *c)
{
    struct looking l = {c, false};
    c->call_live = xmalloc((c->funcs.len + 1) * sizeof *c->call_live);
    parallel_for(c->funcs.len, FUNCS_A_RANGE, look_at_range, &l);
    bool any_in = false, any = false;
    for (uint32_t in = l.any, out = l.any; in + out;) {
        in = fill_in(c, any_in);
        any_in |= in > 0;
        out = fill_out(c, any_in);
        any |= in + out > 0;
    }
    if (any)
        return;
    free(c->call_live);
    c->call_live = NULL;
}
