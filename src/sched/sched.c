/* SPDX-License-Identifier: Apache-2.0
 *
 * List scheduling: of the instructions that nothing holds back, the one that can start first comes next, of several the
 * one with the longest way to the block's end behind it. What comes out is taken only if the pipeline says that it is
 * better, and no worse for whatever comes behind the block. */
#include <assert.h>
#include <stdlib.h>

#include "sched/sched.h"
#include "sim/sim.h"
#include "x86/x86.h"

struct sched {
    const struct machine *m;
    struct sim_shapes *shapes;
    struct sim_pipeline *now, *other, *old;
    struct sim_insn insns[SCHED_MAX];
    int64_t later_most;    /* ticks by which some reader may have a result later than others */
    struct sim_core *core; /* of an out-of-order machine, over `insns`; else NULL */
};

/* As an address, as flags of some instruction, or on other units than where it was made. */
static int64_t later_most(const struct machine *m)
{
    double address = m->address_latency > m->address_latency_load ? m->address_latency : m->address_latency_load,
           flags = 0, elsewhere = 0;
    for (size_t i = 0; i < m->class_count; i++) {
        const struct machine_class *c = &m->classes[i];
        flags = c->latency_flags - c->latency > flags ? c->latency_flags - c->latency : flags;
        elsewhere = c->latency_bypass - c->latency > elsewhere ? c->latency_bypass - c->latency : elsewhere;
    }
    return (int64_t)((address + flags + elsewhere + 1) * SIM_CYCLE);
}

struct sched *sched_new(const struct machine *m)
{
    struct sched *s = xmalloc(sizeof *s);
    *s = (struct sched){.m = m,
                        .later_most = later_most(m),
                        .shapes = sim_shapes_new(),
                        .now = sim_pipeline_new(m),
                        .other = sim_pipeline_new(m),
                        .old = sim_pipeline_new(m)};
    if (!m->in_order)
        s->core = sim_core_new(m, s->insns, SCHED_MAX, NULL);
    return s;
}

void sched_free(struct sched *s)
{
    if (!s)
        return;
    sim_core_free(s->core);
    sim_pipeline_free(s->now);
    sim_pipeline_free(s->other);
    sim_pipeline_free(s->old);
    sim_shapes_free(s->shapes);
    free(s);
}

static bool prepare(struct sched *s, const struct sched_block *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (sim_insn_prepare(s->m, s->shapes, b->insns[i].bytes, b->insns[i].len, b->insns[i].addr, &s->insns[i]) < 0)
            return false;
    return true;
}

/* ---- what an order costs ---- */

static void issue_all(struct sched *s, struct sim_pipeline *p, const uint8_t *at, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        sim_pipeline_issue(p, &s->insns[at[i]]);
}

/* On an out-of-order core, once round of many. */
static double cycles_out_of_order(struct sched *s, const uint8_t *at, uint32_t count)
{
    enum { ROUNDS = 12, WARM = 4 };
    sim_core_restart(s->core);
    sim_core_reset_pipeline(s->core, WARM * count);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < count; i++)
            sim_core_step(s->core, at[i], 0, i + 1 == count ? SIM_TAKEN : 0);
    return sim_core_cycles(s->core) / (ROUNDS - WARM);
}

static struct sched_cost cost_of_issue(struct sched *s, const struct sched_block *b, const uint8_t *at)
{
    sim_pipeline_reset(s->now);
    int64_t from = 0, stalled = 0;
    for (unsigned round = 0; round < 2; round++) {
        from = sim_pipeline_ticks(s->now);
        stalled = sim_pipeline_stalls(s->now);
        issue_all(s, s->now, at, b->count);
        if (!b->repeats)
            break;
    }
    return (struct sched_cost){(double)(sim_pipeline_ticks(s->now) - from) / SIM_CYCLE,
                               (double)(sim_pipeline_stalls(s->now) - stalled) / SIM_CYCLE};
}

