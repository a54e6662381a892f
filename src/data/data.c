/* SPDX-License-Identifier: Apache-2.0
 * The objects: which there are, and which one a path or a name stands for. */
#include "data/impl.h"

#include <stdlib.h>

enum { OBJECTS_MAX = 1 << 20 };

struct data *data_new(void)
{
    struct data *d = xmalloc(sizeof *d);
    d->own = xmalloc(sizeof *d->own);
    d->own->arena = arena_new();
    d->own->files = data_files_new();
    data_shadow_new(d);
    data_object_new(d, DATA_OTHER, DATA_LAYER_MAPPING)->name = "other";
    return d;
}

struct data *data_new_beside(const struct data *other)
{
    struct data *d = data_new();
    data_files_free(d->own->files);
    d->own->files = other->own->files;
    d->own->files->users++;
    return d;
}

void data_free(struct data *d)
{
    if (!d)
        return;
    struct data_tables *t = d->own;
    data_shadow_free(d);
    for (size_t i = 0; i < t->modules.len; i++)
        VEC_FREE(&t->modules.data[i].threads);
    VEC_FREE(&t->modules);
    data_files_free(t->files);
    VEC_FREE(&t->objects);
    VEC_FREE(&t->blocks);
    VEC_FREE(&t->unused);
    VEC_FREE(&t->mixed);
    VEC_FREE(&t->unused_mixed);
    VEC_FREE(&t->met);
    map_fini(&t->by_path);
    map_fini(&t->by_frames);
    map_fini(&t->by_name);
    map_fini(&t->frames);
    map_fini(&t->fields);
    data_ended_fini(&t->ended);
    arena_free(t->arena);
    free(t);
    free(d);
}

uint32_t data_object_count(const struct data *d) { return (uint32_t)d->own->objects.len; }
const struct data_object *data_object(const struct data *d, uint32_t id) { return d->own->objects.data[id]; }
const struct data_lost *data_lost(const struct data *d) { return &d->own->lost; }
void data_set_time(struct data *d, uint64_t now) { d->own->now = now; }

struct data_object *data_object_new(struct data *d, enum data_kind kind, unsigned layer)
{
    struct data_object *o = ARENA_NEW(d->own->arena, struct data_object);
    o->id = (uint32_t)d->own->objects.len;
    o->kind = kind;
    o->layer = (uint8_t)layer;
    o->module = ID_NONE;
    VEC_PUSH(&d->own->objects, o);
    return o;
}

/* ---- by name ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

static uint64_t hash_name(enum data_kind kind, unsigned layer, uint32_t module, const char *name)
{
    uint64_t h = mix((uint64_t)kind << 8 | layer, module);
    for (; *name; name++)
        h = mix(h, (uint8_t)*name);
    return h;
}

struct data_object *data_object_named(struct data *d, enum data_kind kind, unsigned layer, uint32_t module,
                                      const char *name)
{
    struct data_tables *t = d->own;
    uint64_t h = hash_name(kind, layer, module, name), id;
    for (; map_get(&t->by_name, h, &id); h++) {
        struct data_object *o = t->objects.data[id];
        if (o->kind == kind && o->layer == layer && o->module == module && strcmp(o->name, name) == 0)
            return o;
    }
    struct data_object *o = data_object_new(d, kind, layer);
    o->module = module;
    o->name = arena_strdup(t->arena, name);
    map_put(&t->by_name, h, o->id);
    return o;
}

uint32_t data_stack_of(struct data *d, uint32_t module, const char *procedure)
{
    return data_object_named(d, DATA_STACK, DATA_LAYER_MAPPING, module, procedure)->id;
}

/* ---- by path ---- */

/* Frames that tell where memory is allocated: without wrappers, and each call once, however deep a recursion is. */
static size_t telling_frames(struct data *d, const uint64_t *path, size_t depth, uint64_t out[DATA_PATH_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < depth && n < DATA_PATH_MAX; i++) {
        bool is_known = n == 0 && i + 1 < depth && data_is_wrapper(d, path[i]);
        for (size_t k = 0; k < n && !is_known; k++)
            is_known = out[k] == path[i];
        if (!is_known)
            out[n++] = path[i];
    }
    return n;
}

static uint64_t hash_path(unsigned layer, const uint64_t *path, size_t depth)
{
    uint64_t h = mix(layer, depth);
    for (size_t i = 0; i < depth; i++)
        h = mix(h, path[i]);
    return h;
}

static struct data_object *told_by(struct data *d, unsigned layer, const uint64_t *path, size_t depth,
                                   unsigned size_class)
{
    struct data_tables *t = d->own;
    uint64_t h = mix(hash_path(layer, path, depth), size_class), id;
    for (; map_get(&t->by_path, h, &id); h++) {
        struct data_object *o = t->objects.data[id];
        if (o->layer == layer && o->path_len == depth && o->size_class == size_class &&
            memcmp(o->path, path, depth * sizeof *path) == 0)
            return o;
    }
    struct data_object *o = data_object_new(d, DATA_HEAP, layer);
    uint64_t *kept = ARENA_ARRAY(t->arena, uint64_t, depth);
    if (depth)
        memcpy(kept, path, depth * sizeof *path);
    o->path = kept;
    o->size_class = size_class;
    if (depth && !data_locate(d, path[0] - 1, &o->module, &o->offset))
        o->offset = path[0];
    o->path_len = (uint32_t)depth;
    map_put(&t->by_path, h, o->id);
    return o;
}

/* Where the calls beyond the first are not known and that has no name, one of a function that much is allocated by,
 * sizes tell more. */
static bool tells_little(struct data *d, const uint64_t *frames, size_t n, size_t depth)
{
    uint32_t module;
    uint64_t vaddr;
    return n == 1 && depth == 1 && data_locate(d, frames[0] - 1, &module, &vaddr) && !data_has_names(d, frames[0]);
}

static unsigned size_class_of(uint64_t bytes)
{
    return bytes <= 1u << DATA_SIZE_CLASS_MIN ? DATA_SIZE_CLASS_MIN : 64 - (unsigned)__builtin_clzll(bytes - 1);
}

/* All frames are known again by 64 bits of hash, those that tell by comparing. */
struct data_object *data_object_of_path(struct data *d, unsigned layer, const uint64_t *path, size_t depth,
                                        uint64_t bytes)
{
    struct data_tables *t = d->own;
    uint64_t h = hash_path(layer, path, depth), id, frames[DATA_PATH_MAX];
    bool is_known = map_get(&t->by_frames, h, &id);
    if (is_known && (!t->objects.data[id]->size_class || !bytes))
        return t->objects.data[id];
    size_t n = telling_frames(d, path, depth, frames);
    if (t->objects.len >= OBJECTS_MAX && n > 1) {
        t->lost.beyond++;
        n = 1;
    }
    unsigned size_class = bytes && tells_little(d, frames, n, depth) ? size_class_of(bytes) : 0;
    struct data_object *o = told_by(d, layer, frames, n, size_class);
    if (!is_known)
        map_put(&t->by_frames, h, o->id);
    return o;
}
