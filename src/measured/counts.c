/* SPDX-License-Identifier: Apache-2.0
 *
 * counts: a module's counters become exact counts of blocks and edges, entries and iterations of loops, calls of
 * functions, and sums of instructions and memory operations over loops and functions (never over callees).
 * Needs only the maps; knows nothing of time.
 */
#include "measured/measured.h"

#include <stdlib.h>

static struct cfg_edge *edges_of(const struct cfg *c, const struct cfg_block *b)
{
    return c->edges.data + b->edge_first;
}

/* Most counts of a large module are 0: of memory that nobody wrote to, no page is taken. */
static void set(uint64_t *count, uint64_t to)
{
    if (*count != to)
        *count = to;
}

/* Control that comes back from a call: as the count of the return edge, whichever way the solver gave it. A return
 * point that is entered in no other way from outside got everything from its call that no other edge brought. */
static void settle_returns(struct join_module *m, const uint64_t *counts)
{
    const struct cfg *c = m->cfg;
    uint64_t *inside = xmalloc_sparse((c->blocks.len + 1) * sizeof *inside); /* arrivals by edges other than returns */
    for (size_t e = 0; e < c->edges.len; e++)
        if (c->edges.data[e].kind != CFG_EDGE_RETURN && c->edges.data[e].to != ID_NONE && m->edges[e])
            inside[c->edges.data[e].to] += m->edges[e];
    for (size_t e = 0; e < c->edges.len; e++) {
        const struct cfg_edge *edge = &c->edges.data[e];
        if (edge->kind != CFG_EDGE_RETURN || edge->to == ID_NONE)
            continue;
        uint32_t to = edge->to;
        if ((c->blocks.data[to].flags & CFG_BLOCK_EXT_IN) == CFG_BLOCK_RETURN_POINT) {
            set(&m->edges[e], counts[to] > inside[to] ? counts[to] - inside[to] : 0);
            set(&m->enter[to], 0);
        } else if (m->edges[e] == 0) {
            set(&m->edges[e], min_u64(m->enter[to], counts[edge->from]));
            set(&m->enter[to], m->enter[to] - m->edges[e]);
        }
    }
    xfree_sparse(inside);
}

/* Arrivals at block `at` by edges out of the blocks listed. */
static uint64_t arrivals(const struct join_module *m, uint32_t at, const uint32_t *blocks, uint32_t count)
{
    const struct cfg *c = m->cfg;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct cfg_block *b = &c->blocks.data[blocks[i]];
        for (uint32_t e = 0; e < b->edge_count; e++)
            if (edges_of(c, b)[e].to == at)
                sum += m->edges[b->edge_first + e];
    }
    return sum;
}

static void count_loops(struct join *j, const struct join_module *m)
{
    const struct cfg *c = m->cfg;
    for (uint32_t l = 0; l < c->loops.len; l++) {
        const struct cfg_loop *loop = &c->loops.data[l];
        struct join_loop *out = &j->loops[m->loop_base + l];
        out->iterations = j->counts[m->block_base + loop->header];
        if (out->iterations == 0)
            continue;
        uint64_t back = arrivals(m, loop->header, c->loop_members.data + loop->member_first, loop->member_count);
        out->entries = out->iterations > back ? out->iterations - back : 0;
    }
}

static void count_calls(struct join *j, struct join_module *m)
{
    const struct cfg *c = m->cfg;
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *func = &c->funcs.data[f];
        struct join_func *out = &j->funcs[m->func_base + f];
        if (func->is_plt == 0)
            m->functions++;
        if (func->reason != CFG_REASON_OK || func->block_count == 0)
            continue;
        out->is_counted =
            !m->in->map || !m->in->map->block_addr_new || m->in->map->block_addr_new[func->block_first] != 0;
        if (!out->is_counted)
            continue;
        m->functions_rewritten += func->is_plt == 0;
        uint64_t at_entry = j->counts[m->block_base + func->block_first], back = 0;
        for (uint32_t b = func->block_first; at_entry && b < func->block_first + func->block_count; b++)
            back += arrivals(m, func->block_first, &b, 1);
        out->calls = at_entry > back ? at_entry - back : 0;
    }
}

uint64_t prof_instructions(const struct rewrite_map *map, const uint64_t *counters)
{
    const struct cfg *c = map->cfg;
    uint64_t *blocks = xmalloc((c->blocks.len + 1) * 8), *edges = xmalloc((c->edges.len + 1) * 8), sum = 0;
    rewrite_counts_solve(map, counters, blocks, edges, NULL);
    for (uint32_t b = 0; b < c->blocks.len; b++)
        sum += blocks[b] * c->blocks.data[b].insn_count;
    free(blocks);
    free(edges);
    return sum;
}

