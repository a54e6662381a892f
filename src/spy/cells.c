/* SPDX-License-Identifier: Apache-2.0
 * Cells by site and object. */
#include "spy/cells.h"

void cells_add_sites(struct cells *c, size_t count)
{
    VEC_RESERVE(&c->last, c->last.len + count);
    for (size_t i = 0; i < count; i++)
        c->last.data[c->last.len++] = (struct cells_last){ID_NONE, ID_NONE};
}

static uint32_t number_of(struct cells *c, uint32_t site, uint32_t object)
{
    uint64_t key = (uint64_t)site << 32 | object, number;
    if (map_get(&c->numbers, key, &number))
        return (uint32_t)number;
    map_put(&c->numbers, key, c->all.len);
    VEC_PUSH(&c->all, ((struct spy_cell){.site = site, .object = object}));
    VEC_PUSH(&c->tracks, ((struct cells_track){.at = 0}));
    return (uint32_t)(c->all.len - 1);
}

uint32_t cells_make(struct cells *c, uint32_t site, uint32_t object)
{
    uint32_t cell = number_of(c, site, object);
    c->last.data[site] = (struct cells_last){object, cell};
    return cell;
}

void cells_fini(struct cells *c)
{
    map_fini(&c->numbers);
    VEC_FREE(&c->all);
    VEC_FREE(&c->tracks);
    VEC_FREE(&c->last);
}
