/* SPDX-License-Identifier: Apache-2.0
 *
 * Where does the target of an indirect jump come from? Walks backwards from the jump along every known path, register
 * by register, to the loads and address constants that make it. Knows the shapes compilers give jump tables: PIC32  lea
 * T(%rip),%b ... movslq (%b,%i,4),%x; add %b,%x (or lea (%b,%x),%y); jmp *%x ABS64  jmp *T(,%i,8); mov T(,%i,8),%x; jmp
 * *%x; lea T(%rip),%b; jmp *(%b,%i,8) one    jmp *T+k(%rip): a constant index Without optimization the load is mov
 * (%o,%b),%eax; cltq with %o the index times 4. PIC32 entries may also be relative to a label of the function (glibc's
 * printf: &&case - &&base). The base may be loaded blocks away (hoisted out of a loop), copied, or spilled to the
 * stack. Says nothing about how many entries a table has.
 */
#include "cfg/impl.h"

#include <stdlib.h>

enum role {
    ROLE_TARGET,   /* the address jumped to */
    ROLE_PART,     /* one side of the sum that is the address jumped to */
    ROLE_ENTRY,    /* 4-byte entry before its sign is extended */
    ROLE_PIC_BASE, /* base of the load of a 4-byte entry */
    ROLE_PIC_SIDE, /* base or scaled index of such a load: which of them is not known */
    ROLE_ABS_BASE, /* base of the load of an 8-byte entry */
    ROLE_ABS_SIDE, /* base or scaled index of such a load */
};

struct item { /* what was in a register, or a stack slot, before an instruction? */
    uint32_t at, func;
    uint8_t role, reg; /* reg: for a slot the frame register (4 rsp, 5 rbp) */
    bool is_slot;
    int32_t disp; /* of the slot from the frame register as it is at `at` */
};

struct backward_slice {
    const struct build *b;
    struct backward_slice_result *out;
    VEC(struct item) work;
    struct map visited;
    VEC(struct table_ref) loads, addends, absolutes; /* bases found by role */
    VEC(struct table_ref) constant_loads;            /* movslq T+k(%rip): the address read */
    bool pointer, unknown, doubt; /* some path ends in a plain pointer; in something not understood; a base does */
    bool single, sum;             /* sum: some path adds two values */
    uint64_t single_addr;
    uint32_t single_insn, steps;
};

#define STEPS_MAX 2000000 /* instructions one slice may look at before it gives up */

void backward_slice_result_fini(struct backward_slice_result *r)
{
    VEC_FREE(&r->refs);
    VEC_FREE(&r->labels);
    VEC_FREE(&r->base_refs);
}

/* ---- operand values ---- */

static int64_t read_signed(const struct build *b, uint64_t addr, unsigned len)
{
    const uint8_t *p = image_at(b->img, addr, len);
    uint64_t v = 0;
    if (!p || len == 0 || len > 8)
        return 0;
    memcpy(&v, p, len);
    unsigned shift = 64 - 8 * len;
    return (int64_t)(v << shift) >> shift;
}

int64_t insn_disp(const struct build *b, uint32_t insn)
{
    const struct x86_insn *i = cfg_shape(b->c, insn);
    return i->disp_len ? read_signed(b, cfg_insn_addr(b->c, insn) + i->disp_off, i->disp_len) : 0;
}

uint64_t imm_of(const struct build *b, const struct x86_insn *i)
{
    return i->imm_len ? (uint64_t)read_signed(b, i->addr + i->imm_off, i->imm_len) : 0;
}

uint64_t insn_imm(const struct build *b, uint32_t insn)
{
    struct x86_insn i = cfg_insn(b->c, insn);
    return imm_of(b, &i);
}

