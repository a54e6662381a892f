/* SPDX-License-Identifier: Apache-2.0
 * Modules made by hand, for the tests of prof. Makes arrays as cfg.h draws them; rewrites nothing. */
#include "toy.h"

#include <stdlib.h>

void toy_init(struct toy *t, const char *path) { *t = (struct toy){.path = path, .next = TOY_BASE}; }

uint32_t toy_func(struct toy *t)
{
    t->next = ALIGN_UP(t->next, 64);
    VEC_PUSH(&t->cfg.funcs, ((struct cfg_func){.addr = t->next,
                                               .fde = ID_NONE,
                                               .block_first = (uint32_t)t->cfg.blocks.len,
                                               .loop_first = (uint32_t)t->cfg.loops.len}));
    return (uint32_t)t->cfg.funcs.len - 1;
}

uint32_t toy_block(struct toy *t, uint16_t insns, uint16_t mem_ops, unsigned flags, unsigned term, uint64_t count,
                   uint64_t enter)
{
    struct cfg_func *f = &t->cfg.funcs.data[t->cfg.funcs.len - 1];
    VEC_PUSH(&t->cfg.blocks, ((struct cfg_block){.addr = t->next,
                                                 .size = (uint16_t)(insns * TOY_INSN_BYTES),
                                                 .func = (uint32_t)t->cfg.funcs.len - 1,
                                                 .insn_count = insns,
                                                 .mem_ops = mem_ops,
                                                 .loop = ID_NONE,
                                                 .flags = (uint16_t)flags,
                                                 .term = (uint8_t)term}));
    VEC_PUSH(&t->block_count, count);
    VEC_PUSH(&t->enter_count, enter);
    t->next += insns * TOY_INSN_BYTES;
    f->block_count++;
    f->size = (uint32_t)(t->next - f->addr);
    return (uint32_t)t->cfg.blocks.len - 1;
}

void toy_edge(struct toy *t, uint32_t from, uint32_t to, enum cfg_edge_kind kind, uint64_t count)
{
    VEC_PUSH(&t->edges, ((struct toy_edge_count){{.from = from, .to = to, .kind = (uint8_t)kind}, count}));
}

uint32_t toy_loop(struct toy *t, uint32_t header, uint32_t parent, const uint32_t *members)
{
    uint32_t id = (uint32_t)t->cfg.loops.len;
    struct cfg_loop l = {.func = t->cfg.blocks.data[header].func,
                         .header = header,
                         .parent = parent,
                         .depth = parent == ID_NONE ? 1 : t->cfg.loops.data[parent].depth + 1,
                         .member_first = (uint32_t)t->cfg.loop_members.len};
    for (; *members != ID_NONE; members++, l.member_count++) {
        VEC_PUSH(&t->cfg.loop_members, *members);
        t->cfg.blocks.data[*members].loop = id;
    }
    t->cfg.blocks.data[header].flags |= CFG_BLOCK_LOOP_HEADER;
    t->cfg.funcs.data[l.func].loop_count++;
    VEC_PUSH(&t->cfg.loops, l);
    return id;
}

static int compare_edges(const void *a, const void *b)
{
    const struct toy_edge_count *x = a, *y = b;
    return x->edge.from != y->edge.from ? (x->edge.from < y->edge.from ? -1 : 1)
                                        : (int)x->edge.kind - (int)y->edge.kind;
}

static uint32_t counter(struct toy *t, uint64_t value)
{
    VEC_PUSH(&t->counters, value);
    return (uint32_t)t->counters.len - 1;
}

static void give_counters(struct toy *t)
{
    const struct cfg *c = t->map.cfg;
    t->map.block_counter = xmalloc((c->blocks.len + 1) * sizeof(uint32_t));
    t->map.enter_counter = xmalloc((c->blocks.len + 1) * sizeof(uint32_t));
    t->map.edge_counter = xmalloc((c->edges.len + 1) * sizeof(uint32_t));
    for (uint32_t b = 0; b < c->blocks.len; b++) {
        t->map.block_counter[b] = counter(t, b < t->block_count.len ? t->block_count.data[b] : 0);
        t->map.enter_counter[b] = counter(t, b < t->enter_count.len ? t->enter_count.data[b] : 0);
    }
    for (uint32_t e = 0; e < c->edges.len; e++)
        t->map.edge_counter[e] = counter(t, e < t->edges.len ? t->edges.data[e].count : 0);
    t->map.counter_count = (uint32_t)t->counters.len;
    t->module = (struct prof_input_module){.path = t->path, .map = &t->map, .counters = t->counters.data};
}

void toy_done(struct toy *t)
{
    struct cfg *c = t->map.cfg = &t->cfg;
    if (t->edges.len)
        qsort(t->edges.data, t->edges.len, sizeof *t->edges.data, compare_edges);
    for (uint32_t e = 0; e < t->edges.len; e++) {
        struct cfg_block *from = &c->blocks.data[t->edges.data[e].edge.from];
        if (from->edge_count++ == 0)
            from->edge_first = e;
        VEC_PUSH(&c->edges, t->edges.data[e].edge);
    }
    give_counters(t);
}

