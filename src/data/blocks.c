/* SPDX-License-Identifier: Apache-2.0
 * Blocks as they come and go: allocated, given back, moved, mapped. Events may be missed or late (a function that was
 * not watched, another thread's buffer): what is told last is true, and what it contradicts goes. */
#include "data/impl.h"

#include <stdlib.h>

#define ADDRESSES (1ull << 47)

static uint32_t block_id_at(const struct data *d, uint64_t address)
{
    return (uint32_t)(data_block_at(d, address) - d->blocks);
}

static struct data_object *object_of(const struct data *d, uint32_t block)
{
    return d->own->objects.data[d->blocks[block].object];
}

static unsigned layer_of(const struct data *d, uint32_t block) { return object_of(d, block)->layer; }

void data_count_block(struct data_object *o, uint64_t bytes)
{
    o->smallest = o->blocks ? min_u64(o->smallest, bytes) : bytes;
    o->largest = max_u64(o->largest, bytes);
    o->blocks++;
    o->bytes += bytes;
}

/* ---- taking away ---- */

static void drop(struct data *d, uint32_t block)
{
    struct data_object *o = object_of(d, block);
    o->live_blocks--;
    o->live_bytes -= d->blocks[block].bytes;
    data_block_drop(d, block);
}

/* [lo, hi) is no longer the block's: it goes, or becomes shorter. One that goes on at both sides stays as it is: it is
 * a mapping with a hole, or lies under what was painted. */
static void cut(struct data *d, uint32_t block, uint64_t lo, uint64_t hi)
{
    struct data_block *b = &d->blocks[block];
    uint64_t end = b->start + b->bytes, was = b->bytes;
    if (b->start >= lo && end <= hi) {
        drop(d, block);
        return;
    }
    if (b->start < lo && end > hi)
        return;
    b->bytes = b->start < lo ? lo - b->start : end - hi;
    b->start = b->start < lo ? b->start : hi;
    object_of(d, block)->live_bytes -= was - b->bytes;
}

/* What was met, with what is under it, from `layer` on. */
static void cut_met(struct data *d, uint64_t lo, uint64_t hi, unsigned layer)
{
    for (size_t i = 0; i < d->own->met.len; i++)
        for (uint32_t b = d->own->met.data[i], under; b && d->blocks[b].bytes && layer_of(d, b) >= layer; b = under) {
            under = data_block_under(d, b);
            if (d->blocks[b].start < hi && d->blocks[b].start + d->blocks[b].bytes > lo)
                cut(d, b, lo, hi);
        }
}

/* A block may lie upon several mappings, as the break grows: they contradict nothing. */
static bool has_met(const struct data *d, unsigned layer)
{
    for (size_t i = 0; i < d->own->met.len; i++)
        if (d->blocks[d->own->met.data[i]].bytes && layer_of(d, d->own->met.data[i]) >= layer)
            return true;
    return false;
}

static void erase(struct data *d, uint32_t block)
{
    struct data_block b = d->blocks[block];
    data_paint(d, b.start, b.start + b.bytes, data_block_under(d, block), block);
    cut_met(d, b.start, b.start + b.bytes, layer_of(d, block));
    if (d->blocks[block].bytes) /* nothing lay upon it, with which it would have gone */
        drop(d, block);
}

/* ---- placing ---- */

static uint32_t uncovered_at(struct data *d, uint64_t address, unsigned layer)
{
    for (;;) {
        uint32_t under = block_id_at(d, address);
        if (!under || layer_of(d, under) < layer)
            return under;
        d->own->lost.overlaps++;
        data_ended_note(&d->own->ended, d->blocks[under].start, DATA_END_ALLOCATED_OVER);
        erase(d, under);
    }
}

bool data_lay_block(struct data *d, const struct data_object *of, uint64_t address, uint64_t bytes)
{
    struct data_object *o = d->own->objects.data[of->id];
    if (!bytes)
        bytes = 1; /* it has an address of its own all the same */
    if (address >= ADDRESSES || bytes > ADDRESSES - address) {
        d->own->lost.impossible++;
        return false;
    }
    uint32_t under = uncovered_at(d, address, o->layer);
    uint32_t block = data_block_new(d, address, bytes, o->id, under);
    data_paint(d, address, address + bytes, block, under);
    d->own->lost.overlaps += o->layer >= DATA_LAYER_HEAP && has_met(d, o->layer);
    cut_met(d, address, address + bytes, o->layer);
    o->live_blocks++;
    o->live_bytes += bytes;
    o->peak_bytes = max_u64(o->peak_bytes, o->live_bytes);
    return true;
}

