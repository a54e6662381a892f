/* SPDX-License-Identifier: Apache-2.0
 *
 * order: a weighted graph of functions, or of variables, into the order in which they should stand in memory: what is
 * used together stands together, and what is used most at the begin. Knows numbers only.
 */
#ifndef MTOOL_ORDER_H
#define MTOOL_ORDER_H

#include "base/base.h"

struct order_node {
    uint64_t heat;  /* how much it is used: instructions executed, or references */
    uint64_t bytes; /* that it takes in memory; 0: unknown */
};
struct order_arc {   /* both ways, and several of the same ends, count together; one of a node with itself not at all */
    uint32_t a, b;   /* nodes */
    uint64_t weight; /* how often the one follows the other: calls, or evictions */
};
/* The order: out[i] is the node that comes i-th, each of `n` once. Nodes are strung into chains by "closest is best"
 * (Pettis and Hansen, Profile Guided Code Positioning, PLDI 1990, section 3, which has arcs without direction where
 * Hwu and Chang, Achieving High Instruction Cache Performance with an Optimizing Compiler, ISCA 1989, followed the
 * heaviest arc from the caller): the heaviest arc between two chains joins them, turned so that its ends are nearest.
 * A chain takes `limit_bytes` at most (0: any number). Chains stand by heat for a byte, the densest first, as clusters
 * in Ottoni and Maher, Optimizing Function Placement for Large-Scale Data-Center Applications, CGO 2017. Of what is
 * equal the smaller number comes first, so that the order is the same each time. */
void order_nodes(const struct order_node *nodes, size_t n, const struct order_arc *arcs, size_t arc_count,
                 uint64_t limit_bytes, uint32_t *out);

#endif
