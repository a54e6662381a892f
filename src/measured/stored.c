/* SPDX-License-Identifier: Apache-2.0
 *
 * known: the exact counts that a profile holds, put back on the cfg of the files that were counted, so that they can be
 * asked something new. Refuses files that have changed since: their blocks would be others.
 */
#include "measured/measured.h"

static uint32_t index_of(const struct join *j, const struct join_module *m) { return (uint32_t)(m - j->modules); }

static int changed(const struct join_module *m)
{
    return diag_error("%s is not the file that was counted: it has changed since; count again", m->path);
}

static int check_blocks(const struct join *j, const struct join_module *m)
{
    const struct prof_result *k = j->in->known;
    for (size_t i = 0; i < k->block_count; i++) {
        const struct prof_block_row *row = &k->blocks[i];
        if (row->module != index_of(j, m))
            continue;
        uint32_t b = cfg_block_start(m->cfg, row->address);
        if (b == ID_NONE || m->cfg->blocks.data[b].size != row->size_bytes)
            return changed(m);
    }
    return 0;
}

int stored_open(struct join *j, struct join_module *m)
{
    const struct prof_module *was = &j->in->known->modules[index_of(j, m)];
    if (!was->is_counted)
        return 0;
    if (image_open(m->path, &m->img) != 0)
        return -1;
    if (was->build_id && strcmp(was->build_id, m->img->build_id) != 0)
        return changed(m);
    if (cfg_build(m->img, &m->own_cfg) != 0)
        return -1;
    m->cfg = m->own_cfg;
    return check_blocks(j, m);
}

void stored_close(struct join_module *m) { cfg_free(m->own_cfg); }

static void take_edge(struct join_module *m, const struct prof_edge_row *row)
{
    const struct cfg *c = m->cfg;
    uint32_t from = cfg_block_start(c, row->from), to = cfg_block_start(c, row->to);
    for (uint32_t e = 0; from != ID_NONE && e < c->blocks.data[from].edge_count; e++) {
        uint32_t edge = c->blocks.data[from].edge_first + e;
        if (c->edges.data[edge].to != to || c->edges.data[edge].kind == CFG_EDGE_RETURN || m->edges[edge])
            continue;
        m->edges[edge] = row->count; /* of two edges between the same blocks each has its row */
        return;
    }
}

/* What did not come by an edge came from outside. */
void stored_counts(struct join *j, struct join_module *m)
{
    const struct prof_result *k = j->in->known;
    uint64_t *counts = j->counts + m->block_base;
    for (size_t i = 0; i < k->block_count; i++)
        if (k->blocks[i].module == index_of(j, m))
            counts[cfg_block_start(m->cfg, k->blocks[i].address)] = k->blocks[i].count;
    for (size_t i = 0; i < k->edge_count; i++)
        if (k->edges[i].module == index_of(j, m))
            take_edge(m, &k->edges[i]);
    for (size_t b = 0; b < m->cfg->blocks.len; b++)
        m->enter[b] = counts[b];
    for (size_t e = 0; e < m->cfg->edges.len; e++) {
        uint32_t to = m->cfg->edges.data[e].to;
        if (to != ID_NONE)
            m->enter[to] -= min_u64(m->enter[to], m->edges[e]);
    }
}
