/* SPDX-License-Identifier: Apache-2.0
 *
 * Marked instructions to blocks, terminators to edges, found tables to their public form. Only for functions that were
 * not refused; a function whose control would run past its end is refused here.
 */
#include "cfg/impl.h"

#include <assert.h>
#include <stdlib.h>

/* ---- functions that run off their end ---- */

/* Alignment after the last real instruction is never reached. */
static bool is_trailing_padding(const struct build *b, const struct cfg_func *f)
{
    uint32_t i = f->insn_first + f->insn_count;
    while (i > f->insn_first && (cfg_shape(b->c, i - 1)->props & X86_PROP_NOP) && !b->marks[i - 1])
        i--;
    return i > f->insn_first && i < f->insn_first + f->insn_count && !b->marks[i] && !goes_on(b, i - 1);
}

static void refuse_run_off(struct build *b)
{
    for (size_t k = 0; k < b->c->funcs.len; k++) {
        struct cfg_func *f = &b->c->funcs.data[k];
        if (f->reason != CFG_REASON_OK || !f->insn_count)
            continue;
        uint32_t end = f->insn_first + f->insn_count - 1;
        const struct x86_insn *last = cfg_shape(b->c, end);
        bool call = last->kind == X86_CALL || last->kind == X86_CALL_IND; /* of a function that does not return */
        if (cfg_is_gap_func(f))                                           /* where it ends is found, not described */
            call &= (b->marks[end] & MARK_NORETURN) != 0;
        if (falls_through(last->kind) && !call && !is_trailing_padding(b, f))
            refuse(f, CFG_REASON_RUNS_OFF);
    }
}

/* ---- blocks ---- */

static uint16_t flags_of(const struct build *b, const struct cfg_func *f, uint32_t insn)
{
    uint8_t m = b->marks[insn];
    bool first = insn == f->insn_first;
    uint8_t before = first ? X86_PLAIN : cfg_kind(b->c, insn - 1);
    return (uint16_t)((first ? CFG_BLOCK_ENTRY : 0) | (m & MARK_FREE_LABEL ? CFG_BLOCK_ADDR_TAKEN : 0) |
                      (m & MARK_PAD ? CFG_BLOCK_LANDING_PAD : 0) | (m & MARK_CALLED ? CFG_BLOCK_CALLED : 0) |
                      (before == X86_CALL || before == X86_CALL_IND ? CFG_BLOCK_RETURN_POINT : 0));
}

#define FUNCS_A_RANGE 64

/* Leaders become bits of index->leads; ranges of functions may share a word. A long run without any gets some, so that
 * whoever measures blocks can tell its parts. */
static void find_leaders(void *ctx, size_t first, size_t end)
{
    const struct build *b = ctx;
    struct cfg *c = b->c;
    for (size_t k = first; k < end; k++) {
        struct cfg_func *f = &c->funcs.data[k];
        bool leads = true;
        uint32_t leader = f->insn_first;
        for (uint32_t i = f->insn_first; f->reason == CFG_REASON_OK && i < f->insn_first + f->insn_count; i++) {
            if (leads || (b->marks[i] & MARK_LEADER) || i - leader == CFG_BLOCK_INSNS_MAX) {
                __atomic_fetch_or(&c->index->leads[i / 64], 1ull << i % 64, __ATOMIC_RELAXED);
                f->block_count++;
                leader = i;
            }
            leads = ends_block(cfg_kind(c, i));
        }
    }
}

static bool is_leader(const struct cfg *c, uint32_t i) { return c->index->leads[i / 64] >> i % 64 & 1; }

static void cut_function(struct build *b, uint32_t func)
{
    struct cfg *c = b->c;
    struct cfg_func *f = &c->funcs.data[func];
    struct cfg_block *out = &c->blocks.data[f->block_first];
    if (f->reason != CFG_REASON_OK)
        return;
    for (uint32_t i = f->insn_first, end = i + f->insn_count; i < end;) {
        struct cfg_block k = {
            .addr = cfg_insn_addr(c, i), .func = func, .insn_first = i, .loop = ID_NONE, .flags = flags_of(b, f, i)};
        const struct x86_insn *in;
        do {
            in = cfg_shape(c, i++);
            k.mem_ops = (uint16_t)(k.mem_ops + in->loads + in->stores);
        } while (i < end && !is_leader(c, i));
        k.insn_count = (uint16_t)(i - k.insn_first);
        k.size = (uint16_t)(cfg_insn_addr(c, i - 1) + in->len - k.addr);
        k.term = ends_block(in->kind) ? in->kind : X86_PLAIN;
        if (b->marks[i - 1] & MARK_NORETURN)
            k.flags |= CFG_BLOCK_NORETURN;
        *out++ = k;
    }
}

