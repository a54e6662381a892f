/* SPDX-License-Identifier: Apache-2.0
 *
 * objects/overlap.h: the objects that are to be probed, beside each other.
 */
#ifndef MTOOL_OBJECTS_OVERLAP_H
#define MTOOL_OBJECTS_OVERLAP_H

#include "objects/chains.h"
#include "objects/cover.h"

struct overlap_object {
    struct prof_candidate *o;
    uint32_t candidate; /* its index among all */
    const struct cover_part *part;
};

/* Fills what each does on its behalf (again, where pointers lead to it), what samples say of it, the pairs of probes
 * inside of it, whose they are, and which of them are disjoint. Leaves nothing in c. */
void overlap_build(struct join *j, const struct graph *graph, struct cover *c,
                   const struct chains *chains /* or NULL */, const struct overlap_object *objects, size_t count);

#endif
