/* SPDX-License-Identifier: Apache-2.0
 *
 * Execution: an instruction runs as its parts, load, operation and store. */
#include "sim/core.h"

#include <math.h>

/* Bits of the operand's amount. */
static int length_of(const struct sim_insn *i, uint64_t v)
{
    v = i->shape->is_wide ? v : i->shape->is_signed ? (uint64_t)(int32_t)v : (uint32_t)v;
    v = i->shape->is_signed && (int64_t)v < 0 ? -v : v;
    return v ? 64 - __builtin_clzll(v) : 1;
}

/* How unfavourable the operands of a division are, from 0 to 1: by the length of the quotient, whose digits are found
 * one after the other, between the two that calibration times, of some 10 bits and of nearly all. Negative: the
 * registers are not known to be those of the program, or the divisor is in memory. */
static double division_length(const struct sim_core *c, const struct sim_insn *i)
{
    enum { SHORT = 10, LEFT = 7 };
    unsigned divisor = X86_REG_NONE;
    for (unsigned k = 0; k < i->shape->read_count; k++)
        if (i->shape->reads[k] < X86_GPR_COUNT && i->shape->reads[k] != X86_RAX && i->shape->reads[k] != X86_RDX)
            divisor = i->shape->reads[k];
    if (!c->regs_true || divisor == X86_REG_NONE)
        return -1;
    int bits = length_of(i, c->values.reg[X86_RAX]) - length_of(i, c->values.reg[divisor]) + 1;
    double share = (double)(bits - SHORT) / ((i->shape->is_wide ? 64 : 32) - LEFT - SHORT);
    return fmin(fmax(share, 0), 1);
}

/* Operation on its operands; returns when its result is there. */
static int64_t run_op(struct sim_core *c, const struct sim_insn *i, int64_t loaded, struct timing *t)
{
    bool from_load = false;
    int64_t ready = operands_ready(c, i, &from_load);
    if (loaded >= ready) {
        ready = loaded;
        from_load = loaded > 0;
    }
    ready = later(ready, t->earliest);
    const struct sim_insn *units = i;
    uint32_t jump = c->jump_of[i - c->insns];
    if (jump && i->shape->use_count == 1)
        units = &c->insns[jump - 1];
    int64_t last = i->shape->use_count ? 0 : ready; /* without a unit: eliminated, nothing waits for a whole cycle */
    double length = i->shape->latency_spread ? division_length(c, i) : -1;
    int64_t latency = i->shape->latency + (length >= 0 ? (int64_t)((length - 0.5) * i->shape->latency_spread) : 0);
    for (unsigned k = 0; k < units->shape->use_count; k++) {
        uint8_t unit = 255;
        struct sim_use use = units->shape->uses[k];
        if (length > 0 && k + 1 == units->shape->use_count)
            use = longer(use, length * i->shape->occupies_more / TICK);
        int64_t start = core_start_on(c, &use, ready, &unit);
        note_wait(t, start, ready, from_load, unit);
        last = later(last, start);
    }
    if (!i->shape->use_count)
        note_wait(t, ready, ready, from_load, 255);
    return last + latency;
}

int64_t core_run_rep(struct sim_core *c, const struct sim_insn *i, uint32_t flags, struct timing *t)
{
    uint32_t n = flags >> SIM_REPEAT_SHIFT;
    double bytes = (double)(n ? n : REP_UNKNOWN) * i->shape->bytes;
    bool from_load = false;
    int64_t ready = later(operands_ready(c, i, &from_load), t->earliest);
    int64_t done = ready + ticks(c->m->rep_start + (c->m->rep_bytes > 0 ? bytes / c->m->rep_bytes : 0));
    c->dispatch_at = later(c->dispatch_at, done);
    t->bound = SIM_BOUND_UNIT;
    return done;
}

int64_t core_execute(struct sim_core *c, const struct sim_insn *i, uint32_t flags, struct timing *t)
{
    int64_t loaded = 0, value_ready = 0;
    if (i->shape->flags & INSN_REP) {
        t->done = core_run_rep(c, i, flags, t);
        write_results(c, i, t->done);
        return t->done;
    }
    if (i->shape->flags & INSN_LOAD)
        loaded = core_run_load(c, i, t);
    int64_t result = loaded;
    if (i->shape->flags & INSN_HAS_OP) {
        result = run_op(c, i, loaded, t);
    } else if (!(i->shape->flags & INSN_LOAD)) {
        bool from_load = false;
        result = later(operands_ready(c, i, &from_load), t->earliest);
        if (!(i->shape->flags & INSN_STORE))
            note_wait(t, result, result, from_load, 255);
    }
    t->done = later(whole_cycle(result), t->earliest);
    if (i->shape->flags & INSN_STORE)
        t->done =
            later(t->done, core_run_store(c, i, i->shape->flags & INSN_CALL ? t->earliest : result, t, &value_ready));
    write_results(c, i, result);
    return value_ready;
}