/* The address constant that a lea or a mov of an immediate gives, 0 if it gives none. */
static uint64_t address_constant(const struct build *b, uint32_t insn)
{
    struct x86_insn full = cfg_insn(b->c, insn);
    const struct x86_insn *i = &full;
    bool fixed = b->img->kind == IMAGE_EXEC;
    if (i->op == X86_OP_LEA && i->op_bytes >= 4 && i->mem_index == X86_REG_NONE) {
        if (i->props & X86_PROP_RIPREL)
            return i->op_bytes == 8 ? i->target : 0;
        return fixed && (i->props & X86_PROP_ABS32) && i->mem_base == X86_REG_NONE ? i->target : 0;
    }
    bool loads_imm = i->op == X86_OP_MOV && (i->props & X86_PROP_IMM_ADDR) && !i->loads && !i->stores;
    return fixed && loads_imm ? i->target : 0;
}

static bool is_one_bit(uint16_t mask) { return mask && !(mask & (mask - 1)); }
static uint8_t bit_number(uint16_t mask) { return (uint8_t)__builtin_ctz(mask); }

/* ---- the walk ---- */

static void push_item(struct backward_slice *s, struct item it) { VEC_PUSH(&s->work, it); }

static void push_reg(struct backward_slice *s, const struct item *from, uint32_t at, enum role role, uint8_t reg)
{
    push_item(s, (struct item){.at = at, .func = from->func, .role = (uint8_t)role, .reg = reg});
}

/* The value comes from something at `at` that is no address constant. Of the target itself that settles it: unknown. A
 * base can be nothing but a constant, so that this path is never taken to this jump (most come from calls that do not
 * return, unknown to us); but that is reasoning about compilers, hence doubt. */
static void not_understood(struct backward_slice *s, const struct item *it, uint32_t at)
{
    if (it->role == ROLE_PIC_SIDE || it->role == ROLE_ABS_SIDE)
        return;
    diag_debug(3, "cfg: slice stops at %llx", (unsigned long long)cfg_insn_addr(s->b->c, at));
    if (it->role == ROLE_TARGET)
        s->unknown = true;
    else
        s->doubt = true;
}

/* A path ended where nothing more can be said about the value. */
static void give_up(struct backward_slice *s, const struct item *it)
{
    if (it->role == ROLE_TARGET)
        s->pointer = true;
    else
        not_understood(s, it, it->at);
}

/* The walk came to the entry of a function. No caller hands over a table in a register that it expects to find
 * unchanged. */
static void at_entry(struct backward_slice *s, const struct item *it)
{
    bool callee_saved = it->reg == X86_RBX || it->reg == X86_RBP || it->reg >= X86_R12;
    if (it->role == ROLE_TARGET || it->is_slot || !callee_saved)
        give_up(s, it);
}

static void found_base(struct backward_slice *s, const struct item *it, uint64_t addr, uint32_t insn)
{
    struct table_ref r = {addr, insn};
    if (it->role == ROLE_PIC_BASE || it->role == ROLE_PIC_SIDE)
        VEC_PUSH(&s->loads, r);
    else if (it->role == ROLE_PART)
        VEC_PUSH(&s->addends, r);
    else if (it->role == ROLE_ABS_BASE || it->role == ROLE_ABS_SIDE)
        VEC_PUSH(&s->absolutes, r);
    else
        VEC_PUSH(&s->out->labels, addr); /* the address of a label itself */
}

