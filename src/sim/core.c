/* SPDX-License-Identifier: Apache-2.0
 *
 * The core model: a stream of prepared instructions to cycles. It walks the stream once, in program order, through the
 * stages (fetch.c, dispatch.c, execute.c with issue.c and memory.c, retire.c; inorder.c instead of them), and gives
 * every instruction its times of fetch, dispatch, start, end and retirement; what is shared (units, schedulers, the
 * reorder buffer, registers, queues of loads and stores) is kept as reservation tables by cycle, so that an instruction
 * may start before older ones. An older instruction always has its place on a unit before a younger one asks. Every
 * access hits the first-level cache; branches are predicted unless the caller says otherwise. The time between an
 * instruction's retirement and that of the one before is charged to it: the charges add up. */
#include "sim/core.h"

#include <assert.h>
#include <stdlib.h>

const char *sim_bound_name(enum sim_bound b)
{
    static const char *const names[] = {"width", "fetch", "chain", "load", "unit"};
    return b < SIM_BOUND_COUNT ? names[b] : "?";
}

/* ---- steps ---- */

static void find_addresses(struct sim_core *c, const struct sim_insn *i, uint64_t addr, struct timing *t)
{
    if (!addr && (i->shape->flags & (INSN_LOAD | INSN_STORE)))
        addr = sim_values_address(&c->values, i);
    t->load_addr = t->store_addr = addr;
    if (i->shape->effect == X86_EFFECT_PUSH && (i->shape->flags & INSN_LOAD))
        t->store_addr = c->values.reg[X86_RSP] - 8;
}

static void step_out_of_order(struct sim_core *c, uint32_t index, const struct sim_insn *i, uint32_t flags,
                              struct timing *t)
{
    core_dispatch(c, i, t);
    if (t->slot == SLOT_FUSED) { /* runs with the comparison, on the jump's unit: known from the second time on */
        c->jump_of[c->fused_first] = index + 1;
        t->done = later(t->earliest, operands_ready(c, i, &(bool){false}));
    } else {
        t->value_ready = core_execute(c, i, flags, t);
    }
    core_retire(c, index, i, t);
    if (flags & (SIM_TAKEN | SIM_MISPREDICTED))
        core_after_branch(c, i, flags, t->done);
}

void sim_core_step(struct sim_core *c, uint32_t index, uint64_t addr, uint32_t flags)
{
    const struct sim_insn *i = &c->insns[index];
    struct timing t = {.bound = SIM_BOUND_WIDTH, .unit = 255};
    assert(index < c->count); /* the table is the caller's */
    find_addresses(c, i, addr, &t);
    find_target(c, index);
    if (c->m->in_order)
        core_step_in_order(c, index, i, flags, &t);
    else
        step_out_of_order(c, index, i, flags, &t);
    sim_values_step(&c->values, i, t.load_addr);
    c->fused_first = i->shape->fuse ? index : ID_NONE;
}

void sim_core_set_reg(struct sim_core *c, unsigned reg, uint64_t value) { c->values.reg[reg & 15] = value; }

void sim_core_set_regs(struct sim_core *c, const uint64_t regs[16])
{
    c->regs_true = true;
    memcpy(c->values.reg, regs, sizeof c->values.reg);
}

/* ---- life ---- */

static void resource_init(struct resource *p, double size)
{
    p->size = size > 0 ? (uint32_t)size : 0;
    p->free_at = p->size ? xmalloc(p->size * sizeof *p->free_at) : NULL;
    p->label = p->size ? xmalloc(p->size) : NULL;
}

static void resource_reset(struct resource *p)
{
    if (p->size)
        memset(p->free_at, 0, p->size * sizeof *p->free_at);
    p->head = 0;
}

static void resource_fini(struct resource *p)
{
    free(p->free_at);
    free(p->label);
}

