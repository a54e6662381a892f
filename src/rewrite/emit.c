/* SPDX-License-Identifier: Apache-2.0
 *
 * The copies' bytes. Everything that refers to code or data by a distance is recomputed;
 * everything else is the original's bytes. Code pointers keep the original's value (its entry jumps here).
 *
 * needs: layout. fills: text, and by tables.c ro.
 */
#include "rewrite/impl.h"

struct emitter {
    struct rw *w;
    uint8_t *text; /* of w->text_vaddr */
};

static uint8_t *at_vaddr(const struct emitter *em, uint64_t addr) { return em->text + (addr - em->w->text_vaddr); }

static void patch32(uint8_t *at, uint64_t v)
{
    uint32_t x = (uint32_t)v;
    memcpy(at, &x, 4);
}

static uint64_t counter_addr(const struct rw *w, uint32_t n) { return w->counters_vaddr + 8ull * n; }

static unsigned put_counter(const struct emitter *em, uint64_t addr, const struct rw_place *p, uint32_t n)
{
    if (p->form == RW_FORM_PROBE)
        rw_put_probes(em->w, at_vaddr(em, addr), addr, p, n);
    else
        rw_put_counter(at_vaddr(em, addr), addr, p, counter_addr(em->w, n));
    return rw_place_bytes(p);
}

/* Where a direct branch or call to an original address goes now, if no edge says better. */
static uint64_t code_target(const struct rw *w, uint64_t target, bool is_call)
{
    uint32_t b = cfg_block_start(w->cfg, target);
    if (!rw_block_moved(w, b))
        return target;
    if (is_call)
        return w->cfg->blocks.data[b].flags & (CFG_BLOCK_ENTRY | CFG_BLOCK_CALLED) ? rw_enter(w, b) : target;
    return rw_body(w, b);
}

static uint64_t branch_target(const struct rw *w, const struct cfg_block *blk)
{
    const struct cfg *c = w->cfg;
    for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
        const struct cfg_edge *ed = &c->edges.data[e];
        if (ed->kind == CFG_EDGE_FALL || ed->kind == CFG_EDGE_RETURN)
            continue;
        if (w->edge_stub_off[e] != UINT32_MAX)
            return w->funcs[blk->func].addr_new + w->edge_stub_off[e];
        if (rw_edge_inside(w, ed) && ed->to == ed->from)
            return w->funcs[blk->func].addr_new + w->turn_off[ed->to];
        if (rw_edge_inside(w, ed))
            return rw_body(w, ed->to);
    }
    return cfg_insn_target(c, blk->insn_first + blk->insn_count - 1);
}

static void put_jcc(uint8_t *at, uint64_t addr, const struct x86_insn *in, bool is_long, uint64_t target)
{
    if (!is_long) {
        at[0] = in->kind == X86_JMP ? 0xeb : (uint8_t)(0x70 | in->cond);
        at[1] = (uint8_t)(target - (addr + 2));
    } else if (in->kind == X86_JMP) {
        rw_put_jmp(at, addr, target);
    } else {
        at[0] = 0x0f;
        at[1] = (uint8_t)(0x80 | in->cond);
        patch32(at + 2, target - (addr + 6));
    }
}

/* The operand of an instruction that refers to a jump table, or a distance that must be recomputed. */
static void fix_operand(const struct rw *w, uint8_t *at, uint64_t addr, uint32_t i)
{
    const struct x86_insn *in = cfg_shape(w->cfg, i);
    uint64_t t, target = cfg_insn(w->cfg, i).target;
    bool is_ref = map_get(&w->ref_table, i, &t);
    if (is_ref)
        target += w->tables.data[t].addr_new - w->tables.data[t].old->addr;
    if (in->props & X86_PROP_RIPREL)
        patch32(at + in->disp_off, target - (addr + in->len));
    else if (is_ref && (in->props & X86_PROP_ABS32))
        patch32(at + in->disp_off, target);
    else if (is_ref && (in->props & X86_PROP_IMM_ADDR))
        memcpy(at + in->imm_off, &target, in->imm_len);
}

