/* SPDX-License-Identifier: Apache-2.0
 *
 * Pointers to functions that never leave a variable. A function whose address is only ever stored into variables that
 * are reached by their names alone, and loaded from these only to be called or compared, is called by those calls and
 * nobody else: it gets arcs in place of being entered by anybody. What is loaded is followed through its register, in
 * all ways the function may go on, until that is overwritten.
 */
#include "ld/promote/promote.h"

#include <stdlib.h>

#define BIT(r) ((uint16_t)(1u << (r)))
enum { FOLLOWED_MAX = 300, SINKS_MAX = 4 };

struct pointers {
    struct promote_facts *f;
    const struct cfg *c;
    VEC(uint32_t) work;   /* instructions from where on a register is to be followed */
    VEC(uint32_t) seen;   /* blocks whose beginning was reached */
    VEC(uint32_t) calls;  /* pairs: a variable, a function that calls through it */
    VEC(uint32_t) values; /* pairs: a variable, a function whose address it may hold */
    bool *is_confined;    /* [variables] */
    uint32_t sinks[SINKS_MAX];
    unsigned sink_count;
    bool leaks, calls_it;
};

static bool is_fixed(const struct x86_insn *i)
{
    return i->mem_index == X86_REG_NONE &&
           (i->props & X86_PROP_RIPREL || (i->props & X86_PROP_ABS32 && i->mem_base == X86_REG_NONE)) &&
           !(i->props & (X86_PROP_LEA | X86_PROP_SEG | X86_PROP_LOCK));
}

static uint32_t variable_at(const struct promote_facts *f, uint64_t addr)
{
    size_t i = PARTITION_POINT(k, 0, f->variables.len, f->variables.data[k].addr < addr);
    return i < f->variables.len && f->variables.data[i].addr == addr ? (uint32_t)i : ID_NONE;
}

/* A mov of all 8 bytes of a register, or of a number, into a variable; ID_NONE: it is none. */
static uint32_t stored_to(const struct pointers *p, const struct x86_insn *i)
{
    bool is_store = i->op == X86_OP_MOV && i->stores == 1 && i->loads == 0 && i->op_bytes == 8 && is_fixed(i);
    return is_store ? variable_at(p->f, i->target) : ID_NONE;
}

/* What an instruction that reads register r does with it. */
static void take_use(struct pointers *p, const struct x86_insn *i, unsigned r)
{
    bool is_address = i->mem_base == r || i->mem_index == r;
    if ((i->kind == X86_CALL_IND || i->kind == X86_JMP_IND) && i->loads == 0) {
        p->calls_it = true;
        return;
    }
    if ((i->op == X86_OP_CMP || i->op == X86_OP_TEST) && !is_address)
        return;
    uint32_t to = i->gpr_read == BIT(r) ? stored_to(p, i) : ID_NONE;
    if (to == ID_NONE || p->sink_count == SINKS_MAX)
        p->leaks = true;
    else
        p->sinks[p->sink_count++] = to;
}

/* Nobody reads it behind a call of another function, nor where that begins: it is no argument and not kept. */
static bool is_gone_at_call(unsigned r) { return r == X86_RAX || r == X86_R11; }

static bool is_kept_by_calls(unsigned r) { return r == X86_RBX || r == X86_RBP || r >= X86_R12; }

static void go_on(struct pointers *p, uint32_t block)
{
    for (size_t i = 0; i < p->seen.len; i++)
        if (p->seen.data[i] == block)
            return;
    VEC_PUSH(&p->seen, block);
    VEC_PUSH(&p->work, p->c->blocks.data[block].insn_first);
}

/* Behind the block that ends in i. Who is called through r takes it for none of its arguments. */
static void leave_block(struct pointers *p, const struct cfg_block *b, const struct x86_insn *i, unsigned r)
{
    bool is_through = (i->kind == X86_CALL_IND || i->kind == X86_JMP_IND) && i->loads == 0 && i->gpr_read >> r & 1;
    if (i->kind == X86_TRAP || (i->kind == X86_RET && r != X86_RAX && r != X86_RDX))
        return;
    if (x86_is_call(i) && !is_kept_by_calls(r)) {
        p->leaks |= !is_through && !is_gone_at_call(r);
        return;
    }
    if (i->kind == X86_RET || i->kind == X86_JMP_IND) {
        p->leaks |= !is_through && !(i->kind == X86_JMP_IND && is_gone_at_call(r));
        return;
    }
    for (uint32_t e = b->edge_first; e < b->edge_first + b->edge_count; e++) {
        const struct cfg_edge *edge = &p->c->edges.data[e];
        if (edge->to == ID_NONE || edge->kind == CFG_EDGE_TAIL)
            p->leaks |= !is_gone_at_call(r);
        else
            go_on(p, edge->to);
    }
}

/* Register r from instruction `insn` on, in function `fn`. */
static void follow(struct pointers *p, const struct cfg_func *fn, uint32_t insn, unsigned r)
{
    unsigned followed = 0;
    p->leaks = p->calls_it = fn->reason != CFG_REASON_OK;
    p->sink_count = 0;
    p->seen.len = p->work.len = 0;
    if (!p->leaks && insn < fn->insn_first + fn->insn_count)
        VEC_PUSH(&p->work, insn);
    while (p->work.len && !p->leaks) {
        uint32_t k = p->work.data[--p->work.len];
        const struct cfg_block *b = &p->c->blocks.data[cfg_block_of(p->c, k)];
        for (uint32_t end = b->insn_first + b->insn_count; k < end && !p->leaks; k++) {
            struct x86_insn i = cfg_insn(p->c, k);
            p->leaks |= ++followed > FOLLOWED_MAX;
            if (i.kind == X86_SYSCALL)
                p->leaks |= r != X86_RAX && r != X86_RCX && r != X86_R11 && !is_kept_by_calls(r);
            else if (i.gpr_read >> r & 1)
                take_use(p, &i, r);
            if (x86_kills_gpr(&i, r))
                break;
            p->leaks |= (i.gpr_written >> r & 1) && i.kind != X86_SYSCALL;
            if (k + 1 == end)
                leave_block(p, b, &i, r);
        }
    }
}

