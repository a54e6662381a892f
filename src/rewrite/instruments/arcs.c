/* SPDX-License-Identifier: Apache-2.0
 *
 * The flow graph that both the planner and the solver stand on, built the same way by both: two nodes a block (2b its
 * way in, 2b+1 its way out), one node for the world outside, one for each table of labels that several jumps share.
 * Arcs carry a weight, which only the planner sets (weights.c) and reads.
 */
#include "rewrite/impl.h"

static void arc_add(struct rw_arcs *p, uint32_t a, uint32_t b, enum rw_arc_kind kind, uint32_t id)
{
    struct rw_arc arc = {a, b, id, (uint8_t)kind, kind == RW_ARC_OUT ? RW_WEIGHT_FORCED : 0};
    VEC_PUSH(p, arc);
}

void rw_arcs_of_block(const struct cfg *c, const uint32_t *block_group, struct rw_arcs *p, uint32_t b)
{
    const struct cfg_block *blk = &c->blocks.data[b];
    uint32_t in = 2 * b, out = 2 * b + 1, group = block_group[b];
    arc_add(p, in, out, RW_ARC_BLOCK, b);
    if (blk->flags & CFG_BLOCK_EXT_IN)
        arc_add(p, p->outside, in, RW_ARC_ENTER, b);
    bool out_done = false;
    if (blk->flags & CFG_BLOCK_SYSCALL) { /* what comes in need not go out */
        arc_add(p, out, p->outside, RW_ARC_OUT, b);
        out_done = true;
    }
    if (group != ID_NONE) { /* no system call in such a block: see rw_decide */
        arc_add(p, out, p->outside + 1 + group, RW_ARC_OUT, b);
        out_done = true;
    }
    cfg_for_each_edge(blk, e) {
        const struct cfg_edge *ed = &c->edges.data[e];
        if (group != ID_NONE && ed->kind == CFG_EDGE_TABLE)
            continue;
        if (rw_cfg_edge_inside(c, ed)) {
            arc_add(p, out, 2 * ed->to, RW_ARC_EDGE, e);
        } else if (!out_done) {
            arc_add(p, out, p->outside, RW_ARC_OUT, b); /* never counted itself: the block is, if need be */
            out_done = true;
        }
    }
    if (!out_done && !blk->edge_count)
        arc_add(p, out, p->outside, RW_ARC_OUT, b);
}

void rw_arcs_build(const struct cfg *c, const uint32_t *block_group, const struct rw_group_edge *group_edges,
                   size_t group_edge_count, uint32_t group_count, const bool *with_func, struct rw_arcs *out)
{
    size_t nb = c->blocks.len;
    memset(out, 0, sizeof *out);
    out->outside = (uint32_t)(2 * nb);
    out->nodes = (uint32_t)(2 * nb + 1 + group_count);
    for (uint32_t b = 0; b < nb; b++)
        if (rw_cfg_block_moved(c, b) && (!with_func || with_func[c->blocks.data[b].func]))
            rw_arcs_of_block(c, block_group, out, b);
    for (uint32_t g = 0; g < group_edge_count; g++)
        arc_add(out, out->outside + 1 + group_edges[g].group, 2 * group_edges[g].to, RW_ARC_GROUP, g);
}
