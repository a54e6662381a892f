/* SPDX-License-Identifier: Apache-2.0
 *
 * Places at which faults found the copy become places in blocks: which block, how far inside, and whether its counter
 * had been passed. Only what stands in line is found: no fault comes from a stub. Blocks with system calls are passed
 * over: no equation rests on their ends.
 */
#include "rewrite/impl.h"

#include <stdlib.h>

static uint32_t block_at_new(const struct rewrite_map *m, uint64_t addr)
{
    uint32_t best = ID_NONE;
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
        if (m->block_addr_new[b] && m->block_addr_new[b] <= addr &&
            (best == ID_NONE || m->block_addr_new[b] >= m->block_addr_new[best]))
            best = b;
    return best;
}

static bool was_passed_by(const struct rewrite_side_exit *l) /* net, of a place where all came back */
{
    uint64_t any = (uint64_t)l->count;
    for (int r = 0; r < 16; r++)
        any |= l->regs[r];
    return any != 0;
}

size_t rw_side_exit_find(const struct rewrite_map *m, const uint16_t *marks, struct rewrite_side_exits side_exits,
                         struct rw_side_exit *out)
{
    size_t n = 0;
    for (size_t i = 0; i < side_exits.len; i++) {
        uint64_t addr = m->counters_vaddr - side_exits.data[i].before_counters;
        uint32_t b = was_passed_by(&side_exits.data[i]) ? block_at_new(m, addr) : ID_NONE;
        if (b == ID_NONE || (m->cfg->blocks.data[b].flags & CFG_BLOCK_SYSCALL))
            continue;
        uint64_t off = addr - m->block_addr_new[b], before = marks[b] >> 6, bytes = marks[b] & 63;
        bool is_counted = bytes && off >= before + bytes;
        off = is_counted ? off - bytes : min_u64(off, bytes ? before : off);
        if (off < m->cfg->blocks.data[b].size)
            out[n++] = (struct rw_side_exit){b, (uint32_t)off, is_counted, &side_exits.data[i]};
    }
    return n;
}

/* What of the block's instructions stands at `off` and behind. */
static struct rewrite_unexecuted rest_of(const struct image *img, const struct cfg_block *blk, uint32_t off)
{
    const uint8_t *p = image_at(img, blk->addr, blk->size);
    struct rewrite_unexecuted r = {.instructions = 0};
    struct x86_insn in;
    for (uint32_t at = 0; p && at < blk->size; at += in.len) {
        if (!x86_decode(p + at, blk->size - at, blk->addr + at, &in))
            return (struct rewrite_unexecuted){.instructions = 0};
        r.instructions += at >= off;
        r.memory_ops += at >= off ? (uint32_t)in.loads + in.stores : 0;
    }
    return r;
}

size_t rewrite_unexecuted_parts(const struct rewrite_map *m, struct rewrite_side_exits side_exits,
                                struct rewrite_unexecuted *out)
{
    struct rw_side_exit *found = xmalloc((side_exits.len + 1) * sizeof *found);
    size_t n = rw_side_exit_find(m, rw_map_marks(m), side_exits, found);
    struct image *img = NULL;
    struct strbuf said = {0};
    diag_hold(&said); /* a file that is not there any more only leaves sums as they are */
    if (n && image_open(m->in_path, &img) < 0)
        n = 0;
    diag_hold(NULL);
    str_free(&said);
    for (size_t i = 0; i < n; i++) {
        out[i] = rest_of(img, &m->cfg->blocks.data[found[i].block], found[i].off);
        out[i].block = found[i].block;
        out[i].count = found[i].at->count;
    }
    if (n)
        image_close(img);
    free(found);
    return n;
}
