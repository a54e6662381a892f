/* SPDX-License-Identifier: Apache-2.0
 * Unwind tables of the copies, behind the jump tables in the read-only data. A signal can come anywhere, so what was
 * inserted is described as well: stubs behind a function have the frame of the place that they belong to.
 *
 * needs: layout. fills: ro (appended), eh_frame_hdr_*. */
#include "rewrite/impl.h"

#include <stdlib.h>

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
        return w->funcs[f].addr_new + w->funcs[f].size_new;
    uint32_t i = cfg_insn_at(c, addr_old);
    return i == ID_NONE ? 0 : w->funcs[f].addr_new + rw_insn_off(w, cfg_block_of(c, i), i);
}

/* ---- the frames of what was inserted ---- */

struct state_list {
    struct image_state *data;
    size_t len, cap;
};

struct states { /* of some functions */
    const struct rw *w;
    struct state_list all;
    const uint32_t *group_first, *group_next; /* [funcs], [group_edges]: those whose stubs a function has, by address */
};

struct noter { /* of the states of ranges of functions, each in a list of its own */
    const struct rw *w;
    struct state_list *lists;
    size_t *first, *count; /* [funcs] in the list of its range */
    uint32_t *group_first, *group_next;
};

static void note(struct states *s, uint32_t off_new, uint32_t off_old, uint32_t pushed)
{
    struct image_state state = {off_new, off_old, pushed};
    VEC_PUSH(&s->all, state);
}

/* As rw_put_probes pushes. */
static void note_probes(struct states *s, uint32_t off, const struct rw_place *p)
{
    uint32_t end = off + rw_place_bytes(p) - 9;
    note(s, off + 5, IMAGE_STATE_HERE, 128);
    note(s, off + 6, IMAGE_STATE_HERE, 136);
    note(s, end + 1, IMAGE_STATE_HERE, 128);
    note(s, end + 9, IMAGE_STATE_HERE, 0);
}

static void note_counter(struct states *s, uint32_t off, const struct rw_place *p)
{
    if (p->form == RW_FORM_PROBE)
        note_probes(s, off, p);
    for (size_t k = 0; p->form == RW_FORM_PUSH && k < ARRAY_LEN(rw_form_push_pushed[0]); k++)
        note(s, off + rw_form_push_pushed[p->gs][k][0], IMAGE_STATE_HERE, rw_form_push_pushed[p->gs][k][1]);
}

static void note_block(struct states *s, const struct cfg_func *fn, uint32_t b)
{
    const struct rw *w = s->w;
    const struct cfg *c = w->cfg;
    const struct cfg_block *blk = &c->blocks.data[b], *prev = b > fn->block_first ? blk - 1 : NULL;
    for (uint32_t e = prev ? prev->edge_first : 0; prev && e < prev->edge_first + prev->edge_count; e++)
        if (c->edges.data[e].kind == CFG_EDGE_FALL && c->edges.data[e].to == b && w->edge_counter[e] != ID_NONE)
            note_counter(s, w->block_off[b], &w->edge_place[e]);
    if (w->enter_counter[b] != ID_NONE && w->enter_off[b] < w->body_off[b])
        note_counter(s, w->enter_off[b], &w->enter_place[b]);
    uint32_t at = w->place[b].at;
    if (w->block_counter[b] != ID_NONE)
        note_counter(s, at ? rw_insn_off(w, b, blk->insn_first + at) : w->turn_off[b], &w->place[b]);
}

static void note_stub(struct states *s, uint32_t off_new, uint64_t old, const struct rw_place *p)
{
    note(s, off_new, (uint32_t)old, 0);
    note_counter(s, off_new, p);
}

static void note_hooks(struct states *s, const struct cfg_func *fn, uint32_t b)
{
    const struct rw *w = s->w;
    const struct cfg_block *blk = &w->cfg->blocks.data[b];
    uint64_t off;
    if (!map_get(&w->syscall_stub, b, &off))
        return;
    for (uint32_t i = blk->insn_first; i < blk->insn_first + blk->insn_count; i++) {
        if (cfg_kind(w->cfg, i) != X86_SYSCALL)
            continue;
        note(s, (uint32_t)off, (uint32_t)(cfg_insn_addr(w->cfg, i) - fn->addr), 0);
        for (size_t k = 0; k < ARRAY_LEN(rw_syscall_stub_pushed); k++)
            note(s, (uint32_t)off + rw_syscall_stub_pushed[k][0], IMAGE_STATE_HERE, rw_syscall_stub_pushed[k][1]);
        off += RW_SYSCALL_STUB_BYTES;
    }
}

