/* SPDX-License-Identifier: Apache-2.0
 * Unwind tables of the copies, behind the jump tables in the read-only data. A signal can come anywhere, so what was
 * inserted is described as well: stubs behind a function have the frame of the place that they belong to.
 *
 * needs: layout. fills: ro (appended), eh_frame_hdr_*. */
#include "rewrite/impl.h"

#include <stdlib.h>

/* Of an instruction of the cold part: where that was taken out. What changes the frame within it has changed it there,
 * but behind the jump into it. */
static uint32_t cut_off(const struct rw *w, const struct cfg_func *fn, uint32_t b, uint64_t addr_old)
{
    uint32_t first = b, next = b;
    while (rw_is_cold(w, first - 1)) /* a function's first block is not cold */
        first--;
    while (next < fn->block_first + fn->block_count && rw_is_cold(w, next))
        next++;
    bool is_first = addr_old == w->cfg->blocks.data[first].addr;
    if (is_first || next == fn->block_first + fn->block_count)
        return rw_end_off(w, first - 1, !is_first);
    return w->funcs[w->cfg->blocks.data[b].func].fragments[w->label[next].first].off;
}

static uint64_t map_addr(void *ctx, uint32_t fde, uint64_t addr_old, bool is_landing_pad)
{
    const struct rw *w = ctx;
    const struct cfg *c = w->cfg;
    const struct image_fde *d = &c->unwind.fdes[fde];
    uint32_t f = cfg_func_at(c, d->addr);
    const struct cfg_func *fn = &c->funcs.data[f];
    if (is_landing_pad) {
        uint32_t b = cfg_block_start(c, addr_old);
        return rw_block_moved(w, b) ? rw_enter(w, b) : addr_old;
    }
    if (addr_old >= fn->addr + fn->size)
        return w->funcs[f].addr_new + w->funcs[f].size_hot;
    uint32_t i = cfg_insn_at(c, addr_old), b = i == ID_NONE ? ID_NONE : cfg_block_of(c, i);
    if (i == ID_NONE)
        return 0;
    return w->funcs[f].addr_new + (rw_is_cold(w, b) ? cut_off(w, fn, b, addr_old) : rw_insn_off(w, b, i));
}

/* ---- the frames of what was inserted ---- */

struct noter { /* of ranges of functions, each in a list of its own */
    const struct rw *w;
    struct rw_frames *lists;
    size_t *first, *count; /* [funcs] in the list of its range */
};

void rw_frame(struct rw_frames *frames, uint32_t off, uint32_t pushed)
{
    struct image_state state = {off, IMAGE_STATE_HERE, pushed};
    VEC_PUSH(frames, state);
}

/* Each instruction has the frame of the original's. */
static void note_second(struct rw_frames *out, const struct rw *w, const struct cfg_func *fn,
                        const struct rw_fragment *f)
{
    uint64_t from = cfg_insn_addr(w->cfg, f->id);
    for (uint32_t i = f->id, off = 0; off < f->bytes; off += cfg_len(w->cfg, i++)) {
        struct image_state state = {f->off + off, (uint32_t)(from + off - fn->addr), 0};
        VEC_PUSH(out, state);
    }
}

static void note_fragment(struct rw_frames *out, const struct rw *w, const struct cfg_func *fn,
                          const struct rw_fragment *f)
{
    struct image_state stub = {f->off, 0, 0};
    switch ((enum rw_fragment_kind)f->kind) {
    case RW_INSERTED:
        if (w->instrument->frames)
            w->instrument->frames(w, f, out);
        return;
    case RW_STUB:
        stub.off_old = (uint32_t)(cfg_insn_addr(w->cfg, f->id) - fn->addr);
        VEC_PUSH(out, stub);
        return;
    case RW_HOOK:
        rw_syscall_stub_frames(f, out);
        return;
    case RW_INSNS:
        if (f->how)
            note_second(out, w, fn, f);
        return;
    case RW_BRANCH:
    case RW_SYSCALL:
    case RW_PADDING:
    case RW_JUMP:
    case RW_FALL:
    case RW_BACK:
        return;
    }
}

