/* SPDX-License-Identifier: Apache-2.0
 *
 * Where functions stand in their sections now, and from each old place to the new one. Functions keep their order, and
 * their offset as far as the section's alignment goes.
 *
 * needs: fragments. fills: funcs' addr_new, sections' vaddr_new, size_new, points; w.text_vaddr, text_bytes.
 */
#include "rewrite/relocatable/relocatable.h"

enum { ALIGN_MAX = 64 };

static uint64_t alignment(const struct rel_section *s)
{
    uint64_t a = s->h.sh_addralign;
    return a > ALIGN_MAX ? ALIGN_MAX : a && !(a & (a - 1)) ? a : 1;
}

static void place_functions(struct rel_object *o, struct rel_section *s)
{
    const struct cfg *c = o->w.cfg;
    uint64_t at = s->vaddr_new, align = alignment(s);
    for (uint32_t f = s->func_first; f < s->func_first + s->func_count; f++) {
        at += (c->funcs.data[f].addr - s->vaddr - (at - s->vaddr_new)) & (align - 1);
        o->w.funcs[f].addr_new = at;
        at += o->w.funcs[f].size_new;
    }
    s->size_new = at - s->vaddr_new;
}

/* ---- points ---- */

struct walk { /* over the fragments of one function */
    const struct rel_object *o;
    struct rel_section *s;
    const struct rw_func *fn;
    uint64_t base; /* offset of the function in the new section */
    uint32_t front;
};

static void add_point(struct walk *k, uint32_t i, uint32_t off, uint32_t len)
{
    const struct cfg *c = k->o->w.cfg;
    uint32_t b = cfg_block_of(c, i);
    bool is_first = c->blocks.data[b].insn_first == i;
    struct rel_point p = {.old = (uint32_t)(cfg_insn_addr(c, i) - k->s->vaddr),
                          .len_old = cfg_len(c, i),
                          .front = (uint32_t)k->base + k->front,
                          .row = (uint32_t)k->base + (is_first ? k->o->w.label[b].again : k->front),
                          .at = (uint32_t)k->base + off,
                          .len = len};
    VEC_PUSH(&k->s->points, p);
    k->front = off + len;
}

static void walk_fragment(struct walk *k, const struct rw_fragment *f)
{
    const struct cfg *c = k->o->w.cfg;
    if (f->kind == RW_BRANCH) {
        const struct cfg_block *blk = &c->blocks.data[f->id];
        add_point(k, blk->insn_first + blk->insn_count - 1, f->off, f->bytes);
    }
    if (f->kind != RW_INSNS)
        return;
    for (uint32_t i = f->id, off = 0; off < f->bytes; off += cfg_len(c, i++))
        add_point(k, i, f->off + off, cfg_len(c, i));
}

static void list_points(struct rel_object *o, struct rel_section *s, uint32_t f)
{
    const struct cfg_func *old = &o->w.cfg->funcs.data[f];
    struct walk k = {.o = o, .s = s, .fn = &o->w.funcs[f], .base = o->w.funcs[f].addr_new - s->vaddr_new};
    cfg_for_each_block(old, b) {
        uint32_t at = o->w.label[b].first, end = b + 1 < b_end ? o->w.label[b + 1].first : k.fn->fragment_count;
        k.front = k.fn->fragments[at].off;
        for (; at < end && k.fn->fragments[at].kind != RW_STUB; at++)
            walk_fragment(&k, &k.fn->fragments[at]);
    }
}

static void index_points(struct rel_object *o, struct rel_section *s)
{
    size_t steps = s->h.sh_size / REL_STEP + 2, n = 0;
    s->points_before = ARENA_ARRAY(o->arena, uint32_t, steps);
    for (size_t k = 0; k < steps; k++) {
        while (n < s->points.len && s->points.data[n].old < k * REL_STEP)
            n++;
        s->points_before[k] = (uint32_t)n;
    }
}

void rel_layout(struct rel_object *o)
{
    struct rw *w = &o->w;
    rw_layout_functions(w);
    w->text_vaddr = ALIGN_UP(2 * o->elsewhere_hi - o->elsewhere_lo, (uint64_t)4096);
    uint64_t at = w->text_vaddr;
    for (uint32_t i = 1; i < o->section_count; i++) {
        struct rel_section *s = &o->sections[i];
        if (!s->is_moved)
            continue;
        s->vaddr_new = at = ALIGN_UP(at, (uint64_t)ALIGN_MAX);
        place_functions(o, s);
        at += s->size_new;
        for (uint32_t f = s->func_first; f < s->func_first + s->func_count; f++)
            list_points(o, s, f);
        index_points(o, s);
    }
    w->text_bytes = at - w->text_vaddr;
    w->counters_vaddr = ALIGN_UP(at, (uint64_t)4096) + 4096;
    w->link_hooks_vaddr = ALIGN_UP(w->counters_vaddr + 8ull * w->counter_count, (uint64_t)4096) + 4096;
}

