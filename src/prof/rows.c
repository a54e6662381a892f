/* SPDX-License-Identifier: Apache-2.0
 *
 * rows: exact counts of executed blocks, edges and calls, one row each, and where samples fell. An edge is control that
 * went straight from one block to another; what a called function's return brings to the block after the call is no
 * edge.
 */
#include "estimate/model/targets.h"
#include "estimate/model/walks.h"
#include "prof/impl.h"

#include <stdlib.h>

/* Of the first instruction that the compiler gave a line. */
static struct line_row first_line(const struct join_module *m, const struct cfg_block *b)
{
    struct line_row row;
    for (uint64_t at = b->addr; m->lines && at < b->addr + b->size; at = max_u64(at + 1, row.hi)) {
        row.hi = 0;
        if (lines_at(m->lines, at, &row) && row.line)
            return row;
    }
    return (struct line_row){.file = ID_NONE};
}

static void put_block(struct join *j, struct join_module *m, uint32_t module, uint32_t b)
{
    const struct cfg_block *block = &m->cfg->blocks.data[b];
    struct line_row row = first_line(m, block);
    j->r->blocks[j->r->block_count++] = (struct prof_block_row){.module = module,
                                                                .address = block->addr,
                                                                .size_bytes = block->size,
                                                                .instructions = block->insn_count,
                                                                .memory_ops = block->mem_ops,
                                                                .function = join_func_name(j, m, block->func),
                                                                .file = join_file_name(j, row.file),
                                                                .line = row.line,
                                                                .count = j->counts[m->block_base + b]};
}

static void put_edges(struct join *j, const struct join_module *m, uint32_t module)
{
    const struct cfg *c = m->cfg;
    for (size_t e = 0; e < c->edges.len; e++) {
        const struct cfg_edge *edge = &c->edges.data[e];
        if (m->edges[e] && edge->to != ID_NONE && edge->kind != CFG_EDGE_RETURN)
            j->r->edges[j->r->edge_count++] = (struct prof_edge_row){module, c->blocks.data[edge->from].addr,
                                                                     c->blocks.data[edge->to].addr, m->edges[e]};
    }
}

/* ---- calls ---- */

struct arcs {
    struct join *j;
    VEC(struct prof_arc) all;
};

static uint32_t module_of(const struct join *j, uint32_t block)
{
    return (uint32_t)(walk_module(j, block) - j->modules);
}

static const struct cfg_func *func_of(const struct join *j, uint32_t block)
{
    return &walk_module(j, block)->cfg->funcs.data[walk_block(j, block)->func];
}

/* Behind a stub of the linkage table, where that is known (not of functions that are chosen at start-up). */
static uint32_t behind_stub(const struct join *j, uint32_t block)
{
    return func_of(j, block)->is_plt && j->calls->to[block] != ID_NONE ? j->calls->to[block] : block;
}

/* What is seldom executed of a function stands apart under a name of its own; going there is no call. */
static bool is_cold_part(struct join *j, uint32_t block)
{
    static const char end[] = ".cold";
    const char *name = join_func_name(j, &j->modules[module_of(j, block)], walk_block(j, block)->func);
    size_t n = name ? strlen(name) : 0;
    return n >= sizeof end - 1 && strcmp(name + n - (sizeof end - 1), end) == 0;
}

static void put_arc(struct arcs *a, uint32_t block, uint32_t to, uint64_t calls, bool is_estimated)
{
    const struct cfg_block *from = walk_block(a->j, block);
    to = behind_stub(a->j, to);
    if (!calls || func_of(a->j, block)->is_plt || func_of(a->j, to)->is_plt || is_cold_part(a->j, to))
        return;
    VEC_PUSH(&a->all, ((struct prof_arc){.from_module = module_of(a->j, block),
                                         .from = from->addr + from->size - 1,
                                         .to_module = module_of(a->j, to),
                                         .to = walk_block(a->j, to)->addr,
                                         .calls = calls,
                                         .is_estimated = is_estimated}));
}

