/* SPDX-License-Identifier: Apache-2.0
 *
 * What must come before what: every register is written and read in the order at hand, every flag comes from the
 * instruction that it came from, and accesses to memory change places only if it is certain that nobody can tell. */
#include "sched/sched.h"
#include "x86/x86.h"

struct reach { /* one access */
    const struct x86_access *a;
    uint32_t base_writes, index_writes; /* how often these registers were written in the block before */
    bool is_constant, is_frame, is_data;
};
struct node {
    struct x86_detail d;
    struct reach reach[X86_ACCESSES_MAX];
    uint8_t flags_read; /* those too that it may leave as they are, if they are read later */
};
struct work {
    const struct sched_block *b;
    struct sched_graph *g;
    struct node n[SCHED_MAX];
};

static void put_before(struct work *w, uint32_t first, uint32_t then) { w->g->before[then] |= 1ull << first; }

/* ---- walls ---- */

static uint64_t all_below(uint32_t i) { return i ? ~0ull >> (64 - i) : 0; }

static void put_wall(struct work *w, uint32_t at)
{
    for (uint32_t i = at; i < w->b->count; i++)
        w->g->before[i] |= all_below(at);
}

/* Nothing comes between a comparison and the jump that a core may take it together with. */
static void keep_fused(struct work *w)
{
    uint32_t n = w->b->count;
    if (n >= 2 && w->n[n - 1].d.insn.kind == X86_JCC && w->n[n - 2].d.fuse != X86_FUSE_NONE)
        w->g->before[n - 2] |= all_below(n - 2);
}

static void put_walls(struct work *w)
{
    for (uint32_t i = 0; i < w->b->count; i++) {
        bool is_fixed = w->n[i].d.order.is_fixed;
        if (i && (w->b->insns[i].is_walled || is_fixed))
            put_wall(w, i);
        if (is_fixed && i + 1 < w->b->count)
            put_wall(w, i + 1);
    }
    keep_fused(w);
}

/* ---- registers ---- */

static void order_registers(struct work *w)
{
    for (uint32_t j = 1; j < w->b->count; j++)
        for (uint32_t i = 0; i < j; i++) {
            const struct x86_order *a = &w->n[i].d.order, *b = &w->n[j].d.order;
            if ((a->writes & (b->reads | b->writes)) || (a->reads & b->writes))
                put_before(w, i, j);
            if (a->writes & b->reads)
                w->g->feeds[j] |= 1ull << i;
        }
}

/* ---- flags ---- */

static void find_flags_read(struct work *w)
{
    uint8_t live = w->b->flags_live;
    for (uint32_t i = w->b->count; i-- > 0;) {
        const struct x86_order *o = &w->n[i].d.order;
        w->n[i].flags_read = (uint8_t)(o->flags_read | (o->flags_kept & live));
        live = (uint8_t)((live & ~(o->flags_changed & ~o->flags_kept)) | w->n[i].flags_read);
    }
}

/* No other may write the flag between who made it (ID_NONE: it comes from outside) and who reads it (count: someone
 * behind the block). */
static void keep_flag(struct work *w, uint8_t flag, uint32_t maker, uint32_t reader)
{
    for (uint32_t x = 0; x < w->b->count; x++) {
        if (!(w->n[x].d.order.flags_changed & flag) || x == maker || x == reader)
            continue;
        if (maker != ID_NONE && x < maker)
            put_before(w, x, maker);
        else if (x > reader)
            put_before(w, reader, x);
    }
    if (maker == ID_NONE || reader == w->b->count)
        return;
    put_before(w, maker, reader);
    w->g->feeds[reader] |= 1ull << maker;
}

static void order_flags(struct work *w)
{
    find_flags_read(w);
    for (unsigned flag = X86_CF; flag <= X86_OF; flag *= 2) {
        uint32_t maker = ID_NONE;
        for (uint32_t i = 0; i < w->b->count; i++) {
            if (w->n[i].flags_read & flag)
                keep_flag(w, (uint8_t)flag, maker, i);
            if (w->n[i].d.order.flags_changed & flag)
                maker = i;
        }
        if (w->b->flags_live & flag)
            keep_flag(w, (uint8_t)flag, maker, w->b->count);
    }
}

/* ---- memory ---- */

static bool is_frame_register(const struct sched_block *b, uint8_t reg)
{
    return reg == X86_RSP || (reg == X86_RBP && b->rbp_is_frame);
}

