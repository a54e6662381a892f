/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads and stores: when they reach the first-level cache, and what is forwarded from stores still on their way. */
#include "sim/core.h"

static size_t piece_slot(uint64_t piece) { return piece * 0x9e3779b97f4a7c15u >> 52 & (STORES - 1); }

static void remember_store(struct sim_core *c, const struct sim_insn *i, uint64_t addr, int64_t value_ready,
                           int64_t in_cache)
{
    unsigned bytes = i->shape->bytes ? i->shape->bytes : 8;
    for (uint64_t piece = addr / 8; piece <= (addr + bytes - 1) / 8; piece++)
        c->stored[piece_slot(piece)] =
            (struct stored){piece + 1, addr, value_ready, in_cache, (uint32_t)(i - c->insns), (uint8_t)bytes};
}

/* When a load that would start at `start` has its value, if it takes it from a store still on its way; else 0. */
static int64_t forwarded(struct sim_core *c, const struct sim_insn *i, uint64_t addr, int64_t start)
{
    const struct machine *m = c->m;
    unsigned bytes = i->shape->bytes ? i->shape->bytes : 8;
    int64_t ready = 0;
    for (uint64_t piece = addr / 8; piece <= (addr + bytes - 1) / 8; piece++) {
        const struct stored *s = &c->stored[piece_slot(piece)];
        bool overlaps = s->piece == piece + 1 && s->addr < addr + bytes && addr < s->addr + s->bytes;
        if (!overlaps || s->in_cache <= start)
            continue;
        bool covers = s->addr <= addr && addr + bytes <= s->addr + s->bytes;
        const struct sim_insn *from = &c->insns[s->insn];
        bool alike = m->rename >= 0 && s->addr == addr && from->shape->base == i->shape->base &&
                     from->shape->index == i->shape->index && from->disp == i->disp;
        uint32_t *by = &c->stored_by[i - c->insns];
        bool learned = m->forward_learned >= 0 && *by == s->insn + 1 && !(i->shape->flags & INSN_VEC_ACCESS);
        *by = s->insn + 1;
        double wait = !covers                             ? m->forward_fail
                      : alike                             ? m->rename
                      : learned                           ? m->forward_learned
                      : i->shape->flags & INSN_VEC_ACCESS ? m->forward_vec
                                                          : m->forward;
        if (wait >= 0)
            ready = later(ready, s->value_ready + ticks(wait));
        if (!covers) /* it waits until the store has left for the cache */
            ready = later(ready, s->in_cache + i->shape->load_latency);
    }
    return ready;
}

static bool crosses_line(const struct sim_insn *i, uint64_t addr)
{
    return addr % 64 + i->shape->bytes > 64 && addr % 64 > 0;
}

int64_t core_run_load(struct sim_core *c, const struct sim_insn *i, struct timing *t)
{
    bool from_load = false;
    uint8_t unit = 255;
    int64_t ready = later(address_ready(c, i, &from_load), t->earliest);
    bool crossing = crosses_line(i, t->load_addr);
    struct sim_use use = longer(i->shape->load, crossing ? c->m->cross_load : 0);
    int64_t start = use.ports ? core_start_on(c, &use, ready, &unit) : whole_cycle(ready);
    note_wait(t, start, ready, from_load, unit);
    int64_t value = start + i->shape->load_latency + (crossing ? ticks(c->m->cross_latency) : 0);
    int64_t by_store = forwarded(c, i, t->load_addr, start);
    bool renamed = by_store && ((c->m->rename >= 0 && c->m->rename < 1) ||
                                (c->m->forward_learned >= 0 && c->m->forward_learned < 1));
    if (by_store > value || renamed) {
        value = by_store > t->earliest ? by_store : t->earliest;
        t->bound = SIM_BOUND_LOAD;
    }
    return value;
}

/* Value and address go to the store queue apart; the first unit of the class takes the value, the others addresses. */
int64_t core_run_store(struct sim_core *c, const struct sim_insn *i, int64_t value, struct timing *t,
                       int64_t *value_ready)
{
    bool from_load = false;
    uint8_t unit = 255;
    int64_t addr = later(address_ready(c, i, &from_load), t->earliest);
    value = later(value, t->earliest);
    int64_t done = whole_cycle(value);
    for (unsigned k = 0; k < i->shape->store_use_count; k++) {
        int64_t ready = k ? addr : value;
        struct sim_use use =
            longer(i->shape->store[k], k == 0 && crosses_line(i, t->store_addr) ? c->m->cross_store : 0);
        int64_t start = core_start_on(c, &use, ready, &unit);
        note_wait(t, start, ready, from_load, unit);
        done = later(done, start + TICK);
    }
    *value_ready = value;
    return later(done, whole_cycle(addr));
}

/* Stores leave for the cache in their order. */
static void drain(struct sim_core *c, uint64_t addr)
{
    double interval = addr / 64 == c->drained_line ? c->m->drain_line : c->m->drain;
    c->drained_line = addr / 64;
    c->drained_at = later(c->retired_at, c->drained_at + ticks(interval));
}

void core_commit_store(struct sim_core *c, const struct sim_insn *i, const struct timing *t)
{
    drain(c, t->store_addr);
    remember_store(c, i, t->store_addr, t->value_ready, c->drained_at);
}
