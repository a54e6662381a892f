/* SPDX-License-Identifier: Apache-2.0
 *
 * A static instruction, from its bytes to the numbers that the core model works with: looked up once in the machine
 * description, so that a step of the model touches nothing else. */
#include "sim/impl.h"

#include <math.h>

static void take_flags(const struct x86_detail *d, struct sim_shape *out)
{
    const struct x86_insn *i = &d->insn;
    const struct {
        bool is;
        uint32_t flag;
    } flags[] = {
        {d->is_load, INSN_LOAD},
        {d->is_store, INSN_STORE},
        {d->is_vec, INSN_VEC_ACCESS},
        {d->is_serializing, INSN_SERIAL},
        {d->addr_indexed, INSN_INDEXED},
        {d->addr_is_stack, INSN_STACK},
        {x86_is_branch(i), INSN_BRANCH},
        {x86_is_call(i), INSN_CALL},
        {i->kind == X86_RET, INSN_RET},
        {x86_is_indirect(i), INSN_INDIRECT},
        {i->props & X86_PROP_REP, INSN_REP},
        {i->props & X86_PROP_NOP, INSN_NOP},
    };
    for (size_t k = 0; k < ARRAY_LEN(flags); k++)
        out->flags |= flags[k].is ? flags[k].flag : 0;
    for (int k = 0; k < d->write_count; k++) {
        bool is_int = d->writes[k] < X86_REG_VEC0 || d->writes[k] >= X86_REG_FLAGS_C;
        out->flags |= is_int ? INSN_INT_RESULT : INSN_VEC_RESULT;
    }
}

uint8_t sim_queue_of(const struct machine *m, uint32_t ports)
{
    int found = QUEUE_NONE;
    bool is_first = true;
    for (size_t i = 0; i < m->unit_count; i++) {
        if (!(ports >> m->units[i].first_port & 1))
            continue;
        int queue = m->units[i].queue < 0 ? QUEUE_NONE : m->units[i].queue;
        if (!is_first && queue != found)
            return QUEUE_SEVERAL;
        found = queue;
        is_first = false;
    }
    return (uint8_t)found;
}

static struct sim_use make_use(const struct machine *m, const struct machine_use *u)
{
    double busy = u->issue < 1 ? 1 : u->issue;
    uint16_t whole = (uint16_t)busy;
    return (struct sim_use){u->ports, whole, (uint16_t)ticks(busy - whole), sim_queue_of(m, u->ports), {0}};
}

/* Of mul the second register that it writes is the high half, of mulx the first. */
static void take_second(const struct machine_class *c, const struct x86_detail *d, struct sim_shape *out)
{
    if (c->latency_second <= 0)
        return;
    out->second = d->insn.op != X86_OP_MULX;
    out->second_late = (int32_t)ticks(c->latency_second) - (int32_t)ticks(c->latency);
}

/* The first class of the same family, which is its name up to a dot, on the same units; counted from 1. */
static uint16_t kind_of(const struct machine *m, const struct machine_class *c)
{
    size_t len = strcspn(c->name, "."), i = 0;
    for (; &m->classes[i] != c; i++) {
        const struct machine_class *o = &m->classes[i];
        bool is_kin = strncmp(o->name, c->name, len) == 0 && (!o->name[len] || o->name[len] == '.');
        if (is_kin && o->use_count == c->use_count && o->uses[0].ports == c->uses[0].ports)
            break;
    }
    return (uint16_t)(i + 1);
}

static void take_class(const struct machine *m, const struct machine_class *c, const struct x86_detail *d,
                       struct sim_shape *out)
{
    out->flags |= INSN_HAS_OP;
    out->latency = (int32_t)ticks((c->latency + c->latency_high) / 2);
    out->latency_spread = (int32_t)ticks(c->latency_high - c->latency);
    take_second(c, d, out);
    out->kind = kind_of(m, c);
    if (c->latency_flags > 0)
        out->flags_late = (int32_t)ticks(c->latency_flags) - (int32_t)ticks(c->latency);
    if (c->occupies_high > 0 && c->use_count)
        out->occupies_more = (int32_t)ticks(c->occupies_high - c->uses[c->use_count - 1].issue);
    if (c->latency_bypass > 0)
        out->bypass_late = (int32_t)ticks(c->latency_bypass) - (int32_t)ticks(c->latency);
    if (d->is_mov_elim && !c->use_count && c->latency <= 0)
        out->flags |= INSN_MOVED;
    for (unsigned i = 0; i < c->use_count; i++)
        out->uses[out->use_count++] = make_use(m, &c->uses[i]);
}

/* Cycles more for what the address is made of. */
static double address_late(const struct machine *m, const struct x86_detail *d)
{
    if (!d->addr_indexed)
        return 0;
    bool is_complex = d->scale > 1 || d->addr_disp;
    return is_complex && m->complex_latency > m->index_latency ? m->complex_latency : m->index_latency;
}

static void take_load(const struct machine *m, const struct x86_detail *d, struct sim_shape *out)
{
    const struct machine_class *c = machine_access(m, d, false);
    out->load_latency = (int32_t)ticks(c->latency + address_late(m, d));
    out->address_late = (int32_t)ticks(address_late(m, d));
    if (c->use_count)
        out->load = make_use(m, &c->uses[0]);
}

static void take_store(const struct machine *m, const struct x86_detail *d, struct sim_shape *out)
{
    const struct machine_class *c = machine_access(m, d, true);
    for (unsigned i = 0; i < c->use_count && i < ARRAY_LEN(out->store); i++)
        out->store[out->store_use_count++] = make_use(m, &c->uses[i]);
}