/* One instruction, whose bytes were `old` and are more than copied; returns the bytes it took. */
static unsigned put_insn(const struct emitter *em, uint32_t b, uint32_t i, const uint8_t *old, uint64_t addr,
                         uint64_t *stub)
{
    struct rw *w = em->w;
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    const struct x86_insn *in = cfg_shape(w->cfg, i);
    uint8_t *at = at_vaddr(em, addr);
    switch ((enum x86_kind)in->kind) {
    case X86_JMP:
    case X86_JCC:
        put_jcc(at, addr, in, w->is_long[b], branch_target(w, blk));
        return in->kind == X86_JMP ? (w->is_long[b] ? 5 : 2) : (w->is_long[b] ? 6 : 2);
    case X86_JCXZ: /* jrcxz +2; jmp +5; jmp target. The opcode is the byte before the displacement, prefixes before it
                    */
        at[0] = in->len == 3 ? old[0] : 0x90;
        at[1] = old[in->len - 2];
        at[2] = 2;
        at[3] = 0xeb;
        at[4] = 5;
        rw_put_jmp(at + 5, addr + 5, branch_target(w, blk));
        return 10;
    case X86_SYSCALL:
        if (!rw_has_words(w))
            break;
        rw_put_syscall(at, addr, *stub);
        rw_put_syscall_stub(w, at_vaddr(em, *stub), *stub, addr + RW_SYSCALL_BYTES);
        *stub += RW_SYSCALL_STUB_BYTES;
        return RW_SYSCALL_BYTES;
    case X86_CALL:
        memcpy(at, old, in->len);
        patch32(at + in->disp_off, code_target(w, cfg_insn_target(w->cfg, i), true) - (addr + in->len));
        return in->len;
    case X86_XBEGIN:
        memcpy(at, old, in->len);
        patch32(at + in->disp_off, branch_target(w, blk) - (addr + in->len));
        return in->len;
    default:
        break;
    }
    memcpy(at, old, in->len);
    if (in->props & (X86_PROP_RIPREL | X86_PROP_ABS32 | X86_PROP_IMM_ADDR))
        fix_operand(w, at, addr, i);
    return in->len;
}

/* Nothing but the original's bytes? Then it goes with its neighbours. */
static bool is_copied(const struct cfg *c, uint32_t i)
{
    uint8_t kind = cfg_kind(c, i);
    return !cfg_refers(c, i) && (kind == X86_PLAIN || kind == X86_RET || kind == X86_TRAP || kind == X86_INT ||
                                 kind == X86_JMP_IND || kind == X86_CALL_IND);
}

static void emit_block(const struct emitter *em, uint32_t f, uint32_t b, uint64_t *stub)
{
    struct rw *w = em->w;
    const struct cfg *c = w->cfg;
    const struct cfg_block *blk = &c->blocks.data[b];
    uint64_t base = w->funcs[f].addr_new, addr = base + w->block_off[b];
    uint64_t body = base + w->body_off[b];
    if (b > c->funcs.data[f].block_first && w->step[b - 1].step) {
        uint64_t leave = addr - rw_step_leave_bytes(&w->step[b - 1]);
        rw_put_step_leave(w, at_vaddr(em, leave), leave, b - 1);
    }
    bool in_line = w->enter_counter[b] != ID_NONE && w->enter_off[b] < w->body_off[b];
    uint64_t head = in_line ? base + w->enter_off[b] : body;
    for (uint32_t e = b > c->funcs.data[f].block_first ? c->blocks.data[b - 1].edge_first : 0, n = 0;
         b > c->funcs.data[f].block_first && n < c->blocks.data[b - 1].edge_count; e++, n++)
        if (c->edges.data[e].kind == CFG_EDGE_FALL && c->edges.data[e].to == b && w->edge_counter[e] != ID_NONE)
            addr += put_counter(em, addr, &w->edge_place[e], w->edge_counter[e]);
    rw_put_nops(at_vaddr(em, addr), (unsigned)(head - addr));
    if (in_line)
        put_counter(em, head, &w->enter_place[b], w->enter_counter[b]);
    if (w->step[b].step)
        rw_put_step_enter(w, at_vaddr(em, body), body, b);
    addr = base + w->turn_off[b];
    const uint8_t *old = image_at(w->img, blk->addr, blk->size);
    uint32_t counted = w->block_counter[b] != ID_NONE ? w->place[b].at : UINT32_MAX;
    for (uint32_t k = 0; k < blk->insn_count; k++) {
        uint32_t i = blk->insn_first + k, len = cfg_len(c, i);
        if (counted == k)
            addr += put_counter(em, addr, &w->place[b], w->block_counter[b]);
        if (!is_copied(c, i)) {
            addr += put_insn(em, b, i, old, addr, stub);
            old += len;
            continue;
        }
        for (; k + 1 < blk->insn_count && k + 1 != counted && is_copied(c, i + 1); k++)
            len += cfg_len(c, ++i);
        memcpy(at_vaddr(em, addr), old, len);
        addr += len;
        old += len;
    }
}