static void cut_range(void *ctx, size_t first, size_t end)
{
    for (size_t f = first; f < end; f++)
        cut_function(ctx, (uint32_t)f);
}

static void cut_all(struct build *b)
{
    struct cfg *c = b->c;
    size_t count = 0;
    c->index->leads = xmalloc((c->insns.len / 64 + 1) * sizeof *c->index->leads);
    parallel_for(c->funcs.len, FUNCS_A_RANGE, find_leaders, b);
    index_leaders(c);
    for (size_t f = 0; f < c->funcs.len; f++) {
        c->funcs.data[f].block_first = (uint32_t)count;
        count += c->funcs.data[f].block_count;
        if (c->funcs.data[f].reason == CFG_REASON_OK)
            c->bytes_funcs += c->funcs.data[f].size;
    }
    /* All are filled, by several threads, who share their first touch, which is dear. */
    c->blocks.data = xrealloc(NULL, count * sizeof *c->blocks.data);
    c->blocks.len = c->blocks.cap = count;
    parallel_for(c->funcs.len, FUNCS_A_RANGE, cut_range, b);
}

/* ---- edges ---- */

struct edge_list {
    struct cfg_edge *data;
    size_t len, cap;
};

static void add_edge(struct edge_list *out, uint32_t from, uint32_t to, enum cfg_edge_kind kind)
{
    struct cfg_edge e = {.from = from, .to = to, .kind = (uint8_t)kind};
    VEC_PUSH(out, e);
}

static uint32_t next_block(const struct cfg *c, uint32_t block)
{
    const struct cfg_func *f = &c->funcs.data[c->blocks.data[block].func];
    return block + 1 < f->block_first + f->block_count ? block + 1 : ID_NONE;
}

static void add_fall(const struct cfg *c, struct edge_list *out, uint32_t from)
{
    uint32_t to = next_block(c, from);
    add_edge(out, from, to,
             to == ID_NONE ? CFG_EDGE_OUT : CFG_EDGE_FALL); /* none after unreachable padding at the end */
}

static void add_direct(struct cfg *c, struct edge_list *out, uint32_t from, uint64_t target)
{
    uint32_t func = c->blocks.data[from].func;
    uint32_t g = func_holds(&c->funcs.data[func], target) ? func : cfg_func_at(c, target);
    uint32_t insn = g == ID_NONE ? ID_NONE : insn_in_func(c, g, target);
    uint32_t to = insn == ID_NONE ? ID_NONE : block_of_leader(c, insn);
    if (to == ID_NONE) {
        c->blocks.data[from].call_target = target;
        add_edge(out, from, ID_NONE, CFG_EDGE_OUT);
    } else {
        add_edge(out, from, to, g != func && target == c->funcs.data[g].addr ? CFG_EDGE_TAIL : CFG_EDGE_TAKEN);
    }
}

static void add_label_edges(const struct cfg *c, struct edge_list *out, uint32_t from)
{
    const struct cfg_func *f = &c->funcs.data[c->blocks.data[from].func];
    cfg_for_each_block(f, k)
        if (c->blocks.data[k].flags & CFG_BLOCK_ADDR_TAKEN)
            add_edge(out, from, k, CFG_EDGE_TABLE);
}

static void publish_table(struct build *b, const struct found_table *t, uint32_t block)
{
    struct cfg *c = b->c;
    uint32_t refs = (uint32_t)c->table_refs.len;
    struct cfg_table out = {.addr = t->addr,
                            .base = t->base,
                            .entries = t->entries,
                            .block = block,
                            .ref_first = refs,
                            .ref_count = t->ref_count,
                            .base_ref_first = refs + t->ref_count,
                            .base_ref_count = t->base_ref_count,
                            .kind = t->kind,
                            .entry_bytes = t->kind == CFG_TABLE_ABS64 ? 8 : 4,
                            .by_reloc = t->by_reloc};
    for (uint32_t k = 0; k < t->ref_count; k++)
        VEC_PUSH(&c->table_refs, b->refs.data[t->ref_first + k]);
    for (uint32_t k = 0; k < t->base_ref_count; k++)
        VEC_PUSH(&c->table_refs, b->refs.data[t->base_ref_first + k]);
    VEC_PUSH(&c->tables, out);
}