/* The general register that a load or lea of a whole one writes; X86_REG_NONE. */
static unsigned written_by(const struct x86_insn *i)
{
    for (unsigned r = 0; r < X86_GPR_COUNT; r++)
        if (i->gpr_written == BIT(r))
            return r;
    return X86_REG_NONE;
}

/* Nothing that is loaded of the variable goes anywhere else. */
static void take_access(struct pointers *p, const struct promote_access *a)
{
    uint32_t k = cfg_insn_at(p->c, a->addr);
    struct x86_insn i = cfg_insn(p->c, k);
    bool *is_confined = &p->is_confined[a->variable], calls = false;
    if (stored_to(p, &i) != ID_NONE)
        return;
    if (i.kind == X86_CALL_IND || i.kind == X86_JMP_IND) {
        calls = true;
    } else if (i.op == X86_OP_MOV && a->loads && !a->stores && i.op_bytes == 8 && written_by(&i) != X86_REG_NONE) {
        follow(p, &p->c->funcs.data[a->function], k + 1, written_by(&i));
        *is_confined &= !p->leaks && !p->sink_count;
        calls = p->calls_it;
    } else if (i.op != X86_OP_CMP && i.op != X86_OP_TEST) {
        *is_confined = false;
    }
    if (calls) {
        VEC_PUSH(&p->calls, a->variable);
        VEC_PUSH(&p->calls, a->function);
    }
}

static void hold(struct pointers *p, uint32_t variable, uint32_t function)
{
    VEC_PUSH(&p->values, variable);
    VEC_PUSH(&p->values, function);
}

/* Does this address go into confined variables alone? */
static bool is_held(struct pointers *p, const struct promote_taken *t)
{
    if (t->by == ID_NONE) {
        uint32_t v = variable_at(p->f, t->at);
        if (v == ID_NONE || !p->is_confined[v])
            return false;
        hold(p, v, t->function);
        return true;
    }
    uint32_t k = cfg_insn_at(p->c, t->at);
    if (k == ID_NONE)
        return false;
    struct x86_insn i = cfg_insn(p->c, k);
    uint32_t to = stored_to(p, &i);
    unsigned r = written_by(&i);
    if (i.op == X86_OP_CMP && i.imm_len)
        return true;
    if (to != ID_NONE && i.imm_len) {
        p->sinks[0] = to, p->sink_count = 1;
    } else if (r != X86_REG_NONE && i.stores == 0 && i.loads == 0 && (i.op == X86_OP_LEA || i.op == X86_OP_MOV)) {
        follow(p, &p->c->funcs.data[t->by], k + 1, r);
        if (p->leaks)
            return false;
        if (p->calls_it)
            VEC_PUSH(&p->f->arcs, ((struct regs_arc){.caller = t->by, .callee = t->function}));
    } else {
        return false;
    }
    for (unsigned s = 0; s < p->sink_count; s++)
        if (!p->is_confined[p->sinks[s]])
            return false;
    for (unsigned s = 0; s < p->sink_count; s++)
        hold(p, p->sinks[s], t->function);
    return true;
}

static int by_variable(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Who calls through a variable may call each function that it may hold. */
static void put_arcs(struct pointers *p)
{
    if (p->calls.len)
        qsort(p->calls.data, p->calls.len / 2, 2 * sizeof(uint32_t), by_variable);
    for (size_t i = 0; i < p->values.len; i += 2) {
        uint32_t v = p->values.data[i];
        size_t k = PARTITION_POINT(n, 0, p->calls.len / 2, p->calls.data[2 * n] < v);
        for (; k < p->calls.len / 2 && p->calls.data[2 * k] == v; k++)
            VEC_PUSH(&p->f->arcs,
                     ((struct regs_arc){.caller = p->calls.data[2 * k + 1], .callee = p->values.data[i + 1]}));
    }
}

void promote_pointers(struct promote_facts *f)
{
    struct pointers p = {.f = f, .c = f->cfg};
    p.is_confined = xmalloc(f->variables.len + 1);
    for (size_t v = 0; v < f->variables.len; v++)
        p.is_confined[v] = !f->variables.data[v].why && f->variables.data[v].bytes == 8;
    for (size_t i = 0; i < f->accesses.len; i++)
        if (p.is_confined[f->accesses.data[i].variable])
            take_access(&p, &f->accesses.data[i]);
    for (size_t i = 0; i < f->taken.len; i++) {
        const struct promote_taken *t = &f->taken.data[i];
        if (is_held(&p, t))
            continue;
        f->functions[t->function].is_entered = true;
        if (!f->why_entered[t->function])
            f->why_entered[t->function] = t->by == ID_NONE ? "its address is in data"
                                                           : arena_printf(f->arena, "its address is taken in %s",
                                                                          promote_function_name(f, t->by));
    }
    put_arcs(&p);
    VEC_FREE(&p.work);
    VEC_FREE(&p.seen);
    VEC_FREE(&p.calls);
    VEC_FREE(&p.values);
    free(p.is_confined);
}
