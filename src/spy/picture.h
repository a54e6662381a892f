/* SPDX-License-Identifier: Apache-2.0
 * Which part of an object was reached when, and by which cell: of one reference in so many, from when an object has had
 * enough of them. Both axes are halved whenever what came no longer fits, so neither the length of the run nor the
 * extent of the object must be known before. */
#ifndef MTOOL_SPY_PICTURE_H
#define MTOOL_SPY_PICTURE_H

#include "spy/spy.h"

enum { PICTURE_SAMPLE = 61 }; /* references of which one is looked at; prime, so that loops do not keep step with it */

struct pictures {
    uint32_t skip;      /* references until the next that is looked at */
    unsigned shift;     /* of looked at references to a time */
    uint64_t seen;      /* that were looked at */
    struct map counts;  /* of objects that have no picture yet */
    struct map numbers; /* object -> of `all` */
    VEC(struct spy_picture) all;
};
void pictures_look(struct pictures *p, uint32_t object, uint32_t cell, uint64_t address);
void pictures_fini(struct pictures *p);
/* Of others: of each object the one of which more is known. Cells and objects are cells[cell] and objects[object]. */
void pictures_absorb(struct pictures *p, const struct pictures *from, const uint32_t *cells, const uint32_t *objects);

static inline void pictures_see(struct pictures *p, uint32_t object, uint32_t cell, uint64_t address)
{
    if (p->skip-- == 0)
        pictures_look(p, object, cell, address);
}

#endif
