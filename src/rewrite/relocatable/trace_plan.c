/* SPDX-License-Identifier: Apache-2.0
 *
 * What must be told of a block so that all addresses which it reaches can be computed: the same rule for the code that
 * is inserted when it is linked, and for the reader of what that wrote, which sees the linked file. So it asks for
 * nothing that the linker may change: relocated numbers, and instructions that it relaxes.
 *
 * A register's value is a root and a number more: what it held where the part began, or what an instruction wrote into
 * it. Copies, and numbers that are added, keep the root. Accesses with the same roots and scale need one word. An
 * access that depends on what an instruction of the part wrote begins a part of its own. What vector and mask registers
 * hold, where an address depends on it, is told in front of its instruction.
 */
#include "rewrite/rewrite.h"

enum { ROOTS_NEW = X86_GPR_COUNT };

struct value {
    uint16_t root; /* below ROOTS_NEW: what that register held at the part's begin */
    int64_t plus;
};
struct planner {
    struct rewrite_trace_plan *out;
    struct value regs[X86_GPR_COUNT];
    unsigned first; /* instruction */
    bool is_over;   /* an instruction behind the first asks for what its begin does not know */
    uint16_t roots;
    uint16_t used; /* registers that entry words are made of */
    struct group {
        uint16_t base, index; /* roots */
        uint8_t scale;
        bool is_late;
        uint8_t word;
        int64_t plus; /* what base and index stand for, beyond their roots, where it was told */
    } groups[REWRITE_TRACE_WORDS_MAX];
    unsigned group_count;
};

enum { NO_ROOT = UINT16_MAX };
enum {
    MAY_BE_SAVED = 1u << X86_RAX | 1u << X86_RCX | 1u << X86_RDX | 1u << X86_RSI | 1u << X86_RDI | 0xfu << X86_R8,
    REGISTERS_NEEDED = 3
};

bool rewrite_trace_ends_part(const struct x86_insn *i)
{
    return i->kind == X86_SYSCALL || (i->props & X86_PROP_LOCK) != 0;
}

/* Can it be told at the part's begin? Then from the registers as they are there. */
static bool is_at_begin(struct planner *p, uint16_t base, uint16_t index)
{
    uint16_t used = p->used;
    if ((base != NO_ROOT && base >= ROOTS_NEW) || (index != NO_ROOT && index >= ROOTS_NEW))
        return false;
    used |= (uint16_t)((base != NO_ROOT ? 1u << base : 0) | (index != NO_ROOT ? 1u << index : 0));
    if (__builtin_popcount(MAY_BE_SAVED & ~used) < REGISTERS_NEEDED)
        return false;
    p->used = used;
    return true;
}

static void add_word(struct planner *p, struct group *g, uint8_t base, uint8_t index, unsigned insn, bool is_behind)
{
    struct rewrite_trace_word w = {
        .base = base, .index = index, .scale = g->scale, .insn = (uint8_t)insn, .is_behind = is_behind};
    g->word = (uint8_t)(g->is_late ? p->out->late_count++ : p->out->entry_count++);
    (g->is_late ? p->out->late : p->out->entry)[g->word] = w;
}

/* The group of base + index * scale as they are in front of an instruction; NULL: there is no room, or is_over. */
static const struct group *group_of(struct planner *p, uint8_t base, uint8_t index, uint8_t scale, unsigned insn)
{
    struct value none = {NO_ROOT, 0};
    struct value b = base < X86_GPR_COUNT ? p->regs[base] : none, i = index < X86_GPR_COUNT ? p->regs[index] : none;
    scale = i.root == NO_ROOT ? 0 : scale;
    for (unsigned k = 0; k < p->group_count; k++) {
        const struct group *g = &p->groups[k];
        if (g->base == b.root && g->index == i.root && g->scale == scale)
            return g;
    }
    bool has_room = p->group_count < REWRITE_TRACE_WORDS_MAX, is_late = has_room && !is_at_begin(p, b.root, i.root);
    p->is_over |= insn > p->first && (!has_room || is_late);
    if (!has_room || p->is_over)
        return NULL;
    struct group *g = &p->groups[p->group_count++];
    *g = (struct group){b.root, i.root, scale, .is_late = is_late};
    if (g->is_late) {
        g->plus = b.plus + scale * i.plus;
        add_word(p, g, base, index, insn, false);
    } else {
        add_word(p, g, b.root == NO_ROOT ? X86_REG_NONE : (uint8_t)b.root,
                 i.root == NO_ROOT ? X86_REG_NONE : (uint8_t)i.root, 0, false);
    }
    return g;
}

static int16_t number_of(const struct group *g)
{
    return (int16_t)(g->is_late ? g->word + REWRITE_TRACE_FIRST_LATE : g->word);
}