static void find_reaches(struct work *w)
{
    uint32_t writes[X86_GPR_COUNT] = {0};
    for (uint32_t i = 0; i < w->b->count; i++) {
        struct node *n = &w->n[i];
        const struct sched_insn *in = &w->b->insns[i];
        for (int k = 0; k < n->d.access_count; k++) {
            const struct x86_access *a = &n->d.access[k];
            bool is_plain = a->base == X86_REG_NONE && a->index == X86_REG_NONE && !a->segment;
            n->reach[k] = (struct reach){.a = a,
                                         .base_writes = a->base < X86_GPR_COUNT ? writes[a->base] : 0,
                                         .index_writes = a->index < X86_GPR_COUNT ? writes[a->index] : 0,
                                         .is_constant = is_plain && in->memory == SCHED_CONSTANT && !a->is_store,
                                         .is_frame = is_frame_register(w->b, a->base),
                                         .is_data = is_plain && in->memory == SCHED_DATA};
        }
        for (unsigned r = 0; r < X86_GPR_COUNT; r++)
            writes[r] += n->d.order.writes >> r & 1;
    }
}

static bool are_apart(int64_t a, unsigned a_bytes, int64_t b, unsigned b_bytes)
{
    return a < b ? (uint64_t)b - (uint64_t)a >= a_bytes : (uint64_t)a - (uint64_t)b >= b_bytes;
}

/* Certainly no byte in common. */
static bool are_disjoint(const struct work *w, uint32_t i, const struct reach *a, uint32_t j, const struct reach *b)
{
    const struct sched_insn *x = &w->b->insns[i], *y = &w->b->insns[j];
    if (a->is_constant || b->is_constant)
        return true;
    if (w->b->stack_is_private && a->is_frame != b->is_frame)
        return true;
    if (a->is_data && b->is_data)
        return x->section != y->section || are_apart(x->offset, a->a->bytes, y->offset, b->a->bytes);
    bool is_same_sum = a->a->base == b->a->base && a->a->index == b->a->index && a->a->segment == b->a->segment &&
                       (a->a->index == X86_REG_NONE || a->a->scale == b->a->scale) &&
                       a->base_writes == b->base_writes && a->index_writes == b->index_writes;
    bool has_register = a->a->base != X86_REG_NONE || a->a->index != X86_REG_NONE;
    return is_same_sum && has_register && !x->is_relocated && !y->is_relocated &&
           are_apart(a->a->disp, a->a->bytes, b->a->disp, b->a->bytes);
}

/* Whom others may watch. */
static bool is_seen(const struct work *w, const struct reach *r)
{
    return w->b->is_seen && !r->is_constant && !(w->b->stack_is_private && r->is_frame);
}

static bool access_conflicts(const struct work *w, uint32_t i, const struct reach *a, uint32_t j, const struct reach *b)
{
    if (is_seen(w, a) && is_seen(w, b))
        return true;
    return (a->a->is_store || b->a->is_store) && !are_disjoint(w, i, a, j, b);
}

static bool may_fault_by_itself(const struct node *n)
{
    return n->d.insn.op == X86_OP_DIV || n->d.insn.op == X86_OP_IDIV;
}

/* Does one store what is seen where the other, a division, may end in a handler? */
static bool faults_beside(const struct work *w, const struct node *division, const struct node *other)
{
    if (!w->b->is_seen || !may_fault_by_itself(division))
        return false;
    for (int k = 0; k < other->d.access_count; k++)
        if (other->reach[k].a->is_store && is_seen(w, &other->reach[k]))
            return true;
    return false;
}

static bool memory_conflicts(const struct work *w, uint32_t i, uint32_t j)
{
    const struct node *x = &w->n[i], *y = &w->n[j];
    for (int k = 0; k < x->d.access_count; k++)
        for (int l = 0; l < y->d.access_count; l++)
            if (access_conflicts(w, i, &x->reach[k], j, &y->reach[l]))
                return true;
    return faults_beside(w, x, y) || faults_beside(w, y, x);
}

static void order_memory(struct work *w)
{
    find_reaches(w);
    for (uint32_t j = 1; j < w->b->count; j++)
        for (uint32_t i = 0; i < j; i++)
            if (memory_conflicts(w, i, j))
                put_before(w, i, j);
}

/* ---- all ---- */

bool sched_depend(const struct sched_block *b, struct sched_graph *out)
{
    struct work w = {.b = b, .g = out};
    memset(out, 0, sizeof *out);
    out->count = b->count;
    if (b->count > SCHED_MAX)
        return false;
    for (uint32_t i = 0; i < b->count; i++)
        if (x86_decode_detail(b->insns[i].bytes, b->insns[i].len, b->insns[i].addr, &w.n[i].d) != b->insns[i].len)
            return false;
    put_walls(&w);
    order_registers(&w);
    order_flags(&w);
    order_memory(&w);
    return true;
}
