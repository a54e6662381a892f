/* SPDX-License-Identifier: Apache-2.0
 *
 * The flat arrays of a cfg to bytes and back, packed: what follows from the rest is left out, and numbers are LEB128
 * (u) or zigzag LEB128 (s). cc1plus: 20 MB where the arrays have 120. The form:
 *
 *   "mtoolcfg"  u version  u bytes_code  u bytes_funcs  u funcs  u blocks  u edges  u tables  u loops  u loop_members
 *   each function:  u addr - previous addr   u size   u fde + 1, 0 none   u insn_count   u block_count   u loop_count
 *                   u reason << 2 | is_plt << 1 | unresolved, then its blocks, then its loops
 *     each block:   u size  u insn_count  u mem_ops  u flags << 1 | has call_target  u term  u loop + 1 from the
 * function's first, 0 none  s call_target - addr, if it has one  u edge_count each edge:  u kind  s to - from, unless
 * the kind is OUT each loop:    u header from the function's first block  u parent + 1 from its first loop, 0 none  u
 * depth  u member_count then the members, each as u the difference from the one before (the first: from the first
 * block) each table:     u addr - previous addr   s base - addr   u entries   u block   u kind << 1 | by_reloc
 *
 * The bytes may come from a file that anything can have happened to: the loader believes nothing.
 */
#include "cfg/impl.h"

#include <stdlib.h>

#define MAGIC "mtoolcfg"
#define VERSION 2u

/* ---- writing ---- */

static void put_u(struct strbuf *out, uint64_t v) { str_put_uleb(out, v); }

static void put_s(struct strbuf *out, uint64_t difference)
{
    put_u(out, difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0));
}

/* ID_NONE becomes 0. */
static void put_id(struct strbuf *out, uint32_t id, uint32_t first)
{
    put_u(out, id == ID_NONE ? 0 : id - first + 1ull);
}

static void save_block(const struct cfg *c, const struct cfg_func *f, uint32_t k, struct strbuf *out)
{
    const struct cfg_block *b = &c->blocks.data[k];
    put_u(out, b->size);
    put_u(out, b->insn_count);
    put_u(out, b->mem_ops);
    put_u(out, (uint64_t)b->flags << 1 | (b->call_target != 0));
    put_u(out, b->term);
    put_id(out, b->loop, f->loop_first);
    if (b->call_target)
        put_s(out, b->call_target - b->addr);
    put_u(out, b->edge_count);
    cfg_for_each_edge(b, e) {
        put_u(out, c->edges.data[e].kind);
        if (c->edges.data[e].kind != CFG_EDGE_OUT)
            put_s(out, (uint64_t)c->edges.data[e].to - k);
    }
}

static void save_loop(const struct cfg *c, const struct cfg_func *f, const struct cfg_loop *l, struct strbuf *out)
{
    uint32_t before = f->block_first;
    put_u(out, l->header - f->block_first);
    put_id(out, l->parent, f->loop_first);
    put_u(out, l->depth);
    put_u(out, l->member_count);
    cfg_for_each_member(l, m) {
        put_u(out, c->loop_members.data[m] - before);
        before = c->loop_members.data[m];
    }
}

static void save_func(const struct cfg *c, const struct cfg_func *f, uint64_t before, struct strbuf *out)
{
    put_u(out, f->addr - before);
    put_u(out, f->size);
    put_id(out, f->fde, 0);
    put_u(out, f->insn_count);
    put_u(out, f->block_count);
    put_u(out, f->loop_count);
    put_u(out, (uint64_t)f->reason << 2 | (uint64_t)(f->is_plt != 0) << 1 | (f->unresolved != 0));
    cfg_for_each_block(f, k)
        save_block(c, f, k, out);
    cfg_for_each_loop(f, l)
        save_loop(c, f, &c->loops.data[l], out);
}

#define FUNCS_SAVED 512   /* at a time by one thread */
#define BYTES_OF_BLOCK 16 /* with its edges, and its share of all else; hardly ever more */

struct saving {
    const struct cfg *c;
    struct strbuf *out;
};

static void save_range(void *ctx, size_t first, size_t end, struct parallel_list *list)
{
    const struct saving *s = ctx;
    const struct cfg_func *f = s->c->funcs.data;
    struct strbuf out = {list->data, list->len, list->cap};
    for (size_t k = first; k < end; k++)
        save_func(s->c, &f[k], k ? f[k - 1].addr : 0, &out);
    *list = (struct parallel_list){out.data, out.len, out.cap};
}

static void take_range(void *ctx, size_t first, size_t end, struct parallel_list *list)
{
    const struct saving *s = ctx;
    (void)first, (void)end;
    str_put(s->out, list->data, list->len);
}

