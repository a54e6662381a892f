/* SPDX-License-Identifier: Apache-2.0
 *
 * Retirement: in order, each instruction charged with the time since the one before. */
#include "sim/core.h"

void core_charge(struct sim_core *c, uint32_t index, int64_t span, const struct timing *t)
{
    if (c->warm_left) {
        c->warm_left--;
        return;
    }
    struct sim_cost *k = &c->costs[index];
    double cycles = (double)span / TICK;
    k->count++;
    k->cycles += cycles;
    c->total += cycles;
    k->bound[t->bound] += (float)cycles;
    if (t->bound != SIM_BOUND_UNIT || t->unit == 255)
        return;
    if (k->unit == t->unit || k->unit_cycles <= 0) {
        k->unit = t->unit;
        k->unit_cycles += (float)cycles;
    } else {
        k->unit_cycles -= (float)cycles;
    }
}

static void retire(struct sim_core *c, uint32_t index, struct timing *t, bool fused)
{
    int64_t behind = c->retired_at + (fused ? 0 : c->retire_step);
    if (t->done < behind) { /* held up by what retires before it */
        t->bound = c->blocker;
        t->unit = c->blocker_unit;
    }
    c->blocker = t->bound;
    c->blocker_unit = t->unit;
    c->retired_at = later(behind, t->done);
    core_charge(c, index, c->retired_at - c->charged_to, t);
    c->charged_to = c->retired_at;
}

static void take_resources(struct sim_core *c, const struct sim_insn *i, bool shares, enum sim_bound why)
{
    if (c->reorder.size && !shares)
        for (uint32_t n = i->shape->whole_slots; n > 0; n--)
            resource_take(&c->reorder, c->retired_at, why);
    if (i->shape->flags & INSN_INT_RESULT)
        resource_take(&c->int_regs, c->retired_at, why);
    if (i->shape->flags & INSN_VEC_RESULT)
        resource_take(&c->vec_regs, c->retired_at, why);
    if (i->shape->flags & INSN_LOAD)
        resource_take(&c->loads, c->retired_at, why);
    if (i->shape->flags & INSN_STORE)
        resource_take(&c->stores, c->drained_at, why);
}

void core_retire(struct sim_core *c, uint32_t index, const struct sim_insn *i, struct timing *t)
{
    enum sim_bound why = t->bound;
    retire(c, index, t, t->slot != SLOT_OWN);
    if (i->shape->flags & INSN_STORE)
        core_commit_store(c, i, t);
    if (t->slot != SLOT_FUSED)
        take_resources(c, i, t->slot == SLOT_SHARED, why);
}