/* The jump target is read from memory by instruction `at`. */
static void target_in_memory(struct backward_slice *s, const struct item *it, uint32_t at)
{
    const struct x86_insn *i = cfg_shape(s->b->c, at);
    bool fixed = s->b->img->kind == IMAGE_EXEC;
    bool absolute = !(i->props & X86_PROP_RIPREL) && (i->props & X86_PROP_ABS32) && fixed;
    uint64_t target = cfg_insn_target(s->b->c, at);
    s->out->load = at;
    if (i->props & X86_PROP_SEG) {
        s->pointer = true;
    } else if ((i->props & X86_PROP_RIPREL) ||
               (absolute && i->mem_base == X86_REG_NONE && i->mem_index == X86_REG_NONE)) {
        s->pointer |= s->single && s->single_addr != target; /* two of them: not worth telling apart */
        s->single = true;
        s->single_addr = target;
        s->single_insn = at;
    } else if (absolute && image_is_readonly_data(s->b->img, target)) {
        struct table_ref r = {target, at};
        VEC_PUSH(&s->absolutes, r);
    } else if (i->mem_base < 16 && i->mem_index < X86_GPR_COUNT && i->mem_scale == 8 && insn_disp(s->b, at) == 0) {
        push_reg(s, it, at, ROLE_ABS_BASE, i->mem_base);
    } else if (i->mem_base < 16 && i->mem_index < X86_GPR_COUNT && i->mem_scale == 1 && insn_disp(s->b, at) == 0) {
        push_reg(s, it, at, ROLE_ABS_SIDE, i->mem_base);
        push_reg(s, it, at, ROLE_ABS_SIDE, i->mem_index);
    } else {
        s->pointer = true;
    }
}

static void target_is_sum(struct backward_slice *s, const struct item *it, uint32_t at, uint8_t x, uint8_t y)
{
    s->sum = true;
    push_reg(s, it, at, ROLE_PART, x);
    push_reg(s, it, at, ROLE_PART, y);
}

/* In a fixed-address program: add $label,%r or lea label(%r),%y. */
static void target_is_label_plus(struct backward_slice *s, const struct item *it, uint32_t at, uint8_t reg)
{
    struct table_ref r = {cfg_insn(s->b->c, at).target, at};
    VEC_PUSH(&s->addends, r);
    s->sum = true;
    push_reg(s, it, at, ROLE_PART, reg);
}

static void def_of_target(struct backward_slice *s, const struct item *it, uint32_t at)
{
    const struct x86_insn *i = cfg_shape(s->b->c, at);
    uint16_t other = i->gpr_read & (uint16_t) ~(1u << it->reg);
    uint64_t addr = address_constant(s->b, at);
    bool fixed = s->b->img->kind == IMAGE_EXEC;
    if (addr)
        found_base(s, it, addr, at);
    else if (i->op == X86_OP_MOV && i->op_bytes == 8 && i->loads)
        target_in_memory(s, it, at);
    else if (i->op == X86_OP_ADD && i->op_bytes == 8 && !i->loads && !i->imm_len && is_one_bit(other))
        target_is_sum(s, it, at, it->reg, bit_number(other));
    else if (fixed && i->op == X86_OP_ADD && i->op_bytes == 8 && !i->loads && i->imm_len == 4)
        target_is_label_plus(s, it, at, it->reg);
    else if (fixed && i->op == X86_OP_LEA && i->op_bytes == 8 && (i->props & X86_PROP_ABS32) && i->mem_base < 16 &&
             i->mem_index == X86_REG_NONE)
        target_is_label_plus(s, it, at, i->mem_base);
    else if (i->op == X86_OP_LEA && i->op_bytes == 8 && i->mem_base < 16 && i->mem_index < X86_GPR_COUNT &&
             i->mem_scale == 1 && insn_disp(s->b, at) == 0)
        target_is_sum(s, it, at, i->mem_base, i->mem_index);
    else if (i->op == X86_OP_POP || i->kind == X86_CALL || i->kind == X86_CALL_IND ||
             (i->op == X86_OP_MOV && i->imm_len) ||
             (i->op == X86_OP_XOR &&
              (i->loads || !i->gpr_read))) /* takes glibc's pointer guard off a pointer, or zeroes */
        s->pointer = true;
    else
        not_understood(s, it, at);
}

