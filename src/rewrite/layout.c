/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and addresses. Every function's copy is laid out in the order of the original: blocks, their counters in line,
 * then stubs for counters on taken edges, table edges and entrances that something else falls into. Branches start
 * short and grow until all reach (they never shrink, so this ends). Copies keep the original's address mod 64, and the
 * head of an innermost loop its address mod 64: the same loop elsewhere can take up to twice as long.
 *
 * needs: place. fills: block_off, body_off, enter_off, edge_stub_off, mark, is_long, addr_new, size_new, *_vaddr.
 */
#include "rewrite/impl.h"

#include <pthread.h>
#include <stdlib.h>

enum { LOOP_ALIGN = 64, JCXZ_BYTES = 10 };

static bool is_inner_loop_head(const struct cfg *c, const uint8_t *has_child, uint32_t b)
{
    const struct cfg_block *blk = &c->blocks.data[b];
    return (blk->flags & CFG_BLOCK_LOOP_HEADER) && blk->loop != ID_NONE && c->loops.data[blk->loop].header == b &&
           !has_child[blk->loop];
}

/* Is the only way to the byte in front of this block's label the return of the call that ends the previous block, or
 * nothing at all? Then a counter for the entrance may stand there in line. */
static bool enter_in_line(const struct rw *w, const struct cfg_func *fn, uint32_t b)
{
    const struct cfg *c = w->cfg;
    if (b == fn->block_first)
        return true;
    const struct cfg_block *prev = &c->blocks.data[b - 1];
    for (uint32_t e = prev->edge_first; e < prev->edge_first + prev->edge_count; e++)
        if (c->edges.data[e].kind == CFG_EDGE_FALL)
            return false;
    return true;
}

static uint32_t fall_edge_into(const struct cfg *c, const struct cfg_func *fn, uint32_t b)
{
    if (b == fn->block_first)
        return ID_NONE;
    const struct cfg_block *prev = &c->blocks.data[b - 1];
    for (uint32_t e = prev->edge_first; e < prev->edge_first + prev->edge_count; e++)
        if (c->edges.data[e].kind == CFG_EDGE_FALL && c->edges.data[e].to == b)
            return e;
    return ID_NONE;
}

static unsigned insn_bytes(const struct rw *w, uint32_t b, uint32_t i)
{
    switch ((enum x86_kind)cfg_kind(w->cfg, i)) {
    case X86_JMP:
        return w->is_long[b] ? 5 : 2;
    case X86_JCC:
        return w->is_long[b] ? 6 : 2;
    case X86_JCXZ:
        return JCXZ_BYTES;
    case X86_SYSCALL:
        return rw_has_words(w) ? RW_SYSCALL_BYTES : cfg_len(w->cfg, i);
    default:
        return cfg_len(w->cfg, i);
    }
}

/* Those of block b before instruction i. Only the last, or a system call, may have another length than in the original.
 */
static uint32_t bytes_before(const struct rw *w, uint32_t b, uint32_t i)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    uint32_t bytes = 0;
    if (!(blk->flags & CFG_BLOCK_SYSCALL))
        return (uint32_t)(cfg_insn_addr(w->cfg, i) - blk->addr);
    for (uint32_t k = blk->insn_first; k < i; k++)
        bytes += insn_bytes(w, b, k);
    return bytes;
}

static uint32_t block_bytes(const struct rw *w, uint32_t b)
{
    uint32_t last = w->cfg->blocks.data[b].insn_first + w->cfg->blocks.data[b].insn_count - 1;
    return bytes_before(w, b, last) + insn_bytes(w, b, last);
}

uint32_t rw_insn_off(const struct rw *w, uint32_t b, uint32_t i)
{
    uint32_t first = w->cfg->blocks.data[b].insn_first;
    if (i == first)
        return w->block_off[b];
    bool counted = w->block_counter[b] != ID_NONE && i - first > w->place[b].at;
    return w->turn_off[b] + bytes_before(w, b, i) + (counted ? rw_place_bytes(&w->place[b]) : 0);
}

static uint16_t mark_of(const struct rw *w, uint32_t b)
{
    if (w->step[b].step)
        return rw_mark(0, rw_step_enter_bytes(&w->step[b]));
    if (w->block_counter[b] == ID_NONE || w->opt->plan != REWRITE_COUNT)
        return 0;
    uint32_t first = w->cfg->blocks.data[b].insn_first;
    return rw_mark(bytes_before(w, b, first + w->place[b].at), rw_place_bytes(&w->place[b]));
}

/* Where a direct branch of block b goes in the copy, as an offset in its own function; UINT32_MAX: elsewhere. */
static uint32_t branch_off(const struct rw *w, uint32_t f, const struct cfg_block *blk)
{
    const struct cfg *c = w->cfg;
    for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
        const struct cfg_edge *ed = &c->edges.data[e];
        if (ed->kind == CFG_EDGE_FALL || ed->kind == CFG_EDGE_RETURN)
            continue;
        if (w->edge_stub_off[e] != UINT32_MAX)
            return w->edge_stub_off[e];
        if (rw_edge_inside(w, ed) && c->blocks.data[ed->to].func == f)
            return ed->to == ed->from ? w->turn_off[ed->to] : w->body_off[ed->to];
    }
    return UINT32_MAX;
}