static struct sched_cost cost_of(struct sched *s, const struct sched_block *b, const uint8_t *at)
{
    struct sched_cost c = cost_of_issue(s, b, at);
    if (!s->core)
        return c;
    double busy = c.cycles - c.stalls;
    c.cycles = cycles_out_of_order(s, at, b->count);
    c.stalls = c.cycles > busy ? c.cycles - busy : 0;
    return c;
}

struct sched_cost sched_cost_of(struct sched *s, const struct sched_block *b, const uint8_t at[SCHED_MAX])
{
    return prepare(s, b) ? cost_of(s, b, at) : (struct sched_cost){0};
}

/* ---- list scheduling ---- */

enum rule { START_THEN_HEIGHT, START_THEN_ORDER, HEIGHT_THEN_START, RULE_COUNT };

/* Ticks from the start of each to the end of the longest chain that it begins. */
static void find_heights(const struct sched *s, const struct sched_graph *g, int64_t height[SCHED_MAX])
{
    for (uint32_t i = g->count; i-- > 0;) {
        int64_t latency = sim_insn_latency(&s->insns[i]);
        height[i] = latency;
        for (uint32_t j = i + 1; j < g->count; j++)
            if (g->before[j] >> i & 1) {
                int64_t by = height[j] + (g->feeds[j] >> i & 1 ? latency : 1);
                height[i] = by > height[i] ? by : height[i];
            }
    }
}

/* Of two that are ready, given by how much later one starts and how much longer the way behind it is; the order at hand
 * decides where nothing else does. */
static bool comes_before(enum rule rule, int64_t later, int64_t longer)
{
    switch (rule) {
    case START_THEN_HEIGHT:
        return later < 0 || (later == 0 && longer > 0);
    case START_THEN_ORDER:
        return later < 0;
    default:
        return longer > 0 || (longer == 0 && later < 0);
    }
}

static void list(struct sched *s, const struct sched_graph *g, const int64_t height[SCHED_MAX], enum rule rule,
                 uint8_t at[SCHED_MAX])
{
    uint64_t done = 0;
    sim_pipeline_reset(s->now);
    for (uint32_t n = 0; n < g->count; n++) {
        uint32_t best = ID_NONE;
        int64_t best_start = 0;
        for (uint32_t i = 0; i < g->count; i++) {
            if (done >> i & 1 || (g->before[i] & ~done))
                continue;
            int64_t start = sim_pipeline_start(s->now, &s->insns[i]);
            if (best != ID_NONE && !comes_before(rule, start - best_start, height[i] - height[best]))
                continue;
            best = i;
            best_start = start;
        }
        assert(best != ID_NONE); /* the graph has no circles: each edge leads down the block */
        at[n] = (uint8_t)best;
        done |= 1ull << best;
        sim_pipeline_issue(s->now, &s->insns[best]);
    }
}

/* ---- better, and never worse ---- */

/* Of two states after the same instructions in different orders: is one nowhere later than the other, for whatever
 * comes next? *gain: ticks by which it ends and its results come earlier. */
static bool is_no_later(const struct sched *s, const struct sim_pipeline *p, const struct sim_pipeline *old,
                        int64_t *gain)
{
    int64_t end = sim_pipeline_ticks(old), now = sim_pipeline_ticks(p);
    *gain += (end - now) * 64;
    for (unsigned r = 0; r < X86_REG_COUNT; r++) {
        int64_t was = sim_pipeline_ready(old, r), is = sim_pipeline_ready(p, r);
        if (is > was && is + s->later_most > end)
            return false;
        *gain += (was > end ? was - end : 0) - (is > end ? is - end : 0);
    }
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        int64_t is = sim_pipeline_unit(p, unit);
        if (is > end && is > sim_pipeline_unit(old, unit))
            return false;
    }
    return now <= end;
}

static bool is_identity(const uint8_t *at, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (at[i] != i)
            return false;
    return true;
}