void toy_read(struct toy *t, const char *path)
{
    toy_init(t, path);
    if (image_open(path, &t->img) != 0 || cfg_build(t->img, &t->built) != 0)
        abort();
    t->map.cfg = t->built;
    give_counters(t);
}

void toy_set(struct toy *t, uint32_t block, uint64_t count) { t->counters.data[t->map.block_counter[block]] = count; }

void toy_set_edge(struct toy *t, uint32_t from, uint32_t to, uint64_t count)
{
    const struct cfg_block *b = &t->map.cfg->blocks.data[from];
    cfg_for_each_edge(b, e)
        if (t->map.cfg->edges.data[e].to == to) {
            t->counters.data[t->map.edge_counter[e]] = count;
            return;
        }
    abort();
}

uint64_t rewrite_counts_solve(const struct rewrite_map *m, const uint64_t *counters, uint64_t *blocks, uint64_t *edges,
                              uint64_t *enter)
{
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
        blocks[b] = counters[m->block_counter[b]];
    for (uint32_t b = 0; enter && b < m->cfg->blocks.len; b++)
        enter[b] = counters[m->enter_counter[b]];
    for (uint32_t e = 0; e < m->cfg->edges.len; e++)
        edges[e] = counters[m->edge_counter[e]];
    return 0;
}

uint64_t rewrite_counts_solve_side_exits(const struct rewrite_map *m, const uint64_t *counters,
                                         struct rewrite_side_exits left, uint64_t *blocks, uint64_t *edges,
                                         uint64_t *enter)
{
    (void)left; /* it tells of what was not executed, which the toys say themselves (rewrite_unexecuted_parts) */
    return rewrite_counts_solve(m, counters, blocks, edges, enter);
}

/* The place is the block; so many times all of it but the first instruction. */
size_t rewrite_unexecuted_parts(const struct rewrite_map *m, struct rewrite_side_exits left,
                                struct rewrite_unexecuted *out)
{
    for (size_t i = 0; i < left.len; i++) {
        uint32_t b = (uint32_t)left.data[i].before_counters;
        out[i] = (struct rewrite_unexecuted){b, m->cfg->blocks.data[b].insn_count - 1, m->cfg->blocks.data[b].mem_ops,
                                             left.data[i].count};
    }
    return left.len;
}

void toy_fini(struct toy *t)
{
    VEC_FREE(&t->cfg.funcs);
    VEC_FREE(&t->cfg.blocks);
    VEC_FREE(&t->cfg.edges);
    VEC_FREE(&t->cfg.loops);
    VEC_FREE(&t->cfg.loop_members);
    VEC_FREE(&t->block_count);
    VEC_FREE(&t->enter_count);
    VEC_FREE(&t->edges);
    VEC_FREE(&t->counters);
    free(t->map.block_counter);
    free(t->map.enter_counter);
    free(t->map.edge_counter);
    if (t->built)
        cfg_free(t->built);
    image_close(t->img);
}

uint64_t toy_addr(const struct toy *t, uint32_t block)
{
    return t->map.cfg ? t->map.cfg->blocks.data[block].addr : t->cfg.blocks.data[block].addr;
}

void toy_nest(struct toy *t, uint64_t calls, uint64_t n, uint64_t k)
{
    toy_func(t);
    uint32_t pre = toy_block(t, 3, 1, CFG_BLOCK_ENTRY, X86_PLAIN, calls, calls);
    uint32_t outer = toy_block(t, 2, 0, 0, X86_PLAIN, calls * n, 0);
    uint32_t inner = toy_block(t, 5, 2, 0, X86_JCC, calls * n * k, 0);
    uint32_t latch = toy_block(t, 3, 1, 0, X86_JCC, calls * n, 0);
    uint32_t leave = toy_block(t, 1, 1, 0, X86_RET, calls, 0);
    toy_edge(t, pre, outer, CFG_EDGE_FALL, calls);
    toy_edge(t, outer, inner, CFG_EDGE_FALL, calls * n);
    toy_edge(t, inner, inner, CFG_EDGE_TAKEN, calls * n * (k - 1));
    toy_edge(t, inner, latch, CFG_EDGE_FALL, calls * n);
    toy_edge(t, latch, outer, CFG_EDGE_TAKEN, calls * (n - 1));
    toy_edge(t, latch, leave, CFG_EDGE_FALL, calls);
    toy_edge(t, leave, ID_NONE, CFG_EDGE_OUT, calls);
    uint32_t o = toy_loop(t, outer, ID_NONE, (const uint32_t[]){outer, inner, latch, ID_NONE});
    toy_loop(t, inner, o, (const uint32_t[]){inner, ID_NONE});
}
