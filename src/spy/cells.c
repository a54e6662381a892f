/* SPDX-License-Identifier: Apache-2.0
 * Cells by site, object and field. */
#include "spy/cells.h"

void cells_add_sites(struct cells *c, size_t count)
{
    VEC_RESERVE(&c->last, c->last.len + count);
    for (size_t i = 0; i < count; i++)
        c->last.data[c->last.len++] = (struct cells_last){{ID_NONE, ID_NONE}, ID_NONE};
}

enum { FIELD_BITS = 10, OBJECT_BITS = 25, SITE_BITS = 64 - FIELD_BITS - OBJECT_BITS };
_Static_assert(SPY_FIELDS_MAX == 1 << FIELD_BITS && SPY_OBJECTS_MAX == 1 << OBJECT_BITS, "a key of 64 bits");

static uint32_t number_of(struct cells *c, uint32_t site, struct spy_whose whose)
{
    uint64_t key = ((uint64_t)site << OBJECT_BITS | whose.object) << FIELD_BITS | whose.field, number;
    if (map_get(&c->numbers, key, &number))
        return (uint32_t)number;
    map_put(&c->numbers, key, c->all.len);
    VEC_PUSH(&c->all, ((struct spy_cell){.site = site, .object = whose.object, .field = whose.field}));
    VEC_PUSH(&c->tracks, ((struct cells_track){.at = 0}));
    return (uint32_t)(c->all.len - 1);
}

uint32_t cells_make(struct cells *c, uint32_t site, struct spy_whose whose)
{
    uint32_t cell = number_of(c, site, whose);
    c->last.data[site] = (struct cells_last){whose, cell};
    return cell;
}

void cells_fini(struct cells *c)
{
    map_fini(&c->numbers);
    VEC_FREE(&c->all);
    VEC_FREE(&c->tracks);
    VEC_FREE(&c->last);
}