static bool has_name(const struct x86_insn *in, const char *begins)
{
    return strncmp(x86_mnemonic_name(in->mnemonic), begins, strlen(begins)) == 0;
}

/* ---- accesses ---- */

static bool can_be_reached(const struct x86_reach *r)
{
    switch ((enum x86_reach_kind)r->kind) {
    case X86_REACH_ELEMENTS:
    case X86_REACH_MASKED:
    case X86_REACH_FIXED:
    case X86_REACH_TABLE:
        break;
    case X86_REACH_BIT:
        if (r->index < X86_GPR_COUNT)
            break;
        return false;
    case X86_REACH_STATE:
    case X86_REACH_NONE:
        return false;
    }
    return !r->is_narrow && r->access.segment != X86_SEGMENT_GS;
}

static bool can_be_told(const struct x86_detail *d)
{
    if (d->access_count < 0 || d->reach.kind != X86_REACH_NONE)
        return false;
    for (int k = 0; k < d->access_count; k++)
        if (d->access[k].segment == X86_SEGMENT_GS)
            return false;
    return true;
}

static void add_access(struct planner *p, const struct x86_detail *d, unsigned insn, const struct x86_access *a)
{
    struct rewrite_trace_access x = {.insn = (uint8_t)insn,
                                     .access = *a,
                                     .word = REWRITE_TRACE_NO_WORD,
                                     .count_word = REWRITE_TRACE_NO_WORD,
                                     .mask_word = REWRITE_TRACE_NO_WORD,
                                     .index_word = REWRITE_TRACE_NO_WORD};
    bool has_base = a->base < X86_GPR_COUNT, has_index = a->index < X86_GPR_COUNT;
    if (p->out->access_count == REWRITE_TRACE_ACCESSES_MAX)
        return;
    if (has_base || has_index) {
        const struct group *g = group_of(p, a->base, a->index, a->scale, insn);
        if (!g) {
            p->out->untold++;
            return;
        }
        x.word = number_of(g);
        x.plus = (has_base ? p->regs[a->base].plus : 0) + (has_index ? a->scale * p->regs[a->index].plus : 0) - g->plus;
    }
    if (d->insn.props & X86_PROP_REP) {
        const struct group *g = group_of(p, X86_RCX, X86_REG_NONE, 0, insn);
        if (!g) {
            p->out->untold++;
            return;
        }
        x.count_word = number_of(g);
        x.count_plus = p->regs[X86_RCX].plus - g->plus;
    }
    p->out->accesses[p->out->access_count++] = x;
}

/* Of a repeated comparison only what is left in rcx says how far it came. */
static void add_rest(struct planner *p, unsigned insn, unsigned first_access)
{
    if (p->group_count == REWRITE_TRACE_WORDS_MAX)
        return;
    struct group *g = &p->groups[p->group_count++];
    *g = (struct group){p->regs[X86_RCX].root, NO_ROOT, 0, .is_late = true};
    add_word(p, g, X86_RCX, X86_REG_NONE, insn, true);
    for (unsigned k = first_access; k < p->out->access_count; k++) {
        p->out->accesses[k].rest_word = number_of(g);
        p->out->accesses[k].has_rest = true;
    }
}

/* A word that nothing else shares. */
static int16_t add_vector_word(struct planner *p, unsigned insn, enum rewrite_trace_tells tells, unsigned part)
{
    struct group *g = &p->groups[p->group_count++];
    *g = (struct group){p->roots++, NO_ROOT, 0, .is_late = true};
    add_word(p, g, X86_REG_NONE, X86_REG_NONE, insn, false);
    p->out->late[g->word].tells = (uint8_t)tells;
    p->out->late[g->word].part = (uint8_t)part;
    return number_of(g);
}

/* The number of a bit, or in a table. */
static void add_number(struct planner *p, struct rewrite_trace_access *x, uint8_t reg, unsigned insn)
{
    const struct group *g = group_of(p, reg, X86_REG_NONE, 0, insn);
    if (!g)
        return;
    x->mask_word = number_of(g);
    x->number_plus = p->regs[reg].plus - g->plus;
}

static void add_reach(struct planner *p, const struct x86_detail *d, unsigned insn)
{
    const struct x86_reach *r = &d->reach;
    unsigned indices = r->kind == X86_REACH_ELEMENTS ? (r->count * r->index_bytes + 7u) / 8 : 0;
    if (p->out->access_count == REWRITE_TRACE_ACCESSES_MAX || p->group_count + 2 + indices > REWRITE_TRACE_WORDS_MAX) {
        p->out->untold++;
        return;
    }
    add_access(p, d, insn, &r->access);
    if (p->is_over)
        return;
    struct rewrite_trace_access *x = &p->out->accesses[p->out->access_count - 1];
    x->is_reach = true;
    if (r->kind == X86_REACH_BIT || r->kind == X86_REACH_TABLE)
        add_number(p, x, r->kind == X86_REACH_BIT ? r->index : X86_RAX, insn);
    if (r->kind == X86_REACH_ELEMENTS || r->kind == X86_REACH_MASKED)
        x->mask_word = add_vector_word(p, insn, REWRITE_TRACE_MASK, 0);
    for (unsigned k = 0; k < indices; k++) {
        int16_t word = add_vector_word(p, insn, REWRITE_TRACE_INDICES, k);
        x->index_word = k ? x->index_word : word;
    }
}