void data_allocate_of(struct data *d, struct data_object *o, uint64_t address, uint64_t bytes)
{
    if (data_lay_block(d, o, address, bytes))
        data_count_block(o, bytes);
}

void data_allocate(struct data *d, unsigned layer, uint64_t address, uint64_t bytes, const uint64_t *path, size_t depth)
{
    data_allocate_of(d, data_object_of_path(d, layer, path, depth, bytes), address, bytes);
}

/* The block of the layer that begins there; 0 if none. */
static uint32_t beginning_at(const struct data *d, unsigned layer, uint64_t address)
{
    uint32_t b = address ? block_id_at(d, address) : 0;
    while (b && !(d->blocks[b].start == address && layer_of(d, b) == layer))
        b = data_block_under(d, b);
    return b;
}

bool data_begins_at(const struct data *d, unsigned layer, uint64_t address)
{
    return beginning_at(d, layer, address) != 0;
}

/* A free that comes late, when another block was told in the place of what it frees: so that one was given back after
 * all. Or the second one of a block: an allocator empties a cache of its own, as glibc's does when a thread ends. */
static void free_of_no_block(struct data *d, uint64_t address)
{
    enum data_end how = data_ended_how(&d->own->ended, address);
    if (how == DATA_END_ALLOCATED_OVER) {
        data_ended_note(&d->own->ended, address, DATA_END_GIVEN_BACK);
        d->own->lost.overlaps -= d->own->lost.overlaps > 0; /* it may be the parent's that is told of */
    } else if (how == DATA_END_GIVEN_BACK) {
        d->own->lost.again++;
    } else {
        data_ended_note(&d->own->ended, address, DATA_END_GIVEN_BACK);
        d->own->lost.frees++;
    }
}

/* What a call takes back that began when the clock said `asked`; 0: none, or another one's. */
static uint32_t block_given_back(struct data *d, unsigned layer, uint64_t asked, uint64_t address)
{
    uint32_t block = beginning_at(d, layer, address);
    bool is_another = block && asked < d->blocks[block].since;
    if (address && (!block || is_another))
        free_of_no_block(d, address);
    else if (block)
        data_ended_note(&d->own->ended, address, DATA_END_GIVEN_BACK);
    return is_another ? 0 : block;
}

void data_release(struct data *d, unsigned layer, uint64_t address)
{
    uint32_t block = block_given_back(d, layer, d->own->now, address);
    if (block)
        erase(d, block);
}

/* realloc of a large block moves its mapping, and the block with it. */
static bool has_moved(struct data *d, unsigned layer, uint64_t address)
{
    struct data_moved *m = &d->own->moved;
    bool is_there = address - m->from < m->bytes && beginning_at(d, layer, address - m->from + m->to);
    m->bytes = 0;
    return is_there;
}

void data_reallocate(struct data *d, unsigned layer, uint64_t asked, uint64_t old, uint64_t address, uint64_t bytes,
                     const uint64_t *path, size_t depth)
{
    if (!address && bytes)
        return; /* refused: all is as it was */
    if (has_moved(d, layer, old)) {
        old += d->own->moved.to - d->own->moved.from;
        asked = d->own->now;
    }
    uint32_t block = block_given_back(d, layer, asked, old);
    if (!block && address)
        data_allocate(d, layer, address, bytes, path, depth);
    if (block && !address)
        erase(d, block);
    if (!block || !address)
        return;
    struct data_object *o = object_of(d, block);
    uint64_t was = d->blocks[block].bytes;
    erase(d, block);
    if (data_lay_block(d, o, address, bytes)) {
        o->bytes += bytes > was ? bytes - was : 0;
        o->largest = max_u64(o->largest, bytes);
    }
}

void data_name_block(struct data *d, uint64_t address, uint64_t bytes, const char *name)
{
    uint32_t named = beginning_at(d, DATA_LAYER_NAMED, address);
    if (named)
        erase(d, named);
    if (!bytes || !address)
        return;
    enum data_kind kind = object_of(d, block_id_at(d, address))->kind;
    struct data_object *o = data_object_named(d, kind, DATA_LAYER_NAMED, ID_NONE, name);
    if (data_lay_block(d, o, address, bytes))
        data_count_block(o, bytes);
}

/* ---- mappings ---- */

static uint32_t mapping_at(const struct data *d, uint64_t address)
{
    uint32_t b = block_id_at(d, address);
    while (b && layer_of(d, b) != DATA_LAYER_MAPPING)
        b = data_block_under(d, b);
    return b;
}

