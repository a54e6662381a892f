/* SPDX-License-Identifier: Apache-2.0
 *
 * Marked instructions to blocks, terminators to edges, found tables to their public form. Only for functions that were
 * not refused; a function whose control would run past its end is refused here.
 */
#include "cfg/impl.h"

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
        const struct x86_insn *last = cfg_shape(b->c, f->insn_first + f->insn_count - 1);
        bool call = last->kind == X86_CALL || last->kind == X86_CALL_IND; /* of a function that does not return */
        if (falls_through(last) && !call && !is_trailing_padding(b, f))
            refuse(f, CFG_REASON_RUNS_OFF);
    }
}

/* ---- blocks ---- */

static uint16_t flags_of(const struct build *b, const struct cfg_func *f, uint32_t insn)
{
    uint8_t m = b->marks[insn];
    bool first = insn == f->insn_first;
    uint8_t before = first ? X86_PLAIN : cfg_shape(b->c, insn - 1)->kind;
    return (uint16_t)((first ? CFG_BLOCK_ENTRY : 0) | (m & MARK_FREE_LABEL ? CFG_BLOCK_ADDR_TAKEN : 0) |
                      (m & MARK_PAD ? CFG_BLOCK_LANDING_PAD : 0) | (m & MARK_CALLED ? CFG_BLOCK_CALLED : 0) |
                      (before == X86_CALL || before == X86_CALL_IND ? CFG_BLOCK_RETURN_POINT : 0));
}

static void cut_function(struct build *b, uint32_t func)
{
    struct cfg *c = b->c;
    struct cfg_func *f = &c->funcs.data[func];
    f->block_first = (uint32_t)c->blocks.len;
    if (f->reason != CFG_REASON_OK)
        return;
    for (uint32_t i = f->insn_first, end = i + f->insn_count; i < end;) {
        struct cfg_block k = {.addr = cfg_insn_addr(c, i), .func = func, .insn_first = i, .loop = ID_NONE,
                              .flags = flags_of(b, f, i)};
        const struct x86_insn *in;
        do {
            in = cfg_shape(c, i++);
            k.mem_ops += (uint32_t)in->loads + in->stores;
        } while (i < end && !ends_block(in) && !(b->marks[i] & MARK_LEADER));
        k.insn_count = i - k.insn_first;
        k.size = (uint32_t)(cfg_insn_addr(c, i - 1) + in->len - k.addr);
        k.term = ends_block(in) ? in->kind : X86_PLAIN;
        if (b->marks[i - 1] & MARK_NORETURN)
            k.flags |= CFG_BLOCK_NORETURN;
        VEC_PUSH(&c->blocks, k);
    }
    f->block_count = (uint32_t)c->blocks.len - f->block_first;
}

uint32_t block_of_leader(const struct cfg *c, uint32_t func, uint32_t insn)
{
    const struct cfg_func *f = &c->funcs.data[func];
    if (f->block_count == 0)
        return ID_NONE;
    uint32_t lo = f->block_first, hi = lo + f->block_count;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (c->blocks.data[mid].insn_first <= insn)
            lo = mid;
        else
            hi = mid;
    }
    return c->blocks.data[lo].insn_first == insn ? lo : ID_NONE;
}

/* ---- edges ---- */

static void add_edge(struct cfg *c, uint32_t from, uint32_t to, enum cfg_edge_kind kind)
{
    struct cfg_edge e = {.from = from, .to = to, .kind = (uint8_t)kind};
    VEC_PUSH(&c->edges, e);
}

static uint32_t next_block(const struct cfg *c, uint32_t block)
{
    const struct cfg_func *f = &c->funcs.data[c->blocks.data[block].func];
    return block + 1 < f->block_first + f->block_count ? block + 1 : ID_NONE;
}

static void add_fall(struct cfg *c, uint32_t from)
{
    uint32_t to = next_block(c, from);
    add_edge(c, from, to, to == ID_NONE ? CFG_EDGE_OUT : CFG_EDGE_FALL); /* none after unreachable padding at the end */
}

static void add_direct(struct cfg *c, uint32_t from, uint64_t target)
{
    uint32_t func = c->blocks.data[from].func;
    uint32_t g = func_holds(&c->funcs.data[func], target) ? func : cfg_func_at(c, target);
    uint32_t insn = g == ID_NONE ? ID_NONE : insn_in_func(c, g, target);
    uint32_t to = insn == ID_NONE ? ID_NONE : block_of_leader(c, g, insn);
    if (to == ID_NONE) {
        c->blocks.data[from].call_target = target;
        add_edge(c, from, ID_NONE, CFG_EDGE_OUT);
    } else {
        add_edge(c, from, to, g != func && target == c->funcs.data[g].addr ? CFG_EDGE_TAIL : CFG_EDGE_TAKEN);
    }
}