/* In the order of put_stubs. */
static void note_stubs(struct states *s, uint32_t f)
{
    const struct rw *w = s->w;
    const struct cfg *c = w->cfg;
    const struct cfg_func *fn = &c->funcs.data[f];
    cfg_for_each_block(c, fn, b)
    {
        const struct cfg_block *blk = &c->blocks.data[b];
        uint64_t last = cfg_insn_addr(c, blk->insn_first + blk->insn_count - 1) - fn->addr;
        if (w->enter_counter[b] != ID_NONE && w->enter_off[b] >= w->body_off[b])
            note_stub(s, w->enter_off[b], blk->addr - fn->addr, &w->enter_place[b]);
        for (uint32_t e = blk->edge_first; e < blk->edge_first + blk->edge_count; e++)
            if (w->edge_stub_off[e] != UINT32_MAX)
                note_stub(s, w->edge_stub_off[e], last, &w->edge_place[e]);
        note_hooks(s, fn, b);
    }
    for (uint32_t g = s->group_first[f]; g != ID_NONE; g = s->group_next[g]) {
        const struct rw_group_edge *ge = &w->group_edges.data[g];
        note_stub(s, ge->stub_off, c->blocks.data[ge->to].addr - fn->addr, &w->enter_place[ge->to]);
    }
}

/* A lazy stub pushes a number before it goes to the dynamic linker. */
static void note_plt(struct states *s, const struct cfg_func *fn)
{
    for (uint32_t i = fn->insn_first; i + 1 < fn->insn_first + fn->insn_count; i++)
        if (cfg_shape(s->w->cfg, i)->op == X86_OP_PUSH)
            note(s, rw_insn_off(s->w, cfg_block_of(s->w->cfg, i + 1), i + 1), IMAGE_STATE_HERE, 8);
}

static void group_stubs_by_func(struct noter *s)
{
    const struct rw *w = s->w;
    s->group_first = xmalloc((w->cfg->funcs.len + 1) * sizeof *s->group_first);
    s->group_next = xmalloc((w->group_edges.len + 1) * sizeof *s->group_next);
    memset(s->group_first, 0xff, (w->cfg->funcs.len + 1) * sizeof *s->group_first);
    for (size_t g = w->group_edges.len; g-- > 0;) {
        if (w->group_edges.data[g].stub_off == UINT32_MAX)
            continue;
        uint32_t *first = &s->group_first[w->cfg->blocks.data[w->group_edges.data[g].to].func];
        s->group_next[g] = *first;
        *first = (uint32_t)g;
    }
}

static void note_func(struct states *s, uint32_t f)
{
    const struct cfg_func *fn = &s->w->cfg->funcs.data[f];
    cfg_for_each_block(s->w->cfg, fn, b) note_block(s, fn, b);
    if (fn->is_plt)
        note_plt(s, fn);
    note_stubs(s, f);
}

#define FUNCS_A_RANGE 64

static void note_range(void *ctx, size_t first, size_t end)
{
    const struct noter *n = ctx;
    struct states s = {.w = n->w, .group_first = n->group_first, .group_next = n->group_next};
    for (size_t f = first; f < end; f++) {
        n->first[f] = s.all.len;
        if (n->w->funcs[f].is_moved && !cfg_is_gap_func(&n->w->cfg->funcs.data[f]))
            note_func(&s, (uint32_t)f);
        n->count[f] = s.all.len - n->first[f];
    }
    n->lists[first / FUNCS_A_RANGE] = s.all;
}

static void noter_init(struct noter *n, const struct rw *w)
{
    size_t funcs = w->cfg->funcs.len;
    *n = (struct noter){.w = w,
                        .lists = xmalloc((funcs / FUNCS_A_RANGE + 1) * sizeof *n->lists),
                        .first = xmalloc(funcs * sizeof *n->first),
                        .count = xmalloc(funcs * sizeof *n->count)};
    group_stubs_by_func(n);
    parallel_for(funcs, FUNCS_A_RANGE, note_range, n);
}

