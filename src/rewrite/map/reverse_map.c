/* SPDX-License-Identifier: Apache-2.0
 *
 * From an address in a copy's new text back to the original: the copy of a block and its original are read side by
 * side, past what was inserted (place.c, induction.c). Only where the map has the block's copy; stubs behind a function
 * belong to the block before them.
 */
#include "rewrite/impl.h"

#include <stdlib.h>

struct moved_block {
    uint64_t at;
    uint32_t block;
};
struct rewrite_reverse_map {
    const struct rewrite_map *map;
    struct image *copy, *original;
    VEC(struct moved_block) blocks; /* in order of where they are in the copy */
};

static int by_place(const void *a, const void *b)
{
    const struct moved_block *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

struct rewrite_reverse_map *rewrite_reverse_map_new(const struct rewrite_map *map, const char *copy)
{
    struct rewrite_reverse_map *b = xmalloc(sizeof *b);
    struct strbuf unsaid = {0};
    b->map = map;
    diag_hold(&unsaid);
    bool ok = image_open_copy(copy, &b->copy) == 0 && image_open(map->in_path, &b->original) == 0;
    diag_hold(NULL);
    str_free(&unsaid);
    for (uint32_t i = 0; ok && i < map->cfg->blocks.len; i++)
        if (map->block_addr_new[i])
            VEC_PUSH(&b->blocks, ((struct moved_block){map->block_addr_new[i], i}));
    if (ok && b->blocks.len)
        qsort(b->blocks.data, b->blocks.len, sizeof *b->blocks.data, by_place);
    if (ok)
        return b;
    rewrite_reverse_map_free(b);
    return NULL;
}

void rewrite_reverse_map_free(struct rewrite_reverse_map *b)
{
    if (!b)
        return;
    image_close(b->copy);
    image_close(b->original);
    VEC_FREE(&b->blocks);
    free(b);
}

/* ---- what was inserted ---- */

/* One instruction, or a length of 0. Code may end behind it. */
static struct x86_insn decode(const struct image *img, uint64_t addr)
{
    struct x86_insn in = {.len = 0};
    for (size_t avail = 16; avail; avail--) {
        const uint8_t *p = image_at(img, addr, avail);
        if (!p)
            continue;
        if (!x86_decode(p, avail, addr, &in))
            in.len = 0;
        break;
    }
    return in;
}

/* Of an instruction that reaches for a counter, or for the ones that vectors of counters are increased by; 0: it does
 * not. */
static unsigned access_bytes(const struct rewrite_reverse_map *b, uint64_t addr, uint32_t *counter)
{
    struct x86_insn in = decode(b->copy, addr);
    uint64_t first = b->map->counters_vaddr, lo = first - RW_DATA_ONES_BYTES, hi = first + 8ull * b->map->counter_count;
    *counter = in.target >= first ? (uint32_t)((in.target - first) / 8) : ID_NONE;
    return in.len && (in.props & X86_PROP_RIPREL) && in.target >= lo && in.target < hi ? in.len : 0;
}

static bool is_push(const struct image *img, uint64_t addr)
{
    const uint8_t *p = image_at(img, addr, 6);
    return p && memcmp(p, "\x48\x8d\x64\x24\x80\x50", 6) == 0;
}

static bool is_load(const struct image *img, uint64_t addr, unsigned len)
{
    const uint8_t *p = image_at(img, addr, len);
    return p && len >= 7 && p[len - 6] == 0x8b;
}

/* Of what was inserted at an address of the copy; 0: nothing was. */
static unsigned inserted_bytes(const struct rewrite_reverse_map *b, uint64_t addr, uint32_t *counter)
{
    enum { LEA = 4, PUSH = 6, POP = 9 };
    unsigned n = access_bytes(b, addr, counter);
    if (n)
        return is_load(b->copy, addr, n) ? 2 * n + LEA : n;
    if (!is_push(b->copy, addr) || !(n = access_bytes(b, addr + PUSH, counter)))
        return 0;
    return PUSH + 2 * n + LEA + POP;
}

/* ---- side by side ---- */

/* Of the copy of one instruction. */
static unsigned copied_bytes(const struct rewrite_reverse_map *b, const struct x86_insn *original, uint64_t addr)
{
    enum { JCXZ_BYTES = 10 };
    struct x86_insn in = decode(b->copy, addr);
    if (original->kind == X86_JCXZ)
        return JCXZ_BYTES;
    if (original->kind == X86_SYSCALL && in.kind != X86_SYSCALL)
        return RW_SYSCALL_BYTES;
    return in.len;
}

static bool is_call(const struct x86_insn *in) { return in->len && (in->kind == X86_CALL || in->kind == X86_CALL_IND); }

static bool find_in_block(const struct rewrite_reverse_map *b, const struct moved_block *m, uint64_t addr,
                          struct rewrite_place *out)
{
    const struct cfg_block *blk = &b->map->cfg->blocks.data[m->block];
    uint64_t from = blk->addr, end = blk->addr + blk->size;
    for (uint64_t at = m->at; at <= addr;) {
        uint32_t counter = ID_NONE;
        unsigned n = inserted_bytes(b, at, &counter);
        bool is_inserted = n != 0;
        struct x86_insn in = {.len = 0};
        if (!is_inserted && from < end && (in = decode(b->original, from)).len)
            n = copied_bytes(b, &in, at);
        if (!n) { /* padding, a jump at the end of a stub */
            is_inserted = from >= end;
            n = is_inserted ? decode(b->copy, at).len : 0;
        }
        if (!n)
            return false;
        uint64_t into = is_inserted || addr >= at + n ? 0 : min_u64(addr - at, in.len - 1u);
        *out = (struct rewrite_place){.addr = from < end ? from + into : end - 1,
                                      .is_inserted = is_inserted,
                                      .is_exact = at == addr && from < end,
                                      .returns_to = is_call(&in) && addr == at + n - 1 ? from + in.len : 0,
                                      .block = m->block,
                                      .counter = is_inserted ? counter : ID_NONE,
                                      .inserted = is_inserted ? at : 0};
        at += n;
        from += in.len;
    }
    return true;
}

bool rewrite_reverse_map_return(const struct rewrite_reverse_map *b, uint64_t addr, uint64_t *original)
{
    struct rewrite_place call;
    if (!rewrite_reverse_map_find(b, addr - 1, &call) || !call.returns_to)
        return false;
    *original = call.returns_to;
    return true;
}

bool rewrite_reverse_map_find(const struct rewrite_reverse_map *b, uint64_t addr, struct rewrite_place *out)
{
    if (addr < b->map->text_new_lo || addr >= b->map->text_new_hi)
        return false;
    size_t lo = PARTITION_POINT(i, 0, b->blocks.len, b->blocks.data[i].at <= addr);
    if (!lo)
        return false;
    const struct moved_block *m = &b->blocks.data[lo - 1];
    if (find_in_block(b, m, addr, out))
        return true;
    const struct cfg_block *blk = &b->map->cfg->blocks.data[m->block];
    *out = (struct rewrite_place){
        .addr = blk->addr + min_u64(addr - m->at, blk->size - 1), .block = m->block, .counter = ID_NONE};
    return true;
}
