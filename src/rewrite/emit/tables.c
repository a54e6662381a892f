/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of the new jump tables.
 *
 * needs: layout. fills: ro.
 */
#include "rewrite/impl.h"

uint64_t rw_table_entry_old(const struct rw *w, const struct cfg_table *t, uint32_t k)
{
    const uint8_t *p = image_at(w->img, t->addr + (uint64_t)k * t->entry_bytes, t->entry_bytes);
    if (t->by_reloc) {
        const struct image_reloc *r = image_reloc_at(w->img, t->addr + 8ull * k);
        return r ? (uint64_t)r->addend : 0;
    }
    if (!p)
        return 0;
    if (t->kind == CFG_TABLE_PIC32) {
        int32_t rel;
        memcpy(&rel, p, 4);
        return t->base + (uint64_t)(int64_t)rel;
    }
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static bool is_before(const struct rw_group_edge *e, uint32_t group, uint32_t to)
{
    return e->group != group ? e->group < group : e->to < to;
}

static const struct rw_group_edge *group_edge(const struct rw *w, uint32_t group, uint32_t to)
{
    const struct rw_group_edge *all = w->group_edges.data;
    size_t at = PARTITION_POINT(i, 0, w->group_edges.len, is_before(&all[i], group, to));
    return at < w->group_edges.len && all[at].group == group && all[at].to == to ? &all[at] : NULL;
}

/* Where entry k of the table that block b jumps through leads: to the stub of a counted edge, or to the block. */
uint64_t rw_table_target(const struct rw *w, const struct rw_table *nt, uint64_t old)
{
    const struct cfg *c = w->cfg;
    uint32_t to = cfg_block_start(c, old);
    if (!rw_block_moved(w, to))
        return old;
    if (nt->group != ID_NONE) {
        const struct rw_group_edge *ge = group_edge(w, nt->group, to);
        bool has_stub = ge && ge->stub != ID_NONE;
        return has_stub ? rw_address(&w->funcs[c->blocks.data[to].func], ge->stub) : rw_body(w, to);
    }
    const struct cfg_block *blk = &c->blocks.data[nt->old->block];
    cfg_for_each_edge(blk, e)
        if (c->edges.data[e].kind == CFG_EDGE_TABLE && c->edges.data[e].to == to && w->edge_stub[e] != ID_NONE)
            return rw_address(&w->funcs[blk->func], w->edge_stub[e]);
    return rw_body(w, to);
}

static void emit_table(struct rw *w, const struct rw_table *nt)
{
    if (nt->old->by_reloc || !rw_block_moved(w, nt->old->block))
        return;
    char *at = w->ro.data + (nt->addr_new - w->ro_vaddr);
    for (uint32_t k = 0; k < nt->entries; k++) {
        uint64_t target = rw_table_target(w, nt, rw_table_entry_old(w, nt->old, k));
        if (nt->old->kind == CFG_TABLE_PIC32) {
            uint64_t base = nt->old->base == nt->old->addr ? nt->addr_new : nt->old->base; /* a label keeps its value */
            int32_t rel = (int32_t)(target - base);
            memcpy(at + 4ull * k, &rel, 4);
        } else {
            memcpy(at + 8ull * k, &target, 8);
        }
    }
}

#define TABLES_A_RANGE 64

static void emit_tables(void *ctx, size_t first, size_t end)
{
    struct rw *w = ctx;
    for (size_t t = first; t < end; t++)
        emit_table(w, &w->tables.data[t]);
}

void rw_emit_tables(struct rw *w) { parallel_for(w->tables.len, TABLES_A_RANGE, emit_tables, w); }
