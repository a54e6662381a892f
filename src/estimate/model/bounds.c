/* SPDX-License-Identifier: Apache-2.0
 *
 * bounds: what bound the executions of a block: a chain, a load, a unit, the width, the front end. */
#include "estimate/model/walk.h"

#include <math.h>

static double cycles_of(const struct sim_cost *c) { return c->count ? c->cycles / (double)c->count : 0; }

static void add_bound(const struct walks *w, uint32_t block, const struct sim_cost *c, struct bound_sums *to)
{
    double times = c->count ? (double)w->j->counts[block] / (double)c->count : 0;
    for (int b = 0; b < SIM_BOUND_COUNT; b++)
        to->by[b] += times * (double)c->bound[b];
    if (c->unit < MACHINE_PORT_MAX)
        to->by_port[c->unit] += times * (double)c->unit_cycles;
}

void walks_add_bound(const struct walks *w, uint32_t block, struct bound_sums *to)
{
    for (uint32_t i = 0; w->first[block] && i < walk_block(w->j, block)->insn_count; i++)
        add_bound(w, block, sim_core_costs(sim_feed_core(w->core)) + w->first[block] + i, to);
}

double walks_add_bound_of(const struct walks *w, uint32_t block, uint32_t n, struct bound_sums *to)
{
    double all = 0;
    const struct sim_cost *c = sim_core_costs(sim_feed_core(w->core)) + w->first[block];
    for (uint32_t i = 0; w->first[block] && i < walk_block(w->j, block)->insn_count; i++)
        all += cycles_of(&c[i]);
    if (!(all > 0) || n >= walk_block(w->j, block)->insn_count)
        return NAN;
    add_bound(w, block, &c[n], to);
    return cycles_of(&c[n]) / all;
}

/* Ports of one unit are one name. */
static const char *heaviest_unit(const struct walks *w, const struct bound_sums *s)
{
    const char *best = NULL;
    double max = 0;
    for (unsigned p = 0; p < machine_port_count(w->m); p++) {
        double sum = 0;
        for (unsigned q = 0; q < machine_port_count(w->m); q++)
            if (strcmp(machine_port_name(w->m, p), machine_port_name(w->m, q)) == 0)
                sum += s->by_port[q];
        if (sum > max) {
            max = sum;
            best = machine_port_name(w->m, p);
        }
    }
    return best;
}

const char *walks_bound_name(const struct walks *w, const struct bound_sums *s, struct arena *a)
{
    int best = 0;
    for (int b = 1; b < SIM_BOUND_COUNT; b++)
        if (s->by[b] > s->by[best])
            best = b;
    if (!(s->by[best] > 0))
        return NULL;
    const char *unit = best == SIM_BOUND_UNIT ? heaviest_unit(w, s) : NULL;
    if (unit)
        return arena_printf(a, "unit %s", unit);
    return best == SIM_BOUND_FETCH ? "front end" : arena_strdup(a, sim_bound_name((enum sim_bound)best));
}