static void add_table_targets(const struct build *b, struct edge_list *out, const struct jump *j, uint32_t from)
{
    const struct cfg *c = b->c;
    VEC(uint64_t) to = {0};
    for (uint32_t t = 0; t < j->table_count; t++) {
        const struct found_table *tab = &b->tables.data[j->table_first + t];
        for (uint32_t k = 0; k < tab->entries; k++) {
            uint64_t addr = table_entry(b, tab, k);
            uint32_t block = cfg_block_start(c, addr);
            if (block != ID_NONE || cfg_insn_at(c, addr) != ID_NONE) /* else the end of the function: never taken */
                VEC_PUSH(&to, block);
        }
    }
    for (uint32_t k = 0; k < j->label_count; k++) {
        uint32_t block = cfg_block_start(c, b->labels.data[j->label_first + k]);
        VEC_PUSH(&to, block);
    }
    to.len = sort_unique_u64(to.data, to.len);
    assert(to.data || to.len == 0);
    if (to.len == 0)
        add_edge(out, from, ID_NONE, CFG_EDGE_OUT);
    for (size_t k = 0; k < to.len; k++) /* ID_NONE, last, is a target in a refused function */
        add_edge(out, from, (uint32_t)to.data[k], to.data[k] == ID_NONE ? CFG_EDGE_OUT : CFG_EDGE_TABLE);
    VEC_FREE(&to);
}

static void add_indirect(const struct build *b, struct edge_list *out, const struct jump *j, uint32_t from)
{
    if (j->class == JUMP_TABLE)
        add_table_targets(b, out, j, from);
    else if (j->to_labels)
        add_label_edges(b->c, out, from);
    if (j->class != JUMP_TABLE)
        add_edge(out, from, ID_NONE, CFG_EDGE_OUT);
}

/* edge_first counts from the start of the list. */
static void add_edges_of(struct build *b, struct edge_list *out, uint32_t k, const struct jump *j)
{
    struct cfg *c = b->c;
    struct cfg_block *blk = &c->blocks.data[k];
    uint32_t last = blk->insn_first + blk->insn_count - 1;
    blk->edge_first = (uint32_t)out->len;
    switch ((enum x86_kind)blk->term) {
    case X86_PLAIN:
    case X86_SYSCALL:
    case X86_INT:
        add_fall(c, out, k);
        break;
    case X86_JCC:
    case X86_JCXZ:
    case X86_XBEGIN:
        add_fall(c, out, k);
        add_direct(c, out, k, cfg_insn_target(c, last));
        break;
    case X86_JMP:
        add_direct(c, out, k, cfg_insn_target(c, last));
        break;
    case X86_CALL:
    case X86_CALL_IND:
        blk->call_target = blk->term == X86_CALL ? cfg_insn_target(c, last) : 0;
        if (next_block(c, k) != ID_NONE && !(blk->flags & CFG_BLOCK_NORETURN))
            add_edge(out, k, k + 1, CFG_EDGE_RETURN);
        break;
    case X86_JMP_IND:
        assert(j); /* each such jump was looked at */
        add_indirect(b, out, j, k);
        break;
    case X86_RET:
    case X86_TRAP:
    case X86_KIND_COUNT:
        add_edge(out, k, ID_NONE, CFG_EDGE_OUT);
        break;
    }
    blk->edge_count = (uint32_t)out->len - blk->edge_first;
}

static size_t first_jump_from(const struct build *b, uint32_t insn)
{
    return PARTITION_POINT(i, 0, b->jumps.len, b->jumps.data[i].insn < insn);
}

