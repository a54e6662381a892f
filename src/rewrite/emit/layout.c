/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and addresses. Every function's copy has its fragments one behind the other. Branches start short and grow
 * until all reach (they never shrink, so this ends). Copies keep the original's address mod 64, and the head of an
 * innermost loop its address mod 64: the same loop elsewhere can take up to twice as long.
 *
 * needs: fragments. fills: their off and bytes, labels, addr_new, size_new, order, *_vaddr.
 */
#include "rewrite/impl.h"

#include <stdlib.h>

enum { LOOP_ALIGN = 64, SHORT_BYTES = 2 };

/* The loop's own edge shall arrive where it does in the original. */
static uint16_t padding(const struct rw *w, const struct cfg_func *old, const struct rw_func *fn, uint32_t at)
{
    uint32_t block = fn->fragments[at].id, head = fn->fragments[at].off;
    for (uint32_t i = at + 1; i < w->label[block].again; i++)
        head += fn->fragments[i].bytes;
    return (uint16_t)(((uint32_t)(w->cfg->blocks.data[block].addr - old->addr) - head) & (LOOP_ALIGN - 1));
}

static uint32_t put_in_order(const struct rw *w, const struct cfg_func *old, const struct rw_func *fn)
{
    uint32_t off = 0;
    for (uint32_t i = 0; i < fn->fragment_count; i++) {
        struct rw_fragment *f = &fn->fragments[i];
        f->off = off;
        if (f->kind == RW_PADDING)
            f->bytes = padding(w, old, fn, i);
        off += f->bytes;
    }
    return off;
}

static uint32_t size_of_hot(const struct rw_func *fn)
{
    return fn->cold_first < fn->fragment_count ? fn->fragments[fn->cold_first].off : fn->size_new;
}

struct branch { /* that is short yet; to: a fragment of its function, ID_NONE: elsewhere */
    uint32_t at, to;
};
struct branches {
    struct branch *data;
    size_t len, cap;
};

static void list_branches(const struct rw *w, uint32_t func, struct branches *all)
{
    const struct rw_func *fn = &w->funcs[func];
    all->len = 0;
    for (uint32_t i = 0; i < fn->fragment_count; i++) {
        const struct rw_fragment *f = &fn->fragments[i];
        struct rw_arrival to;
        if (f->kind != RW_BRANCH || f->bytes != SHORT_BYTES)
            continue;
        bool is_inside = rw_branch_arrives(w, f->id, f->how, &to) && to.func == func;
        VEC_PUSH(all, ((struct branch){i, is_inside ? to.label : ID_NONE}));
    }
}

static bool reaches(const struct rw_func *fn, struct branch b)
{
    if (b.to == ID_NONE || (b.to < fn->cold_first) != (b.at < fn->cold_first))
        return false;
    int64_t rel = (int64_t)fn->fragments[b.to].off - (int64_t)(fn->fragments[b.at].off + SHORT_BYTES);
    return rel >= -128 && rel <= 127;
}

/* True if one had to grow. */
static bool grow_branches(const struct rw *w, const struct rw_func *fn, struct branches *all)
{
    size_t n = 0;
    for (size_t k = 0; k < all->len; k++) {
        struct rw_fragment *f = &fn->fragments[all->data[k].at];
        if (reaches(fn, all->data[k]))
            all->data[n++] = all->data[k];
        else
            f->bytes = w->cfg->blocks.data[f->id].term == X86_JMP ? 5 : 6;
    }
    bool any = n < all->len;
    all->len = n;
    return any;
}

static void resolve(const struct rw_func *fn, uint32_t *label)
{
    if (*label != ID_NONE)
        *label = fn->fragments[*label].off;
}