static void noter_fini(struct noter *n)
{
    for (size_t k = 0; k <= n->w->cfg->funcs.len / FUNCS_A_RANGE; k++)
        VEC_FREE(&n->lists[k]);
    free(n->lists);
    free(n->first);
    free(n->count);
    free(n->group_first);
    free(n->group_next);
}

/* The code that probes call has frames too. */
static struct image_moved_func probe_code(const struct rw *w, struct states *s)
{
    struct rw_blob_probes code = rw_blob_probes(w);
    uint64_t addr;
    uint32_t pushed;
    for (unsigned i = 0; rw_blob_state(w, i, &addr, &pushed); i++)
        note(s, (uint32_t)(addr - code.addr), IMAGE_STATE_HERE, pushed);
    return (struct image_moved_func){ID_NONE, code.addr, code.bytes, s->all.data, s->all.len};
}

int rw_unwind(struct rw *w)
{
    struct cfg *c = w->cfg;
    VEC(struct image_moved_func) moved = {0};
    VEC(uint32_t) ids = {0};
    bool any = false; /* is moved */
    struct noter noter;
    noter_init(&noter, w);
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        any |= w->funcs[f].is_moved && (!cfg_is_gap_func(fn) || c->unwind.fde_count);
        if (!w->funcs[f].is_moved || cfg_is_gap_func(fn))
            continue;
        const struct image_state *states = noter.lists[f / FUNCS_A_RANGE].data;
        struct image_moved_func m = {fn->is_plt ? ID_NONE : fn->fde, w->funcs[f].addr_new, w->funcs[f].size_new,
                                     states ? states + noter.first[f] : NULL, noter.count[f]};
        VEC_PUSH(&moved, m);
        VEC_PUSH(&ids, f);
    }
    struct states of_probes = {.w = w};
    if (any && w->opt->plan == REWRITE_PROBE)
        VEC_PUSH(&moved, probe_code(w, &of_probes));
    if (any && w->opt->plan == REWRITE_COUNT)
        VEC_PUSH(&moved, ((struct image_moved_func){IMAGE_FDE_SIGNAL, rw_blob_fault_return(w) - 1, 16, NULL, 0}));
    uint64_t first = ALIGN_UP(w->ro_vaddr + w->ro.len, (uint64_t)16), at_lsda, at_frame, at_hdr;
    struct image_unwind_out out = {0};
    size_t bad = 0;
    bool *bad_each = xmalloc(moved.len + 1);
    int rc = 0;
    if (any)
        rc = image_unwind_emit(w->img, &c->unwind, moved.data, moved.len, map_addr, w, first, &out, &at_lsda, &at_frame,
                               &at_hdr, &bad, bad_each);
    if (rc < 0) {
        rc = bad == SIZE_MAX ? RW_UNWIND_OUT_OF_REACH : RW_UNWIND_REFUSED;
        for (size_t i = 0; i < ids.len; i++)
            if (bad_each[i])
                c->funcs.data[ids.data[i]].reason = CFG_REASON_UNWIND;
    } else if (any) {
        static const char zero[64];
        const struct strbuf *parts[3] = {&out.lsda, &out.frame, &out.hdr};
        uint64_t at[3] = {at_lsda, at_frame, at_hdr};
        for (int k = 0; k < 3; k++) {
            while (w->ro_vaddr + w->ro.len < at[k])
                str_put(&w->ro, zero, min_u64(sizeof zero, at[k] - w->ro_vaddr - w->ro.len));
            if (parts[k]->len)
                str_put(&w->ro, parts[k]->data, parts[k]->len);
        }
        w->eh_frame_vaddr = at_frame;
        w->eh_frame_bytes = out.frame.len;
        w->eh_frame_hdr_vaddr = at_hdr;
        w->eh_frame_hdr_bytes = out.hdr.len;
    }
    str_free(&out.frame);
    str_free(&out.lsda);
    str_free(&out.hdr);
    noter_fini(&noter);
    VEC_FREE(&of_probes.all);
    VEC_FREE(&moved);
    VEC_FREE(&ids);
    free(bad_each);
    return rc;
}
