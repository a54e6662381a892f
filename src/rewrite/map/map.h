/* SPDX-License-Identifier: Apache-2.0
 *
 * A map that was read (map.c), for those who solve its equations (solve.c, ran.c). */
#ifndef MTOOL_REWRITE_MAP_MAP_H
#define MTOOL_REWRITE_MAP_MAP_H

#include "rewrite/impl.h"

struct map_full {
    struct rewrite_map pub; /* first: the public part */
    uint32_t *block_group;
    struct rw_step *step;
    uint16_t *mark;
    struct rw_group_edge *group_edges;
    struct rw_promoted *promoted;
    uint32_t group_edge_count, group_count, promoted_count;
    uint8_t vectors;
};

/* ran.c: [funcs], the caller's to free: may any of its counts be other than 0? */
bool *rw_functions_that_ran(const struct map_full *m, const uint64_t *counters, const struct rw_side_exit *left,
                            size_t side_exits_len);

#endif
