/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers and memory with numbers in them, so that addresses which plain arithmetic makes equal are found equal
 * without a trace of addresses: moves, lea, add and sub, push, pop and reloads are executed, whatever else writes a
 * register leaves a fresh random number there. Two accesses meet by chance once in 2^60. */
#include "sim/impl.h"

static uint64_t fresh(struct sim_values *v)
{
    uint64_t x = v->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) & ~(uint64_t)63; /* unknown pointers are taken as aligned */
}

void sim_values_init(struct sim_values *v, uint32_t seed)
{
    memset(v->memory, 0, sizeof v->memory);
    v->state = seed;
    for (int r = 0; r < 16; r++)
        v->reg[r] = fresh(v);
}

static uint64_t operand(const struct sim_values *v, const struct sim_insn *i)
{
    uint64_t a = (uint64_t)i->disp;
    if (i->shape->base == X86_REG_RIP)
        a += i->addr;
    else if (i->shape->base < 16)
        a += v->reg[i->shape->base];
    if (i->shape->index < 16)
        a += v->reg[i->shape->index] * i->shape->scale;
    return a;
}

uint64_t sim_values_address(const struct sim_values *v, const struct sim_insn *i)
{
    if (i->shape->effect == X86_EFFECT_LEAVE)
        return v->reg[X86_RBP];
    if (i->shape->effect == X86_EFFECT_PUSH && i->shape->base == X86_RSP && !(i->shape->flags & INSN_LOAD))
        return v->reg[X86_RSP] - 8;
    return operand(v, i);
}

static size_t slot_of(uint64_t addr) { return (addr * 0x9e3779b97f4a7c15u) >> 52 & (VALUE_CACHE - 1); }

static void remember(struct sim_values *v, uint64_t addr, uint64_t value)
{
    v->memory[slot_of(addr)].addr = addr;
    v->memory[slot_of(addr)].value = value;
}

static uint64_t recall(struct sim_values *v, uint64_t addr)
{
    size_t s = slot_of(addr);
    if (v->memory[s].addr != addr)
        remember(v, addr, fresh(v));
    return v->memory[s].value;
}

static void push(struct sim_values *v, const struct sim_insn *i)
{
    v->reg[X86_RSP] -= 8;
    remember(v, v->reg[X86_RSP], i->shape->effect_src < 16 ? v->reg[i->shape->effect_src] : fresh(v));
}

static void pop(struct sim_values *v, const struct sim_insn *i)
{
    uint64_t value = recall(v, v->reg[X86_RSP]);
    v->reg[X86_RSP] += 8 + (uint64_t)i->imm;
    if (i->shape->effect_dst < 16)
        v->reg[i->shape->effect_dst] = value;
}

static void leave(struct sim_values *v)
{
    v->reg[X86_RSP] = v->reg[X86_RBP] + 8;
    v->reg[X86_RBP] = recall(v, v->reg[X86_RBP]);
}

void sim_values_step(struct sim_values *v, const struct sim_insn *i, uint64_t addr)
{
    switch ((enum x86_effect)i->shape->effect) {
    case X86_EFFECT_COPY:
        v->reg[i->shape->effect_dst] = v->reg[i->shape->effect_src];
        return;
    case X86_EFFECT_CONST:
        v->reg[i->shape->effect_dst] = (uint64_t)i->imm;
        return;
    case X86_EFFECT_ADD_IMM:
        v->reg[i->shape->effect_dst] += (uint64_t)i->imm;
        return;
    case X86_EFFECT_ADD_REG:
        v->reg[i->shape->effect_dst] += v->reg[i->shape->effect_src];
        return;
    case X86_EFFECT_LEA:
        v->reg[i->shape->effect_dst] = operand(v, i);
        return;
    case X86_EFFECT_LOAD:
        v->reg[i->shape->effect_dst] = recall(v, addr);
        return;
    case X86_EFFECT_STORE:
        remember(v, addr, v->reg[i->shape->effect_src]);
        return;
    case X86_EFFECT_PUSH:
        push(v, i);
        return;
    case X86_EFFECT_POP:
        pop(v, i);
        return;
    case X86_EFFECT_LEAVE:
        leave(v);
        return;
    case X86_EFFECT_OTHER:
        for (int k = 0; k < i->shape->write_count; k++)
            if (i->shape->writes[k] < 16)
                v->reg[i->shape->writes[k]] = fresh(v);
        return;
    }
}
