/* SPDX-License-Identifier: Apache-2.0
 * Pairs of a site and an object, numbered as they come. */
#ifndef MTOOL_SPY_CELLS_H
#define MTOOL_SPY_CELLS_H

#include "spy/spy.h"

struct cells_last { /* of a site: most of its references follow others to the same object */
    uint32_t object, cell;
};
struct cells {
    struct map numbers;
    VEC(struct spy_cell) all;
    VEC(struct cells_last) last; /* by site */
};
void cells_add_sites(struct cells *c, size_t count);
void cells_fini(struct cells *c);
uint32_t cells_make(struct cells *c, uint32_t site, uint32_t object);

static inline uint32_t cells_of(struct cells *c, uint32_t site, uint32_t object)
{
    const struct cells_last *last = &c->last.data[site];
    uint32_t cell = last->object == object ? last->cell : cells_make(c, site, object);
    c->all.data[cell].references++;
    return cell;
}

#endif
