/* SPDX-License-Identifier: Apache-2.0
 *
 * What threads take from each other, in an order of its own, with caches that never evict: the second opinion on what
 * a simulation of one order says. Of a line that one thread alone has reached one number is kept.
 */
#ifndef MTOOL_SPY_WITNESS_H
#define MTOOL_SPY_WITNESS_H

#include "base/base.h"
#include "cache/tables/numbers.h"

enum { WITNESS_THREADS = 64, WITNESS_PENDING = 256 };

struct witness_line { /* a bit for each thread */
    uint64_t holders, lost, misses;
};
struct witness_ref {
    uint64_t line;
    uint8_t thread;
    bool writes;
};
struct witness {
    unsigned shift; /* of an address, to its line */
    size_t pending_count;
    struct witness_ref pending[WITNESS_PENDING]; /* that came, in order, and are not looked at yet */
    struct numbers numbers;                      /* of lines */
    /* [room] by number. 0: reached by none; thread + 1: by this one alone; above WITNESS_THREADS: by several, its place
     * among `lines` and as much more */
    uint32_t *states;
    size_t room;
    VEC(struct witness_line) lines; /* that several threads have reached */
};

struct witness *witness_new(uint32_t line_bytes);
void witness_free(struct witness *w);
void witness_settle(struct witness *w); /* looks at all that came */
/* Times that a thread came back to the line after another had written it. After witness_settle. */
uint64_t witness_misses(const struct witness *w, uint64_t address);

static inline void witness_see(struct witness *w, unsigned thread, uint64_t address, bool writes)
{
    if (w->pending_count == WITNESS_PENDING)
        witness_settle(w);
    w->pending[w->pending_count++] = (struct witness_ref){address >> w->shift, (uint8_t)thread, writes};
}

#endif
