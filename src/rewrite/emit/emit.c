/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of fragments. Everything that refers to code or data by a distance is recomputed; everything else is the
 * original's bytes. Code pointers keep the original's value (its entry jumps here).
 *
 * needs: layout. Writes them to the new file piece by piece, as they are made; fills, by tables.c, ro.
 */
#include "rewrite/impl.h"

#include <errno.h>
#include <stdlib.h>

enum { TRAP = 0xcc };

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
        return rw_address(&w->funcs[to.func], to.label);
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
    uint64_t addr = rw_address(fn, f->off);
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
        rw_put_jmp(at, addr,
                   rw_address(fn, (f->how ? rw_insn_own_off : rw_insn_off)(w, cfg_block_of(w->cfg, f->id), f->id)));
        return;
    case RW_FALL:
        rw_put_jmp(at, addr, rw_address(fn, fn->fragments[w->label[f->id].first].off));
        return;
    case RW_SYSCALL:
        rw_put_syscall(at, addr, rw_address(fn, rw_fragment_of(fn, RW_HOOK, f->id)->off));
        return;
    case RW_HOOK:
        rw_put_syscall_stub(w, at, addr, rw_address(fn, rw_fragment_of(fn, RW_SYSCALL, f->id)->off) + RW_SYSCALL_BYTES);
        return;
    case RW_STUB:
        return;
    }
}

void rw_emit_function(const struct rw *w, uint32_t f, uint8_t *at)
{
    const struct rw_func *fn = &w->funcs[f];
    for (uint32_t i = 0; i < fn->cold_first; i++)
        put_fragment(w, fn, &fn->fragments[i], at + fn->fragments[i].off);
}

static void emit_cold(const struct rw *w, uint32_t f, uint8_t *at)
{
    const struct rw_func *fn = &w->funcs[f];
    for (uint32_t i = fn->cold_first; i < fn->fragment_count; i++)
        put_fragment(w, fn, &fn->fragments[i], at + (fn->fragments[i].off - fn->size_hot));
}

/* ---- into the file ---- */

struct emitter {
    struct rw *w;
    int error; /* of the first write that failed */
};

static void put_piece(struct emitter *em, uint64_t vaddr, const uint8_t *bytes, size_t len)
{
    int none = 0;
    if (file_put_at(em->w->out_fd, bytes, len, vaddr - rw_file_bias(em->w->img)) < 0)
        __atomic_compare_exchange_n(&em->error, &none, errno, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static uint64_t end_before(const struct rw *w, size_t place)
{
    const struct rw_func *fn = place ? &w->funcs[w->order[place - 1]] : NULL;
    return fn ? fn->addr_new + fn->size_hot : w->text_vaddr + rw_blob_bytes();
}

static uint64_t cold_end_before(const struct rw *w, size_t place)
{
    const struct rw_func *fn = &w->funcs[w->order[place ? place - 1 : 0]];
    return place ? fn->addr_cold + (fn->size_new - fn->size_hot) : fn->addr_cold;
}

static void emit_cold_range(void *ctx, size_t first, size_t end)
{
    struct emitter *em = ctx;
    const struct rw *w = em->w;
    uint64_t at = cold_end_before(w, first), len = cold_end_before(w, end) - at;
    if (!len)
        return;
    uint8_t *bytes = xmalloc(len);
    memset(bytes, TRAP, len);
    for (size_t k = first; k < end; k++)
        emit_cold(w, w->order[k], bytes + (w->funcs[w->order[k]].addr_cold - at));
    put_piece(em, at, bytes, len);
    free(bytes);
}

static void emit_range(void *ctx, size_t first, size_t end)
{
    struct emitter *em = ctx;
    const struct rw *w = em->w;
    uint64_t at = end_before(w, first), len = end_before(w, end) - at;
    uint8_t *bytes = xmalloc(len);
    memset(bytes, TRAP, len);
    for (size_t k = first; k < end; k++)
        rw_emit_function(w, w->order[k], bytes + (w->funcs[w->order[k]].addr_new - at));
    put_piece(em, at, bytes, len);
    free(bytes);
}

static void emit_blob(struct emitter *em)
{
    uint8_t *bytes = xmalloc(rw_blob_bytes());
    memset(bytes, TRAP, rw_blob_bytes());
    rw_blob_put(em->w, bytes);
    put_piece(em, em->w->text_vaddr, bytes, rw_blob_bytes());
    free(bytes);
}

static void emit_hooks(struct emitter *em)
{
    uint8_t bytes[RW_HOOK_STUB_BYTES];
    for (size_t h = 0; h < em->w->hooks.len; h++) {
        memset(bytes, TRAP, sizeof bytes);
        rw_put_hook_stub(em->w, bytes, &em->w->hooks.data[h]);
        put_piece(em, em->w->hooks.data[h].stub, bytes, sizeof bytes);
    }
}

int rw_emit(struct rw *w, const char *out)
{
    struct emitter em = {.w = w};
    emit_blob(&em);
    parallel_for(w->order_len, RW_FUNCS_A_RANGE, emit_range, &em);
    parallel_for(w->order_len, RW_FUNCS_A_RANGE, emit_cold_range, &em);
    emit_hooks(&em);
    rw_emit_tables(w);
    if (!em.error)
        return 0;
    rw_abandon(w);
    return diag_error("%s: cannot be written: %s", out, strerror(em.error));
}
