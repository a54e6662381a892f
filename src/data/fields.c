/* SPDX-License-Identifier: Apache-2.0
 * What an object is made of: of variables by their debug information. Of memory that was allocated nothing says it. */
#include "data/impl.h"

static const struct data_fields *find(struct data *d, const struct data_object *o)
{
    struct layout l;
    struct variables *v = NULL;
    if (o->layer == DATA_LAYER_SYMBOL || o->layer == DATA_LAYER_LOCAL)
        v = data_variables(d, d->own->modules.data[o->module].file);
    if (!v || !variables_layout(v, o->offset, o->kind == DATA_THREAD, &l) || !l.element_bytes)
        return NULL;
    struct data_fields *f = ARENA_NEW(d->own->arena, struct data_fields);
    *f = (struct data_fields){l.name, l.element_bytes, l.parts, l.part_count};
    return f;
}

const struct data_fields *data_fields(struct data *d, uint32_t object)
{
    uint64_t known;
    if (!map_get(&d->own->fields, object, &known)) {
        known = (uintptr_t)find(d, d->own->objects.data[object]);
        map_put(&d->own->fields, object, known);
    }
    return (const struct data_fields *)(uintptr_t)known;
}

const char *data_field(struct data *d, uint32_t object, uint64_t offset, size_t *part)
{
    const struct data_fields *f = data_fields(d, object);
    if (!f)
        return NULL;
    uint64_t at = offset % f->element_bytes;
    for (size_t i = 0; i < f->count; i++)
        if (at - f->fields[i].offset < f->fields[i].bytes) {
            *part = i;
            return f->fields[i].name;
        }
    return NULL;
}
