/* SPDX-License-Identifier: Apache-2.0
 * Counts of blocks, solved for all blocks of the linked file. */
#include <stdlib.h>

#include "ld/code.h"
#include "ld/reading.h"

static void add_edges(struct ld_blocks *all, const struct cfg *c, const struct cfg_block *blk, const uint64_t *counts,
                      const uint32_t *number)
{
    cfg_for_each_edge(blk, e) {
        const struct cfg_edge *ed = &c->edges.data[e];
        bool is_inside = ed->to != ID_NONE && number[ed->to] != ID_NONE && ed->kind != CFG_EDGE_OUT;
        VEC_PUSH(&all->edges, ((struct ld_edge){.to = is_inside ? number[ed->to] : ID_NONE,
                                                .kind = ed->kind,
                                                .count = ed->kind == CFG_EDGE_RETURN ? 0 : counts[e]}));
    }
}

/* Numbers of blocks among all; those of functions that were left out have none. */
static uint32_t *number_blocks(const struct ld_blocks *all, const struct rewrite_relocatable_unit *u)
{
    const struct cfg *c = u->map->cfg;
    uint32_t *number = xmalloc((c->blocks.len + 1) * sizeof *number), next = (uint32_t)all->blocks.len;
    memset(number, 0xff, (c->blocks.len + 1) * sizeof *number);
    for (uint32_t f = 0; f < c->funcs.len; f++)
        if (u->funcs[f].vaddr)
            cfg_for_each_block(&c->funcs.data[f], b)
                number[b] = next++;
    return number;
}

static uint8_t depth_of(const struct cfg *c, const struct cfg_block *b)
{
    uint32_t depth = b->loop == ID_NONE ? 0 : c->loops.data[b->loop].depth;
    return depth < UINT8_MAX ? (uint8_t)depth : UINT8_MAX;
}

/* By functions: jumps to where each begins, by others. */
static uint64_t *count_tail_calls(const struct cfg *c, const uint64_t *edges)
{
    uint64_t *calls = xmalloc((c->funcs.len + 1) * sizeof *calls);
    for (size_t e = 0; e < c->edges.len; e++)
        if (c->edges.data[e].kind == CFG_EDGE_TAIL && c->edges.data[e].to != ID_NONE)
            calls[c->blocks.data[c->edges.data[e].to].func] += edges[e];
    return calls;
}

static void add_function(const struct ld_reading *r, struct ld_blocks *all, const struct rewrite_relocatable_unit *u,
                         uint32_t f, const uint64_t *counts, const uint64_t *enter, const uint64_t *edges,
                         const uint64_t *tail_calls, const uint32_t *number)
{
    const struct cfg_func *fn = &u->map->cfg->funcs.data[f];
    struct ld_function out = {.name = ld_reading_name(r, u->funcs[f].vaddr),
                              .object = arena_strdup(r->arena, u->name),
                              .address = u->funcs[f].vaddr,
                              .calls = enter[fn->block_first], /* the entry is the first */
                              .tail_calls = tail_calls[f],
                              .first = all->blocks.len,
                              .count = fn->block_count};
    cfg_for_each_block(fn, b) {
        const struct cfg_block *blk = &u->map->cfg->blocks.data[b];
        VEC_PUSH(&all->blocks, ((struct ld_block){.address = ld_reading_block(u, b),
                                                  .end = ld_reading_block_end(u, b),
                                                  .count = counts[b],
                                                  .insns = blk->insn_count,
                                                  .edge_first = (uint32_t)all->edges.len,
                                                  .edge_count = blk->edge_count,
                                                  .flags = blk->flags,
                                                  .term = blk->term,
                                                  .depth = depth_of(u->map->cfg, blk)}));
        add_edges(all, u->map->cfg, blk, edges, number);
        out.insns += counts[b] * blk->insn_count;
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
    uint64_t *tail_calls = count_tail_calls(cfg, edges);
    uint32_t *number = number_blocks(all, u);
    for (uint32_t f = 0; f < cfg->funcs.len; f++)
        if (u->funcs[f].vaddr && cfg->funcs.data[f].block_count)
            add_function(r, all, u, f, blocks, enter, edges, tail_calls, number);
    free(blocks), free(edges), free(enter), free(tail_calls), free(number);
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

int ld_blocks_read_with(const char *path, const char *const *files, size_t count, struct ld_blocks **out,
                        struct image **img)
{
    if (ld_blocks_read(path, files, count, out) < 0)
        return -1;
    if (image_open(path, img) == 0)
        return 0;
    ld_blocks_free(*out);
    return -1;
}

void ld_blocks_free(struct ld_blocks *b)
{
    VEC_FREE(&b->functions);
    VEC_FREE(&b->blocks);
    VEC_FREE(&b->edges);
    arena_free(b->arena);
    free(b);
}