/* A lazy stub pushes a number before it goes to the dynamic linker. */
static void note_plt(struct rw_frames *out, const struct rw *w, const struct cfg_func *fn)
{
    for (uint32_t i = fn->insn_first; i + 1 < fn->insn_first + fn->insn_count; i++)
        if (cfg_shape(w->cfg, i)->op == X86_OP_PUSH)
            rw_frame(out, rw_insn_off(w, cfg_block_of(w->cfg, i + 1), i + 1), 8);
}

static void note_func(struct rw_frames *out, const struct rw *w, uint32_t f)
{
    const struct cfg_func *old = &w->cfg->funcs.data[f];
    const struct rw_func *fn = &w->funcs[f];
    uint32_t i = 0;
    for (; i < fn->cold_first && fn->fragments[i].kind != RW_STUB; i++)
        note_fragment(out, w, old, &fn->fragments[i]);
    if (old->is_plt)
        note_plt(out, w, old);
    for (; i < fn->cold_first; i++)
        note_fragment(out, w, old, &fn->fragments[i]);
}

static void note_place(struct rw_frames *out, const struct cfg *c, const struct cfg_func *fn,
                       const struct rw_fragment *f, uint32_t insn)
{
    struct image_state state = {f->off, (uint32_t)(cfg_insn_addr(c, insn) - fn->addr), 0};
    VEC_PUSH(out, state);
}

/* Of the cold part, where each instruction has the frame of the original's, by offsets from its start. */
static void note_cold(struct rw_frames *out, const struct rw *w, uint32_t f)
{
    const struct cfg *c = w->cfg;
    const struct cfg_func *old = &c->funcs.data[f];
    const struct rw_func *fn = &w->funcs[f];
    size_t first = out->len;
    for (uint32_t i = fn->cold_first; i < fn->fragment_count; i++) {
        const struct rw_fragment *fr = &fn->fragments[i];
        const struct cfg_block *blk = &c->blocks.data[fr->kind == RW_BRANCH || fr->kind == RW_FALL ? fr->id : 0];
        if (fr->kind == RW_INSNS)
            note_second(out, w, old, fr);
        else if (fr->kind == RW_BRANCH)
            note_place(out, c, old, fr, blk->insn_first + blk->insn_count - 1);
        else if (fr->kind == RW_FALL)
            note_place(out, c, old, fr, blk->insn_first);
        else if (fr->kind == RW_SYSCALL)
            note_place(out, c, old, fr, fr->id);
        else
            note_fragment(out, w, old, fr);
    }
    for (size_t k = first; k < out->len; k++)
        out->data[k].off_new -= fn->size_hot;
}

void rw_frames_of(const struct rw *w, uint32_t func, struct rw_frames *out) { note_func(out, w, func); }

static void note_range(void *ctx, size_t first, size_t end)
{
    const struct noter *n = ctx;
    struct rw_frames frames = {0};
    for (size_t f = first; f < end; f++) {
        n->first[f] = frames.len;
        if (n->w->funcs[f].is_moved && !cfg_is_gap_func(&n->w->cfg->funcs.data[f]))
            note_func(&frames, n->w, (uint32_t)f);
        n->count[f] = frames.len - n->first[f];
    }
    n->lists[first / RW_FUNCS_A_RANGE] = frames;
}

static void noter_init(struct noter *n, const struct rw *w)
{
    size_t funcs = w->cfg->funcs.len;
    *n = (struct noter){.w = w,
                        .lists = xmalloc((funcs / RW_FUNCS_A_RANGE + 1) * sizeof *n->lists),
                        .first = xmalloc(funcs * sizeof *n->first),
                        .count = xmalloc(funcs * sizeof *n->count)};
    parallel_for(funcs, RW_FUNCS_A_RANGE, note_range, n);
}

static void noter_fini(struct noter *n)
{
    for (size_t k = 0; k <= n->w->cfg->funcs.len / RW_FUNCS_A_RANGE; k++)
        VEC_FREE(&n->lists[k]);
    free(n->lists);
    free(n->first);
    free(n->count);
}

/* ---- the tables ---- */

struct moved { /* what gets a description */
    struct image_moved_func *data;
    size_t len, cap;
    VEC(uint32_t) ids; /* of functions, which come first, and of the cold parts behind them */
    struct rw_frames of_runtime, of_cold;
    bool any; /* is moved */
};

