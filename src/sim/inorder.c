/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of a core that issues in order. */
#include "sim/core.h"

/* In order each part issues on its own, when its operands and its unit are there. */
static int64_t issue_in_order(struct sim_core *c, const struct sim_use *u, int64_t ready, bool from_load,
                              struct timing *t)
{
    uint8_t unit = 255;
    int64_t start = later(ready, c->dispatch_at);
    if (u && u->ports) /* beside what was issued in this cycle already */
        start = core_start_on(c, u, later(ready, cycle_of_slot(c->dispatch_at)), &unit);
    t->earliest = c->dispatch_at;
    note_wait(t, start, ready, from_load, unit);
    c->dispatch_at = slot_behind(c->dispatch_at, start, c->m->max_issue);
    pass_until(c, start);
    return start;
}

void core_step_in_order(struct sim_core *c, uint32_t index, const struct sim_insn *i, uint32_t flags, struct timing *t)
{
    static const struct sim_use nothing;
    bool from_load = false;
    int64_t loaded = 0, start = 0, result = 0;
    stall(c, core_fetch(c, i, false), SIM_BOUND_FETCH);
    if (i->shape->flags & INSN_LOAD) {
        int64_t ready = address_ready(c, i, &from_load);
        loaded = result = issue_in_order(c, &i->shape->load, ready, from_load, t) + i->shape->load_latency;
    }
    bool only_access = !(i->shape->flags & INSN_HAS_OP) && (i->shape->flags & (INSN_LOAD | INSN_STORE));
    int64_t ready = later(loaded, operands_ready(c, i, &from_load));
    if (!only_access) {
        start = issue_in_order(c, i->shape->use_count ? &i->shape->uses[0] : &nothing, ready,
                               from_load || loaded == ready, t);
        result = start + i->shape->latency;
    }
    for (unsigned k = 1; k < i->shape->use_count; k++)
        result = later(result, core_start_on(c, &i->shape->uses[k], start, &(uint8_t){0}) + i->shape->latency);
    if (i->shape->flags & INSN_STORE)
        issue_in_order(c, i->shape->store_use_count ? &i->shape->store[0] : &nothing,
                       later(only_access ? ready : result, address_ready(c, i, &from_load)), from_load, t);
    if (i->shape->flags & INSN_REP)
        core_run_rep(c, i, flags, t);
    write_results(c, i, result);
    core_charge(c, index, c->dispatch_at - c->charged_to, t);
    c->charged_to = c->dispatch_at;
    c->fetch_at = later(c->fetch_at, c->dispatch_at);
    if (flags & (SIM_TAKEN | SIM_MISPREDICTED))
        core_after_branch(c, i, flags, c->dispatch_at);
}