static void add_accesses(struct planner *p, const struct x86_detail *d, unsigned insn)
{
    bool is_compared = d->insn.props & X86_PROP_REP && has_name(&d->insn, "cmps"); /* rdi's first, as lackey has it */
    for (int stores = 0; stores < 2; stores++)
        for (int n = 0; n < d->access_count; n++) {
            int k = is_compared ? d->access_count - 1 - n : n;
            const struct x86_access *a = &d->access[k];
            if ((a->is_store && !a->is_load) == (stores != 0) && !(a->is_load && has_name(&d->insn, "prefetch")))
                add_access(p, d, insn, a);
        }
}

/* ---- registers ---- */

/* What the linker may make of another instruction is not followed (GOTPCRELX and TLS become numbers of 32 bits). */
static bool is_followed(const struct x86_detail *d)
{
    switch ((enum x86_effect)d->effect) {
    case X86_EFFECT_COPY:
        return d->insn.op_bytes == 8 && d->effect_src < X86_GPR_COUNT;
    case X86_EFFECT_ADD_IMM:
        return d->insn.op_bytes == 8 && (d->insn.imm_len <= 1 || d->effect_dst == X86_RSP);
    case X86_EFFECT_PUSH:
    case X86_EFFECT_POP:
        return d->insn.op_bytes == 8 || d->insn.kind == X86_RET;
    default:
        return false;
    }
}

static void follow(struct planner *p, const struct x86_detail *d)
{
    struct value old[X86_GPR_COUNT];
    memcpy(old, p->regs, sizeof old);
    for (unsigned r = 0; r < X86_GPR_COUNT; r++)
        if (d->insn.gpr_written >> r & 1)
            p->regs[r] = (struct value){p->roots++, 0};
    if (!is_followed(d))
        return;
    switch ((enum x86_effect)d->effect) {
    case X86_EFFECT_COPY:
        p->regs[d->effect_dst] = old[d->effect_src];
        break;
    case X86_EFFECT_ADD_IMM:
        p->regs[d->effect_dst] = (struct value){old[d->effect_dst].root, old[d->effect_dst].plus + d->imm};
        break;
    case X86_EFFECT_PUSH:
        p->regs[X86_RSP] = (struct value){old[X86_RSP].root, old[X86_RSP].plus - 8};
        break;
    case X86_EFFECT_POP:
        if (d->effect_dst != X86_RSP)
            p->regs[X86_RSP] = (struct value){old[X86_RSP].root, old[X86_RSP].plus + 8};
        break;
    default:
        break;
    }
}

static void add_insn(struct planner *p, const struct x86_detail *d, unsigned insn)
{
    if (can_be_reached(&d->reach))
        add_reach(p, d, insn);
    else if (can_be_told(d))
        add_accesses(p, d, insn);
    else
        p->out->untold++;
}

/* False: the part ends in front of it. */
static bool add_whole_insn(struct planner *p, const struct x86_detail *d, unsigned insn)
{
    struct rewrite_trace_plan *o = p->out;
    unsigned entries = o->entry_count, late = o->late_count, accesses = o->access_count, untold = o->untold;
    add_insn(p, d, insn);
    if (!p->is_over)
        return true;
    o->entry_count = entries;
    o->late_count = late;
    o->access_count = accesses;
    o->untold = untold;
    return false;
}

unsigned rewrite_trace_plan(const struct x86_detail *insns, unsigned first, unsigned count,
                            struct rewrite_trace_plan *out)
{
    struct planner p = {.out = out, .first = first, .roots = ROOTS_NEW};
    *out = (struct rewrite_trace_plan){.entry_count = 0};
    for (unsigned r = 0; r < X86_GPR_COUNT; r++)
        p.regs[r] = (struct value){(uint16_t)r, 0};
    for (unsigned i = first; i < count; i++) {
        const struct x86_detail *d = &insns[i];
        unsigned accesses = out->access_count;
        if (!add_whole_insn(&p, d, i))
            return i;
        follow(&p, d);
        if (d->insn.props & X86_PROP_REP && (has_name(&d->insn, "cmps") || has_name(&d->insn, "scas")))
            add_rest(&p, i, accesses);
        if (rewrite_trace_ends_part(&d->insn))
            return i + 1;
    }
    return count;
}
