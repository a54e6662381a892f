/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetch: blocks of code, from the operation cache or the legacy decoders, and what taken branches cost. */
#include "sim/core.h"

#include <math.h>

/* Fetch blocks and lines are powers of two nearly always. */
static uint64_t block_of(uint64_t addr, uint64_t bytes)
{
    return bytes & (bytes - 1) ? addr / bytes : addr >> __builtin_ctzll(bytes);
}

static bool starts_fetch_block(const struct sim_core *c, uint64_t fetch_block)
{
    return c->redirected || fetch_block != c->fetch_block;
}

/* Does a branch, with the comparison that it is fused with, touch the boundary that the fetch is slow at? */
static bool crosses(const struct sim_core *c, const struct sim_insn *i, bool fused)
{
    uint64_t boundary = (uint64_t)c->m->cross_boundary;
    uint64_t first = fused ? c->insns[c->fused_first].addr : i->addr;
    return boundary && block_of(first, boundary) != block_of(i->addr + i->shape->len, boundary);
}

static uint64_t *legacy_line(struct sim_core *c, uint64_t line) { return &c->legacy_lines[line & (LEGACY_LINES - 1)]; }

/* Lines with such a branch are kept out of the operation cache: what enters one is decoded anew, piece by piece, until
 * a branch leads elsewhere. */
static void watch_legacy(struct sim_core *c, const struct sim_insn *i, bool fused)
{
    uint64_t line = block_of(i->addr, (uint64_t)c->m->cross_boundary) + 1;
    if (i->shape->flags & INSN_BRANCH && crosses(c, i, fused)) {
        uint64_t from = fused ? c->insns[c->fused_first].addr : i->addr;
        uint64_t first = block_of(from, (uint64_t)c->m->cross_boundary) + 1;
        *legacy_line(c, first) = first;
        line = first;
    }
    if (c->legacy || *legacy_line(c, line) != line)
        return;
    c->legacy = true;
    c->fetch_block = UINT64_MAX;
    if (!c->redirected)
        c->cycle_at = c->fetch_at += ticks(c->m->legacy_switch);
}

/* May what begins now be fetched in the cycle of what came before? Two pieces of few instructions are: of fetch blocks
 * that follow each other, or of a branch and its target. The branch that ends the second is then predicted together
 * with the one that ended the first: it must be the same as the last time. */
static bool shares_cycle(const struct sim_core *c)
{
    if (c->legacy || c->shared || c->fetch_block_ops > c->m->fetch_share)
        return false;
    return !c->redirected || (c->taken_last != ID_NONE && c->successors[c->taken_last].again);
}

/* `each`: ticks that a fetch block takes. */
static void begin_fetch_block(struct sim_core *c, uint64_t fetch_block, int64_t each)
{
    const struct machine *m = c->m;
    bool shares = shares_cycle(c);
    c->cycle_at = later(c->cycle_at, c->fetch_at - TICK) + (shares ? ticks(m->fetch_pair) - TICK : each);
    c->fetch_at = later(later(c->fetch_at, c->cycle_at), c->last_taken);
    c->cycle_at = later(c->cycle_at, c->fetch_at - TICK);
    c->fetch_block_max = c->legacy       ? m->legacy_ops
                         : !shares       ? m->fetch_ops
                         : c->redirected ? m->fetch_share
                                         : m->fetch_ops - c->fetch_block_ops;
    c->shared = shares;
    c->at_target = c->redirected;
    c->redirected = false;
    c->fetch_block = fetch_block;
    c->fetch_block_ops = 0;
}

