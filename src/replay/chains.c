/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains of instructions that wait for one another through registers. A round of a slice goes on waiting for what the
 * round before it left. The program may not: each search of a short table begins anew, and a processor is at several of
 * them at a time, while rounds of a part of one would take their turns. Such rounds are known by this, that the steps
 * before and behind them wait far less. Latencies are rough and of no processor; both sides are told by the same.
 */
#include "replay/impl.h"

#include <math.h>

enum {
    IN_FLIGHT = 512, /* steps, about */
    ROUNDS_LOOKED_AT = 4,
    LOAD = 4,
    VECTOR = 3,
    MULTIPLY = 3,
    DIVIDE = 12
};
static const double WIDTH = 8; /* steps a cycle, and one jump: what waits less is no matter on any core */
static const double AS_MUCH = 0.6;

struct depths {
    double at[X86_REG_COUNT]; /* when it is there, cycles after the begin */
};

static double latency_of(const struct x86_detail *d)
{
    bool is_vector = d->write_count && d->writes[0] >= X86_REG_VEC0 && d->writes[0] < X86_REG_MASK0;
    if (d->is_pure_move || d->is_mov_elim)
        return 0;
    switch (d->insn.op) {
    case X86_OP_DIV:
    case X86_OP_IDIV:
        return DIVIDE;
    case X86_OP_MUL:
        return MULTIPLY;
    default:
        return is_vector ? VECTOR : 1;
    }
}

static void pass(struct depths *w, const struct stream *s, uint32_t step)
{
    const struct x86_detail *d = &insn_of(s, step)->d;
    double ready = 0, address = 0;
    for (int i = 0; i < d->addr_reg_count; i++)
        address = fmax(address, w->at[d->addr_regs[i]]);
    for (int i = 0; i < d->read_count && !d->is_zero_idiom; i++)
        ready = fmax(ready, w->at[d->reads[i]]);
    ready = fmax(ready, address + (d->is_load ? LOAD : 0)) + latency_of(d);
    for (int i = 0; i < d->write_count; i++)
        w->at[d->writes[i]] = d->is_zero_idiom ? 0 : ready;
}

static double deepest(const struct depths *w)
{
    double max = 0;
    for (int r = 0; r < X86_REG_COUNT; r++)
        max = fmax(max, w->at[r]);
    return max;
}

/* By which steps wait longer when twice as many are behind them as are in flight; a step. */
static double growth_of(const struct stream *s, uint32_t first)
{
    struct depths w = {{0}};
    double half = 0;
    for (uint32_t k = 0; k < 2 * IN_FLIGHT; k++) {
        if (k == IN_FLIGHT)
            half = deepest(&w);
        pass(&w, s, first + k);
    }
    return (deepest(&w) - half) / IN_FLIGHT;
}

/* Of a round among many. */
static double depth_of_round(const struct stream *s, uint32_t first, uint32_t last, uint16_t renewed)
{
    struct depths w = {{0}};
    double before = 0;
    for (int round = 0; round < ROUNDS_LOOKED_AT; round++) {
        before = deepest(&w);
        for (unsigned r = 0; r < 16; r++)
            w.at[r] = renewed >> r & 1 ? 0 : w.at[r];
        for (uint32_t k = first; k < last; k++)
            pass(&w, s, k);
    }
    return deepest(&w) - before;
}

static uint32_t jumps_in(const struct stream *s, uint32_t first, uint32_t last)
{
    uint32_t jumps = 0;
    for (uint32_t k = first; k < last; k++)
        jumps += insn_of(s, k + 1)->d.insn.addr != insn_of(s, k)->d.insn.addr + insn_of(s, k)->d.insn.len;
    return jumps;
}

bool chains_go_on(const struct stream *s, uint32_t first, uint32_t last, uint16_t renewed)
{
    double depth = depth_of_round(s, first, last, renewed), around = 0;
    bool has_before = first >= 2 * IN_FLIGHT, has_behind = last + 2 * IN_FLIGHT <= s->steps.len;
    if (depth <= fmax((last - first) / WIDTH, jumps_in(s, first, last)) || (!has_before && !has_behind))
        return true;
    if (has_before)
        around = growth_of(s, first - 2 * IN_FLIGHT);
    if (has_behind)
        around = fmax(around, growth_of(s, last));
    return around >= AS_MUCH * depth / (last - first);
}