static uint32_t put_block(struct rw *w, const struct cfg_func *fn, uint32_t b, uint32_t off, const uint8_t *has_child)
{
    struct cfg *c = w->cfg;
    struct cfg_block *blk = &c->blocks.data[b];
    uint32_t fall = fall_edge_into(c, fn, b);
    if (b > fn->block_first)
        off += rw_step_leave_bytes(&w->step[b - 1]);
    w->block_off[b] = off;
    if (is_inner_loop_head(c, has_child, b)) {
        uint32_t head = off;
        if (fall != ID_NONE && w->edge_counter[fall] != ID_NONE)
            head += rw_place_bytes(&w->edge_place[fall]);
        if (w->enter_counter[b] != ID_NONE && enter_in_line(w, fn, b))
            head += rw_place_bytes(&w->enter_place[b]);
        head += rw_step_enter_bytes(&w->step[b]);
        off += ((uint32_t)(blk->addr - fn->addr) - head) & (LOOP_ALIGN - 1);
    }
    if (fall != ID_NONE && w->edge_counter[fall] != ID_NONE)
        off += rw_place_bytes(&w->edge_place[fall]);
    w->enter_off[b] = off;
    if (w->enter_counter[b] != ID_NONE && enter_in_line(w, fn, b))
        off += rw_place_bytes(&w->enter_place[b]);
    w->body_off[b] = off;
    off += rw_step_enter_bytes(&w->step[b]);
    w->turn_off[b] = off;
    w->mark[b] = mark_of(w, b);
    if (w->block_counter[b] != ID_NONE)
        off += rw_place_bytes(&w->place[b]);
    return off + block_bytes(w, b);
}

static pthread_mutex_t stub_lock = PTHREAD_MUTEX_INITIALIZER; /* of syscall_stub: functions are laid out in parallel */

/* Room for the hooks of a block's system calls. */
static void map_put_hooks(struct rw *w, const struct cfg_block *blk, uint32_t b, uint32_t *off)
{
    if (!rw_has_words(w))
        return;
    uint32_t first = *off;
    for (uint32_t k = 0; (blk->flags & CFG_BLOCK_SYSCALL) && k < blk->insn_count; k++)
        if (cfg_kind(w->cfg, blk->insn_first + k) == X86_SYSCALL)
            *off += RW_SYSCALL_STUB_BYTES;
    if (*off == first)
        return;
    pthread_mutex_lock(&stub_lock);
    map_put(&w->syscall_stub, b, first);
    pthread_mutex_unlock(&stub_lock);
}

static uint32_t put_stubs(struct rw *w, uint32_t f, uint32_t off)
{
    struct cfg *c = w->cfg;
    const struct cfg_func *fn = &c->funcs.data[f];
    cfg_for_each_block(c, fn, b)
    {
        const struct cfg_block *blk = &c->blocks.data[b];
        if (w->enter_counter[b] != ID_NONE && !enter_in_line(w, fn, b)) {
            w->enter_off[b] = off;
            off += rw_place_bytes(&w->enter_place[b]) + 5;
        }
        for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++) {
            if (w->edge_counter[e] == ID_NONE || c->edges.data[e].kind == CFG_EDGE_FALL)
                continue;
            w->edge_stub_off[e] = off;
            off += rw_place_bytes(&w->edge_place[e]) + 5;
        }
        map_put_hooks(w, blk, b, &off);
    }
    return off;
}

/* True if a branch had to grow. */
static bool grow_branches(struct rw *w, uint32_t f)
{
    struct cfg *c = w->cfg;
    const struct cfg_func *fn = &c->funcs.data[f];
    bool any = false;
    cfg_for_each_block(c, fn, b)
    {
        const struct cfg_block *blk = &c->blocks.data[b];
        uint32_t i = blk->insn_first + blk->insn_count - 1;
        uint8_t kind = cfg_kind(c, i);
        if ((kind != X86_JMP && kind != X86_JCC) || w->is_long[b])
            continue;
        uint32_t to = branch_off(w, f, blk), end = w->turn_off[b] + block_bytes(w, b);
        if (w->block_counter[b] != ID_NONE)
            end += rw_place_bytes(&w->place[b]);
        int64_t rel = (int64_t)to - (int64_t)end;
        if (to != UINT32_MAX && rel >= -128 && rel <= 127)
            continue;
        w->is_long[b] = 1;
        any = true;
    }
    return any;
}

static uint32_t layout_func(struct rw *w, uint32_t f, const uint8_t *has_child)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[f];
    uint32_t off;
    do {
        off = 0;
        cfg_for_each_block(w->cfg, fn, b) off = put_block(w, fn, b, off, has_child);
        off = put_stubs(w, f, off);
    } while (grow_branches(w, f));
    return off;
}

#define FUNCS_A_RANGE 64

struct layouter {
    struct rw *w;
    const uint8_t *has_child; /* [loops] */
};