static void edges_of_range(void *ctx, size_t first, size_t end, struct parallel_list *list)
{
    struct build *b = ctx;
    const struct cfg *c = b->c;
    const struct jump *jumps = b->jumps.data; /* NULL if there are none */
    struct edge_list edges = {list->data, 0, list->cap};
    size_t j = first_jump_from(b, c->funcs.data[first].insn_first), count = b->jumps.len;
    uint32_t block = c->funcs.data[first].block_first;
    for (uint32_t past = c->funcs.data[end - 1].block_first + c->funcs.data[end - 1].block_count; block < past;
         block++) {
        uint32_t last = c->blocks.data[block].insn_first + c->blocks.data[block].insn_count - 1;
        while (j < count && jumps[j].insn < last)
            j++;
        add_edges_of(b, &edges, block, j < count && jumps[j].insn == last ? &jumps[j] : NULL);
    }
    *list = (struct parallel_list){edges.data, edges.len, edges.cap};
}

static void take_edges(void *ctx, size_t first, size_t end, struct parallel_list *list)
{
    const struct build *b = ctx;
    struct cfg *c = b->c;
    uint32_t at = (uint32_t)c->edges.len, block = c->funcs.data[first].block_first;
    size_t past = end < c->funcs.len ? c->funcs.data[end].block_first : c->blocks.len;
    for (; block < past; block++)
        c->blocks.data[block].edge_first += at;
    VEC_RESERVE(&c->edges, c->edges.len + list->len);
    if (list->len)
        memcpy(c->edges.data + at, list->data, list->len * sizeof *c->edges.data);
    c->edges.len += list->len;
}

static void add_edges(struct build *b)
{
    struct cfg *c = b->c;
    VEC_RESERVE(&c->edges, 2 * c->blocks.len); /* hardly more, nearly always */
    parallel_lists(c->funcs.len, FUNCS_A_RANGE, edges_of_range, take_edges, b);
    VEC_SHRINK(&c->edges);
    for (size_t k = 0; k < b->jumps.len; k++) {
        const struct jump *j = &b->jumps.data[k];
        if (j->class != JUMP_TABLE || c->funcs.data[j->func].reason != CFG_REASON_OK)
            continue;
        uint32_t block = cfg_block_at(c, cfg_insn_addr(c, j->insn));
        for (uint32_t t = j->table_first; t < j->table_first + j->table_count; t++)
            publish_table(b, &b->tables.data[t], block);
    }
}

/* ---- ways in from code that stays where it is ---- */

static void mark_entered(struct cfg *c, uint64_t addr)
{
    uint32_t to = cfg_block_start(c, addr);
    if (to != ID_NONE && !(c->blocks.data[to].flags & CFG_BLOCK_ENTRY))
        c->blocks.data[to].flags |= CFG_BLOCK_ADDR_TAKEN;
}

static void mark_entered_by_refused(struct build *b)
{
    struct cfg *c = b->c;
    for (size_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        for (uint32_t i = fn->insn_first; fn->reason != CFG_REASON_OK && i < fn->insn_first + fn->insn_count; i++)
            if (is_direct_jump(cfg_kind(c, i)) && !func_holds(fn, cfg_insn_target(c, i)))
                mark_entered(c, cfg_insn_target(c, i));
    }
    for (size_t k = 0; k < b->jumps.len; k++) {
        const struct jump *j = &b->jumps.data[k];
        for (uint32_t t = 0; c->funcs.data[j->func].reason != CFG_REASON_OK && t < j->table_count; t++)
            for (uint32_t e = 0; e < b->tables.data[j->table_first + t].entries; e++)
                mark_entered(c, table_entry(b, &b->tables.data[j->table_first + t], e));
    }
}

static int by_table_addr(const void *x, const void *y)
{
    const struct cfg_table *a = x, *b = y;
    if (a->addr != b->addr)
        return a->addr < b->addr ? -1 : 1;
    return (a->block > b->block) - (a->block < b->block);
}

/* needs: all marks, jumps, tables. fills: reason RUNS_OFF, blocks, edges, tables, table_refs, bytes_funcs. */
void build_blocks(struct build *b)
{
    struct cfg *c = b->c;
    refuse_run_off(b);
    cut_all(b);
    add_edges(b);
    mark_entered_by_refused(b);
    if (c->tables.len)
        qsort(c->tables.data, c->tables.len, sizeof *c->tables.data, by_table_addr);
}
