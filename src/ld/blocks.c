/* SPDX-License-Identifier: Apache-2.0
 * Counts of blocks, solved for all blocks of the linked file. */
#include <stdlib.h>

#include "ld/reading.h"

static void add_function(const struct ld_reading *r, struct ld_blocks *all, const struct rewrite_relocatable_unit *u,
                         uint32_t f, const uint64_t *counts, const uint64_t *enter)
{
    const struct cfg_func *fn = &u->map->cfg->funcs.data[f];
    struct ld_function out = {.name = ld_reading_name(r, u->funcs[f].vaddr),
                              .object = arena_strdup(r->arena, u->name),
                              .address = u->funcs[f].vaddr,
                              .calls = enter[fn->block_first], /* the entry is the first */
                              .first = all->blocks.len,
                              .count = fn->block_count};
    cfg_for_each_block(fn, b) {
        uint32_t insns = u->map->cfg->blocks.data[b].insn_count;
        VEC_PUSH(&all->blocks,
                 ((struct ld_block){ld_reading_block(u, b), ld_reading_block_end(u, b), counts[b], insns}));
        out.insns += counts[b] * insns;
    }
    VEC_PUSH(&all->functions, out);
}

static int add_unit(const struct ld_reading *r, struct ld_blocks *all, const struct rewrite_relocatable_unit *u)
{
    const struct cfg *cfg = u->map->cfg;
    const uint64_t *counters = ld_reading_counters(r, u);
    if (!counters)
        return -1;
    uint64_t *blocks = xmalloc((cfg->blocks.len + 1) * 8), *edges = xmalloc((cfg->edges.len + 1) * 8);
    uint64_t *enter = xmalloc((cfg->blocks.len + 1) * 8);
    all->inconsistent += rewrite_counts_solve(u->map, counters, blocks, edges, enter);
    for (uint32_t f = 0; f < cfg->funcs.len; f++)
        if (u->funcs[f].vaddr && cfg->funcs.data[f].block_count)
            add_function(r, all, u, f, blocks, enter);
    free(blocks), free(edges), free(enter);
    return 0;
}

int ld_blocks_read(const char *path, const char *const *files, size_t count, struct ld_blocks **out)
{
    struct ld_blocks *all = xmalloc(sizeof *all);
    *all = (struct ld_blocks){.arena = arena_new(), .files = count};
    struct ld_reading r = {.arena = all->arena};
    int rc = ld_reading_open(&r, path, files, count, NULL, NULL);
    for (size_t i = 0; rc == 0 && i < r.linked->unit_count; i++)
        rc = add_unit(&r, all, &r.linked->units[i]);
    ld_reading_close(&r);
    if (rc < 0)
        ld_blocks_free(all);
    *out = rc < 0 ? NULL : all;
    return rc;
}

void ld_blocks_free(struct ld_blocks *b)
{
    VEC_FREE(&b->functions);
    VEC_FREE(&b->blocks);
    arena_free(b->arena);
    free(b);
}