static void emit_stubs(const struct emitter *em, uint32_t f)
{
    struct rw *w = em->w;
    const struct cfg *c = w->cfg;
    const struct cfg_func *fn = &c->funcs.data[f];
    uint64_t base = w->funcs[f].addr_new;
    cfg_for_each_block(c, fn, b)
    {
        const struct cfg_block *blk = &c->blocks.data[b];
        if (w->enter_counter[b] != ID_NONE && w->enter_off[b] >= w->body_off[b]) {
            uint64_t a = base + w->enter_off[b];
            a += put_counter(em, a, &w->enter_place[b], w->enter_counter[b]);
            rw_put_jmp(at_vaddr(em, a), a, base + w->body_off[b]);
        }
        for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
            if (w->edge_stub_off[e] == UINT32_MAX)
                continue;
            uint64_t a = base + w->edge_stub_off[e];
            a += put_counter(em, a, &w->edge_place[e], w->edge_counter[e]);
            rw_put_jmp(at_vaddr(em, a), a, rw_body(w, c->edges.data[e].to));
        }
    }
}

static void emit_func(const struct emitter *em, uint32_t f)
{
    struct rw *w = em->w;
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    uint64_t stub = 0;
    cfg_for_each_block(w->cfg, fn, b)
    {
        uint64_t off;
        if (map_get(&w->syscall_stub, b, &off)) /* the hooks of its system calls stand behind its other stubs */
            stub = w->funcs[f].addr_new + off;
        emit_block(em, f, b, &stub);
    }
    emit_stubs(em, f);
}

static void emit_groups(const struct emitter *em)
{
    struct rw *w = em->w;
    for (size_t g = 0; g < w->group_edges.len; g++) {
        const struct rw_group_edge *ge = &w->group_edges.data[g];
        if (ge->stub_off == UINT32_MAX)
            continue;
        uint64_t a = w->funcs[w->cfg->blocks.data[ge->to].func].addr_new + ge->stub_off;
        a += put_counter(em, a, &w->enter_place[ge->to], ge->counter);
        rw_put_jmp(at_vaddr(em, a), a, rw_body(w, ge->to));
    }
}

#define FUNCS_A_RANGE 64
#define FILL_A_RANGE (1u << 20)

static void fill_range(void *ctx, size_t first, size_t end) { memset((uint8_t *)ctx + first, 0xcc, end - first); }

static void emit_range(void *ctx, size_t first, size_t end)
{
    const struct emitter *em = ctx;
    for (size_t f = first; f < end; f++)
        if (em->w->funcs[f].is_moved)
            emit_func(em, (uint32_t)f);
}

int rw_emit(struct rw *w)
{
    if (w->rw_vaddr + 8ull * w->counter_count + RW_DATA_BYTES - w->img->vaddr_lo > INT32_MAX)
        return diag_error("%s: too large to be rewritten: its copy would be out of reach of 32-bit distances",
                          w->img->path);
    VEC_RESERVE(&w->text, w->text_bytes + 16);
    parallel_for(w->text_bytes + 16, FILL_A_RANGE, fill_range, w->text.data);
    w->text.len = w->text_bytes;
    struct emitter em = {w, (uint8_t *)w->text.data};
    rw_blob_put(w, em.text);
    parallel_for(w->cfg->funcs.len, FUNCS_A_RANGE, emit_range, &em);
    emit_groups(&em);
    for (size_t h = 0; h < w->hooks.len; h++)
        rw_put_hook_stub(w, at_vaddr(&em, w->hooks.data[h].stub), &w->hooks.data[h]);
    rw_emit_tables(w);
    return 0;
}