/* Alone, and behind itself if it repeats. Returns what it gains, 0: it may not be taken. */
static int64_t gain_of(struct sched *s, const struct sched_block *b, const uint8_t *old, const uint8_t *at)
{
    int64_t gain = 0;
    sim_pipeline_reset(s->old);
    sim_pipeline_reset(s->other);
    for (unsigned round = 0; round < (b->repeats ? 3 : 1); round++) {
        issue_all(s, s->old, old, b->count);
        issue_all(s, s->other, at, b->count);
        if (!is_no_later(s, s->other, s->old, &gain))
            return 0;
    }
    return gain > 0 ? gain : 0;
}

/* ---- one instruction at a time ---- */

/* Puts what comes n-th before or behind all that comes between; false: something holds it back. */
static bool move(const struct sched_graph *g, uint8_t at[SCHED_MAX], uint32_t n, uint32_t to)
{
    uint8_t it = at[n];
    uint64_t passed = 0;
    for (uint32_t k = n; k != to;) {
        k = to < n ? k - 1 : k + 1;
        passed |= 1ull << at[k];
        if (to > n && g->before[at[k]] >> it & 1)
            return false;
    }
    if (to < n && (g->before[it] & passed))
        return false;
    memmove(to < n ? &at[to + 1] : &at[n], to < n ? &at[to] : &at[n + 1], to < n ? n - to : to - n);
    at[to] = it;
    return true;
}

/* Moves single instructions as long as that gains something: what the list misses where the end of the block may not
 * come later. Only of short blocks, since it tries all. */
static void improve(struct sched *s, const struct sched_block *b, const struct sched_graph *g, const uint8_t *old,
                    int64_t best, struct sched_order *out)
{
    enum { LONGEST = 20 };
    for (bool goes_on = b->count <= LONGEST; goes_on;) {
        goes_on = false;
        for (uint32_t n = 0; n < b->count; n++)
            for (uint32_t to = 0; to < b->count; to++) {
                uint8_t at[SCHED_MAX];
                memcpy(at, out->at, sizeof at);
                if (to == n || !move(g, at, n, to) || is_identity(at, b->count))
                    continue;
                int64_t gain = gain_of(s, b, old, at);
                if (gain <= best)
                    continue;
                best = gain;
                memcpy(out->at, at, sizeof at);
                goes_on = out->is_new = true;
            }
    }
}

/* ---- all ---- */

static void choose(struct sched *s, const struct sched_block *b, const struct sched_graph *g, struct sched_order *out)
{
    uint8_t old[SCHED_MAX], at[SCHED_MAX];
    int64_t height[SCHED_MAX], best = 0;
    memcpy(old, out->at, sizeof old);
    find_heights(s, g, height);
    int64_t cycles = s->core ? (int64_t)(cycles_out_of_order(s, old, b->count) * SIM_CYCLE) : 0;
    for (enum rule rule = 0; rule < RULE_COUNT; rule++) {
        list(s, g, height, rule, at);
        if (is_identity(at, g->count))
            continue;
        int64_t gain =
            s->core ? cycles - (int64_t)(cycles_out_of_order(s, at, b->count) * SIM_CYCLE) : gain_of(s, b, old, at);
        if (gain <= best)
            continue;
        best = gain;
        memcpy(out->at, at, sizeof at);
        out->is_new = true;
    }
    if (!s->core && cost_of_issue(s, b, out->at).stalls > 0)
        improve(s, b, g, old, best, out);
}

/* Can anything change places at all? */
static bool is_tied(const struct sched_graph *g)
{
    for (uint32_t i = 1; i < g->count; i++)
        if (!(g->before[i] >> (i - 1) & 1))
            return false;
    return true;
}

void sched_block(struct sched *s, const struct sched_block *b, struct sched_order *out)
{
    struct sched_graph g;
    uint8_t old[SCHED_MAX];
    *out = (struct sched_order){0};
    for (uint32_t i = 0; i < SCHED_MAX; i++)
        old[i] = out->at[i] = (uint8_t)i;
    if (b->count > SCHED_MAX || !prepare(s, b))
        return;
    out->before = out->after = cost_of(s, b, old);
    if (b->count > 1 && out->before.stalls > 0 && sched_depend(b, &g) && !is_tied(&g))
        choose(s, b, &g, out);
    if (out->is_new)
        out->after = cost_of(s, b, out->at);
}