static void resolve_labels(struct rw *w, uint32_t func)
{
    const struct cfg *c = w->cfg;
    const struct rw_func *fn = &w->funcs[func];
    cfg_for_each_block(&c->funcs.data[func], b) {
        resolve(fn, &w->label[b].enter);
        resolve(fn, &w->label[b].body);
        resolve(fn, &w->label[b].again);
        if (w->second)
            resolve(fn, &w->label[b].second);
        const struct cfg_block *blk = &c->blocks.data[b];
        cfg_for_each_edge(blk, e)
            resolve(fn, &w->edge_stub[e]);
    }
}

static void layout_range(void *ctx, size_t first, size_t end)
{
    struct rw *w = ctx;
    struct branches branches = {0};
    for (uint32_t f = (uint32_t)first; f < end; f++) {
        struct rw_func *fn = &w->funcs[f];
        if (!fn->is_moved)
            continue;
        list_branches(w, f, &branches);
        do
            fn->size_new = put_in_order(w, &w->cfg->funcs.data[f], fn);
        while (grow_branches(w, fn, &branches));
        fn->size_hot = size_of_hot(fn);
        resolve_labels(w, f);
        if (w->instrument->describe)
            w->instrument->describe(w, f);
    }
    VEC_FREE(&branches);
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
    uint64_t heat;
};

static int by_heat(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    return x->heat != y->heat ? (x->heat < y->heat ? 1 : -1) : (x->func > y->func) - (x->func < y->func);
}

/* As in the original, but those that counts or samples of a run told to be hot come first, side by side: what one run
 * executes is spread thinly over the pages of a large file, and the processor's tables of pages and lines are small. */
static struct rank *order_functions(const struct rw *w)
{
    const struct cfg *c = w->cfg;
    struct rank *all = ARENA_ARRAY(w->arena, struct rank, c->funcs.len + 1);
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        all[f] = (struct rank){f, w->heat ? w->heat[f] : 0};
        cfg_for_each_block(&c->funcs.data[f], b)
            if (w->feedback_block && w->feedback_block[b] > all[f].heat)
                all[f].heat = w->feedback_block[b];
    }
    if (w->feedback_block || w->heat)
        qsort(all, c->funcs.len, sizeof *all, by_heat);
    return all;
}

void rw_layout_functions(struct rw *w)
{
    const struct cfg *c = w->cfg;
    parallel_for(c->funcs.len, RW_FUNCS_A_RANGE, layout_range, w);
    for (size_t g = 0; g < w->group_edges.len; g++)
        resolve(&w->funcs[c->blocks.data[w->group_edges.data[g].to].func], &w->group_edges.data[g].stub);
}

void rw_layout(struct rw *w)
{
    struct cfg *c = w->cfg;
    uint64_t bias = rw_file_bias(w->img); /* offsets follow addresses, so both must be beyond the original's */
    w->text_vaddr = ALIGN_UP(max_u64(w->img->vaddr_hi, w->img->len_bytes + bias), (uint64_t)4096) + 4096;
    rw_layout_functions(w);
    uint64_t at = w->text_vaddr + rw_blob_bytes();
    rw_heat(w);
    const struct rank *order = order_functions(w);
    w->order = ARENA_ARRAY(w->arena, uint32_t, c->funcs.len + 1);
    w->order_len = 0;
    for (uint32_t k = 0; k < c->funcs.len; k++) {
        uint32_t f = order[k].func;
        if (!w->funcs[f].is_moved)
            continue;
        w->order[w->order_len++] = f;
        at += (c->funcs.data[f].addr - at) & 63;
        w->funcs[f].addr_new = at;
        at += w->funcs[f].size_hot;
    }
    for (size_t k = 0; k < w->order_len; k++) {
        struct rw_func *fn = &w->funcs[w->order[k]];
        fn->addr_cold = at;
        at += fn->size_new - fn->size_hot;
    }
    for (size_t h = 0; h < w->hooks.len; h++) {
        w->hooks.data[h].stub = at;
        at += RW_HOOK_STUB_BYTES;
    }
    w->text_bytes = at - w->text_vaddr;
    layout_data(w);
}
