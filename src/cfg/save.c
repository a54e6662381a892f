/* SPDX-License-Identifier: Apache-2.0
 *
 * The flat arrays of a cfg to bytes and back. The form, little endian:
 *
 *   0  8  "mtoolcfg"            8  4  version             12  4  number of arrays (6)
 *  16  8  bytes_code           24  8  bytes_funcs
 *  32     for each of funcs, blocks, edges, tables, loops, loop_members: 4 bytes a member, 4 members
 *  80     the arrays in that order, each at a multiple of 8
 *
 * The bytes may come from a file that anything can have happened to: the loader believes nothing.
 */
#include "cfg/impl.h"

#include <stdlib.h>

#define VERSION 1u
#define ARRAYS 6u
#define HEAD_BYTES 80u

static void put_u32(struct strbuf *out, size_t v)
{
    uint32_t w = (uint32_t)v;
    str_put(out, &w, 4);
}

int cfg_save(const struct cfg *c, struct strbuf *out)
{
    const struct {
        const void *data;
        size_t member, len;
    } arrays[ARRAYS] = {
        {c->funcs.data, sizeof *c->funcs.data, c->funcs.len},    {c->blocks.data, sizeof *c->blocks.data, c->blocks.len},
        {c->edges.data, sizeof *c->edges.data, c->edges.len},    {c->tables.data, sizeof *c->tables.data, c->tables.len},
        {c->loops.data, sizeof *c->loops.data, c->loops.len},    {c->loop_members.data, 4, c->loop_members.len},
    };
    static const char zeros[8];
    size_t start = out->len;
    str_put(out, "mtoolcfg", 8);
    put_u32(out, VERSION);
    put_u32(out, ARRAYS);
    str_put(out, &c->bytes_code, 8);
    str_put(out, &c->bytes_funcs, 8);
    for (size_t k = 0; k < ARRAYS; k++) {
        put_u32(out, arrays[k].member);
        put_u32(out, arrays[k].len);
    }
    for (size_t k = 0; k < ARRAYS; k++) {
        str_put(out, arrays[k].data, arrays[k].member * arrays[k].len);
        str_put(out, zeros, (8 - (out->len - start) % 8) % 8);
    }
    return 0;
}

/* ---- loading ---- */

struct cursor {
    const uint8_t *bytes;
    size_t len, at;
    unsigned array;
};

/* Takes the next array if the header promises members of this size and the bytes are there. */
static void *take(struct cursor *r, size_t member, size_t *len, size_t *cap)
{
    uint32_t head[2];
    memcpy(head, r->bytes + 32 + 8 * r->array++, 8);
    uint64_t n = (uint64_t)head[0] * head[1];
    if (head[0] != member || r->at > r->len || n > r->len - r->at)
        return NULL;
    void *p = xmalloc((size_t)n);
    memcpy(p, r->bytes + r->at, (size_t)n);
    *len = *cap = head[1];
    r->at += ALIGN_UP((size_t)n, (size_t)8);
    return p;
}

#define TAKE(r, v) (((v)->data = take((r), sizeof *(v)->data, &(v)->len, &(v)->cap)) != NULL)

/* [first, first+count) must be the next part of an array of `len` members, of which `done` are spoken for. */
static bool is_next(uint64_t *done, uint32_t first, uint32_t count, size_t len)
{
    if (first != *done || count > len - *done)
        return false;
    *done += count;
    return true;
}

static bool func_is_sound(const struct cfg *c, size_t k, uint64_t *blocks, uint64_t *loops)
{
    const struct cfg_func *f = &c->funcs.data[k];
    bool overlapping = k && f->addr < c->funcs.data[k - 1].addr + c->funcs.data[k - 1].size;
    return f->reason < CFG_REASON_COUNT && f->addr + f->size >= f->addr && (k == 0 || f->addr >= c->funcs.data[k - 1].addr) &&
           (!overlapping || f->reason != CFG_REASON_OK) && /* one refused by the rewriter keeps its blocks */
           is_next(blocks, f->block_first, f->block_count, c->blocks.len) &&
           is_next(loops, f->loop_first, f->loop_count, c->loops.len);
}