static double rule_for(double general, double vec, bool is_vec) { return is_vec && vec >= 0 ? vec : general; }

/* Some cores split what has an index register in its address. */
static double indexed_slots(const struct machine *m, const struct x86_detail *d, bool has_op)
{
    if (!d->addr_indexed || (d->insn.props & X86_PROP_VSIB))
        return 0;
    if (!has_op)
        return d->is_store ? rule_for(m->indexed_store, m->indexed_store_vec, d->is_vec) : 0;
    if (d->is_load && d->is_store)
        return m->indexed_rmw;
    bool new_result =
        d->write_count && d->writes[0] < X86_REG_FLAGS_C && !memchr(d->reads, d->writes[0], d->read_count);
    if (!d->is_load)
        return 0;
    return new_result ? rule_for(m->indexed_new, m->indexed_new_vec, d->is_vec)
                      : rule_for(m->indexed_load, m->indexed_load_vec, d->is_vec);
}

/* Slots of the whole instruction: its operation and, where they do not share a slot, its accesses. */
static double slots_of(const struct machine *m, const struct x86_detail *d, const struct machine_class *op)
{
    double slots = op ? op->slots : 0;
    bool is_rmw = op && d->is_load && d->is_store;
    if (d->is_load && (!op || m->fuse_load == 0))
        slots += machine_access(m, d, false)->slots;
    if (d->is_store && !x86_is_call(&d->insn) && (!op || m->fuse_store == 0 || (d->is_load && !is_rmw)))
        slots += machine_access(m, d, true)->slots;
    return slots + indexed_slots(m, d, op != NULL);
}

static void take_address(const struct x86_detail *d, struct sim_shape *out)
{
    out->addr_count = d->addr_reg_count;
    memcpy(out->addr_regs, d->addr_regs, d->addr_reg_count);
    out->base = d->addr_base;
    out->index = d->addr_index;
    out->scale = d->scale;
    out->bytes = (uint8_t)(d->mem_bytes > 64 ? 64 : d->mem_bytes);
}

static void take_registers(const struct x86_detail *d, struct sim_shape *out)
{
    out->read_count = d->read_count;
    out->write_count = d->write_count;
    memcpy(out->reads, d->reads, d->read_count);
    memcpy(out->writes, d->writes, d->write_count);
    if (d->is_load || d->is_store)
        return;
    for (int k = 0; k < d->addr_reg_count && out->read_count < SIM_READ_MAX; k++) /* lea */
        out->reads[out->read_count++] = d->addr_regs[k];
}

/* A move that the renamer does is only done by it from one register to another. */
static const struct machine_class *class_of(const struct machine *m, const struct x86_detail *d)
{
    const struct machine_class *c = machine_class_of(m, d, NULL), *run;
    bool itself = d->read_count == 1 && d->write_count == 1 && d->reads[0] == d->writes[0];
    if (!c || c->use_count || c->latency > 0 || !itself)
        return c;
    run = machine_class_named(m, d->writes[0] < X86_REG_VEC0 ? "mov" : "vmov");
    return run ? run : c;
}

static bool is_zeroed(const struct machine *m, const struct x86_detail *d)
{
    bool is_vec = d->write_count && d->writes[0] >= X86_REG_VEC0 && d->writes[0] < X86_REG_FLAGS_C;
    return d->is_zero_idiom && rule_for(m->zero_idiom, m->zero_idiom_vec, is_vec) != 0;
}

static void take_slots(const struct machine *m, double slots, struct sim_shape *out)
{
    out->slots = (int32_t)ticks(slots / m->max_issue / m->issue_share);
    double whole = (double)out->slots * m->max_issue * m->issue_share / TICK;
    out->whole_slots = whole < 1.5 ? 1 : whole > 64 ? 64 : (uint8_t)lround(whole);
}

static void take_decoded(const struct machine *m, const struct x86_detail *d, struct sim_shape *out)
{
    const struct machine_class *op = class_of(m, d);
    take_flags(d, out);
    take_address(d, out);
    take_registers(d, out);
    out->len = d->insn.len;
    out->fuse = d->fuse;
    out->cond = d->insn.kind == X86_JCC ? d->insn.cond : 255;
    out->effect = d->effect;
    out->effect_dst = d->effect_dst;
    out->effect_src = d->effect_src;
    out->is_wide = d->op_bits == 64;
    out->is_signed = d->insn.op == X86_OP_IDIV;
    if (is_zeroed(m, d))
        out->flags |= INSN_ZERO;
    else if (op)
        take_class(m, op, d, out);
    if (d->is_load)
        take_load(m, d, out);
    if (d->is_store)
        take_store(m, d, out);
    if (d->is_load && !(out->flags & INSN_HAS_OP))
        out->flags |= INSN_LOAD_RESULT;
    take_slots(m, slots_of(m, d, op), out);
}

int sim_insn_prepare(const struct machine *m, struct sim_shapes *shapes, const uint8_t *bytes, size_t avail,
                     uint64_t addr, struct sim_insn *out)
{
    struct x86_detail d;
    struct sim_shape shape = {.base = X86_REG_NONE,
                              .index = X86_REG_NONE,
                              .effect_dst = X86_REG_NONE,
                              .effect_src = X86_REG_NONE,
                              .cond = 255};
    bool is_known = x86_decode_detail(bytes, avail, addr, &d);
    if (is_known)
        take_decoded(m, &d, &shape);
    else
        take_slots(m, 1, &shape);
    *out = (struct sim_insn){addr, is_known ? d.imm : 0, is_known ? d.addr_disp : 0, sim_shapes_keep(shapes, &shape)};
    return is_known ? 0 : -1;
}