static void add_label_edges(struct build *b, uint32_t from)
{
    struct cfg *c = b->c;
    const struct cfg_func *f = &c->funcs.data[c->blocks.data[from].func];
    for (uint32_t k = f->block_first; k < f->block_first + f->block_count; k++)
        if (c->blocks.data[k].flags & CFG_BLOCK_ADDR_TAKEN)
            add_edge(c, from, k, CFG_EDGE_TABLE);
}

static void publish_table(struct build *b, const struct found_table *t, uint32_t block)
{
    struct cfg *c = b->c;
    uint32_t refs = (uint32_t)c->table_refs.len;
    struct cfg_table out = {.addr = t->addr, .base = t->base, .entries = t->entries, .block = block, .ref_first = refs,
                            .ref_count = t->ref_count, .base_ref_first = refs + t->ref_count, .base_ref_count = t->base_ref_count,
                            .kind = t->kind, .entry_bytes = t->kind == CFG_TABLE_ABS64 ? 8 : 4, .by_reloc = t->by_reloc};
    for (uint32_t k = 0; k < t->ref_count; k++)
        VEC_PUSH(&c->table_refs, b->refs.data[t->ref_first + k]);
    for (uint32_t k = 0; k < t->base_ref_count; k++)
        VEC_PUSH(&c->table_refs, b->refs.data[t->base_ref_first + k]);
    VEC_PUSH(&c->tables, out);
}

static void add_table_targets(struct build *b, const struct jump *j, uint32_t from)
{
    struct cfg *c = b->c;
    VEC(uint64_t) to = {0};
    for (uint32_t t = 0; t < j->table_count; t++) {
        const struct found_table *tab = &b->tables.data[j->table_first + t];
        publish_table(b, tab, from);
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
    if (to.len == 0)
        add_edge(c, from, ID_NONE, CFG_EDGE_OUT);
    for (size_t k = 0; k < to.len; k++) /* ID_NONE, last, is a target in a refused function */
        add_edge(c, from, (uint32_t)to.data[k], to.data[k] == ID_NONE ? CFG_EDGE_OUT : CFG_EDGE_TABLE);
    VEC_FREE(&to);
}

static void add_indirect(struct build *b, const struct jump *j, uint32_t from)
{
    if (j->class == JUMP_TABLE)
        add_table_targets(b, j, from);
    else if (j->to_labels)
        add_label_edges(b, from);
    if (j->class != JUMP_TABLE)
        add_edge(b->c, from, ID_NONE, CFG_EDGE_OUT);
}

static void add_edges_of(struct build *b, uint32_t k, const struct jump *j)
{
    struct cfg *c = b->c;
    struct cfg_block *blk = &c->blocks.data[k];
    uint32_t last = blk->insn_first + blk->insn_count - 1;
    blk->edge_first = (uint32_t)c->edges.len;
    switch ((enum x86_kind)blk->term) {
    case X86_PLAIN:
    case X86_SYSCALL:
    case X86_INT:
        add_fall(c, k);
        break;
    case X86_JCC:
    case X86_JCXZ:
    case X86_XBEGIN:
        add_fall(c, k);
        add_direct(c, k, cfg_insn_target(c, last));
        break;
    case X86_JMP:
        add_direct(c, k, cfg_insn_target(c, last));
        break;
    case X86_CALL:
    case X86_CALL_IND:
        blk->call_target = blk->term == X86_CALL ? cfg_insn_target(c, last) : 0;
        if (next_block(c, k) != ID_NONE && !(blk->flags & CFG_BLOCK_NORETURN))
            add_edge(c, k, k + 1, CFG_EDGE_RETURN);
        break;
    case X86_JMP_IND:
        add_indirect(b, j, k);
        break;
    case X86_RET:
    case X86_TRAP:
    case X86_KIND_COUNT:
        add_edge(c, k, ID_NONE, CFG_EDGE_OUT);
        break;
    }
    blk->edge_count = (uint32_t)c->edges.len - blk->edge_first;
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
            if (is_direct_jump(cfg_shape(c, i)) && !func_holds(fn, cfg_insn_target(c, i)))
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
    VEC_RESERVE(&c->blocks, c->insns.len / 5 + 16);
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        cut_function(b, f);
        if (c->funcs.data[f].reason == CFG_REASON_OK)
            c->bytes_funcs += c->funcs.data[f].size;
    }
    VEC_RESERVE(&c->edges, c->blocks.len * 3 / 2 + 16);
    size_t j = 0;
    for (uint32_t k = 0; k < c->blocks.len; k++) {
        uint32_t last = c->blocks.data[k].insn_first + c->blocks.data[k].insn_count - 1;
        while (j < b->jumps.len && b->jumps.data[j].insn < last)
            j++;
        add_edges_of(b, k, j < b->jumps.len && b->jumps.data[j].insn == last ? &b->jumps.data[j] : NULL);
    }
    mark_entered_by_refused(b);
    if (c->tables.len)
        qsort(c->tables.data, c->tables.len, sizeof *c->tables.data, by_table_addr);
}