static void make_room(struct join *j, struct join_module *m)
{
    m->edges = ARENA_SPARSE(j->scratch, uint64_t, m->cfg->edges.len + 1);
    m->enter = ARENA_SPARSE(j->scratch, uint64_t, m->cfg->blocks.len + 1);
}

/* A large module has tens of megabytes of counts: what was solved before is moved, and nothing of it stays twice. */
static uint64_t take_flow(struct join *j, struct join_module *m, uint64_t *counts)
{
    struct rewrite_flow *flow = m->in->flow;
    if (flow && flow->blocks) {
        for (size_t b = 0; b < m->cfg->blocks.len; b++)
            set(&counts[b], flow->blocks[b]);
        xfree_sparse(flow->blocks);
        flow->blocks = NULL;
        m->edges = flow->edges;
        m->enter = flow->enter;
        return flow->broken;
    }
    make_room(j, m);
    return rewrite_counts_solve_side_exits(m->in->map, m->in->counters,
                                           (struct rewrite_side_exits){m->in->side_exits, m->in->side_exit_count},
                                           counts, m->edges, m->enter);
}

static void solve_counters(struct join *j, struct join_module *m, uint64_t *counts)
{
    struct rewrite_side_exits side_exits = {m->in->side_exits, m->in->side_exit_count};
    uint64_t broken = take_flow(j, m, counts);
    m->unexecuted = ARENA_ARRAY(j->scratch, struct rewrite_unexecuted, side_exits.len + 1);
    m->unexecuted_count = side_exits.len ? rewrite_unexecuted_parts(m->in->map, side_exits, m->unexecuted) : 0;
    if (broken)
        prof_warn(j->r, PROF_WARN_COUNTS_LOST, "counts of %s contradict themselves at %llu places: some were lost",
                  file_base_name(m->in->path), (unsigned long long)broken);
}

/* What was not executed of a block, out of sums that take it for executed. */
static void take_unexecuted(const struct rewrite_unexecuted *r, uint64_t *instructions, uint64_t *memory_ops)
{
    int64_t less_instructions = r->count * (int64_t)r->instructions, less_ops = r->count * (int64_t)r->memory_ops;
    *instructions -=
        (uint64_t)(less_instructions > (int64_t)*instructions ? (int64_t)*instructions : less_instructions);
    *memory_ops -= (uint64_t)(less_ops > (int64_t)*memory_ops ? (int64_t)*memory_ops : less_ops);
}

static void solve_module(struct join *j, struct join_module *m)
{
    uint64_t *counts = j->counts + m->block_base;
    if (j->in->known) {
        make_room(j, m);
        stored_counts(j, m);
    } else if (m->in->counters) {
        solve_counters(j, m, counts);
    } else {
        make_room(j, m);
        return;
    }
    settle_returns(m, counts);
    count_loops(j, m);
    count_calls(j, m);
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++) {
        m->instructions += counts[b] * m->cfg->blocks.data[b].insn_count;
        m->memory_ops += counts[b] * m->cfg->blocks.data[b].mem_ops;
    }
    for (size_t i = 0; i < m->unexecuted_count; i++)
        take_unexecuted(&m->unexecuted[i], &m->instructions, &m->memory_ops);
    j->instructions += m->instructions;
    j->memory_ops += m->memory_ops;
}

static void number(struct join *j)
{
    for (uint32_t i = 0; i < j->module_count; i++) {
        struct join_module *m = &j->modules[i];
        m->block_base = j->block_count;
        m->loop_base = j->loop_count;
        m->func_base = j->func_count;
        if (!m->cfg)
            continue;
        j->block_count += (uint32_t)m->cfg->blocks.len;
        j->loop_count += (uint32_t)m->cfg->loops.len;
        j->func_count += (uint32_t)m->cfg->funcs.len;
    }
}

void counts_solve(struct join *j)
{
    number(j);
    j->counts = ARENA_SPARSE(j->scratch, uint64_t, j->block_count + 1);
    j->samples = ARENA_SPARSE(j->scratch, uint64_t, j->block_count + 1);
    j->loops = ARENA_ARRAY(j->scratch, struct join_loop, j->loop_count + 1);
    j->funcs = ARENA_ARRAY(j->scratch, struct join_func, j->func_count + 1);
    for (uint32_t l = 0; l < j->loop_count; l++)
        j->loops[l].object = ID_NONE;
    for (uint32_t f = 0; f < j->func_count; f++)
        j->funcs[f].object = ID_NONE;
    for (uint32_t i = 0; i < j->module_count; i++)
        if (j->modules[i].cfg)
            solve_module(j, &j->modules[i]);
}

