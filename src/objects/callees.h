/* SPDX-License-Identifier: Apache-2.0
 *
 * objects/callees.h: what a region of a procedure calls, what that adds to its work, and whether it can be estimated.
 */
#ifndef MTOOL_OBJECTS_CALLEES_H
#define MTOOL_OBJECTS_CALLEES_H

#include "objects/graph.h"

struct region {             /* blocks of one function; between markers of several, where they were inlined */
    uint32_t func, loop;    /* ids of the cfg; loop ID_NONE: the procedure; func: of the first block */
    const uint32_t *blocks; /* executed ones, ascending */
    size_t count;
};

/* Blocks are ascending, so those of a function stand together: does the i-th begin one? */
static inline bool region_begins_function(const struct join_module *m, const struct region *r, size_t i)
{
    const struct cfg_block *blocks = m->cfg->blocks.data;
    return i == 0 || blocks[r->blocks[i]].func != blocks[r->blocks[i - 1]].func;
}

struct callee {
    uint32_t node, func; /* func: the first procedure of it that is called */
    double count;
};
struct callees {
    VEC(struct callee) v;
    double pointer_calls; /* to what is not known */
    bool is_recursive;    /* calls what leads back to itself */
};

/* inside: by block of the module, whether it is the region's. whole: the region stands for all procedures of its node.
 */
void callees_gather(const struct graph *g, const struct join_module *m, const struct region *r, const uint8_t *inside,
                    bool whole, struct callees *out);
/* Adds what they do on behalf of the region, and the procedures that work for it. */
void callees_add(const struct graph *g, const struct callees *c, struct work *work, double *tot);
uint32_t callees_descendants(struct graph *g, const struct callees *c); /* procedures */
/* Fills estimable and the reason: why it is not, or by which rule it is. Needs time_s. */
void callees_judge(struct join *j, struct graph *g, const struct callees *c, bool whole, struct prof_candidate *o);
double work_seconds(const struct join *j, const struct work *w); /* by samples, or else the ideal time */

#endif
