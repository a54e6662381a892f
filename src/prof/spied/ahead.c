/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reference's address is made of, in the loop that makes it: whether it is known turns before it is used, so
 * that it could be prefetched. The definitions of its registers are followed back through the loop; what comes from
 * outside of it is known anyhow. An address is ahead if all that is loaded on its way goes in order or hits, some of it
 * goes in order (the list of what comes next), and nothing of it is found only by what the turn before loaded.
 */
#include "prof/spied/spied.h"

#include <stdlib.h>

enum { BLOCKS_MAX = 48, INSNS_MAX = 400, DEPTH_MAX = 64 };

struct insn_at { /* of the loop */
    struct x86_insn insn;
    uint32_t block; /* of `blocks` */
    bool is_on_way; /* its result is being followed */
    bool is_known;  /* it was, and is ahead */
};
struct body {
    const struct spied *s;
    const struct join_module *m;
    uint32_t module;
    uint32_t blocks[BLOCKS_MAX]; /* of the cfg, ascending */
    uint32_t first[BLOCKS_MAX + 1];
    uint32_t block_count;
    struct insn_at insns[INSNS_MAX];
    uint32_t insn_count;
    uint32_t way[DEPTH_MAX]; /* instructions whose results are being followed */
    uint32_t depth;
    uint32_t list;     /* a cell that goes in order; ID_NONE: none was met */
    double hits_below; /* cycles of stall: who loses less counts as hitting */
    bool has_prefetch;
};

static uint16_t bit_of(uint8_t reg) { return reg < X86_GPR_COUNT ? (uint16_t)(1u << reg) : 0; }

/* ---- reading ---- */

static bool is_prefetch(const uint8_t *bytes, const struct x86_insn *insn)
{
    for (int i = 0; i + 1 < insn->len; i++)
        if (bytes[i] == 0x0f)
            return bytes[i + 1] == 0x18 || bytes[i + 1] == 0x0d;
    return false;
}

static bool read_block(struct body *b, uint32_t nth)
{
    const struct cfg_block *block = &b->m->cfg->blocks.data[b->blocks[nth]];
    const uint8_t *bytes = b->m->img ? image_at(b->m->img, block->addr, block->size) : NULL;
    b->first[nth] = b->insn_count;
    for (uint32_t at = 0; at < block->size;) {
        struct insn_at *i = &b->insns[b->insn_count];
        if (!bytes || b->insn_count == INSNS_MAX ||
            !x86_decode(bytes + at, block->size - at, block->addr + at, &i->insn))
            return false;
        b->has_prefetch |= is_prefetch(bytes + at, &i->insn);
        i->block = nth;
        i->is_on_way = i->is_known = false;
        at += i->insn.len;
        b->insn_count++;
    }
    return true;
}

static bool read_loop(struct body *b, uint32_t loop)
{
    const struct cfg *c = b->m->cfg;
    const struct cfg_loop *l = &c->loops.data[loop];
    if (l->member_count > BLOCKS_MAX)
        return false;
    for (; b->block_count < l->member_count; b->block_count++) {
        b->blocks[b->block_count] = c->loop_members.data[l->member_first + b->block_count];
        if (!read_block(b, b->block_count))
            return false;
    }
    b->first[b->block_count] = b->insn_count;
    return true;
}

/* ---- what is loaded on the way ---- */

static const struct spy_site *site_of(const struct body *b, uint32_t cell)
{
    return spy_site(b->s->in->spy, b->s->cells[cell].site);
}

/* In order, or from the cache? Of what is in no cell nothing missed. */
static bool comes_easily(struct body *b, uint64_t address)
{
    double stall = 0;
    for (uint32_t i = 0; i < b->s->cell_count; i++) {
        if (site_of(b, i)->module != b->module || site_of(b, i)->address != address)
            continue;
        if (!spied_is_regular(&b->s->cells[i]))
            stall += b->s->stall[i];
        else if (b->s->cells[i].stride)
            b->list = i;
    }
    return stall <= b->hits_below;
}

/* ---- following ---- */

static bool follow(struct body *b, uint16_t registers, uint32_t block, uint32_t before);

/* What an instruction needs for its result: its frame is not followed, nor flags, nor other registers than general. */
static bool needs_of(const struct x86_insn *i, uint16_t *needs)
{
    bool is_clear = (i->op == X86_OP_XOR || i->op == X86_OP_SUB) && !i->loads && i->gpr_read == i->gpr_written;
    *needs = is_clear ? 0 : i->gpr_read;
    if (i->loads && (i->mem_base == X86_RSP || i->props & (X86_PROP_STACK | X86_PROP_REP | X86_PROP_VSIB)))
        return false;
    return i->kind == X86_PLAIN && !i->flags_read && !(i->props & X86_PROP_VEC);
}

