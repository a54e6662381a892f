/* SPDX-License-Identifier: Apache-2.0
 *
 * executed: the counters of single threads become what each of them executed of each object. Exact for the counted run;
 * in a program that hands out work as it comes another run may share it out otherwise. Knows nothing of the time that
 * it took.
 */
#include "prof/impl.h"

#include <stdlib.h>

static void add_blocks(const struct join *j, const struct join_module *m, const uint64_t *counts,
                       struct executed_work *of_thread)
{
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++) {
        const struct cfg_block *block = &m->cfg->blocks.data[b];
        uint64_t n = min_u64(counts[b], j->counts[m->block_base + b]);
        uint32_t owner = n ? objects_owner(j, m, block->func, block->loop) : ID_NONE;
        if (owner == ID_NONE)
            continue;
        of_thread[owner].instructions += n * block->insn_count;
        of_thread[owner].memory_ops += n * block->mem_ops;
        of_thread[owner].cycles += j->cycles ? (double)n * (double)j->cycles[m->block_base + b] : 0;
    }
}

static void add_module(const struct join *j, const struct join_module *m, const uint64_t *counters,
                       struct executed_work *of_thread)
{
    uint64_t *blocks = xmalloc((m->cfg->blocks.len + 1) * sizeof *blocks),
             *edges = xmalloc((m->cfg->edges.len + 1) * sizeof *edges);
    rewrite_counts_solve(m->in->map, counters, blocks, edges, NULL);
    add_blocks(j, m, blocks, of_thread);
    free(blocks);
    free(edges);
}

struct executed_work *executed_build(const struct join *j)
{
    size_t threads = j->in->thread_counters_len, objects = j->r->object_count;
    if (!threads || threads != j->in->thread_count)
        return NULL;
    struct executed_work *all = ARENA_ARRAY(j->scratch, struct executed_work, threads * objects + 1);
    for (size_t t = 0; t < threads; t++)
        for (uint32_t i = 0; i < j->module_count; i++) {
            const struct join_module *m = &j->modules[i];
            const uint64_t *counters = m->cfg && m->in->counters ? j->in->thread_counters[t][i] : NULL;
            if (counters)
                add_module(j, m, counters, all + t * objects);
        }
    return all;
}
