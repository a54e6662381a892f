/* SPDX-License-Identifier: Apache-2.0
 *
 * Which misses a prefetcher would have caught. It watches what one thread misses in one level, and brings nothing in:
 * the level misses what it would miss without one.
 */
#ifndef MTOOL_CACHE_STREAMS_H
#define MTOOL_CACHE_STREAMS_H

#include "base/base.h"

enum { STREAMS_MAX = 32 };

struct streams_run { /* of neighbouring lines */
    uint64_t last;
    int step; /* 1 or -1; 0: one line so far */
    uint64_t used;
};
struct streams_stride {    /* of a cell */
    uint64_t last, stride; /* last: the line + 1; 0: none yet, or no stride */
};

struct streams {
    struct streams_run runs[STREAMS_MAX];
    VEC(struct streams_stride) strides;
    uint64_t now;
};

void streams_fini(struct streams *s);
/* A miss. Whether the two before it told of it: those of its run, or of its cell. */
bool streams_foresee(struct streams *s, uint64_t line, uint32_t cell);

#endif
