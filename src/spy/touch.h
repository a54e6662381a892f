/* SPDX-License-Identifier: Apache-2.0
 *
 * Which thread touches a page first, and which use it: a system with several memory nodes puts a page on the node of
 * the thread that touches it first. A thread visits a page when it comes to it and was not there lately; one that reads
 * its way through visits each page once, one that jumps about visits one nearly each time. */
#ifndef MTOOL_SPY_TOUCH_H
#define MTOOL_SPY_TOUCH_H

#include "cache/tables/numbers.h"
#include "spy/spy.h"

enum { TOUCH_PAGE = 12, TOUCH_SLOTS = 64 };

struct touch_page {
    uint32_t cell;        /* whose reference was the first */
    uint32_t votes;       /* of `usual`: the majority keeps them */
    uint8_t first, usual; /* threads; usual: of those that visit it now */
    bool is_touched;      /* nothing else is known before */
};
struct touches {
    struct numbers numbers;       /* of pages */
    VEC(struct touch_page) pages; /* by number */
    VEC(uint32_t) rows;           /* by object: of `all`, + 1; 0: none */
    VEC(struct spy_touched) all;
    uint64_t recent[CACHE_THREADS_MAX][TOUCH_SLOTS]; /* pages + 1 */
};
void touches_visit(struct touches *t, unsigned thread, uint32_t object, uint32_t cell, uint64_t page);
struct touches *touches_new(void);
void touches_free(struct touches *t);
/* Of others, whose cells and objects are cells[cell] and objects[object]. */
void touches_absorb(struct touches *t, const struct touches *from, const uint32_t *cells, const uint32_t *objects);

static inline void touches_see(struct touches *t, unsigned thread, uint32_t object, uint32_t cell, uint64_t address)
{
    uint64_t page = address >> TOUCH_PAGE;
    if (t->recent[thread][page % TOUCH_SLOTS] != page + 1)
        touches_visit(t, thread, object, cell, page);
}

#endif
