/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetch: windows of instructions, from the operation cache or the legacy decoders, and what taken branches cost. */
#include "sim/core.h"

#include <math.h>

/* Windows and lines are powers of two nearly always. */
static uint64_t block_of(uint64_t addr, uint64_t bytes)
{
    return bytes & (bytes - 1) ? addr / bytes : addr >> __builtin_ctzll(bytes);
}

static bool starts_window(const struct sim_core *c, uint64_t window) { return c->redirected || window != c->window; }

/* Does a branch, with the comparison that it is fused with, touch the boundary that the fetch is slow at? */
static bool crosses(const struct sim_core *c, const struct sim_insn *i, bool fused)
{
    uint64_t boundary = (uint64_t)c->m->cross_boundary;
    uint64_t first = fused ? c->insns[c->fused_first].addr : i->addr;
    return boundary && block_of(first, boundary) != block_of(i->addr + i->shape->len, boundary);
}

static uint64_t *slow_line(struct sim_core *c, uint64_t line) { return &c->slow_lines[line & (SLOW_LINES - 1)]; }

/* Lines with such a branch are kept out of the operation cache: what enters one is decoded anew, piece by piece, until
 * a branch leads elsewhere. */
static void watch_slow(struct sim_core *c, const struct sim_insn *i, bool fused)
{
    uint64_t line = block_of(i->addr, (uint64_t)c->m->cross_boundary) + 1;
    if (i->shape->flags & INSN_BRANCH && crosses(c, i, fused)) {
        uint64_t from = fused ? c->insns[c->fused_first].addr : i->addr;
        uint64_t first = block_of(from, (uint64_t)c->m->cross_boundary) + 1;
        *slow_line(c, first) = first;
        line = first;
    }
    if (c->slow || *slow_line(c, line) != line)
        return;
    c->slow = true;
    c->window = UINT64_MAX;
    if (!c->redirected)
        c->cycle_at = c->fetch_at += ticks(c->m->slow_switch);
}

/* May what begins now be fetched in the cycle of what came before? Two pieces of few instructions are: of windows that
 * follow each other, or of a branch and its target. The branch that ends the second is then predicted together with the
 * one that ended the first: it must be the same as the last time. */
static bool shares_cycle(const struct sim_core *c)
{
    if (c->slow || c->shared || c->window_ops > c->m->fetch_share)
        return false;
    return !c->redirected || (c->taken_last != ID_NONE && c->successors[c->taken_last].again);
}

/* `each`: ticks that a window takes. */
static void begin_window(struct sim_core *c, uint64_t window, int64_t each)
{
    const struct machine *m = c->m;
    bool shares = shares_cycle(c);
    c->cycle_at = later(c->cycle_at, c->fetch_at - TICK) + (shares ? ticks(m->fetch_pair) - TICK : each);
    c->fetch_at = later(later(c->fetch_at, c->cycle_at), c->last_taken);
    c->cycle_at = later(c->cycle_at, c->fetch_at - TICK);
    c->window_most = c->slow         ? m->slow_ops
                     : !shares       ? m->fetch_ops
                     : c->redirected ? m->fetch_share
                                     : m->fetch_ops - c->window_ops;
    c->shared = shares;
    c->at_target = c->redirected;
    c->redirected = false;
    c->window = window;
    c->window_ops = 0;
}

/* More instructions of one window than come at once: in a further cycle. */
static void go_on(struct sim_core *c)
{
    const struct machine *m = c->m;
    bool was_second = !c->slow && c->window_most < m->fetch_ops; /* it does not fit beside the first piece */
    double cycles = c->slow || was_second ? 1 : m->fetch_extra + (c->at_target ? m->fetch_first : 0);
    c->cycle_at += ticks(cycles);
    c->fetch_at = later(c->fetch_at, c->cycle_at);
    c->window_ops = was_second ? c->window_ops : 1;
    c->window_most = c->slow ? m->slow_ops : m->fetch_ops;
    c->shared = true;
    c->at_target = false;
}

/* A taken branch ends its window. */
int64_t core_fetch(struct sim_core *c, const struct sim_insn *i, bool fused)
{
    const struct machine *m = c->m;
    if (c->redirected)
        c->slow = false;
    if (m->cross_boundary > 0)
        watch_slow(c, i, fused);
    double bytes = c->slow ? m->slow_bytes : m->fetch_window;
    uint64_t window = bytes > 0 ? block_of(c->slow ? i->addr + i->shape->len - 1 : i->addr, (uint64_t)bytes) : 0;
    c->fetch_at = later(c->fetch_at, places_free(&c->fetched));
    if (starts_window(c, window)) {
        uint64_t pieces = c->slow && !c->redirected && window - c->window < 3 ? window - c->window : 1;
        begin_window(c, window, bytes <= 0 ? 0 : (int64_t)pieces * (c->slow ? TICK : ticks(1 / m->fetch_windows)));
    }
    if ((c->slow || !fused) && ++c->window_ops > c->window_most && c->window_most > 0)
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
    if (c->m->fetch_window <= 0)
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
    c->fetch_at = c->m->fetch_window <= 0 ? c->last_taken : c->fetch_at;
    c->jumped = ID_NONE;
}
