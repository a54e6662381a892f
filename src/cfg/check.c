/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants that cfg.h states, asserted. For tests and debug builds; works on a loaded cfg as far as it goes.
 */
#include "cfg/impl.h"

#include <assert.h>

static void check_func(const struct cfg *c, uint32_t k, uint64_t *blocks, uint64_t *loops)
{
    const struct cfg_func *f = &c->funcs.data[k];
    assert(k == 0 || c->funcs.data[k - 1].addr <= f->addr);
    assert(f->size > 0 && f->reason < CFG_REASON_COUNT);
    assert(f->block_first == *blocks && f->loop_first == *loops);
    assert(f->reason == CFG_REASON_OK || f->block_count == 0);
    if (f->reason == CFG_REASON_OK) {
        assert(f->block_count > 0);
        assert(k + 1 == c->funcs.len || f->addr + f->size <= c->funcs.data[k + 1].addr);
        assert(c->blocks.data[f->block_first].flags & CFG_BLOCK_ENTRY);
    }
    *blocks += f->block_count;
    *loops += f->loop_count;
}

static void check_insns(const struct cfg *c, const struct cfg_func *f)
{
    uint64_t at = f->addr;
    cfg_for_each_insn(f, i) {
        const struct x86_insn *in = cfg_shape(c, i);
        assert(cfg_insn_addr(c, i) == at && in->len > 0 && in->len <= 15 && in->kind < X86_KIND_COUNT);
        assert(cfg_insn_at(c, at) == i);
        at += in->len;
    }
    assert(f->reason != CFG_REASON_OK || at == f->addr + f->size); /* the sweep covers it */
}

static void check_block_insns(const struct cfg *c, const struct cfg_block *b)
{
    uint32_t last = b->insn_first + b->insn_count - 1, mem_ops = 0;
    assert(b->insn_count <= CFG_BLOCK_INSNS_MAX);
    for (uint32_t i = b->insn_first; i <= last; i++) {
        mem_ops += (uint32_t)cfg_shape(c, i)->loads + cfg_shape(c, i)->stores;
        assert(i == last || !ends_block(cfg_kind(c, i)));
    }
    assert(mem_ops == b->mem_ops && cfg_insn_addr(c, b->insn_first) == b->addr);
    assert(b->term == (ends_block(cfg_kind(c, last)) ? cfg_kind(c, last) : X86_PLAIN));
}

/* How many edges of each kind a terminator may have. */
static void check_edges(const struct cfg *c, uint32_t k)
{
    const struct cfg_block *b = &c->blocks.data[k];
    uint32_t count[CFG_EDGE_KIND_COUNT] = {0}, n = b->edge_count;
    for (uint32_t e = b->edge_first; e < b->edge_first + n; e++) {
        const struct cfg_edge *x = &c->edges.data[e];
        assert(x->from == k && x->kind < CFG_EDGE_KIND_COUNT);
        assert((x->to == ID_NONE) == (x->kind == CFG_EDGE_OUT));
        assert(x->to == ID_NONE || x->to < c->blocks.len);
        assert((x->kind != CFG_EDGE_FALL && x->kind != CFG_EDGE_RETURN) ||
               (x->to == k + 1 && c->blocks.data[k + 1].func == b->func));
        assert(x->kind != CFG_EDGE_TAIL ||
               (c->blocks.data[x->to].flags & CFG_BLOCK_ENTRY && c->blocks.data[x->to].func != b->func));
        count[x->kind]++;
    }
    switch ((enum x86_kind)b->term) {
    case X86_PLAIN:
    case X86_SYSCALL:
    case X86_INT:
        assert(n == 1 && count[CFG_EDGE_FALL] + count[CFG_EDGE_OUT] == 1);
        break;
    case X86_JMP:
        assert(n == 1 && count[CFG_EDGE_TAKEN] + count[CFG_EDGE_TAIL] + count[CFG_EDGE_OUT] == 1);
        break;
    case X86_JCC:
    case X86_JCXZ:
    case X86_XBEGIN:
        assert(n == 2 && count[CFG_EDGE_FALL] >= 1);
        break;
    case X86_CALL:
    case X86_CALL_IND:
        assert(n <= 1 && count[CFG_EDGE_RETURN] == n);
        break;
    case X86_JMP_IND:
        assert(n >= 1 && count[CFG_EDGE_TABLE] + count[CFG_EDGE_OUT] == n);
        break;
    case X86_RET:
    case X86_TRAP:
        assert(n == 1 && count[CFG_EDGE_OUT] == 1);
        break;
    case X86_KIND_COUNT:
        assert(false);
    }
}