static void list_cold(const struct rw *w, struct moved *m)
{
    size_t functions = m->len, at = 0;
    for (size_t k = 0; k < functions; k++)
        if (w->funcs[m->ids.data[k]].size_new > w->funcs[m->ids.data[k]].size_hot) {
            const struct rw_func *fn = &w->funcs[m->ids.data[k]];
            size_t before = m->of_cold.len;
            note_cold(&m->of_cold, w, m->ids.data[k]);
            struct image_moved_func part = {m->data[k].fde, fn->addr_cold,           fn->size_new - fn->size_hot,
                                            NULL,           m->of_cold.len - before, true};
            VEC_PUSH(m, part);
            uint32_t id = m->ids.data[k];
            VEC_PUSH(&m->ids, id);
        }
    for (size_t k = functions; k < m->len; at += m->data[k++].state_count)
        m->data[k].states = m->of_cold.data + at;
}

static void list_moved(const struct rw *w, const struct noter *n, struct moved *m)
{
    const struct cfg *c = w->cfg;
    bool any = false;
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        any |= w->funcs[f].is_moved && (!cfg_is_gap_func(fn) || c->unwind.fde_count);
        if (!w->funcs[f].is_moved || cfg_is_gap_func(fn))
            continue;
        const struct image_state *states = n->lists[f / RW_FUNCS_A_RANGE].data;
        struct image_moved_func func = {
            fn->is_plt ? ID_NONE : fn->fde,       w->funcs[f].addr_new, w->funcs[f].size_hot,
            states ? states + n->first[f] : NULL, n->count[f],          false};
        VEC_PUSH(m, func);
        VEC_PUSH(&m->ids, f);
    }
    list_cold(w, m);
    if (any && w->instrument->runtime_frames)
        VEC_PUSH(m, w->instrument->runtime_frames(w, &m->of_runtime));
    m->any = any;
}

static void moved_fini(struct moved *m)
{
    VEC_FREE(m);
    VEC_FREE(&m->ids);
    VEC_FREE(&m->of_runtime);
    VEC_FREE(&m->of_cold);
}

/* Behind what is there, each part where it expects to be. */
static void append(struct rw *w, const struct strbuf *part, uint64_t at)
{
    static const char zero[64];
    while (w->ro_vaddr + w->ro.len < at)
        str_put(&w->ro, zero, min_u64(sizeof zero, at - w->ro_vaddr - w->ro.len));
    if (part->len)
        str_put(&w->ro, part->data, part->len);
}

static void append_all(struct rw *w, const struct image_unwind_out *out, const uint64_t at[3])
{
    append(w, &out->lsda, at[0]);
    append(w, &out->frame, at[1]);
    append(w, &out->hdr, at[2]);
    w->eh_frame_vaddr = at[1];
    w->eh_frame_bytes = out->frame.len;
    w->eh_frame_hdr_vaddr = at[2];
    w->eh_frame_hdr_bytes = out->hdr.len;
}

static int emit_tables(struct rw *w, const struct moved *m, bool *is_bad)
{
    uint64_t first = ALIGN_UP(w->ro_vaddr + w->ro.len, (uint64_t)16), at[3];
    struct image_unwind_out out = {0};
    size_t bad = 0;
    int rc = image_unwind_emit(w->img, &w->cfg->unwind, m->data, m->len, map_addr, w, first, &out, &at[0], &at[1],
                               &at[2], &bad, is_bad);
    if (rc < 0)
        rc = bad == SIZE_MAX ? RW_UNWIND_OUT_OF_REACH : RW_UNWIND_REFUSED;
    else
        append_all(w, &out, at);
    str_free(&out.frame);
    str_free(&out.lsda);
    str_free(&out.hdr);
    return rc;
}

int rw_unwind(struct rw *w)
{
    struct noter noter;
    struct moved moved = {0};
    noter_init(&noter, w);
    list_moved(w, &noter, &moved);
    bool *is_bad = xmalloc(moved.len + 1);
    int rc = moved.any ? emit_tables(w, &moved, is_bad) : 0;
    for (size_t i = 0; rc < 0 && i < moved.ids.len; i++)
        if (is_bad[i])
            w->cfg->funcs.data[moved.ids.data[i]].reason = CFG_REASON_UNWIND;
    free(is_bad);
    moved_fini(&moved);
    noter_fini(&noter);
    return rc;
}
