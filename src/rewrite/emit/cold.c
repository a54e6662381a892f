/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions in two parts: what an earlier run never executed of a function that it executed stands apart, behind all
 * that it did, so that what a run executes fills its lines and pages. Of functions with exception tables nothing is
 * taken apart, since the ranges of these must stay in the order of the original.
 */
#include "rewrite/impl.h"

enum { COLD_BYTES_MIN = 32 };

/* Does control come from the block in front only by falling, which a jump can do as well? Behind a call it returns, and
 * behind a counted loop something may stand (counts.c). */
static bool can_part(const struct rw *w, uint32_t b)
{
    const struct cfg *c = w->cfg;
    const struct cfg_block *before = &c->blocks.data[b - 1];
    bool ends =
        before->term == X86_JMP || before->term == X86_JMP_IND || before->term == X86_RET || before->term == X86_TRAP;
    uint32_t falls = 0;
    cfg_for_each_edge(before, e) {
        if (c->edges.data[e].kind != CFG_EDGE_FALL)
            continue;
        if (c->edges.data[e].to != b)
            return false;
        falls++;
    }
    return (ends ? falls == 0 : falls == 1 && (before->term == X86_PLAIN || before->term == X86_JCC)) &&
           !(before->flags & CFG_BLOCK_SYSCALL) && !rw_step_of(w, b - 1);
}

bool rw_can_part(const struct rw *w, uint32_t func)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[func];
    return !fn->is_plt && fn->fde != ID_NONE && !w->cfg->unwind.fdes[fn->fde].lsda;
}

void rw_find_cold(const struct rw *w, uint32_t func)
{
    const struct cfg_func *fn = &w->cfg->funcs.data[func];
    if (!w->is_cold || !rw_can_part(w, func) || !w->feedback_block[fn->block_first])
        return;
    uint32_t end = fn->block_first + fn->block_count, cold_bytes = 0;
    for (uint32_t b = fn->block_first, to; b < end; b = to) {
        bool is_cold = true;
        for (to = b; to == b || (to < end && !can_part(w, to)); to++)
            is_cold &= !w->feedback_block[to];
        for (uint32_t k = b; k < to && is_cold; k++) {
            w->is_cold[k] = 1;
            cold_bytes += w->cfg->blocks.data[k].size;
        }
    }
    if (cold_bytes < COLD_BYTES_MIN)
        memset(w->is_cold + fn->block_first, 0, fn->block_count);
}