static void layout_range(void *ctx, size_t first, size_t end)
{
    const struct layouter *l = ctx;
    for (size_t f = first; f < end; f++)
        if (l->w->funcs[f].is_moved)
            l->w->funcs[f].size_new = layout_func(l->w, (uint32_t)f, l->has_child);
}

static void layout_groups(struct rw *w)
{
    struct cfg *c = w->cfg;
    for (size_t g = 0; g < w->group_edges.len; g++) {
        struct rw_group_edge *ge = &w->group_edges.data[g];
        if (ge->counter == ID_NONE)
            continue;
        struct rw_func *fn = &w->funcs[c->blocks.data[ge->to].func];
        ge->stub_off = fn->size_new;
        fn->size_new += rw_place_bytes(&w->enter_place[ge->to]) + 5;
    }
}

static void layout_data(struct rw *w)
{
    uint64_t phdrs = (w->img->segment_count + 6) * 56;
    w->ro_vaddr = ALIGN_UP(w->text_vaddr + w->text_bytes, (uint64_t)4096);
    uint64_t at = ALIGN_UP(w->ro_vaddr + phdrs, (uint64_t)64);
    w->tables_vaddr = at;
    for (size_t t = 0; t < w->tables.len; t++) {
        struct rw_table *nt = &w->tables.data[t];
        nt->addr_new = nt->old->by_reloc ? nt->old->addr : at;
        if (!nt->old->by_reloc)
            at = ALIGN_UP(at + (uint64_t)nt->entries * nt->old->entry_bytes, (uint64_t)8);
    }
    str_put(&w->ro, "", 0);
    VEC_RESERVE(&w->ro, at - w->ro_vaddr + 1);
    memset(w->ro.data, 0, at - w->ro_vaddr + 1);
    w->ro.len = at - w->ro_vaddr;
}

/* ---- the order of functions ---- */

struct rank {
    uint32_t func;
    uint16_t heat;
};

static int by_heat(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    return x->heat != y->heat ? (x->heat < y->heat ? 1 : -1) : (x->func > y->func) - (x->func < y->func);
}

/* As in the original, but those that an earlier run knew as hot come first, side by side: what one run executes is
 * spread thinly over the pages of a large file, and the processor's tables of pages and lines are small. */
static struct rank *order_functions(const struct rw *w)
{
    const struct cfg *c = w->cfg;
    struct rank *all = ARENA_ARRAY(w->arena, struct rank, c->funcs.len + 1);
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        all[f].func = f;
        cfg_for_each_block(c, &c->funcs.data[f], b) if (w->learnt_block && w->learnt_block[b] > all[f].heat) all[f]
            .heat = w->learnt_block[b];
    }
    if (w->learnt_block)
        qsort(all, c->funcs.len, sizeof *all, by_heat);
    return all;
}

void rw_layout(struct rw *w)
{
    struct cfg *c = w->cfg;
    w->block_off = ARENA_ARRAY(w->arena, uint32_t, c->blocks.len + 1);
    w->is_long = ARENA_ARRAY(w->arena, uint8_t, c->blocks.len + 1);
    w->body_off = ARENA_ARRAY(w->arena, uint32_t, c->blocks.len + 1);
    w->turn_off = ARENA_ARRAY(w->arena, uint32_t, c->blocks.len + 1);
    w->mark = ARENA_ARRAY(w->arena, uint16_t, c->blocks.len + 1);
    w->enter_off = ARENA_ARRAY(w->arena, uint32_t, c->blocks.len + 1);
    w->edge_stub_off = ARENA_ARRAY(w->arena, uint32_t, c->edges.len + 1);
    memset(w->edge_stub_off, 0xff, (c->edges.len + 1) * sizeof *w->edge_stub_off);
    uint8_t *has_child = ARENA_ARRAY(w->arena, uint8_t, c->loops.len + 1);
    for (size_t l = 0; l < c->loops.len; l++)
        if (c->loops.data[l].parent != ID_NONE)
            has_child[c->loops.data[l].parent] = 1;
    uint64_t bias = rw_file_bias(w->img); /* offsets follow addresses, so both must be beyond the original's */
    w->text_vaddr = ALIGN_UP(max_u64(w->img->vaddr_hi, w->img->len_bytes + bias), (uint64_t)4096) + 4096;
    struct layouter l = {w, has_child};
    parallel_for(c->funcs.len, FUNCS_A_RANGE, layout_range, &l);
    layout_groups(w);
    uint64_t at = w->text_vaddr + rw_blob_bytes();
    const struct rank *order = order_functions(w);
    for (uint32_t k = 0; k < c->funcs.len; k++) {
        uint32_t f = order[k].func;
        if (!w->funcs[f].is_moved)
            continue;
        at += (c->funcs.data[f].addr - at) & 63;
        w->funcs[f].addr_new = at;
        at += w->funcs[f].size_new;
    }
    for (size_t h = 0; h < w->hooks.len; h++, at += RW_HOOK_STUB_BYTES)
        w->hooks.data[h].stub = at;
    w->text_bytes = at - w->text_vaddr;
    layout_data(w);
}
