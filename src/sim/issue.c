/* SPDX-License-Identifier: Apache-2.0
 *
 * Issue: units and the schedulers that feed them, as reservation tables by cycle. */
#include "sim/core.h"

#include <assert.h>

static void pass_cycle(struct sim_core *c)
{
    uint32_t slot = (uint32_t)c->now & RING_MASK;
    for (uint32_t ports = c->ending[slot]; ports; ports &= ports - 1)
        c->pending[__builtin_ctz(ports)]--;
    c->ending[slot] = 0;
    for (size_t q = 0; q < c->m->queue_count && q < QUEUES; q++) {
        c->waiting[q] -= c->leaving[q][slot];
        c->leaving[q][slot] = 0;
    }
    if ((slot & 63) == 63) {
        for (unsigned p = 0, n = machine_port_count(c->m); p < n; p++)
            c->busy[p][slot / 64] = 0;
        memset(&c->taken[slot - 63], 0, 64 * sizeof c->taken[0]);
    }
    c->now++;
}

void core_pass_until(struct sim_core *c, int64_t tick)
{
    while (c->now < tick >> TICK_SHIFT)
        pass_cycle(c);
}

/* First cycle >= t in which the port is free. */
static int64_t find_free(const struct sim_core *c, unsigned port, int64_t t)
{
    const uint64_t *bits = c->busy[port];
    for (int64_t end = c->now + RING - 64; t < end;) {
        uint32_t slot = (uint32_t)t & RING_MASK;
        uint64_t open = ~(bits[slot / 64] >> (slot & 63));
        unsigned skip = open ? (unsigned)__builtin_ctzll(open) : 64, left = 64 - (slot & 63);
        if (skip < left)
            return t + skip;
        t += left;
    }
    return t;
}

/* Takes the next `busy` free cycles from t on. They need not be in one piece: an older operation may have its cycles,
 * which it got before it was ready, in between; the real unit would have made it wait. */
static void occupy(struct sim_core *c, unsigned port, int64_t t, unsigned busy)
{
    for (int64_t end = c->now + RING - 64; busy > 0 && t < end; busy--) {
        uint32_t slot = (uint32_t)t & RING_MASK;
        c->busy[port][slot / 64] |= 1ull << (slot & 63);
        c->taken[slot] |= 1u << port;
        if (busy > 1)
            t = find_free(c, port, t + 1);
    }
}

/* The port with the fewest operations before it when this cycle began; of equals another one each time.
 */
static unsigned min_pending(struct sim_core *c, uint32_t ports)
{
    if (c->latched_at != c->now) {
        c->latched_at = c->now;
        memcpy(c->latched_pending, c->pending, sizeof c->latched_pending);
    }
    unsigned *last = &c->last_of[__builtin_ctz(ports)];
    uint32_t min = UINT32_MAX;
    for (; ports; ports &= ports - 1) { /* of equals the one behind the last, and round */
        unsigned p = (unsigned)__builtin_ctz(ports);
        uint32_t rank = c->latched_pending[p] << 5 | ((p - *last - 1) & 31);
        min = rank < min ? rank : min;
    }
    return *last = (min + *last + 1) & 31;
}

/* The one that the fewest operations are bound to: those need the others. */
static unsigned min_demanded(const struct sim_core *c, uint32_t ports)
{
    unsigned best = (unsigned)__builtin_ctz(ports);
    for (ports &= ports - 1; ports; ports &= ports - 1) {
        unsigned p = (unsigned)__builtin_ctz(ports);
        best = c->demand[p] < c->demand[best] ? p : best;
    }
    return best;
}

/* Of those free first the least demanded one. */
static int64_t first_free_port(const struct sim_core *c, uint32_t ports, int64_t t, unsigned *port)
{
    int64_t best = INT64_MAX;
    uint32_t free_now = t < c->now + RING - 64 ? ports & ~c->taken[t & RING_MASK] : ports;
    if (free_now) {
        *port = min_demanded(c, free_now);
        return t;
    }
    for (; ports; ports &= ports - 1) {
        unsigned p = (unsigned)__builtin_ctz(ports);
        int64_t s = find_free(c, p, t);
        if (s < best || (s == best && c->demand[p] < c->demand[*port])) {
            best = s;
            *port = p;
        }
    }
    assert(best < INT64_MAX); /* no operation is without units */
    return best;
}

/* Each set of ports that some operation chooses from asks for each of them the more, the smaller it is. Tells nothing
 * of the order in which a description names its units. */
void sim_find_demand(const struct machine *m, float demand[MACHINE_PORT_MAX])
{
    uint32_t seen[128];
    size_t n = 0;
    for (size_t i = 0; i < m->class_count; i++)
        for (unsigned u = 0; u < m->classes[i].use_count; u++) {
            uint32_t ports = m->classes[i].uses[u].ports;
            size_t k = 0;
            while (k < n && seen[k] != ports)
                k++;
            if (k < n || n == ARRAY_LEN(seen))
                continue;
            seen[n++] = ports;
            for (uint32_t rest = ports; rest; rest &= rest - 1)
                demand[__builtin_ctz(rest)] += 1.0F / (float)__builtin_popcount(ports);
        }
}

static uint32_t ring_slot(const struct sim_core *c, int64_t t)
{
    return (uint32_t)(t < c->now + RING - 64 ? t : c->now + RING - 65) & RING_MASK;
}

int64_t core_start_on(struct sim_core *c, const struct sim_use *u, int64_t ready, uint8_t *unit)
{
    int64_t t = whole_cycle(ready) >> TICK_SHIFT;
    unsigned port = 0;
    int64_t s;
    uint32_t ports = u->queue == QUEUE_SEVERAL ? ports_with_room(c, u->ports) : u->ports;
    ports = ports ? ports : u->ports; /* another part of this instruction took the last place */
    if (c->m->bind_at_dispatch > 0) {
        port = min_pending(c, ports);
        s = find_free(c, port, t);
    } else {
        s = first_free_port(c, ports, t, &port);
    }
    c->owed[port] += u->part;
    unsigned busy = u->busy + (c->owed[port] >= TICK);
    c->owed[port] &= TICK - 1;
    occupy(c, port, s, busy);
    uint32_t slot = ring_slot(c, s), last = ring_slot(c, s + busy - 1);
    if (!(c->ending[last] >> port & 1)) {
        c->ending[last] |= 1u << port;
        c->pending[port]++;
    }
    uint8_t queue = u->queue == QUEUE_SEVERAL ? c->queue_of[port] : u->queue;
    if (queue < QUEUES) {
        c->leaving[queue][slot]++;
        c->waiting[queue]++;
    }
    *unit = s > t ? (uint8_t)port : 255;
    return s << TICK_SHIFT;
}