/* Round in a circle: counting is, a chain of loads is not. */
static bool is_counting(const struct body *b, uint32_t insn)
{
    for (uint32_t k = b->depth; k-- > 0;) {
        if (b->insns[b->way[k]].insn.loads)
            return false;
        if (b->way[k] == insn)
            return true;
    }
    return false;
}

static bool is_ahead(struct body *b, uint32_t insn)
{
    struct insn_at *i = &b->insns[insn];
    uint16_t needs;
    if (i->is_known)
        return true;
    if (i->is_on_way)
        return is_counting(b, insn);
    if (!needs_of(&i->insn, &needs) || b->depth == DEPTH_MAX)
        return false;
    i->is_on_way = true;
    b->way[b->depth++] = insn;
    bool ok = (!i->insn.loads || comes_easily(b, i->insn.addr)) && follow(b, needs, i->block, insn);
    b->depth--;
    i->is_on_way = false;
    return i->is_known = ok;
}

static uint32_t place_of(const struct body *b, uint32_t block)
{
    for (uint32_t i = 0; i < b->block_count; i++)
        if (b->blocks[i] == block)
            return i;
    return ID_NONE;
}

struct search { /* for all definitions of a register that reach a place */
    uint8_t reg;
    uint64_t seen; /* blocks that were looked through from their end */
};
static bool search_before(struct body *b, struct search *s, uint32_t block, uint32_t before);

/* The blocks of the loop that go on to this one. A call leaves what a callee keeps. */
static bool search_into(struct body *b, struct search *s, uint32_t block)
{
    const struct cfg *c = b->m->cfg;
    const uint16_t kept =
        1u << X86_RBX | 1u << X86_RBP | 1u << X86_RSP | 1u << X86_R12 | 1u << X86_R13 | 1u << X86_R14 | 1u << X86_R15;
    for (uint32_t from = 0; from < b->block_count; from++) {
        cfg_for_each_edge(&c->blocks.data[b->blocks[from]], e) {
            if (place_of(b, c->edges.data[e].to) != block || s->seen >> from & 1)
                continue;
            if (c->edges.data[e].kind == CFG_EDGE_RETURN && !(kept >> s->reg & 1))
                return false;
            s->seen |= 1ull << from;
            if (!search_before(b, s, from, b->first[from + 1]))
                return false;
        }
    }
    return true;
}

static bool search_before(struct body *b, struct search *s, uint32_t block, uint32_t before)
{
    for (uint32_t i = before; i-- > b->first[block];)
        if (b->insns[i].insn.gpr_written >> s->reg & 1)
            return is_ahead(b, i);
    return search_into(b, s, block);
}

static bool follow(struct body *b, uint16_t registers, uint32_t block, uint32_t before)
{
    for (unsigned reg = 0; reg < X86_GPR_COUNT; reg++)
        if (registers >> reg & 1 && reg != X86_RSP &&
            !search_before(b, &(struct search){.reg = (uint8_t)reg}, block, before))
            return false;
    return true;
}

/* ---- */

bool spied_is_ahead(const struct spied *s, uint32_t cell, double hits_below, uint32_t *list)
{
    const struct spy_site *site = spy_site(s->in->spy, s->cells[cell].site);
    const struct join_module *m = site->module < s->j->module_count ? &s->j->modules[site->module] : NULL;
    uint32_t block = m && m->cfg ? cfg_block_at(m->cfg, site->address) : ID_NONE;
    uint32_t loop = block == ID_NONE ? ID_NONE : m->cfg->blocks.data[block].loop;
    if (loop == ID_NONE)
        return false;
    struct body *b = xmalloc(sizeof *b);
    b->s = s, b->m = m, b->module = site->module, b->list = ID_NONE, b->hits_below = hits_below;
    b->block_count = b->insn_count = b->depth = 0;
    b->has_prefetch = false;
    bool ok = read_loop(b, loop) && !b->has_prefetch;
    for (uint32_t i = 0; ok && i < b->insn_count; i++)
        if (b->insns[i].insn.addr == site->address)
            ok =
                !(b->insns[i].insn.props & (X86_PROP_VSIB | X86_PROP_STACK | X86_PROP_REP)) &&
                follow(b, bit_of(b->insns[i].insn.mem_base) | bit_of(b->insns[i].insn.mem_index), b->insns[i].block, i);
    *list = b->list;
    free(b);
    return ok && *list != ID_NONE;
}