/* `at` loads a 4-byte entry. */
static void entry_in_memory(struct backward_slice *s, const struct item *it, uint32_t at)
{
    const struct x86_insn *i = cfg_shape(s->b->c, at);
    bool indexed =
        i->mem_base < 16 && i->mem_index < X86_GPR_COUNT && insn_disp(s->b, at) == 0 && !(i->props & X86_PROP_SEG);
    s->out->load = at;
    bool fixed = s->b->img->kind == IMAGE_EXEC && (i->props & X86_PROP_ABS32);
    struct table_ref r = {cfg_insn_target(s->b->c, at), at};
    if (i->props & X86_PROP_RIPREL) {
        VEC_PUSH(&s->constant_loads, r);
    } else if (fixed && i->mem_base == X86_REG_NONE && i->mem_index < X86_GPR_COUNT && i->mem_scale == 4) {
        VEC_PUSH(&s->loads, r);
    } else if (indexed && i->mem_scale == 4) {
        push_reg(s, it, at, ROLE_PIC_BASE, i->mem_base);
    } else if (indexed && i->mem_scale == 1) {
        push_reg(s, it, at, ROLE_PIC_SIDE, i->mem_base);
        push_reg(s, it, at, ROLE_PIC_SIDE, i->mem_index);
    } else {
        not_understood(s, it, at);
    }
}

static void def_of_part(struct backward_slice *s, const struct item *it, uint32_t at)
{
    const struct x86_insn *i = cfg_shape(s->b->c, at);
    uint64_t addr = address_constant(s->b, at);
    if (addr)
        found_base(s, it, addr, at);
    else if (i->op == X86_OP_MOVSXD && i->op_bytes == 8 && i->loads)
        entry_in_memory(s, it, at);
    else if (i->op == X86_OP_MOVSXD && i->op_bytes == 8 && is_one_bit(i->gpr_read))
        push_reg(s, it, at, ROLE_ENTRY, bit_number(i->gpr_read));
    else
        not_understood(s, it, at);
}

/* Copies and spills look the same in every role. Returns whether `at` was one. */
static bool follow_copy(struct backward_slice *s, const struct item *it, uint32_t at)
{
    const struct x86_insn *i = cfg_shape(s->b->c, at);
    if (i->op_bytes != 8 || (i->props & X86_PROP_SEG))
        return false;
    if (i->op == X86_OP_MOV && !i->loads && is_one_bit(i->gpr_read)) {
        push_reg(s, it, at, (enum role)it->role, bit_number(i->gpr_read));
        return true;
    }
    uint16_t other = i->gpr_read & (uint16_t) ~(1u << it->reg);
    if (i->op == X86_OP_CMOV && !i->loads && is_one_bit(other)) {
        push_reg(s, it, at, (enum role)it->role, bit_number(other));
        push_reg(s, it, at, (enum role)it->role, it->reg);
        return true;
    }
    bool from_slot = i->op == X86_OP_MOV && i->loads && (i->mem_base == X86_RSP || i->mem_base == X86_RBP) &&
                     i->mem_index == X86_REG_NONE;
    if (from_slot && it->role != ROLE_TARGET) {
        push_item(s, (struct item){.at = at,
                                   .func = it->func,
                                   .role = it->role,
                                   .reg = i->mem_base,
                                   .is_slot = true,
                                   .disp = (int32_t)insn_disp(s->b, at)});
        return true;
    }
    return false;
}

static void def_of_register(struct backward_slice *s, const struct item *it, uint32_t at)
{
    if (follow_copy(s, it, at))
        return;
    const struct x86_insn *i = cfg_shape(s->b->c, at);
    uint64_t addr = address_constant(s->b, at);
    switch ((enum role)it->role) {
    case ROLE_TARGET:
        def_of_target(s, it, at);
        break;
    case ROLE_PART:
        def_of_part(s, it, at);
        break;
    case ROLE_ENTRY:
        if (i->op == X86_OP_MOV && i->op_bytes == 4 && i->loads)
            entry_in_memory(s, it, at);
        else
            not_understood(s, it, at);
        break;
    case ROLE_PIC_BASE:
    case ROLE_PIC_SIDE:
    case ROLE_ABS_BASE:
    case ROLE_ABS_SIDE:
        if (addr)
            found_base(s, it, addr, at);
        else if (i->op != X86_OP_POP) /* a register given back its old value before the function ends */
            not_understood(s, it, at);
        break;
    }
}

