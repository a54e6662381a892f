/* SPDX-License-Identifier: Apache-2.0
 *
 * The new jump tables, then what the instrumentation inserts. Jumps that share one table of labels (interpreters) are a
 * group, with one edge to each target, since a table entry cannot tell who used it.
 *
 * needs: funcs (decide). fills: block_group, group_edges, tables, table_new, ref_table; by counts *_counter, by probes
 * probes.
 */
#include "rewrite/impl.h"

#include <stdlib.h>

/* ---- tables: which share an address and therefore a node ---- */

/* All tables of a jump that has a shared one are in its group, and a table is in one group. True if something moved. */
static bool groups_distributed(struct rw *w)
{
    struct cfg *c = w->cfg;
    bool any = false;
    for (uint32_t t = 0; t < c->tables.len; t++) {
        struct rw_table *nt = &w->tables.data[w->table_new[t]];
        uint32_t *g = &w->block_group[c->tables.data[t].block];
        uint32_t min = *g < nt->group ? *g : nt->group; /* ID_NONE is the largest */
        any |= *g != min || nt->group != min;
        *g = nt->group = min;
    }
    return any;
}

/* Edges that a jump takes to a label whose address it holds in a register: such an address keeps its value (it may be
 * compared or added to), so the jump goes to the original code. Only tables lead to copies. */
static void edges_to_labels_leave(struct rw *w)
{
    struct cfg *c = w->cfg;
    struct map by_table = {0};
    for (uint32_t t = 0; t < c->tables.len; t++)
        for (uint32_t k = 0; k < c->tables.data[t].entries; k++) {
            uint32_t to = cfg_block_start(c, rw_table_entry_old(w, &c->tables.data[t], k));
            if (to != ID_NONE)
                map_put(&by_table, (uint64_t)c->tables.data[t].block << 32 | to, 1);
        }
    for (uint32_t e = 0; e < c->edges.len; e++) {
        struct cfg_edge *ed = &c->edges.data[e];
        if (ed->kind != CFG_EDGE_TABLE || map_has(&by_table, (uint64_t)ed->from << 32 | ed->to))
            continue;
        ed->kind = CFG_EDGE_OUT;
        ed->to = ID_NONE;
    }
    map_fini(&by_table);
}

static void tables_merge(struct rw *w)
{
    struct cfg *c = w->cfg;
    w->table_new = ARENA_ARRAY(w->arena, uint32_t, c->tables.len + 1);
    struct map by_addr = {0};
    for (uint32_t t = 0; t < c->tables.len; t++) {
        const struct cfg_table *tab = &c->tables.data[t];
        uint64_t n = w->tables.len, v;
        bool shared = false, stays = tab->by_reloc || w->is_relocated; /* in objects all of them */
        if (stays && map_get(&by_addr, tab->addr, &v)) {
            n = v;
            shared = true;
        }
        for (uint32_t r = tab->ref_first; r < tab->ref_first + tab->ref_count && !shared; r++)
            if (map_get(&w->ref_table, c->table_refs.data[r], &v)) {
                n = v;
                shared = true;
            }
        if (n == w->tables.len) {
            struct rw_table fresh = {tab, 0, ID_NONE, 0};
            VEC_PUSH(&w->tables, fresh);
        }
        struct rw_table *nt = &w->tables.data[n];
        nt->entries = tab->entries > nt->entries ? tab->entries : nt->entries;
        if (stays)
            map_put(&by_addr, tab->addr, n);
        for (uint32_t r = tab->ref_first; r < tab->ref_first + tab->ref_count; r++)
            map_put(&w->ref_table, c->table_refs.data[r], n);
        if (shared && nt->group == ID_NONE)
            nt->group = w->group_count++;
        w->table_new[t] = (uint32_t)n;
    }
    map_fini(&by_addr);
    while (groups_distributed(w))
        ;
}

static int group_edge_order(const void *a, const void *b)
{
    const struct rw_group_edge *x = a, *y = b;
    return x->group != y->group ? (x->group < y->group ? -1 : 1) : (x->to > y->to) - (x->to < y->to);
}

static void group_edges_collect(struct rw *w)
{
    struct cfg *c = w->cfg;
    for (uint32_t e = 0; e < c->edges.len; e++) {
        const struct cfg_edge *ed = &c->edges.data[e];
        uint32_t g = ed->kind == CFG_EDGE_TABLE ? w->block_group[ed->from] : ID_NONE;
        if (g == ID_NONE || !rw_block_moved(w, ed->from) || !rw_block_moved(w, ed->to))
            continue;
        struct rw_group_edge ge = {g, ed->to, ID_NONE, ID_NONE};
        VEC_PUSH(&w->group_edges, ge);
    }
    if (!w->group_edges.len)
        return;
    qsort(w->group_edges.data, w->group_edges.len, sizeof *w->group_edges.data, group_edge_order);
    size_t n = 1;
    for (size_t i = 1; i < w->group_edges.len; i++)
        if (group_edge_order(&w->group_edges.data[n - 1], &w->group_edges.data[i]))
            w->group_edges.data[n++] = w->group_edges.data[i];
    w->group_edges.len = n;
}

static void fill_none(uint32_t *a, size_t n) { memset(a, 0xff, n * sizeof *a); }
_Static_assert(ID_NONE == UINT32_MAX, "all bits of it are set");

static void no_counters(void *ctx)
{
    struct rw *w = ctx;
    fill_none(w->block_counter, w->cfg->blocks.len);
    fill_none(w->enter_counter, w->cfg->blocks.len);
    fill_none(w->edge_counter, w->cfg->edges.len);
}

static void group_tables(void *ctx)
{
    struct rw *w = ctx;
    fill_none(w->block_group, w->cfg->blocks.len);
    edges_to_labels_leave(w);
    tables_merge(w);
    group_edges_collect(w);
}

void rw_plan(struct rw *w)
{
    struct cfg *c = w->cfg;
    size_t nb = c->blocks.len;
    w->block_counter = ARENA_ARRAY(w->arena, uint32_t, nb + 1);
    w->enter_counter = ARENA_ARRAY(w->arena, uint32_t, nb + 1);
    w->block_group = ARENA_ARRAY(w->arena, uint32_t, nb + 1);
    w->edge_counter = ARENA_ARRAY(w->arena, uint32_t, c->edges.len + 1);
    parallel_both(no_counters, group_tables, w);
    if (w->instrument->plan)
        w->instrument->plan(w);
}