static bool blocks_are_sound(const struct cfg *c, uint32_t func, uint64_t *edges)
{
    const struct cfg_func *f = &c->funcs.data[func];
    uint64_t at = f->addr;
    cfg_for_each_block(c, f, k) {
        const struct cfg_block *b = &c->blocks.data[k];
        if (b->addr != at || b->size == 0 || b->size > f->size - (at - f->addr) || b->func != func || b->insn_count == 0 ||
            b->insn_count > b->size || b->term >= X86_KIND_COUNT || !is_next(edges, b->edge_first, b->edge_count, c->edges.len))
            return false;
        if (b->loop != ID_NONE && b->loop - f->loop_first >= f->loop_count)
            return false;
        at += b->size;
    }
    return f->block_count == 0 || at == f->addr + f->size;
}

static bool edges_are_sound(const struct cfg *c)
{
    for (size_t k = 0; k < c->blocks.len; k++) {
        const struct cfg_block *b = &c->blocks.data[k];
        for (uint32_t e = b->edge_first; e < b->edge_first + b->edge_count; e++) {
            const struct cfg_edge *x = &c->edges.data[e];
            bool leaves = x->to == ID_NONE;
            if (x->from != k || (!leaves && x->to >= c->blocks.len) || x->kind >= CFG_EDGE_KIND_COUNT ||
                leaves != (x->kind == CFG_EDGE_OUT))
                return false;
        }
    }
    return true;
}

static bool loops_are_sound(const struct cfg *c, const struct cfg_func *f, uint64_t *members)
{
    for (uint32_t k = f->loop_first; k < f->loop_first + f->loop_count; k++) {
        const struct cfg_loop *l = &c->loops.data[k];
        if (l->func != (uint32_t)(f - c->funcs.data) || l->header - f->block_first >= f->block_count || l->depth == 0 ||
            l->member_count == 0 || !is_next(members, l->member_first, l->member_count, c->loop_members.len))
            return false;
        if (l->parent == ID_NONE ? l->depth != 1
                                 : l->parent - f->loop_first >= f->loop_count || c->loops.data[l->parent].depth + 1 != l->depth)
            return false;
        for (uint32_t m = l->member_first; m < l->member_first + l->member_count; m++)
            if (c->loop_members.data[m] - f->block_first >= f->block_count ||
                (m > l->member_first && c->loop_members.data[m] <= c->loop_members.data[m - 1]))
                return false;
    }
    return true;
}

static bool is_sound(const struct cfg *c)
{
    uint64_t blocks = 0, edges = 0, loops = 0, members = 0;
    for (size_t k = 0; k < c->funcs.len; k++)
        if (!func_is_sound(c, k, &blocks, &loops) || !blocks_are_sound(c, (uint32_t)k, &edges) ||
            !loops_are_sound(c, &c->funcs.data[k], &members))
            return false;
    for (size_t k = 0; k < c->tables.len; k++)
        if (c->tables.data[k].block >= c->blocks.len || c->tables.data[k].kind >= CFG_TABLE_KIND_COUNT)
            return false;
    return blocks == c->blocks.len && edges == c->edges.len && loops == c->loops.len && members == c->loop_members.len &&
           edges_are_sound(c);
}

int cfg_load(const uint8_t *bytes, size_t len, struct cfg **out)
{
    struct cfg *c = xmalloc(sizeof *c);
    struct cursor r = {.bytes = bytes, .len = len, .at = HEAD_BYTES};
    uint32_t head[2] = {0, 0};
    *out = NULL;
    if (len >= HEAD_BYTES && memcmp(bytes, "mtoolcfg", 8) == 0)
        memcpy(head, bytes + 8, 8);
    bool ok = head[0] == VERSION && head[1] == ARRAYS && TAKE(&r, &c->funcs) && TAKE(&r, &c->blocks) && TAKE(&r, &c->edges) &&
              TAKE(&r, &c->tables) && TAKE(&r, &c->loops) && TAKE(&r, &c->loop_members) && r.at == len && is_sound(c);
    if (!ok) {
        cfg_free(c);
        return -1;
    }
    memcpy(&c->bytes_code, bytes + 16, 8);
    memcpy(&c->bytes_funcs, bytes + 24, 8);
    for (size_t k = 0; k < c->tables.len; k++)
        c->tables.data[k].ref_first = c->tables.data[k].ref_count = c->tables.data[k].base_ref_first = c->tables.data[k].base_ref_count = 0;
    *out = c;
    return 0;
}
