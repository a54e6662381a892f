/* SPDX-License-Identifier: Apache-2.0
 * The shadow: which block holds an address. Painted by chunk of 2 MB or by page where one block has all of it, else by
 * granule of 16 bytes, else by byte; so that a table of a gigabyte costs no more than one of a kilobyte, and small
 * blocks a quarter of their memory. Entries name one block also where this does not fill the granule: what it leaves
 * is of the block under it, as the look-up sees by the block's bounds. */
#include "data/impl.h"

#include <stdlib.h>

enum {
    PAGES = 1 << (DATA_CHUNK - DATA_PAGE),
    PAGE_GRANULES = 1 << (DATA_PAGE - DATA_GRANULE),
    GRANULE = 1 << DATA_GRANULE,
    ROOTS = 1 << (47 - DATA_CHUNK)
};

/* ---- blocks ---- */

uint32_t data_block_new(struct data *d, uint64_t start, uint64_t bytes, uint32_t object, uint32_t under)
{
    struct data_tables *t = d->own;
    uint32_t id = (uint32_t)t->blocks.len;
    if (t->unused.len)
        id = t->unused.data[--t->unused.len];
    else
        VEC_PUSH(&t->blocks, (struct data_block){0});
    d->blocks = t->blocks.data;
    d->blocks[id] = (struct data_block){start, bytes, d->own->now, object, under, ++t->serial, false};
    d->blocks[under].is_covered = true;
    return id;
}

void data_block_drop(struct data *d, uint32_t block)
{
    d->blocks[block] = (struct data_block){0};
    VEC_PUSH(&d->own->unused, block);
}

/* A block may have outlived the one under it, whose number is another's now: only a lower one is taken for it. */
uint32_t data_block_under(const struct data *d, uint32_t block)
{
    uint32_t under = d->blocks[block].under;
    struct data_object **objects = d->own->objects.data;
    return objects[d->blocks[under].object]->layer < objects[d->blocks[block].object]->layer ? under : 0;
}

static uint32_t resolve(const struct data *d, uint32_t block, uint64_t address)
{
    while (address - d->blocks[block].start >= d->blocks[block].bytes)
        block = data_block_under(d, block);
    return block;
}

/* ---- what is painted over ---- */

struct paint {
    struct data *d;
    uint32_t block, expected;
};

static void meet(struct paint *p, uint32_t block)
{
    struct data_tables *t = p->d->own;
    if (!block || block == p->expected || block == p->block || (t->met.len && t->met.data[t->met.len - 1] == block))
        return;
    for (uint32_t b = p->expected; b; b = data_block_under(p->d, b))
        if (b == block)
            return;
    p->d->blocks[block].is_covered = true;
    VEC_PUSH(&t->met, block);
}

static void release_mixed(struct data *d, uint32_t entry) { VEC_PUSH(&d->own->unused_mixed, entry & ~DATA_SPLIT); }

static void meet_entry(struct paint *p, uint32_t entry)
{
    if (!(entry & DATA_SPLIT)) {
        meet(p, entry);
        return;
    }
    for (int i = 0; i < GRANULE; i++)
        meet(p, p->d->mixed[entry & ~DATA_SPLIT].block[i]);
    release_mixed(p->d, entry);
}

/* ---- a part of a granule ---- */

static void bytes_of(const struct data *d, uint32_t entry, uint64_t lo, uint32_t out[GRANULE])
{
    if (entry & DATA_SPLIT)
        memcpy(out, d->mixed[entry & ~DATA_SPLIT].block, sizeof d->mixed->block);
    else
        for (int i = 0; i < GRANULE; i++)
            out[i] = resolve(d, entry, lo + i);
}

static bool is_told_by(const struct data *d, uint32_t block, uint64_t lo, const uint32_t bytes[GRANULE])
{
    for (int i = 0; i < GRANULE; i++)
        if (resolve(d, block, lo + i) != bytes[i])
            return false;
    return true;
}

static uint32_t mixed_entry(struct data *d, const uint32_t bytes[GRANULE])
{
    struct data_tables *t = d->own;
    uint32_t id = (uint32_t)t->mixed.len;
    if (t->unused_mixed.len)
        id = t->unused_mixed.data[--t->unused_mixed.len];
    else
        VEC_PUSH(&t->mixed, (struct data_mixed){0});
    d->mixed = t->mixed.data;
    memcpy(d->mixed[id].block, bytes, sizeof d->mixed->block);
    return id | DATA_SPLIT;
}

static uint32_t entry_of(struct data *d, uint64_t lo, const uint32_t bytes[GRANULE])
{
    for (int i = 0; i < GRANULE; i++)
        if ((i == 0 || bytes[i] != bytes[i - 1]) && is_told_by(d, bytes[i], lo, bytes))
            return bytes[i];
    return mixed_entry(d, bytes);
}