int cfg_save(const struct cfg *c, struct strbuf *out)
{
    struct saving s = {c, out};
    const uint64_t head[] = {VERSION,      c->bytes_code, c->bytes_funcs, c->funcs.len,       c->blocks.len,
                             c->edges.len, c->tables.len, c->loops.len,   c->loop_members.len};
    str_reserve(out, BYTES_OF_BLOCK * c->blocks.len); /* at once: from memory that is used no more */
    str_put(out, MAGIC, 8);
    for (size_t k = 0; k < ARRAY_LEN(head); k++)
        put_u(out, head[k]);
    parallel_lists(c->funcs.len, FUNCS_SAVED, save_range, take_range, &s);
    for (size_t k = 0; k < c->tables.len; k++) {
        const struct cfg_table *t = &c->tables.data[k];
        put_u(out, t->addr - (k ? c->tables.data[k - 1].addr : 0));
        put_s(out, t->base - t->addr);
        put_u(out, t->entries);
        put_u(out, t->block);
        put_u(out, (uint64_t)t->kind << 1 | (t->by_reloc != 0));
    }
    str_put(out, "", 0); /* terminated again, as every strbuf */
    return 0;
}

/* ---- reading ---- */

struct reader {
    const uint8_t *at, *end;
    bool bad; /* once set, every read gives 0 */
};

static uint64_t get_u(struct reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t b = *r->at++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return r->bad ? 0 : v;
    }
    r->bad = true;
    return 0;
}

/* A number that must be below `limit`. */
static uint32_t get_below(struct reader *r, uint64_t limit)
{
    uint64_t v = get_u(r);
    if (v < limit)
        return (uint32_t)v;
    r->bad = true;
    return 0;
}

static uint32_t get_u32(struct reader *r) { return get_below(r, UINT32_MAX); }

static uint16_t get_u16(struct reader *r, uint64_t limit) { return (uint16_t)get_below(r, min_u64(limit, 1 << 16)); }

static uint64_t get_s(struct reader *r)
{
    uint64_t v = get_u(r);
    return v >> 1 ^ (v & 1 ? UINT64_MAX : 0);
}

/* Of `count` ids that start at `first`, or ID_NONE. */
static uint32_t get_id(struct reader *r, uint32_t first, uint32_t count)
{
    uint32_t v = get_below(r, count + 1ull);
    return v ? first + v - 1 : ID_NONE;
}

static void load_edges(struct cfg *c, uint32_t from, struct reader *r)
{
    struct cfg_block *b = &c->blocks.data[from];
    b->edge_first = (uint32_t)c->edges.len;
    b->edge_count = get_below(r, c->edges.cap - c->edges.len + 1);
    for (uint32_t k = 0; k < b->edge_count && !r->bad; k++) {
        struct cfg_edge e = {.from = from, .to = ID_NONE, .kind = (uint8_t)get_below(r, CFG_EDGE_KIND_COUNT)};
        uint64_t to = e.kind == CFG_EDGE_OUT ? ID_NONE : from + get_s(r);
        r->bad |= e.kind != CFG_EDGE_OUT && to >= c->blocks.cap;
        e.to = (uint32_t)to;
        c->edges.data[c->edges.len++] = e;
    }
}

/* insn_first and addr come from the block before. */
static void load_block(struct cfg *c, uint32_t func, uint64_t addr, uint32_t insn_first, struct reader *r)
{
    const struct cfg_func *f = &c->funcs.data[func];
    struct cfg_block b = {.addr = addr, .func = func, .insn_first = insn_first};
    b.size = get_u16(r, f->addr + f->size - addr + 1);
    b.insn_count = get_u16(r, f->insn_first + (uint64_t)f->insn_count - insn_first + 1);
    b.mem_ops = get_u16(r, UINT64_MAX);
    uint32_t flags = get_below(r, 1 << 17);
    b.flags = (uint16_t)(flags >> 1);
    b.term = (uint8_t)get_below(r, X86_KIND_COUNT);
    b.loop = get_id(r, f->loop_first, f->loop_count);
    if (flags & 1)
        b.call_target = addr + get_s(r);
    r->bad |= b.size == 0 || b.insn_count == 0;
    c->blocks.data[c->blocks.len++] = b;
    load_edges(c, (uint32_t)c->blocks.len - 1, r);
}

static void load_loop(struct cfg *c, uint32_t func, struct reader *r)
{
    const struct cfg_func *f = &c->funcs.data[func];
    struct cfg_loop l = {.func = func, .member_first = (uint32_t)c->loop_members.len};
    l.header = f->block_first + get_below(r, f->block_count);
    l.parent = get_id(r, f->loop_first, f->loop_count);
    l.depth = get_u32(r);
    l.member_count = get_below(r, c->loop_members.cap - c->loop_members.len + 1);
    uint64_t at = f->block_first;
    for (uint32_t k = 0; k < l.member_count && !r->bad; k++) {
        uint32_t step = get_below(r, f->block_count);
        at += step;
        r->bad |= at >= f->block_first + f->block_count || (k && step == 0);
        c->loop_members.data[c->loop_members.len++] = (uint32_t)at;
    }
    r->bad |= l.member_count == 0 || l.depth == 0;
    c->loops.data[c->loops.len++] = l;
}

static bool nesting_is_sound(const struct cfg *c, const struct cfg_func *f)
{
    cfg_for_each_loop(f, k) {
        const struct cfg_loop *l = &c->loops.data[k];
        if (l->parent == ID_NONE ? l->depth != 1 : c->loops.data[l->parent].depth + 1 != l->depth)
            return false;
    }
    return true;
}