static void check_blocks(const struct cfg *c, uint32_t func, uint64_t *edges)
{
    const struct cfg_func *f = &c->funcs.data[func];
    uint64_t at = f->addr;
    cfg_for_each_block(f, k) {
        const struct cfg_block *b = &c->blocks.data[k];
        assert(b->func == func && b->addr == at && b->size > 0 && b->insn_count > 0 && b->edge_first == *edges);
        assert(!(b->flags & CFG_BLOCK_ENTRY) || k == f->block_first);
        assert(cfg_block_start(c, at) == k && cfg_block_at(c, at + b->size - 1) == k);
        if (c->insns.len)
            check_block_insns(c, b);
        check_edges(c, k);
        *edges += b->edge_count;
        at += b->size;
    }
    assert(f->block_count == 0 || at == f->addr + f->size);
}

static bool is_member(const struct cfg *c, const struct cfg_loop *l, uint32_t block)
{
    size_t lo = PARTITION_POINT(i, l->member_first, l->member_first + l->member_count, c->loop_members.data[i] < block);
    return lo < l->member_first + l->member_count && c->loop_members.data[lo] == block;
}

static void check_loop(const struct cfg *c, uint32_t k, uint64_t *members)
{
    const struct cfg_loop *l = &c->loops.data[k];
    const struct cfg_func *f = &c->funcs.data[l->func];
    assert(k - f->loop_first < f->loop_count && cfg_func_has_block(f, l->header));
    assert(c->blocks.data[l->header].flags & CFG_BLOCK_LOOP_HEADER && c->blocks.data[l->header].loop == k);
    assert(l->member_first == *members && l->member_count > 0 && is_member(c, l, l->header));
    bool has_back_edge = false;
    cfg_for_each_member(l, m) {
        const struct cfg_block *b = &c->blocks.data[c->loop_members.data[m]];
        assert(b->func == l->func && (m == l->member_first || c->loop_members.data[m - 1] < c->loop_members.data[m]));
        uint32_t up = b->loop;
        while (up != ID_NONE && up != k)
            up = c->loops.data[up].parent;
        assert(up == k); /* its innermost loop is this one or inside this one */
        cfg_for_each_edge(b, e)
            has_back_edge |= c->edges.data[e].to == l->header;
    }
    assert(has_back_edge);
    if (l->parent == ID_NONE) {
        assert(l->depth == 1);
    } else {
        const struct cfg_loop *p = &c->loops.data[l->parent];
        assert(p->func == l->func && p->depth + 1 == l->depth && is_member(c, p, l->header));
        assert(p->member_count > l->member_count);
    }
    *members += l->member_count;
}

static void check_table(const struct cfg *c, uint32_t k)
{
    const struct cfg_table *t = &c->tables.data[k];
    assert(k == 0 || c->tables.data[k - 1].addr <= t->addr);
    assert(t->entries > 0 && t->kind < CFG_TABLE_KIND_COUNT && t->block < c->blocks.len);
    assert(t->entry_bytes == (t->kind == CFG_TABLE_ABS64 ? 8 : 4) && c->blocks.data[t->block].term == X86_JMP_IND);
    assert((uint64_t)t->ref_first + t->ref_count <= c->table_refs.len || !c->insns.len);
    for (uint32_t r = t->base_ref_first; r < t->base_ref_first + t->base_ref_count; r++)
        assert(cfg_insn(c, c->table_refs.data[r]).target == t->base);
    for (uint32_t r = t->ref_first; r < t->ref_first + t->ref_count; r++)
        assert(cfg_insn(c, c->table_refs.data[r]).target - t->addr < (uint64_t)t->entries * t->entry_bytes);
}

void cfg_check(const struct cfg *c)
{
    uint64_t blocks = 0, edges = 0, loops = 0, members = 0;
    for (uint32_t k = 0; k < c->funcs.len; k++)
        check_func(c, k, &blocks, &loops);
    assert(blocks == c->blocks.len && loops == c->loops.len);
    for (uint32_t k = 0; k < c->funcs.len; k++) {
        if (c->insns.len)
            check_insns(c, &c->funcs.data[k]);
        check_blocks(c, k, &edges);
    }
    assert(edges == c->edges.len);
    for (uint32_t k = 0; k < c->loops.len; k++)
        check_loop(c, k, &members);
    assert(members == c->loop_members.len);
    for (uint32_t k = 0; k < c->tables.len; k++)
        check_table(c, k);
    for (size_t k = 0; k < c->mid_targets.len; k++) {
        assert(k == 0 || c->mid_targets.data[k - 1] < c->mid_targets.data[k]);
        uint32_t b = cfg_block_start(c, c->mid_targets.data[k]), f = cfg_func_at(c, c->mid_targets.data[k]);
        assert(f != ID_NONE && (c->funcs.data[f].reason != CFG_REASON_OK || b != ID_NONE));
    }
}