/* Bytes [from, to) of the granule at lo. */
static void paint_bytes(struct paint *p, uint32_t *entry, uint64_t lo, unsigned from, unsigned to)
{
    uint32_t bytes[GRANULE], was = *entry;
    struct data *d = p->d;
    bool is_on_top = p->block && was == d->blocks[p->block].under;
    bool is_bared = was == p->expected && d->blocks[was].under == p->block;
    if (is_on_top || is_bared) {
        *entry = p->block; /* which leaves the rest of the granule to what was under it before too */
        return;
    }
    bytes_of(d, was, lo, bytes);
    for (unsigned i = from; i < to; i++) {
        meet(p, bytes[i]);
        bytes[i] = p->block;
    }
    if (was & DATA_SPLIT)
        release_mixed(d, was);
    *entry = entry_of(d, lo, bytes);
}

/* ---- larger pieces ---- */

static void paint_granules(struct paint *p, uint32_t *granules, uint64_t lo, uint64_t hi)
{
    for (uint64_t at = ALIGN_DOWN(lo, GRANULE); at < hi; at += GRANULE) {
        uint32_t *entry = &granules[at >> DATA_GRANULE & ((1u << (DATA_CHUNK - DATA_GRANULE)) - 1)];
        if (at < lo || hi - at < GRANULE) {
            paint_bytes(p, entry, at, at < lo ? (unsigned)(lo - at) : 0, (unsigned)min_u64(hi - at, GRANULE));
            continue;
        }
        if (*entry != p->expected)
            meet_entry(p, *entry);
        *entry = p->block;
    }
}

static uint32_t *granules_of(struct data_chunk *c, unsigned page)
{
    if (!c->granule)
        c->granule = xmalloc_sparse(sizeof *c->granule << (DATA_CHUNK - DATA_GRANULE));
    return c->granule + ((size_t)page << (DATA_PAGE - DATA_GRANULE));
}

static void meet_page(struct paint *p, struct data_chunk *c, unsigned page)
{
    if (!(c->page[page] & DATA_SPLIT)) {
        meet(p, c->page[page]);
        return;
    }
    const uint32_t *granules = granules_of(c, page);
    for (unsigned i = 0; i < PAGE_GRANULES; i++)
        meet_entry(p, granules[i]);
}

static void split_page(struct data_chunk *c, unsigned page)
{
    if (c->page[page] & DATA_SPLIT)
        return;
    uint32_t *granules = granules_of(c, page);
    for (unsigned i = 0; i < PAGE_GRANULES; i++)
        granules[i] = c->page[page];
    c->page[page] = DATA_SPLIT;
}

static void paint_pages(struct paint *p, struct data_chunk *c, uint64_t lo, uint64_t hi)
{
    for (uint64_t at = lo, end; at < hi; at = end) {
        unsigned page = at >> DATA_PAGE & (PAGES - 1);
        end = min_u64(hi, ALIGN_DOWN(at, 1ull << DATA_PAGE) + (1ull << DATA_PAGE));
        if (end - at == 1ull << DATA_PAGE) {
            meet_page(p, c, page);
            c->page[page] = p->block;
        } else {
            split_page(c, page);
            paint_granules(p, c->granule, at, end);
        }
    }
}

static struct data_chunk *chunk_of(uintptr_t e) { return (struct data_chunk *)(e - 1); }

static void paint_chunk(struct paint *p, uintptr_t *e)
{
    if (*e & 1) {
        for (unsigned i = 0; i < PAGES; i++)
            meet_page(p, chunk_of(*e), i);
        xfree_sparse(chunk_of(*e)->granule);
        free(chunk_of(*e));
    } else {
        meet(p, (uint32_t)(*e >> 1));
    }
    *e = (uintptr_t)p->block << 1;
}

static struct data_chunk *split_chunk(struct data *d, uintptr_t *e)
{
    if (*e & 1)
        return chunk_of(*e);
    struct data_chunk *c = xmalloc(sizeof *c);
    VEC_PUSH(&d->own->split, (uint32_t)(e - d->root));
    for (unsigned i = 0; i < PAGES; i++)
        c->page[i] = (uint32_t)(*e >> 1);
    *e = (uintptr_t)c | 1;
    return c;
}

void data_paint(struct data *d, uint64_t lo, uint64_t hi, uint32_t block, uint32_t expected)
{
    struct paint p = {d, block, expected};
    d->own->met.len = 0;
    for (uint64_t at = lo, end; at < hi; at = end) {
        uintptr_t *e = &d->root[at >> DATA_CHUNK];
        end = min_u64(hi, ALIGN_DOWN(at, 1ull << DATA_CHUNK) + (1ull << DATA_CHUNK));
        if (end - at == 1ull << DATA_CHUNK)
            paint_chunk(&p, e);
        else
            paint_pages(&p, split_chunk(d, e), at, end);
    }
}

void data_shadow_new(struct data *d)
{
    struct data_tables *t = d->own;
    d->root = xmalloc_sparse(sizeof *d->root * ROOTS);
    VEC_PUSH(&t->blocks, ((struct data_block){.bytes = UINT64_MAX, .is_covered = true})); /* of who has none */
    d->blocks = t->blocks.data;
}

void data_shadow_free(struct data *d)
{
    for (size_t i = 0; i < d->own->split.len; i++) {
        uintptr_t *e = &d->root[d->own->split.data[i]];
        if (!(*e & 1))
            continue; /* whole again, or met before */
        xfree_sparse(chunk_of(*e)->granule);
        free(chunk_of(*e));
        *e = 0;
    }
    VEC_FREE(&d->own->split);
    xfree_sparse(d->root);
}