/* ---- questions ---- */

const struct rel_point *rel_point_at(const struct rel_section *s, uint64_t off)
{
    if (off >= s->h.sh_size || !s->points_before)
        return NULL;
    size_t n = s->points_before[off / REL_STEP], end = s->points_before[off / REL_STEP + 1];
    while (n < end && s->points.data[n].old <= off)
        n++;
    const struct rel_point *p = n ? &s->points.data[n - 1] : NULL;
    return p && off - p->old < p->len_old ? p : NULL;
}

static bool begins_func(const struct rel_object *o, const struct rel_section *s, uint64_t off)
{
    uint32_t f = cfg_func_at(o->w.cfg, s->vaddr + off);
    return f != ID_NONE && o->w.cfg->funcs.data[f].addr == s->vaddr + off;
}

/* The function that ends at or before off, nearest to it, or ID_NONE. */
static uint32_t func_before(const struct rel_object *o, const struct rel_section *s, uint64_t off)
{
    const struct cfg_func *fn = o->w.cfg->funcs.data;
    size_t n =
        PARTITION_POINT(f, s->func_first, s->func_first + s->func_count, fn[f].addr + fn[f].size - s->vaddr <= off);
    return n > s->func_first ? (uint32_t)n - 1 : ID_NONE;
}

static uint64_t end_of_func(const struct rel_object *o, const struct rel_section *s, uint32_t f)
{
    return o->w.funcs[f].addr_new + o->w.funcs[f].size_new - s->vaddr_new;
}

/* Padding between functions, and what is behind the last. */
static uint64_t between(const struct rel_object *o, const struct rel_section *s, uint64_t off)
{
    const struct cfg_func *fn = o->w.cfg->funcs.data;
    uint32_t f = func_before(o, s, off);
    if (off >= s->h.sh_size)
        return s->size_new;
    if (f == ID_NONE)
        return 0;
    uint64_t most = f + 1 < s->func_first + s->func_count ? o->w.funcs[f + 1].addr_new - s->vaddr_new : s->size_new;
    return min_u64(most, end_of_func(o, s, f) + off - (fn[f].addr + fn[f].size - s->vaddr));
}

uint64_t rel_end(const struct rel_object *o, const struct rel_section *s, uint64_t off)
{
    const struct rel_point *p = rel_point_at(s, off);
    if (p && !begins_func(o, s, off)) /* nor does one end there */
        return p->front;
    uint32_t f = func_before(o, s, off);
    if (f != ID_NONE && o->w.cfg->funcs.data[f].addr + o->w.cfg->funcs.data[f].size - s->vaddr == off)
        return end_of_func(o, s, f);
    return p ? p->front : between(o, s, off);
}

uint64_t rel_front(const struct rel_object *o, const struct rel_section *s, uint64_t off)
{
    const struct rel_point *p = rel_point_at(s, off);
    if (p && begins_func(o, s, off))
        return o->w.funcs[cfg_func_at(o->w.cfg, s->vaddr + off)].addr_new - s->vaddr_new;
    return p ? p->front : rel_end(o, s, off);
}

uint64_t rel_row(const struct rel_object *o, const struct rel_section *s, uint64_t off)
{
    const struct rel_point *p = rel_point_at(s, off);
    uint32_t b = p ? cfg_block_start(o->w.cfg, s->vaddr + off) : ID_NONE;
    if (b != ID_NONE && o->w.cfg->blocks.data[b].flags & CFG_BLOCK_ENTRY)
        return rw_enter(&o->w, b) - s->vaddr_new;
    return p ? p->row : rel_end(o, s, off);
}

uint64_t rel_entrance(const struct rel_object *o, const struct rel_section *s, uint64_t off)
{
    uint32_t b = cfg_block_start(o->w.cfg, s->vaddr + off);
    return b == ID_NONE ? rel_end(o, s, off) : rw_enter(&o->w, b) - s->vaddr_new;
}

uint64_t rel_symbol_new(const struct rel_object *o, uint32_t sym)
{
    const struct rel_section *s = rel_code_of_symbol(o, sym);
    uint64_t value = o->syms[sym].st_value;
    if (!s || !s->is_moved || ELF64_ST_TYPE(o->syms[sym].st_info) == STT_SECTION)
        return value;
    return rel_is_label(&o->syms[sym]) ? rel_row(o, s, value) : rel_entrance(o, s, value);
}

int64_t rel_addend(const struct rel_object *o, uint32_t sym, uint64_t target_new, int bias)
{
    return (int64_t)(target_new - rel_symbol_new(o, sym)) - bias;
}