void tally_add(struct tally *to, const struct tally *t)
{
    to->instructions += t->instructions;
    to->memory_ops += t->memory_ops;
    to->samples += t->samples;
    to->cycles += t->cycles;
    to->branch_cycles += t->branch_cycles;
    to->cycles_var += t->cycles_var;
    to->branch_var += t->branch_var;
    to->simulated += t->simulated;
    to->tlb += t->tlb;
    to->tlb_known += t->tlb_known;
    to->replayed += t->replayed;
    to->replayed_off += t->replayed_off;
    to->replayed_apart += t->replayed_apart;
}

/* What of block `number` was not executed, though it was entered. */
static void take_all_unexecuted(const struct join *j, uint32_t number, struct tally *t)
{
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (size_t k = 0; k < m->unexecuted_count; k++)
            if (m->block_base + m->unexecuted[k].block == number)
                take_unexecuted(&m->unexecuted[k], &t->instructions, &t->memory_ops);
    }
}

struct tally tally_of_block(const struct join *j, const struct cfg_block *b, uint32_t number)
{
    struct tally t = {.instructions = j->counts[number] * b->insn_count,
                      .memory_ops = j->counts[number] * b->mem_ops,
                      .samples = j->samples[number]};
    if (j->cycles)
        t.cycles = (double)j->counts[number] * (double)j->cycles[number];
    if (j->branch_cycles)
        t.branch_cycles = (double)j->counts[number] * (double)j->branch_cycles[number];
    take_all_unexecuted(j, number, &t);
    return t;
}

static void set_errors(struct tally *t, double drawn, double branch, const struct join_replay *r)
{
    double branch_cycles = branch * (double)t->instructions;
    t->branch_var = branch_cycles * branch_cycles;
    t->cycles_var = t->cycles * drawn * t->cycles * drawn;
    t->simulated = r->factor > 0 ? t->cycles / r->factor : t->cycles;
    t->tlb = r->knows_tlb ? t->simulated * r->tlb : 0;
    t->tlb_known = r->knows_tlb ? t->cycles : 0;
    t->replayed = r->is_replayed ? t->cycles : 0;
    t->replayed_off = t->cycles * r->error;
    t->replayed_apart = t->replayed * r->apart;
}

static void sum_upwards(struct join *j, const struct join_module *m)
{
    const struct cfg *c = m->cfg;
    for (uint32_t l = 0; l < c->loops.len; l++) {
        struct join_loop *loop = &j->loops[m->loop_base + l];
        if (loop->self.instructions == 0 && loop->self.samples == 0)
            continue;
        set_errors(&loop->self, loop->cycles_err, loop->branch_err, &loop->replay);
        for (uint32_t up = l; up != ID_NONE; up = c->loops.data[up].parent)
            tally_add(&j->loops[m->loop_base + up].incl, &loop->self);
        tally_add(&j->funcs[m->func_base + c->loops.data[l].func].incl, &loop->self);
    }
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        struct join_func *func = &j->funcs[m->func_base + f];
        set_errors(&func->self, func->cycles_err, func->branch_err, &func->replay);
        tally_add(&func->incl, &func->self);
    }
}

void counts_sum(struct join *j)
{
    static const struct tally zero;
    for (uint32_t l = 0; l < j->loop_count; l++)
        j->loops[l].self = j->loops[l].incl = zero;
    for (uint32_t f = 0; f < j->func_count; f++)
        j->funcs[f].self = j->funcs[f].incl = zero;
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        if (!m->cfg)
            continue;
        for (uint32_t b = 0; b < m->cfg->blocks.len; b++) {
            const struct cfg_block *block = &m->cfg->blocks.data[b];
            if (j->counts[m->block_base + b] == 0 && j->samples[m->block_base + b] == 0)
                continue;
            struct tally t = tally_of_block(j, block, m->block_base + b);
            tally_add(block->loop != ID_NONE ? &j->loops[m->loop_base + block->loop].self
                                             : &j->funcs[m->func_base + block->func].self,
                      &t);
        }
        sum_upwards(j, m);
    }
}