static void put_pointer_calls(struct arcs *a, uint32_t block)
{
    uint32_t count;
    const struct target *targets = targets_of(a->j->targets, block, &count);
    for (uint32_t i = 0; i < count; i++)
        if (code_is_call(a->j, block, targets[i].to))
            put_arc(a, block, targets[i].to, (uint64_t)(targets[i].calls + 0.5), true);
}

/* Of block b of m: by its call, or by jumps that lead to another function's entry. */
static void put_calls(struct arcs *a, const struct join_module *m, uint32_t b)
{
    const struct cfg *c = m->cfg;
    uint32_t block = m->block_base + b, to = a->j->calls->to[block];
    if (!a->j->counts[block])
        return;
    if (code_is_call(a->j, block, to))
        put_arc(a, block, to, a->j->counts[block], false);
    else if (to == ID_NONE)
        put_pointer_calls(a, block);
    cfg_for_each_edge(&c->blocks.data[b], e)
        if (to == ID_NONE && c->edges.data[e].kind == CFG_EDGE_TAIL && c->edges.data[e].to != ID_NONE)
            put_arc(a, block, m->block_base + c->edges.data[e].to, m->edges[e], false);
}

static void build_arcs(struct join *j)
{
    struct arcs a = {.j = j};
    for (uint32_t i = 0; i < j->module_count; i++)
        for (uint32_t b = 0; j->modules[i].cfg && b < j->modules[i].cfg->blocks.len; b++)
            put_calls(&a, &j->modules[i], b);
    j->r->arcs = ARENA_ARRAY(j->r->arena, struct prof_arc, a.all.len + 1);
    if (a.all.len)
        memcpy(j->r->arcs, a.all.data, a.all.len * sizeof *a.all.data);
    j->r->arc_count = a.all.len;
    VEC_FREE(&a.all);
}

/* ---- samples ---- */

static int by_place(const void *x, const void *y)
{
    const struct prof_pc_sample *a = x, *b = y;
    if (a->module != b->module)
        return a->module > b->module ? 1 : -1;
    return (a->address > b->address) - (a->address < b->address);
}

static void build_samples(struct join *j)
{
    struct prof_result *r = j->r;
    r->pc_samples = ARENA_ARRAY(r->arena, struct prof_pc_sample, j->in->sample_count + 1);
    for (size_t i = 0; i < j->in->sample_count; i++) {
        const struct observed_sample *s = &j->in->samples[i];
        if (s->module < j->module_count)
            r->pc_samples[r->pc_sample_count++] = (struct prof_pc_sample){s->module, s->vaddr, s->count};
    }
    if (r->pc_sample_count)
        qsort(r->pc_samples, r->pc_sample_count, sizeof *r->pc_samples, by_place);
}

void rows_build(struct join *j)
{
    size_t blocks = 0, edges = 0;
    if (!j->in->want_blocks)
        return;
    for (uint32_t b = 0; b < j->block_count; b++)
        blocks += j->counts[b] != 0;
    for (uint32_t i = 0; i < j->module_count; i++)
        for (size_t e = 0; j->modules[i].cfg && e < j->modules[i].cfg->edges.len; e++)
            edges += j->modules[i].edges[e] != 0;
    j->r->blocks = ARENA_ARRAY(j->r->arena, struct prof_block_row, blocks + 1);
    j->r->edges = ARENA_ARRAY(j->r->arena, struct prof_edge_row, edges + 1);
    for (uint32_t i = 0; i < j->module_count; i++) {
        struct join_module *m = &j->modules[i];
        if (!m->cfg)
            continue;
        for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
            if (j->counts[m->block_base + b])
                put_block(j, m, i, b);
        put_edges(j, m, i);
    }
    build_arcs(j);
    build_samples(j);
}