/* More instructions of one fetch block than come at once: in a further cycle. */
static void go_on(struct sim_core *c)
{
    const struct machine *m = c->m;
    bool was_second = !c->legacy && c->fetch_block_max < m->fetch_ops; /* it does not fit beside the first piece */
    double cycles = c->legacy || was_second ? 1 : m->fetch_extra + (c->at_target ? m->fetch_first : 0);
    c->cycle_at += ticks(cycles);
    c->fetch_at = later(c->fetch_at, c->cycle_at);
    c->fetch_block_ops = was_second ? c->fetch_block_ops : 1;
    c->fetch_block_max = c->legacy ? m->legacy_ops : m->fetch_ops;
    c->shared = true;
    c->at_target = false;
}

/* A taken branch ends its fetch block. */
int64_t core_fetch(struct sim_core *c, const struct sim_insn *i, bool fused)
{
    const struct machine *m = c->m;
    if (c->redirected)
        c->legacy = false;
    if (m->cross_boundary > 0)
        watch_legacy(c, i, fused);
    double bytes = c->legacy ? m->legacy_bytes : m->fetch_block;
    uint64_t fetch_block = bytes > 0 ? block_of(c->legacy ? i->addr + i->shape->len - 1 : i->addr, (uint64_t)bytes) : 0;
    c->fetch_at = later(c->fetch_at, resource_free_at(&c->fetched));
    if (starts_fetch_block(c, fetch_block)) {
        uint64_t pieces =
            c->legacy && !c->redirected && fetch_block - c->fetch_block < 3 ? fetch_block - c->fetch_block : 1;
        begin_fetch_block(c, fetch_block,
                          bytes <= 0 ? 0 : (int64_t)pieces * (c->legacy ? TICK : ticks(1 / m->fetch_blocks)));
    }
    if ((c->legacy || !fused) && ++c->fetch_block_ops > c->fetch_block_max && c->fetch_block_max > 0)
        go_on(c);
    return c->fetch_at;
}

static double interval_after(const struct machine *m, const struct sim_insn *i)
{
    double t = m->taken_interval;
    if (i->shape->flags & INSN_CALL)
        t = m->call_interval;
    else if (i->shape->flags & INSN_RET)
        t = m->ret_interval;
    if (i->shape->flags & INSN_INDIRECT && !(i->shape->flags & INSN_RET) && m->indirect_interval > t)
        t = m->indirect_interval;
    return t;
}

static void remember_taken(struct sim_core *c, uint32_t branch)
{
    if (c->taken_last != ID_NONE) {
        struct successor *s = &c->successors[c->taken_last];
        s->again = s->branch == branch + 1;
        s->branch = branch + 1;
    }
    c->taken_last = branch;
}

void core_after_branch(struct sim_core *c, const struct sim_insn *i, uint32_t flags, int64_t done)
{
    bool waits = c->m->indirect_waits > 0 && i->shape->flags & INSN_INDIRECT && !(i->shape->flags & INSN_RET);
    if (flags & SIM_MISPREDICTED || waits)
        c->fetch_at = later(c->fetch_at, done + ticks(waits ? c->m->indirect_interval : c->m->mispredict));
    if (!(flags & (SIM_TAKEN | SIM_MISPREDICTED)))
        return;
    remember_taken(c, (uint32_t)(i - c->insns));
    c->redirected = true;
    c->last_taken = later(c->last_taken, c->fetch_at) + ticks(waits ? 0 : interval_after(c->m, i));
    if (c->m->fetch_block <= 0)
        c->fetch_at = c->last_taken;
    if (i->shape->flags & INSN_INDIRECT && !(i->shape->flags & INSN_RET) && c->m->indirect_more > 0)
        c->jumped = (uint32_t)(i - c->insns);
}

/* Where an indirect jump went is known when the instruction there is fetched. */
void core_find_target(struct sim_core *c, uint32_t index)
{
    uint64_t *seen = &c->targets[c->jumped];
    *seen |= 1ull << ((index * 0x9e3779b9u) >> 26);
    c->last_taken += ticks(c->m->indirect_more * log2(__builtin_popcountll(*seen)));
    c->fetch_at = c->m->fetch_block <= 0 ? c->last_taken : c->fetch_at;
    c->jumped = ID_NONE;
}
