/* SPDX-License-Identifier: Apache-2.0
 * Weak stand-ins for what other folders do not have yet. */
#include "toy.h"

__attribute__((weak)) const char *const cfg_reason_text[CFG_REASON_COUNT] = {
#define X(id, text) text,
    CFG_REASONS(X)
#undef X
};
__attribute__((weak)) uint32_t cfg_func_at(const struct cfg *c, uint64_t addr)
{
    for (uint32_t f = 0; f < c->funcs.len; f++)
        if (addr - c->funcs.data[f].addr < c->funcs.data[f].size)
            return f;
    return ID_NONE;
}
__attribute__((weak)) uint32_t cfg_block_at(const struct cfg *c, uint64_t addr)
{
    for (uint32_t b = 0; b < c->blocks.len; b++)
        if (addr - c->blocks.data[b].addr < c->blocks.data[b].size)
            return b;
    return ID_NONE;
}
__attribute__((weak)) uint32_t cfg_block_start(const struct cfg *c, uint64_t addr)
{
    uint32_t b = cfg_block_at(c, addr);
    return b != ID_NONE && c->blocks.data[b].addr == addr ? b : ID_NONE;
}
__attribute__((weak)) uint64_t rewrite_counts_solve(const struct rewrite_map *m, const uint64_t *counters, uint64_t *blocks,
                                                    uint64_t *edges, uint64_t *enter)
{
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
        blocks[b] = counters[m->block_counter[b]], enter[b] = counters[m->enter_counter[b]];
    for (uint32_t e = 0; e < m->cfg->edges.len; e++)
        edges[e] = counters[m->edge_counter[e]];
    return 0;
}
