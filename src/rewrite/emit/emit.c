/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of fragments. Everything that refers to code or data by a distance is recomputed; everything else is the
 * original's bytes. Code pointers keep the original's value (its entry jumps here).
 *
 * needs: layout. fills: text, and by tables.c ro.
 */
#include "rewrite/impl.h"

struct emitter {
    struct rw *w;
    uint8_t *text; /* of w->text_vaddr */
};

static uint8_t *at_vaddr(const struct emitter *em, uint64_t addr) { return em->text + (addr - em->w->text_vaddr); }

/* Where a direct call to an original address goes now. */
static uint64_t call_target(const struct rw *w, uint64_t target)
{
    uint32_t b = cfg_block_start(w->cfg, target);
    bool is_entered = rw_block_moved(w, b) && w->cfg->blocks.data[b].flags & (CFG_BLOCK_ENTRY | CFG_BLOCK_CALLED);
    return is_entered ? rw_enter(w, b) : target;
}

static uint64_t branch_target(const struct rw *w, uint32_t block, bool is_second)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[block];
    struct rw_arrival to;
    if (rw_branch_arrives(w, block, is_second, &to))
        return w->funcs[to.func].addr_new + to.label;
    uint64_t target = cfg_insn_target(w->cfg, blk->insn_first + blk->insn_count - 1);
    return w->moved_address ? w->moved_address(w, target) : target;
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
        rw_put32(at + 2, target - (addr + 6));
    }
}

/* The operand of an instruction that refers to a jump table, or a distance that must be recomputed. */
static void fix_operand(const struct rw *w, uint8_t *at, uint64_t addr, uint32_t i)
{
    const struct x86_insn *in = cfg_shape(w->cfg, i);
    uint64_t t, target = cfg_insn(w->cfg, i).target;
    bool is_ref = map_get(&w->ref_table, i, &t);
    if (w->moved_address)
        target = w->moved_address(w, target);
    else if (is_ref)
        target += w->tables.data[t].addr_new - w->tables.data[t].old->addr;
    if (in->props & X86_PROP_RIPREL)
        rw_put32(at + in->disp_off, target - (addr + in->len));
    else if (is_ref && (in->props & X86_PROP_ABS32))
        rw_put32(at + in->disp_off, target);
    else if (is_ref && (in->props & X86_PROP_IMM_ADDR))
        memcpy(at + in->imm_off, &target, in->imm_len);
}

/* ---- one function per kind of fragment ---- */

static void put_branch(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[f->id];
    uint32_t i = blk->insn_first + blk->insn_count - 1;
    const struct x86_insn *in = cfg_shape(w->cfg, i);
    const uint8_t *old = image_at(w->img, cfg_insn_addr(w->cfg, i), in->len);
    uint64_t target = branch_target(w, f->id, f->how);
    if (in->kind == X86_XBEGIN) {
        memcpy(at, old, in->len);
        rw_put32(at + in->disp_off, target - (addr + in->len));
    } else if (in->kind == X86_JCXZ) { /* jrcxz +2; jmp +5; jmp target. The opcode is the byte before the displacement,
                                          prefixes before it */
        at[0] = in->len == 3 ? old[0] : 0x90;
        at[1] = old[in->len - 2];
        at[2] = 2;
        at[3] = 0xeb;
        at[4] = 5;
        rw_put_jmp(at + 5, addr + 5, target);
    } else {
        put_jcc(at, addr, in, f->bytes > 2, target);
    }
}

/* Nothing but the original's bytes? Then it goes with its neighbours. */
static bool is_copied(const struct cfg *c, uint32_t i)
{
    uint8_t kind = cfg_kind(c, i);
    return !cfg_refers(c, i) && (kind == X86_PLAIN || kind == X86_RET || kind == X86_TRAP || kind == X86_INT ||
                                 kind == X86_JMP_IND || kind == X86_CALL_IND);
}

static void fix_insn(const struct rw *w, uint8_t *at, uint64_t addr, uint32_t i)
{
    const struct x86_insn *in = cfg_shape(w->cfg, i);
    if (in->kind == X86_CALL)
        rw_put32(at + in->disp_off, call_target(w, cfg_insn_target(w->cfg, i)) - (addr + in->len));
    else if (in->props & (X86_PROP_RIPREL | X86_PROP_ABS32 | X86_PROP_IMM_ADDR))
        fix_operand(w, at, addr, i);
}

static void put_insns(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    const struct cfg *c = w->cfg;
    memcpy(at, image_at(w->img, cfg_insn_addr(c, f->id), f->bytes), f->bytes);
    for (uint32_t i = f->id, off = 0; off < f->bytes; off += cfg_len(c, i++))
        if (!is_copied(c, i))
            fix_insn(w, at + off, addr + off, i);
}

static void put_fragment(const struct rw *w, const struct rw_func *fn, const struct rw_fragment *f, uint8_t *at)
{
    uint64_t addr = fn->addr_new + f->off;
    switch ((enum rw_fragment_kind)f->kind) {
    case RW_INSNS:
        put_insns(w, f, at, addr);
        return;
    case RW_BRANCH:
        put_branch(w, f, at, addr);
        return;
    case RW_INSERTED:
        w->instrument->put(w, f, at, addr);
        return;
    case RW_PADDING:
        rw_put_nops(at, f->bytes);
        return;
    case RW_JUMP:
        rw_put_jmp(at, addr, rw_body(w, f->id));
        return;
    case RW_BACK:
        rw_put_jmp(at, addr, fn->addr_new + rw_insn_off(w, cfg_block_of(w->cfg, f->id), f->id));
        return;
    case RW_SYSCALL:
        rw_put_syscall(at, addr, fn->addr_new + rw_fragment_of(fn, RW_HOOK, f->id)->off);
        return;
    case RW_HOOK:
        rw_put_syscall_stub(w, at, addr, fn->addr_new + rw_fragment_of(fn, RW_SYSCALL, f->id)->off + RW_SYSCALL_BYTES);
        return;
    case RW_STUB:
        return;
    }
}

static void emit_func(const struct emitter *em, uint32_t f)
{
    const struct rw_func *fn = &em->w->funcs[f];
    uint8_t *at = at_vaddr(em, fn->addr_new);
    for (uint32_t i = 0; i < fn->fragment_count; i++)
        put_fragment(em->w, fn, &fn->fragments[i], at + fn->fragments[i].off);
}

#define FILL_A_RANGE (1u << 20)

static void fill_range(void *ctx, size_t first, size_t end) { memset((uint8_t *)ctx + first, 0xcc, end - first); }

static void emit_range(void *ctx, size_t first, size_t end)
{
    const struct emitter *em = ctx;
    for (size_t f = first; f < end; f++)
        if (em->w->funcs[f].is_moved)
            emit_func(em, (uint32_t)f);
}

void rw_emit_functions(struct rw *w)
{
    struct emitter em = {w, (uint8_t *)w->text.data};
    parallel_for(w->cfg->funcs.len, RW_FUNCS_A_RANGE, emit_range, &em);
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
    rw_emit_functions(w);
    for (size_t h = 0; h < w->hooks.len; h++)
        rw_put_hook_stub(w, at_vaddr(&em, w->hooks.data[h].stub), &w->hooks.data[h]);
    rw_emit_tables(w);
    return 0;
}
