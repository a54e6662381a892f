/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline of a description as Wall describes one (Link-time code modification, 1989, section 4.2): instructions
 * issue in order, each part of one (load, operation, store) when its operands and its unit are there, at most
 * maximum-multiple-issue a cycle. It says what inorder.c says, of instructions one by one, in a state small enough to
 * be kept, compared and gone back to. It knows no fetching, and no order but that of issue: what a description says of
 * reordering is passed over. */
#include "sim/impl.h"

#include <stdlib.h>

enum { CYCLES = 2048, WORDS = CYCLES / 64 }; /* further away than that a unit is taken as free */

struct sim_pipeline {
    const struct machine *m;
    unsigned ports;
    float demand[MACHINE_PORT_MAX];
    int64_t issue_at; /* ticks: the next part starts here or later */
    uint64_t parts;   /* issued so far */
    int64_t ready[X86_REG_COUNT];
    bool from_load[X86_REG_COUNT];
    uint16_t kind[X86_REG_COUNT];
    int32_t bypass_late[X86_REG_COUNT];
    uint32_t owed[MACHINE_PORT_MAX];
    uint64_t busy[MACHINE_PORT_MAX][WORDS]; /* of the first `ports`: a bit for each cycle */
};

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- units ---- */

static int64_t find_free(const struct sim_pipeline *p, unsigned port, int64_t t)
{
    while (t < CYCLES) {
        uint64_t open = ~(p->busy[port][t / 64] >> (t % 64));
        unsigned skip = open ? (unsigned)__builtin_ctzll(open) : 64, left = 64 - (unsigned)(t % 64);
        if (skip < left)
            return t + skip;
        t += left;
    }
    return t;
}

/* Of those free first the one that is asked for least. */
static int64_t choose_port(const struct sim_pipeline *p, uint32_t ports, int64_t t, unsigned *port)
{
    int64_t best = INT64_MAX >> TICK_SHIFT; /* as ticks it fits too */
    for (; ports; ports &= ports - 1) {
        unsigned n = (unsigned)__builtin_ctz(ports);
        int64_t s = find_free(p, n, t);
        if (s < best || (s == best && p->demand[n] < p->demand[*port])) {
            best = s;
            *port = n;
        }
    }
    return best;
}

static int64_t start_on(struct sim_pipeline *p, const struct sim_use *u, int64_t ready)
{
    int64_t t = (ready + TICK - 1) >> TICK_SHIFT;
    unsigned port = 0;
    int64_t start = choose_port(p, u->ports, t, &port), at = start;
    p->owed[port] += u->part;
    unsigned busy = u->busy + (p->owed[port] >= TICK);
    p->owed[port] &= TICK - 1;
    for (; busy && at < CYCLES; busy--, at = find_free(p, port, at + 1))
        p->busy[port][at / 64] |= 1ull << (at % 64);
    return start << TICK_SHIFT;
}

/* ---- operands ---- */

static int64_t operands_ready(const struct sim_pipeline *p, const struct sim_shape *s)
{
    int64_t t = 0;
    for (unsigned k = 0; k < s->read_count; k++) {
        uint8_t r = s->reads[k];
        bool is_late = p->kind[r] != s->kind && !(s->flags & INSN_MOVED),
             is_flags = r == X86_REG_FLAGS_C || r == X86_REG_FLAGS_ZAPS;
        t = later(t, p->ready[r] + (is_late ? p->bypass_late[r] : 0) + (is_flags ? s->flags_late : 0));
    }
    return t;
}

static int64_t address_ready(const struct sim_pipeline *p, const struct sim_shape *s)
{
    int64_t t = 0;
    for (unsigned k = 0; k < s->addr_count; k++) {
        uint8_t r = s->addr_regs[k];
        int64_t late = ticks(p->from_load[r] ? p->m->address_latency_load : p->m->address_latency) - s->address_late;
        if (p->ready[r])
            t = later(t, p->ready[r] + later(late, 0));
    }
    return t;
}

