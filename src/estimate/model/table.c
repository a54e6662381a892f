/* SPDX-License-Identifier: Apache-2.0
 *
 * table: the instructions of executed blocks, prepared for the core model when they are first met, and what one
 * execution of a block took there. */
#include "estimate/model/walk.h"

#define READY_STEPS 6      /* what it costs to make an instruction ready, in steps */
#define TABLE_MAX 1000000u /* static instructions that can be visited: 80 bytes each where touched */

uint32_t walk_owner_of(const struct walks *w, uint32_t block)
{
    const struct join_module *m = walk_module(w->j, block);
    const struct cfg_block *b = &m->cfg->blocks.data[block - m->block_base];
    return b->loop != ID_NONE ? m->loop_base + b->loop : w->j->loop_count + m->func_base + b->func;
}

const struct tally *walk_owner_self(const struct walks *w, uint32_t owner)
{
    return owner < w->j->loop_count ? &w->j->loops[owner].self : &w->j->funcs[owner - w->j->loop_count].self;
}

static void meet_owner(struct walks *w, uint32_t block)
{
    uint32_t owner = walk_owner_of(w, block);
    VEC_PUSH(&w->visited_owner, owner);
    if (!w->owners[owner].is_met)
        VEC_PUSH(&w->owners_met, owner);
    w->owners[owner].is_met = true;
}

/* Its length; 0: no instruction. */
static unsigned prepare(const struct walks *w, const uint8_t *bytes, size_t avail, uint64_t addr, struct sim_insn *out)
{
    struct x86_insn insn;
    if (sim_insn_prepare(w->m, w->shapes, bytes, avail, addr, out) == 0)
        return out->shape->len;
    return x86_decode(bytes, avail, addr, &insn) ? insn.len : 0;
}

/* False: no room, or no bytes. */
bool walk_make_ready(struct walks *w, uint32_t block)
{
    if (w->first[block])
        return true;
    const struct join_module *m = walk_module(w->j, block);
    const struct cfg_block *b = &m->cfg->blocks.data[block - m->block_base];
    const uint8_t *bytes = m->img ? image_at(m->img, b->addr, b->size) : NULL;
    if (!bytes || b->insn_count == 0 || b->insn_count > w->max - w->used)
        return false;
    uint32_t off = 0;
    for (uint32_t i = 0; i < b->insn_count; i++) {
        unsigned len =
            off < b->size ? prepare(w, bytes + off, b->size - off, b->addr + off, &w->table[w->used + i]) : 0;
        if (!len)
            return false;
        off += len;
    }
    w->first[block] = w->used;
    w->used += b->insn_count;
    w->spent += (uint64_t)b->insn_count * READY_STEPS;
    VEC_PUSH(&w->visited, block);
    meet_owner(w, block);
    return true;
}

double walk_block_cycles(const struct walks *w, const struct sim_core *core, uint32_t block, uint64_t *executions)
{
    const struct cfg_block *b = walk_block(w->j, block);
    const struct sim_cost *c = sim_core_costs(core) + w->first[block];
    double sum = 0;
    *executions = UINT64_MAX;
    for (uint32_t i = 0; i < b->insn_count; i++) {
        *executions = min_u64(*executions, c[i].count);
        sum += c[i].count ? c[i].cycles / (double)c[i].count : 0;
    }
    return sum;
}

uint64_t walk_times_played(const struct walks *w, uint32_t block)
{
    uint64_t executions = 0;
    if (w->first[block])
        walk_block_cycles(w, sim_feed_core(w->core), block, &executions);
    return executions;
}

uint32_t walk_table_max(const struct walks *w)
{
    uint64_t sum = INSN_FIRST;
    for (uint32_t i = 0; i < w->paths.executed.count; i++)
        sum += walk_block(w->j, w->paths.executed.blocks[i])->insn_count;
    return (uint32_t)min_u64(sum, TABLE_MAX);
}

void walk_prepare_opaque(struct walks *w)
{
    static const uint8_t ret[] = {0xc3}, jump[] = {0xff, 0x25, 0, 0, 0, 0};
    sim_insn_prepare(w->m, w->shapes, ret, sizeof ret, 0, &w->table[INSN_RET]);
    sim_insn_prepare(w->m, w->shapes, jump, sizeof jump, 64, &w->table[INSN_JUMP]);
    w->used = INSN_FIRST;
}
