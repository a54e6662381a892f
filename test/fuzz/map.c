/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes the readers of maps and saved cfgs, which lie in a cache that anything can have happened to: a map is refused
 * in one line, or taken, and then solving its equations with any counters keeps within its arrays. */
#include "fuzz.h"

#include <stdlib.h>

#include "rewrite/rewrite.h"

static void solve(const struct rewrite_map *m, uint64_t random)
{
    size_t n = m->cfg->blocks.len;
    uint64_t *counters = xmalloc(8ull * m->counter_count), *counts = xmalloc(16 * n + 8 * m->cfg->edges.len);
    for (uint32_t i = 0; i < m->counter_count; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        counters[i] = random >> (random >> 58);
    }
    rewrite_counts_solve(m, counters, counts, counts + 2 * n, counts + n);
    struct rewrite_side_exit left[16];
    struct rewrite_unexecuted rests[16];
    for (uint32_t i = 0; i < 16; i++) { /* in blocks, near them, anywhere */
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t at = n ? m->block_addr_new[random % n] + (random >> 32 & 63) : 0;
        left[i] = (struct rewrite_side_exit){.before_counters = i % 4 ? m->counters_vaddr - at : random,
                                             .count = (int64_t)random >> (random >> 58)};
        for (int r = 0; r < 16; r++)
            left[i].regs[r] = left[i].vectors[r] = random >> r;
    }
    struct rewrite_side_exits lefts = {left, 16};
    rewrite_counts_solve_side_exits(m, counters, lefts, counts, counts + 2 * n, counts + n);
    FUZZ_CHECK(rewrite_unexecuted_parts(m, lefts, rests) <= 16);
    free(counters);
    free(counts);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct rewrite_map *m;
    fuzz_begin();
    const char *path = fuzz_file(bytes, len);
    int rc = rewrite_map_open(path, &m);
    fuzz_check_said(rc, path);
    if (rc < 0)
        return 0;
    solve(m, fuzz_hash(bytes, len));
    cfg_dump(m->cfg, CFG_DUMP_LOOPS, false, NULL, fuzz_nowhere());
    for (uint32_t f = 0; f < m->cfg->funcs.len; f++)
        cfg_func_at(m->cfg, m->cfg->funcs.data[f].addr);
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
        cfg_block_at(m->cfg, m->cfg->blocks.data[b].addr);
    rewrite_map_close(m);
    return 0;
}