static void write_results(struct sim_pipeline *p, const struct sim_shape *s, int64_t result)
{
    const uint8_t *from = s->flags & INSN_MOVED && s->read_count ? s->reads : NULL;
    for (unsigned k = 0; k < s->write_count; k++) {
        uint8_t r = s->writes[k];
        p->ready[r] = result + (k == s->second ? s->second_late : 0);
        p->from_load[r] = s->flags & INSN_LOAD_RESULT;
        p->kind[r] = from ? p->kind[from[0]] : s->kind;
        p->bypass_late[r] = from ? p->bypass_late[from[0]] : s->bypass_late;
    }
}

/* ---- issue ---- */

static int64_t issue_part(struct sim_pipeline *p, const struct sim_use *u, int64_t ready)
{
    int64_t start = later(ready, p->issue_at);
    if (u && u->ports)
        start = start_on(p, u, later(ready, cycle_of_slot(p->issue_at)));
    p->issue_at = slot_behind(p->issue_at, start, p->m->max_issue);
    p->parts++;
    return start;
}

static bool is_only_access(const struct sim_shape *s)
{
    return !(s->flags & INSN_HAS_OP) && (s->flags & (INSN_LOAD | INSN_STORE));
}

/* As core_run_rep: from where the last part was asked for. */
static void repeat(struct sim_pipeline *p, const struct sim_shape *s, int64_t earliest)
{
    enum { TIMES = 16 }; /* as the core model assumes */
    double bytes = TIMES * (double)s->bytes, per_cycle = p->m->rep_bytes;
    int64_t ready = later(operands_ready(p, s), earliest);
    p->issue_at = later(p->issue_at, ready + ticks(p->m->rep_start + (per_cycle > 0 ? bytes / per_cycle : 0)));
}

void sim_pipeline_issue(struct sim_pipeline *p, const struct sim_insn *i)
{
    const struct sim_shape *s = i->shape;
    int64_t loaded = 0, start = 0, result = 0, asked = p->issue_at;
    if (s->flags & INSN_LOAD)
        loaded = result = issue_part(p, &s->load, address_ready(p, s)) + s->load_latency;
    int64_t ready = later(loaded, operands_ready(p, s));
    if (!is_only_access(s)) {
        asked = p->issue_at;
        start = issue_part(p, s->use_count ? &s->uses[0] : NULL, ready);
        result = start + s->latency;
    }
    for (unsigned k = 1; k < s->use_count; k++)
        result = later(result, start_on(p, &s->uses[k], start) + s->latency);
    if (s->flags & INSN_STORE) {
        asked = p->issue_at;
        issue_part(p, s->store_use_count ? &s->store[0] : NULL,
                   later(is_only_access(s) ? ready : result, address_ready(p, s)));
    }
    if (s->flags & INSN_REP)
        repeat(p, s, asked);
    write_results(p, s, result);
}

int64_t sim_pipeline_start(const struct sim_pipeline *p, const struct sim_insn *i)
{
    const struct sim_shape *s = i->shape;
    const struct sim_use *u = NULL;
    int64_t ready;
    if (s->flags & INSN_LOAD) {
        ready = address_ready(p, s);
        u = &s->load;
    } else if (is_only_access(s)) {
        ready = later(operands_ready(p, s), address_ready(p, s));
        u = s->store_use_count ? &s->store[0] : NULL;
    } else {
        ready = operands_ready(p, s);
        u = s->use_count ? &s->uses[0] : NULL;
    }
    unsigned port = 0;
    if (!u || !u->ports)
        return later(ready, p->issue_at);
    int64_t t = later(ready, cycle_of_slot(p->issue_at));
    return later(choose_port(p, u->ports, (t + TICK - 1) >> TICK_SHIFT, &port) << TICK_SHIFT, p->issue_at);
}

/* ---- life ---- */

static size_t used_bytes(const struct sim_pipeline *p)
{
    return offsetof(struct sim_pipeline, busy) + p->ports * sizeof p->busy[0];
}

struct sim_pipeline *sim_pipeline_new(const struct machine *m)
{
    struct sim_pipeline *p = xmalloc(sizeof *p);
    p->m = m;
    p->ports = machine_port_count(m);
    sim_find_demand(m, p->demand);
    return p;
}

void sim_pipeline_free(struct sim_pipeline *p) { free(p); }