static bool starts_soundly(const struct cfg *c, const struct cfg_func *f)
{
    const struct cfg_func *before = c->funcs.len > 1 ? &f[-1] : NULL;
    bool overlaps = before && f->addr < before->addr + before->size;
    bool ok = f->reason == CFG_REASON_OK;
    return f->size && f->addr + f->size > f->addr && (!before || f->addr >= before->addr) &&
           (!ok || f->block_count > 0) && /* one refused by the rewriter keeps its blocks */
           !(overlaps && (ok || before->reason == CFG_REASON_OK));
}

static void load_func(struct cfg *c, struct reader *r)
{
    uint32_t func = (uint32_t)c->funcs.len;
    struct cfg_func *f = &c->funcs.data[c->funcs.len++];
    *f = (struct cfg_func){.addr = func ? f[-1].addr : 0,
                           .insn_first = func ? f[-1].insn_first + f[-1].insn_count : 0,
                           .block_first = (uint32_t)c->blocks.len,
                           .loop_first = (uint32_t)c->loops.len};
    f->addr += get_u(r);
    f->size = get_u32(r);
    f->fde = get_id(r, 0, UINT32_MAX - 1);
    f->insn_count = get_below(r, min_u64(f->size, UINT32_MAX - f->insn_first) + 1);
    f->block_count = get_below(r, c->blocks.cap - c->blocks.len + 1);
    f->loop_count = get_below(r, c->loops.cap - c->loops.len + 1);
    uint32_t bits = get_below(r, (uint64_t)CFG_REASON_COUNT << 2);
    f->reason = (uint16_t)(bits >> 2);
    f->is_plt = bits >> 1 & 1;
    f->unresolved = bits & 1;
    r->bad |= !starts_soundly(c, f);
    uint64_t addr = f->addr;
    uint32_t insn = f->insn_first;
    for (uint32_t k = 0; k < f->block_count && !r->bad; k++) {
        load_block(c, func, addr, insn, r);
        addr += c->blocks.data[c->blocks.len - 1].size;
        insn += c->blocks.data[c->blocks.len - 1].insn_count;
    }
    r->bad |= f->block_count && addr != f->addr + f->size;
    for (uint32_t k = 0; k < f->loop_count && !r->bad; k++)
        load_loop(c, func, r);
    r->bad |= !r->bad && !nesting_is_sound(c, f);
}

static void load_table(struct cfg *c, struct reader *r)
{
    struct cfg_table t = {.addr = c->tables.len ? c->tables.data[c->tables.len - 1].addr : 0};
    t.addr += get_u(r);
    t.base = t.addr + get_s(r);
    t.entries = get_u32(r);
    t.block = get_below(r, c->blocks.len);
    uint32_t bits = get_below(r, CFG_TABLE_KIND_COUNT << 1);
    t.kind = (uint8_t)(bits >> 1);
    t.by_reloc = bits & 1;
    t.entry_bytes = t.kind == CFG_TABLE_ABS64 ? 8 : 4;
    c->tables.data[c->tables.len++] = t;
}

/* Room for exactly as many members as the head says: what is loaded can then be checked against cap. Each takes a byte
 * at least, so that a false count cannot ask for more memory than a multiple of the file. */
static void make_room(struct reader *r, void **data, size_t *cap, size_t member)
{
    *cap = get_below(r, min_u64((uint64_t)(r->end - r->at) + 1, UINT32_MAX));
    *data = xmalloc(*cap * member);
}
#define MAKE_ROOM(r, v) make_room((r), (void **)&(v)->data, &(v)->cap, sizeof *(v)->data)
#define IS_FULL(v) ((v)->len == (v)->cap)

static void load_all(struct cfg *c, struct reader *r)
{
    c->bytes_code = get_u(r);
    c->bytes_funcs = get_u(r);
    MAKE_ROOM(r, &c->funcs);
    MAKE_ROOM(r, &c->blocks);
    MAKE_ROOM(r, &c->edges);
    MAKE_ROOM(r, &c->tables);
    MAKE_ROOM(r, &c->loops);
    MAKE_ROOM(r, &c->loop_members);
    while (!r->bad && !IS_FULL(&c->funcs))
        load_func(c, r);
    r->bad |= !IS_FULL(&c->blocks) || !IS_FULL(&c->edges) || !IS_FULL(&c->loops) || !IS_FULL(&c->loop_members);
    while (!r->bad && !IS_FULL(&c->tables))
        load_table(c, r);
    r->bad |= r->at != r->end;
}

int cfg_load(const uint8_t *bytes, size_t len, struct cfg **out)
{
    struct reader r = {.at = bytes + 8, .end = bytes + len};
    *out = NULL;
    if (len < 8 || memcmp(bytes, MAGIC, 8) != 0 || get_u(&r) != VERSION)
        return -1;
    struct cfg *c = xmalloc(sizeof *c);
    load_all(c, &r);
    if (r.bad) {
        cfg_free(c);
        return -1;
    }
    *out = c;
    return 0;
}