/* Does instruction i end the walk for a register? Calls clobber what they return in; other registers that are used
 * after a call without a new value were kept by it (the compiler knew its callee). */
static bool defines(const struct x86_insn *i, uint8_t reg)
{
    if (i->kind == X86_CALL || i->kind == X86_CALL_IND)
        return reg == X86_RAX || reg == X86_RDX;
    return i->gpr_written >> reg & 1;
}

/* One step back over `at` for a stack slot: its disp is kept relative to the frame register. True: the walk ends. */
static bool step_slot(struct backward_slice *s, struct item *it, uint32_t at)
{
    const struct x86_insn *i = cfg_shape(s->b->c, at);
    bool writes_slot =
        i->stores && i->mem_base == it->reg && i->mem_index == X86_REG_NONE && insn_disp(s->b, at) == it->disp;
    if (writes_slot && i->op == X86_OP_MOV && i->op_bytes == 8 && !i->imm_len) {
        uint16_t source = i->gpr_read & (uint16_t) ~(1u << it->reg);
        if (is_one_bit(source))
            push_reg(s, it, at, (enum role)it->role, bit_number(source));
        else
            give_up(s, it);
        return true;
    }
    if (writes_slot) {
        give_up(s, it);
        return true;
    }
    if (!(i->gpr_written >> it->reg & 1) || i->kind == X86_CALL || i->kind == X86_CALL_IND)
        return false;
    int64_t delta = i->op == X86_OP_PUSH ? -8 : i->op == X86_OP_POP ? 8 : 0;
    if ((i->op == X86_OP_ADD || i->op == X86_OP_SUB) && i->imm_len && !i->loads)
        delta = i->op == X86_OP_ADD ? (int64_t)insn_imm(s->b, at) : -(int64_t)insn_imm(s->b, at);
    if (it->reg != X86_RSP || delta == 0) { /* rbp set anew, rsp aligned: another frame */
        give_up(s, it);
        return true;
    }
    it->disp += (int32_t)delta;
    return false;
}

/* Is this the first time that the question is asked at this place: a leader, or (is_group) a group of jumps? */
static bool first_visit(struct backward_slice *s, const struct item *it, uint32_t at, bool is_group)
{
    uint64_t key =
        (uint64_t)at << 9 | (uint64_t)it->role << 6 | (uint64_t)it->reg << 2 | (uint64_t)is_group << 1 | it->is_slot;
    if (it->is_slot)
        key ^= (uint64_t)(uint32_t)it->disp << 41;
    if (map_has(&s->visited, key))
        return false;
    map_put(&s->visited, key, 1);
    return true;
}

size_t first_branch_to(const struct build *b, uint32_t insn)
{
    return PARTITION_POINT(i, 0, b->branches.len, b->branches.data[i].to < insn);
}

/* Goes on before the jump `from`, unless it is a tail call of a whole function (`tails` false). */
static size_t enter_from(struct backward_slice *s, const struct item *it, uint32_t from, bool tails)
{
    const struct cfg_func *home = &s->b->c->funcs.data[it->func];
    struct item p = *it;
    p.at = from;
    if (from - home->insn_first >= home->insn_count) {
        if (!tails)
            return 0;
        p.func = func_of_insn(s->b->c, from);
    }
    push_item(s, p);
    return 1;
}