static void rewind_clock(struct sim_core *c)
{
    memset(c->ready, 0, sizeof c->ready);
    memset(c->bypass_late, 0, sizeof c->bypass_late);
    memset(c->busy, 0, sizeof c->busy);
    memset(c->taken, 0, sizeof c->taken);
    memset(c->owed, 0, sizeof c->owed);
    memset(c->ending, 0, sizeof c->ending);
    memset(c->leaving, 0, c->m->queue_count * sizeof c->leaving[0]);
    memset(c->waiting, 0, sizeof c->waiting);
    memset(c->pending, 0, sizeof c->pending);
    memset(c->stored, 0, sizeof c->stored);
    struct resource *all[] = {&c->reorder, &c->int_regs, &c->vec_regs, &c->loads, &c->stores, &c->fetched};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        resource_reset(all[i]);
    c->fetch_block_ops = c->fetch_block_max = 0;
    c->shared = c->at_target = false;
    c->now = c->fetch_at = c->cycle_at = c->last_taken = c->dispatch_at = c->drained_at = c->retired_at =
        c->charged_to = 0;
    c->latched_at = -1;
    c->redirected = true;
    c->fused_first = c->jumped = c->taken_last = ID_NONE;
    c->before = EXCLUSIVE;
    c->renamed_at[0] = c->renamed_at[1] = -1;
    c->drained_line = UINT64_MAX;
    c->blocker = SIM_BOUND_WIDTH;
    c->blocker_unit = 255;
}

void sim_core_reset_pipeline(struct sim_core *c, uint32_t warm)
{
    rewind_clock(c);
    c->regs_true = false;
    sim_values_init(&c->values, (uint32_t)c->values.state | 1);
    c->warm_left = warm;
}

struct sim_core *sim_core_new(const struct machine *m, const struct sim_insn *insns, size_t count,
                              const struct sim_options *options)
{
    struct sim_core *c = xmalloc(sizeof *c);
    c->m = m;
    c->insns = insns;
    c->count = count;
    c->costs = xmalloc_sparse(count * sizeof *c->costs);
    c->jump_of = xmalloc_sparse(count * sizeof *c->jump_of);
    c->stored_by = xmalloc_sparse(count * sizeof *c->stored_by);
    c->targets = xmalloc_sparse(count * sizeof *c->targets);
    c->successors = xmalloc_sparse(count * sizeof *c->successors);
    for (unsigned p = 0; p < machine_port_count(m); p++)
        c->queue_of[p] = sim_queue_of(m, 1u << p);
    sim_find_demand(c->m, c->demand);
    resource_init(&c->reorder, m->rob);
    resource_init(&c->int_regs, m->int_regs);
    resource_init(&c->vec_regs, m->vec_regs);
    resource_init(&c->loads, m->load_queue);
    resource_init(&c->stores, m->store_queue);
    resource_init(&c->fetched, m->fetch_queue);
    c->start_delay = ticks(m->start_delay);
    c->retire_step = ticks(1 / (m->retire_width > 0 ? m->retire_width : m->max_issue));
    c->seed = options && options->seed ? options->seed : 1;
    sim_values_init(&c->values, c->seed);
    rewind_clock(c);
    return c;
}

void sim_core_restart(struct sim_core *c)
{
    memset(c->costs, 0, c->count * sizeof *c->costs);
    memset(c->jump_of, 0, c->count * sizeof *c->jump_of);
    memset(c->stored_by, 0, c->count * sizeof *c->stored_by);
    memset(c->targets, 0, c->count * sizeof *c->targets);
    memset(c->successors, 0, c->count * sizeof *c->successors);
    memset(c->legacy_lines, 0, sizeof c->legacy_lines);
    memset(c->last_of, 0, sizeof c->last_of);
    c->total = 0;
    c->legacy = c->regs_true = false;
    sim_values_init(&c->values, c->seed);
    rewind_clock(c);
}

void sim_core_free(struct sim_core *c)
{
    if (!c)
        return;
    struct resource *all[] = {&c->reorder, &c->int_regs, &c->vec_regs, &c->loads, &c->stores, &c->fetched};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        resource_fini(all[i]);
    xfree_sparse(c->costs);
    xfree_sparse(c->jump_of);
    xfree_sparse(c->stored_by);
    xfree_sparse(c->targets);
    xfree_sparse(c->successors);
    free(c);
}

/* Nothing waits in the model: each step charged its instruction up to its retirement. The stretch only ends. */
void sim_core_flush(struct sim_core *c) { sim_core_reset_pipeline(c, 0); }

double sim_core_cycles(const struct sim_core *c) { return c->total; }

const struct sim_cost *sim_core_costs(const struct sim_core *c) { return c->costs; }
