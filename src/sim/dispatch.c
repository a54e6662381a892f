/* SPDX-License-Identifier: Apache-2.0
 *
 * Renaming and dispatch: fusion, slots, and what an instruction must have a free place of. */
#include "sim/core.h"

/* By condition code: does the jump read only what the first instruction may be fused for? cmp, add and sub: carry,
 * zero, below, signed comparisons; inc and dec leave the carry; test and and go with all. */
static bool conditions_fit(uint8_t fuse, uint8_t cond)
{
    unsigned kind = cond >> 1; /* 0 O, 1 C, 2 Z, 3 BE, 4 S, 5 P, 6 L, 7 LE */
    switch (fuse) {
    case X86_FUSE_TEST:
        return true;
    case X86_FUSE_CMP:
    case X86_FUSE_ALU:
        return kind == 1 || kind == 2 || kind == 3 || kind == 6 || kind == 7;
    case X86_FUSE_INC:
        return kind == 2 || kind == 6 || kind == 7;
    default:
        return false;
    }
}

static bool is_fused(const struct sim_core *c, const struct sim_insn *jump)
{
    const double allowed[] = {0, c->m->fuse_test, c->m->fuse_cmp, c->m->fuse_alu, c->m->fuse_inc};
    if (jump->shape->cond == 255 || c->fused_first == ID_NONE)
        return false;
    const struct sim_insn *first = &c->insns[c->fused_first];
    if (jump->addr % 64 == 0 && c->m->fuse_across <= 0)
        return false;
    return allowed[first->shape->fuse] > 0 && first->addr + first->shape->len == jump->addr &&
           conditions_fit(first->shape->fuse, jump->shape->cond);
}

static void wait_resource(struct sim_core *c, const struct resource *p)
{
    if (p->size)
        stall(c, p->free_at[p->head], (enum sim_bound)p->label[p->head]);
}

static void wait_queue(struct sim_core *c, const struct sim_use *u)
{
    if (!u->ports || u->queue == QUEUE_NONE)
        return;
    while (u->queue == QUEUE_SEVERAL ? !ports_with_room(c, u->ports) : !has_room(c, u->queue)) {
        stall(c, (c->now + 1) << TICK_SHIFT, c->blocker);
        pass_until(c, c->dispatch_at);
    }
}

/* A nop shares the slot of the instruction before it or, if that one has a partner, of the one behind it. */
static bool shares_slot(struct sim_core *c, const struct sim_insn *i, bool fused)
{
    if (c->m->fuse_nop <= 0)
        return false;
    bool is_nop = i->shape->flags & INSN_NOP, is_one = !fused && i->shape->whole_slots == 1;
    bool shares = is_one && !c->redirected && (is_nop ? c->before != EXCLUSIVE : c->before == OPEN_NOP);
    c->before = shares || !is_one ? EXCLUSIVE : is_nop ? OPEN_NOP : OPEN;
    return shares;
}

/* What renaming does itself, it does only so often in a cycle. */
static void wait_renaming(struct sim_core *c, const struct sim_insn *i)
{
    unsigned kind = i->shape->flags & INSN_ZERO ? 0 : 1;
    double limit = kind == 0 ? c->m->zero_limit : c->m->move_limit;
    if (!(i->shape->flags & (INSN_ZERO | INSN_MOVED)) || limit <= 0)
        return;
    if (c->renamed_at[kind] == c->dispatch_at >> TICK_SHIFT && c->renamed[kind] >= limit)
        stall(c, (c->renamed_at[kind] + 1) << TICK_SHIFT, SIM_BOUND_WIDTH);
    if (c->renamed_at[kind] != c->dispatch_at >> TICK_SHIFT)
        c->renamed[kind] = 0;
    c->renamed_at[kind] = c->dispatch_at >> TICK_SHIFT;
    c->renamed[kind]++;
}

/* fused: part of the comparison before it. shares: in the slot of an instruction beside it. */
static int64_t dispatch(struct sim_core *c, const struct sim_insn *i, bool fused, bool shares)
{
    c->dispatch_bound = SIM_BOUND_WIDTH;
    stall(c, core_fetch(c, i, fused || shares), SIM_BOUND_FETCH);
    if (fused)
        return c->dispatch_at;
    if (!shares)
        wait_resource(c, &c->reorder);
    if (i->shape->flags & INSN_INT_RESULT)
        wait_resource(c, &c->int_regs);
    if (i->shape->flags & INSN_VEC_RESULT)
        wait_resource(c, &c->vec_regs);
    if (i->shape->flags & INSN_LOAD)
        wait_resource(c, &c->loads);
    if (i->shape->flags & INSN_STORE)
        wait_resource(c, &c->stores);
    if (i->shape->flags & INSN_SERIAL)
        stall(c, c->retired_at, SIM_BOUND_CHAIN);
    pass_until(c, c->dispatch_at);
    for (unsigned k = 0; k < i->shape->use_count; k++)
        wait_queue(c, &i->shape->uses[k]);
    wait_queue(c, &i->shape->load);
    wait_renaming(c, i);
    int64_t at = c->dispatch_at;
    if (shares)
        return at;
    c->dispatch_at += i->shape->slots;
    for (uint32_t n = i->shape->whole_slots; n > 0; n--)
        resource_take(&c->fetched, at, SIM_BOUND_WIDTH);
    return at;
}

void core_dispatch(struct sim_core *c, const struct sim_insn *i, struct timing *t)
{
    bool fused = is_fused(c, i);
    bool shares = shares_slot(c, i, fused);
    t->slot = fused ? SLOT_FUSED : shares ? SLOT_SHARED : SLOT_OWN;
    t->earliest = dispatch(c, i, fused, shares) + c->start_delay;
    t->bound = c->dispatch_bound;
}
