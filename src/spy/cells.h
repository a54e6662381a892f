/* SPDX-License-Identifier: Apache-2.0
 * Pairs of a site and an object, or a field of it, numbered as they come. */
#ifndef MTOOL_SPY_CELLS_H
#define MTOOL_SPY_CELLS_H

#include "spy/spy.h"

struct cells_last { /* of a site: most of its references follow others to the same object */
    struct spy_whose whose;
    struct spy_hint hint;
    uint32_t cell;
};
struct cells {
    uint32_t *index; /* [index_cap] number + 1 by hash, 0: none */
    size_t index_cap;
    VEC(struct spy_cell) all;
    VEC(struct cells_last) last; /* by site */
};
void cells_add_sites(struct cells *c, size_t count);
void cells_fini(struct cells *c);
uint32_t cells_make(struct cells *c, uint32_t site, struct spy_whose whose);

/* The majority among distances (Boyer and Moore 1981). */
static inline void cells_follow(struct spy_cell *cell, uint64_t address)
{
    int64_t stride = (int64_t)(address - cell->last);
    cell->last = address;
    cell->references++;
    if (stride == cell->stride) {
        cell->votes++;
        cell->strided++;
    } else if (cell->votes) {
        cell->votes--;
    } else {
        cell->stride = stride;
        cell->strided = cell->votes = 1;
    }
}

static inline uint32_t cells_of(struct cells *c, const struct spy_access *a)
{
    struct cells_last *last = &c->last.data[a->site];
    last->hint = a->hint;
    bool is_last = last->whose.object == a->whose.object && last->whose.field == a->whose.field;
    return is_last ? last->cell : cells_make(c, a->site, a->whose);
}

#endif