/* Goes on at every jump that leads to the leader it->at. Returns how many there are. */
static size_t enter_predecessors(struct backward_slice *s, const struct item *it, bool tails)
{
    const struct build *b = s->b;
    size_t n = 0;
    for (size_t k = first_branch_to(b, it->at); k < b->branches.len && b->branches.data[k].to == it->at; k++)
        n += enter_from(s, it, b->branches.data[k].from, tails);
    for (uint32_t g = groups_to(b, it->at); g; g = b->links.data[g - 1].next) {
        uint32_t group = b->links.data[g - 1].what;
        n++;
        if (!first_visit(s, it, group, true))
            continue;
        for (uint32_t j = b->groups.data[group].jumps; j; j = b->links.data[j - 1].next)
            enter_from(s, it, b->links.data[j - 1].what, tails);
    }
    return n;
}

/* A part of a function moved elsewhere (.cold) is entered by jumps only, in the middle of a frame. */
static bool is_fragment(const struct build *b, const struct cfg_func *f)
{
    return f->fde != ID_NONE && !f->is_plt &&
           image_unwind_cfa_rsp_offset(b->img, &b->c->unwind, &b->c->unwind.fdes[f->fde], f->addr) != 8;
}

static void walk(struct backward_slice *s, struct item it)
{
    const struct build *b = s->b;
    const struct cfg *c = b->c;
    for (;;) {
        const struct cfg_func *f = &c->funcs.data[it.func];
        bool is_start = it.at == f->insn_first, has_fall = !is_start && goes_on(b, it.at - 1);
        if (is_start || (b->marks[it.at] & MARK_LEADER)) {
            if (!first_visit(s, &it, it.at, false))
                return;
            if (b->marks[it.at] & MARK_PAD)
                give_up(s, &it);
            bool whole = is_start && !is_fragment(b, f);
            size_t n = enter_predecessors(s, &it, !whole);
            if (whole || (is_start && n == 0))
                at_entry(s, &it);
            if (!is_start && !has_fall && n == 0)
                s->out->incomplete = true;
        }
        if (!has_fall || ++s->steps > STEPS_MAX) {
            s->unknown |= s->steps > STEPS_MAX;
            return;
        }
        it.at--;
        if (it.is_slot) {
            if (step_slot(s, &it, it.at))
                return;
        } else if (defines(cfg_shape(c, it.at), it.reg)) {
            def_of_register(s, &it, it.at);
            return;
        }
    }
}

/* ---- the verdict ---- */

static int by_table(const void *a, const void *b)
{
    const struct table_ref *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return (x->insn > y->insn) - (x->insn < y->insn);
}

static bool same_tables(const struct table_ref *x, size_t nx, const struct table_ref *y, size_t ny)
{
    size_t i = 0, j = 0; /* both sorted by table */
    while (i < nx && j < ny) {
        uint64_t addr = x[i].addr;
        if (addr != y[j].addr)
            return false;
        while (i < nx && x[i].addr == addr)
            i++;
        while (j < ny && y[j].addr == addr)
            j++;
    }
    return i == nx && j == ny;
}

static void take_refs(struct backward_slice_result *out, const struct table_ref *r, size_t n)
{
    for (size_t k = 0; k < n; k++)
        VEC_PUSH(&out->refs, r[k]);
    qsort(out->refs.data, out->refs.len, sizeof *out->refs.data, by_table);
    size_t kept = 0;
    for (size_t k = 0; k < out->refs.len; k++)
        if (k == 0 || by_table(&out->refs.data[k], &out->refs.data[k - 1]) != 0)
            out->refs.data[kept++] = out->refs.data[k];
    out->refs.len = kept;
}

/* The one address in the code that is added on every path, or 0. */
static uint64_t only_label(const struct backward_slice *s)
{
    if (s->addends.len == 0 || cfg_insn_at(s->b->c, s->addends.data[0].addr) == ID_NONE)
        return 0;
    for (size_t k = 1; k < s->addends.len; k++)
        if (s->addends.data[k].addr != s->addends.data[0].addr)
            return 0;
    return s->addends.data[0].addr;
}

/* A constant index into a table whose base is known from the other side of the sum: one more instruction that holds an
 * address inside that table. */
