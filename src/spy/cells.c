/* SPDX-License-Identifier: Apache-2.0
 * Cells by site, object and field: open addressing, at most half full. */
#include "spy/cells.h"

#include <stdlib.h>

enum { INDEX_FIRST = 1 << 10 };

void cells_add_sites(struct cells *c, size_t count)
{
    VEC_RESERVE(&c->last, c->last.len + count);
    for (size_t i = 0; i < count; i++)
        c->last.data[c->last.len++] = (struct cells_last){.whose = {ID_NONE, ID_NONE}, .cell = ID_NONE};
}

static uint64_t place_of(const struct cells *c, uint32_t site, struct spy_whose whose)
{
    uint64_t key = (uint64_t)site << 32 | whose.object;
    return ((key * 0x9e3779b97f4a7c15u + whose.field) * 0xff51afd7ed558ccdu) >> 32 & (c->index_cap - 1);
}

static bool is_of(const struct spy_cell *cell, uint32_t site, struct spy_whose whose)
{
    return cell->site == site && cell->object == whose.object && cell->field == whose.field;
}

static void grow(struct cells *c)
{
    free(c->index);
    c->index_cap = c->index_cap ? 2 * c->index_cap : INDEX_FIRST;
    c->index = xmalloc(c->index_cap * sizeof *c->index);
    for (size_t i = 0; i < c->all.len; i++) {
        const struct spy_cell *cell = &c->all.data[i];
        uint64_t at = place_of(c, cell->site, (struct spy_whose){cell->object, cell->field});
        while (c->index[at])
            at = (at + 1) & (c->index_cap - 1);
        c->index[at] = (uint32_t)i + 1;
    }
}

static uint32_t number_of(struct cells *c, uint32_t site, struct spy_whose whose)
{
    if (2 * c->all.len >= c->index_cap)
        grow(c);
    uint64_t at = place_of(c, site, whose);
    for (; c->index[at]; at = (at + 1) & (c->index_cap - 1))
        if (is_of(&c->all.data[c->index[at] - 1], site, whose))
            return c->index[at] - 1;
    VEC_PUSH(&c->all, ((struct spy_cell){.site = site, .object = whose.object, .field = whose.field}));
    c->index[at] = (uint32_t)c->all.len;
    return (uint32_t)c->all.len - 1;
}

uint32_t cells_make(struct cells *c, uint32_t site, struct spy_whose whose)
{
    uint32_t cell = number_of(c, site, whose);
    c->last.data[site].whose = whose;
    c->last.data[site].cell = cell;
    return cell;
}

void cells_fini(struct cells *c)
{
    free(c->index);
    VEC_FREE(&c->all);
    VEC_FREE(&c->last);
}
