/* SPDX-License-Identifier: Apache-2.0
 * What a process keeps its data in, once more, for the child of a fork: blocks, objects and modules as they are. */
#include "data/impl.h"

#include <stdlib.h>

#define VEC_COPY(to, from)                                                                                             \
    do {                                                                                                               \
        VEC_RESERVE(to, (from)->len);                                                                                  \
        if ((from)->len)                                                                                               \
            memcpy((to)->data, (from)->data, (from)->len * sizeof *(from)->data);                                      \
        (to)->len = (from)->len;                                                                                       \
    } while (0)

/* ---- the shadow ---- */

static uintptr_t copy_of_chunk(uintptr_t entry)
{
    const struct data_chunk *from = (const struct data_chunk *)(entry - 1);
    struct data_chunk *c = xmalloc(sizeof *c);
    memcpy(c->page, from->page, sizeof c->page);
    if (!from->granule)
        return (uintptr_t)c | 1;
    const size_t page_granules = 1u << (DATA_PAGE - DATA_GRANULE);
    c->granule = xmalloc_sparse(sizeof *c->granule << (DATA_CHUNK - DATA_GRANULE));
    for (size_t i = 0; i < ARRAY_LEN(c->page); i++)
        if (c->page[i] & DATA_SPLIT)
            memcpy(c->granule + i * page_granules, from->granule + i * page_granules,
                   page_granules * sizeof *c->granule);
    return (uintptr_t)c | 1;
}

static void copy_entries(struct data *to, const struct data *from, const struct data_block *b)
{
    for (uint64_t e = b->start >> DATA_CHUNK; e <= (b->start + b->bytes - 1) >> DATA_CHUNK; e++) {
        if (to->root[e] || !from->root[e])
            continue;
        to->root[e] = from->root[e] & 1 ? copy_of_chunk(from->root[e]) : from->root[e];
        if (to->root[e] & 1)
            VEC_PUSH(&to->own->split, (uint32_t)e);
    }
}

/* Block 0 is nobody's. */
static void copy_shadow(struct data *to, const struct data *from)
{
    struct data_tables *t = to->own;
    const struct data_tables *f = from->own;
    data_shadow_new(to);
    VEC_COPY(&t->blocks, &f->blocks);
    t->serial = f->serial;
    VEC_COPY(&t->unused, &f->unused);
    VEC_COPY(&t->mixed, &f->mixed);
    VEC_COPY(&t->unused_mixed, &f->unused_mixed);
    to->blocks = t->blocks.data;
    to->mixed = t->mixed.data;
    for (size_t i = 1; i < t->blocks.len; i++)
        if (t->blocks.data[i].bytes)
            copy_entries(to, from, &t->blocks.data[i]);
}

/* ---- objects and modules ---- */

/* Names of symbols stand in their files. */
static struct data_object *copy_of_object(struct arena *a, const struct data_object *from)
{
    struct data_object *o = ARENA_NEW(a, struct data_object);
    *o = *from;
    if (o->name && o->layer != DATA_LAYER_SYMBOL && o->layer != DATA_LAYER_LOCAL)
        o->name = arena_strdup(a, o->name);
    if (o->path_len) {
        uint64_t *path = ARENA_ARRAY(a, uint64_t, o->path_len);
        memcpy(path, from->path, o->path_len * sizeof *path);
        o->path = path;
    }
    o->blocks = o->bytes = o->smallest = 0;
    o->largest = o->kind == DATA_THREAD ? from->largest : 0;
    o->peak_bytes = o->live_bytes;
    return o;
}

static void copy_objects(struct data_tables *t, const struct data_tables *f)
{
    for (size_t i = 0; i < f->objects.len; i++)
        VEC_PUSH(&t->objects, copy_of_object(t->arena, f->objects.data[i]));
    t->by_path = map_copy(&f->by_path);
    t->by_frames = map_copy(&f->by_frames);
    t->by_name = map_copy(&f->by_name);
}

static void copy_modules(struct data_tables *t, const struct data_tables *f)
{
    for (size_t i = 0; i < f->modules.len; i++) {
        struct data_loaded m = f->modules.data[i];
        m.threads.data = NULL;
        m.threads.len = m.threads.cap = 0;
        VEC_COPY(&m.threads, &f->modules.data[i].threads);
        VEC_PUSH(&t->modules, m);
    }
    t->files = f->files;
    t->files->users++;
}

struct data *data_clone(const struct data *d)
{
    struct data *to = xmalloc(sizeof *to);
    struct data_tables *t = to->own = xmalloc(sizeof *t);
    t->arena = arena_new();
    t->now = d->own->now;
    t->break_end = d->own->break_end;
    data_ended_copy(&t->ended, &d->own->ended);
    copy_objects(t, d->own);
    copy_modules(t, d->own);
    copy_shadow(to, d);
    return to;
}
