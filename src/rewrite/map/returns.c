/* SPDX-License-Identifier: Apache-2.0
 * Return addresses in a copy to those of the original, by the map alone: a call ends its block, so the block that holds
 * the byte before says it, whatever was inserted. */
#include "rewrite/rewrite.h"

#include <stdlib.h>

struct moved {
    uint64_t at;
    uint32_t block;
};
struct rewrite_returns {
    const struct rewrite_map *map;
    VEC(struct moved) blocks; /* by address in the copy */
};

static int by_address(const void *a, const void *b)
{
    const struct moved *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

struct rewrite_returns *rewrite_returns_new(const struct rewrite_map *map)
{
    struct rewrite_returns *r = xmalloc(sizeof *r);
    r->map = map;
    for (uint32_t i = 0; i < map->cfg->blocks.len; i++)
        if (map->block_addr_new[i])
            VEC_PUSH(&r->blocks, ((struct moved){map->block_addr_new[i], i}));
    if (r->blocks.len)
        qsort(r->blocks.data, r->blocks.len, sizeof *r->blocks.data, by_address);
    return r;
}

void rewrite_returns_free(struct rewrite_returns *r)
{
    if (!r)
        return;
    VEC_FREE(&r->blocks);
    free(r);
}

bool rewrite_returns_find(const struct rewrite_returns *r, uint64_t address, uint64_t *original)
{
    if (address < r->map->text_new_lo || address >= r->map->text_new_hi)
        return false;
    size_t i = PARTITION_POINT(k, 0, r->blocks.len, r->blocks.data[k].at < address);
    const struct cfg_block *block = i ? &r->map->cfg->blocks.data[r->blocks.data[i - 1].block] : NULL;
    if (!block || (block->term != X86_CALL && block->term != X86_CALL_IND))
        return false;
    *original = block->addr + block->size;
    return true;
}
