/* SPDX-License-Identifier: Apache-2.0
 *
 * objects/graph.h: the dynamic call graph. Its nodes are the procedures that ran; a strongly connected component
 * (procedures that call each other) is one node, so that there is no cycle. Tot and TDES are those of the paper
 * (Goldberg and Hennessy 1990, section 4).
 */
#ifndef MTOOL_OBJECTS_GRAPH_H
#define MTOOL_OBJECTS_GRAPH_H

#include "estimate/model/walks.h"

struct work { /* done in code and on its behalf; sums over blocks times a share, so no integers */
    double instructions, memory_ops, samples, cycles;
};

struct graph_arc {            /* calls or jumps from one procedure to another */
    uint32_t block, from, to; /* block: by number, whose end it is; procedures by number */
    bool is_jump;
    double count;
};

struct graph_node {
    double entries; /* from other nodes, and from code that is not known */
    double unknown; /* of these */
    double tot;
    struct work own, all;          /* its procedures' own; with what is done on their behalf */
    uint32_t size;                 /* procedures */
    uint32_t arc_first, arc_count; /* into arcs: those that leave it */
};

struct graph {
    uint32_t *node_of;        /* by procedure; ID_NONE: it never ran */
    struct graph_node *nodes; /* what a node calls comes before it */
    struct graph_arc *arcs;   /* between nodes, by the node that they leave */
    uint32_t node_count, arc_count;
    uint64_t *pointer_calls; /* by block: calls whose target is not known or not counted; 0 none */
    uint64_t *scc_calls;     /* by block: calls of the node that it belongs to */
    double *func_entries;    /* by procedure: from other nodes, and from code that is not known */
    double pointer_calls_all;
    struct work unknown_all; /* done on behalf of entries from code that is not known */
    double unknown_entries;
    uint8_t *visited; /* by node, for graph_descendants */
};

/* All in j->scratch. Needs counts and, for cycles and samples, the passes that fill these. */
void graph_build(struct join *j, struct graph *g);
/* How many procedures can be reached from these nodes, themselves among them. */
uint32_t graph_descendants(struct graph *g, const uint32_t *nodes, size_t count);
void work_add(struct work *to, const struct work *w, double share);
struct work work_of_tally(const struct tally *t);

#endif