void sim_pipeline_reset(struct sim_pipeline *p)
{
    size_t from = offsetof(struct sim_pipeline, issue_at);
    memset((char *)p + from, 0, used_bytes(p) - from);
}

void sim_pipeline_copy(struct sim_pipeline *to, const struct sim_pipeline *from) { memcpy(to, from, used_bytes(from)); }

/* ---- questions ---- */

int64_t sim_pipeline_ticks(const struct sim_pipeline *p) { return p->issue_at; }

int64_t sim_pipeline_stalls(const struct sim_pipeline *p)
{
    return p->issue_at - (int64_t)((double)p->parts * TICK / p->m->max_issue);
}

int64_t sim_pipeline_ready(const struct sim_pipeline *p, unsigned reg) { return p->ready[reg]; }

int64_t sim_insn_latency(const struct sim_insn *i)
{
    const struct sim_shape *s = i->shape;
    return (s->flags & INSN_LOAD ? s->load_latency : 0) + (is_only_access(s) ? 0 : s->latency);
}

int64_t sim_pipeline_unit(const struct sim_pipeline *p, unsigned unit)
{
    if (unit >= p->ports)
        return 0;
    for (unsigned w = WORDS; w-- > 0;)
        if (p->busy[unit][w])
            return (int64_t)(64 * w + 64 - (unsigned)__builtin_clzll(p->busy[unit][w])) * TICK;
    return 0;
}

/* ---- states ---- */

/* By how much later than a result is there somebody may still have to wait for it. */
static int64_t slack(const struct machine *m)
{
    double most = 0;
    for (size_t i = 0; i < m->class_count; i++) {
        double late = m->classes[i].latency_flags - m->classes[i].latency;
        most = late > most ? late : most;
    }
    double address = m->address_latency_load > m->address_latency ? m->address_latency_load : m->address_latency;
    return ticks(most) + ticks(address > 0 ? address : 0);
}

static void shift_units(struct sim_pipeline *p, int64_t cycles)
{
    for (unsigned port = 0; port < p->ports; port++) {
        uint64_t *bits = p->busy[port];
        for (int64_t at = 0; at < CYCLES; at++) {
            int64_t from = at + cycles;
            bool is_busy = at >= SIM_BEGIN && from >= 0 && from < CYCLES && bits[from / 64] >> (from % 64) & 1;
            bits[at / 64] = (bits[at / 64] & ~(1ull << (at % 64))) | (uint64_t)is_busy << (at % 64);
        }
    }
}

int64_t sim_pipeline_rebase(struct sim_pipeline *p)
{
    int64_t base = cycle_of_slot(p->issue_at), by = base - (int64_t)SIM_BEGIN * TICK, late = slack(p->m);
    for (unsigned r = 0; r < X86_REG_COUNT; r++) {
        bool is_over = p->ready[r] + later(p->bypass_late[r], 0) + late <= base;
        p->ready[r] = is_over ? 0 : p->ready[r] - by;
        p->from_load[r] = !is_over && p->from_load[r];
        p->kind[r] = is_over ? 0 : p->kind[r];
        p->bypass_late[r] = is_over ? 0 : p->bypass_late[r];
    }
    if (by)
        shift_units(p, by >> TICK_SHIFT);
    p->issue_at -= by;
    p->parts = 0;
    return by;
}

static const char *state_of(const struct sim_pipeline *p, size_t *len)
{
    *len = used_bytes(p) - offsetof(struct sim_pipeline, issue_at);
    return (const char *)p + offsetof(struct sim_pipeline, issue_at);
}

uint64_t sim_pipeline_hash(const struct sim_pipeline *p)
{
    size_t len;
    const char *state = state_of(p, &len);
    uint64_t hash = 0xcbf29ce484222325u, word;
    for (size_t i = 0; i + 8 <= len; i += 8) {
        memcpy(&word, state + i, 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

bool sim_pipeline_is_same(const struct sim_pipeline *a, const struct sim_pipeline *b)
{
    size_t len;
    const char *state = state_of(a, &len);
    return memcmp(state, state_of(b, &len), len) == 0;
}