static bool take_constant_loads(struct backward_slice *s)
{
    for (size_t k = 0; k < s->constant_loads.len; k++) {
        struct table_ref r = s->constant_loads.data[k];
        uint64_t base = s->addends.len ? s->addends.data[0].addr : 0;
        bool in_label_table = cfg_insn_at(s->b->c, base) != ID_NONE;
        if (!base || (!in_label_table && (r.addr - base) % 4) || (!in_label_table && r.addr - base >= 4 << 16))
            return false;
        if (!in_label_table) {
            uint32_t entries = (uint32_t)((r.addr - base) / 4) + 1;
            s->out->at_least = entries > s->out->at_least ? entries : s->out->at_least;
            r.addr = base;
        }
        VEC_PUSH(&s->loads, r);
    }
    return true;
}

static bool judge_sum(struct backward_slice *s)
{
    struct backward_slice_result *out = s->out;
    if (!take_constant_loads(s) || !s->loads.len || !s->addends.len)
        return false;
    qsort(s->loads.data, s->loads.len, sizeof *s->loads.data, by_table);
    qsort(s->addends.data, s->addends.len, sizeof *s->addends.data, by_table);
    bool own = same_tables(s->loads.data, s->loads.len, s->addends.data, s->addends.len);
    out->label = own ? 0 : only_label(s);
    if (!own && !out->label)
        return false;
    take_refs(out, s->loads.data, s->loads.len);
    if (own)
        take_refs(out, s->addends.data, s->addends.len);
    for (size_t k = 0; !own && k < s->addends.len; k++)
        if (k == 0 || s->addends.data[k].insn != s->addends.data[k - 1].insn)
            VEC_PUSH(&out->base_refs, s->addends.data[k].insn);
    out->kind = CFG_TABLE_PIC32;
    return true;
}

static void judge(struct backward_slice *s)
{
    struct backward_slice_result *out = s->out;
    bool sum = s->sum || s->loads.len || s->addends.len || s->constant_loads.len;
    out->class = s->unknown || sum ? JUMP_UNKNOWN : JUMP_POINTER;
    out->doubt = s->doubt;
    if (s->unknown || s->pointer || sum + (s->absolutes.len > 0) + s->single > 1)
        return;
    if (sum) {
        if (!judge_sum(s))
            return;
    } else if (s->absolutes.len) {
        take_refs(out, s->absolutes.data, s->absolutes.len);
        out->kind = CFG_TABLE_ABS64;
    } else if (s->single) {
        struct table_ref r = {s->single_addr, s->single_insn};
        take_refs(out, &r, 1);
        out->kind = CFG_TABLE_ABS64;
        out->is_single = true;
    } else if (out->labels.len == 0) {
        return; /* nothing found: no path leads here yet, or only a base that is no constant */
    }
    out->class = JUMP_TABLE;
}

void backward_slice_jump(const struct build *b, uint32_t jump_insn, uint32_t func, struct backward_slice_result *out)
{
    struct backward_slice s = {.b = b, .out = out};
    const struct x86_insn *j = cfg_shape(b->c, jump_insn);
    struct item it = {.at = jump_insn, .func = func, .role = ROLE_TARGET};
    out->class = JUMP_POINTER;
    out->incomplete = out->is_single = false;
    out->label = out->at_least = 0;
    out->labels.len = out->base_refs.len = 0;
    out->refs.len = 0;
    out->load = jump_insn;
    if (j->loads) {
        target_in_memory(&s, &it, jump_insn);
    } else {
        it.reg = bit_number(j->gpr_read & 0xffff ? j->gpr_read : 1);
        push_item(&s, it);
    }
    while (s.work.len)
        walk(&s, s.work.data[--s.work.len]);
    judge(&s);
    map_fini(&s.visited);
    VEC_FREE(&s.work);
    VEC_FREE(&s.loads);
    VEC_FREE(&s.addends);
    VEC_FREE(&s.absolutes);
    VEC_FREE(&s.constant_loads);
}