static void extend(struct data *d, uint32_t block, uint64_t bytes)
{
    struct data_block *b = &d->blocks[block];
    struct data_object *o = object_of(d, block);
    data_paint(d, b->start + b->bytes, b->start + b->bytes + bytes, block, 0);
    b->bytes += bytes;
    o->bytes += bytes;
    o->live_bytes += bytes;
    o->peak_bytes = max_u64(o->peak_bytes, o->live_bytes);
}

bool data_see_stack(struct data *d, uint64_t address)
{
    uint32_t block = mapping_at(d, address);
    if (!block)
        return false;
    struct data_object *was = object_of(d, block), *o;
    if (was->kind == DATA_STACK)
        return true;
    o = data_object_named(d, DATA_STACK, DATA_LAYER_MAPPING, ID_NONE, "stack");
    was->live_blocks--;
    was->live_bytes -= d->blocks[block].bytes;
    d->blocks[block].object = o->id;
    d->blocks[block].serial = ++d->own->serial; /* who knows whose it was asks again */
    o->live_blocks++;
    o->live_bytes += d->blocks[block].bytes;
    o->peak_bytes = max_u64(o->peak_bytes, o->live_bytes);
    data_count_block(o, d->blocks[block].bytes);
    return true;
}

void data_map(struct data *d, const struct data_map *m)
{
    struct data_object *o = m->kind == DATA_HEAP ? data_object_of_path(d, DATA_LAYER_MAPPING, m->path, m->depth, 0)
                                                 : data_object_named(d, m->kind, DATA_LAYER_MAPPING, ID_NONE, m->name);
    data_unmap(d, m->address, m->bytes);
    uint32_t before = m->kind == DATA_HEAP ? 0 : mapping_at(d, m->address - 1);
    bool goes_on = before && object_of(d, before) == o && m->address < ADDRESSES &&
                   d->blocks[before].start + d->blocks[before].bytes == m->address;
    if (goes_on && m->bytes <= ADDRESSES - m->address)
        extend(d, before, m->bytes);
    else if (m->bytes && data_lay_block(d, o, m->address, m->bytes))
        data_count_block(o, m->bytes);
}

void data_unmap(struct data *d, uint64_t address, uint64_t bytes)
{
    if (address >= ADDRESSES)
        return;
    uint64_t end = address + min_u64(bytes, ADDRESSES - address);
    data_paint(d, address, end, 0, 0);
    cut_met(d, address, end, DATA_LAYER_MAPPING);
}

struct upon {
    uint32_t object;
    uint64_t start, bytes;
};
typedef VEC(struct upon) upon_vec;

/* What begins in [lo, hi) upon the mapping, of what was met, undermost first; it is taken away. */
static void take_upon(struct data *d, uint64_t lo, uint64_t hi, upon_vec *out)
{
    for (size_t i = 0; i < d->own->met.len; i++) {
        uint32_t chain[DATA_DEPTH_MAX], n = 0;
        for (uint32_t b = d->own->met.data[i]; b && n < DATA_DEPTH_MAX; b = data_block_under(d, b))
            if (layer_of(d, b) > DATA_LAYER_MAPPING && d->blocks[b].bytes && d->blocks[b].start - lo < hi - lo)
                chain[n++] = b;
        while (n-- > 0) {
            const struct data_block *b = &d->blocks[chain[n]];
            VEC_PUSH(out, ((struct upon){b->object, b->start, b->bytes}));
            drop(d, chain[n]);
        }
    }
}

void data_remap(struct data *d, uint64_t old, uint64_t old_bytes, uint64_t address, uint64_t bytes)
{
    uint32_t block = mapping_at(d, old);
    if (!block || old_bytes > ADDRESSES - old)
        return;
    struct data_object *o = object_of(d, block);
    upon_vec upon = {0};
    data_paint(d, old, old + old_bytes, 0, 0);
    take_upon(d, old, old + old_bytes, &upon);
    cut_met(d, old, old + old_bytes, DATA_LAYER_MAPPING);
    data_unmap(d, address, bytes);
    if (data_lay_block(d, o, address, bytes))
        o->bytes += bytes > old_bytes ? bytes - old_bytes : 0;
    for (size_t i = 0; i < upon.len; i++) {
        uint64_t at = upon.data[i].start - old;
        if (at < bytes)
            data_lay_block(d, d->own->objects.data[upon.data[i].object], address + at,
                           min_u64(upon.data[i].bytes, bytes - at));
    }
    d->own->moved = (struct data_moved){old, old_bytes, address};
    VEC_FREE(&upon);
}
