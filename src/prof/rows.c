/* SPDX-License-Identifier: Apache-2.0
 *
 * rows: exact counts of executed blocks and edges, one row each. An edge is control that went straight from one block
 * to another; what a called function's return brings to the block after the call is no edge.
 */
#include "prof/impl.h"

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
}
