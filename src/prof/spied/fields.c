/* SPDX-License-Identifier: Apache-2.0
 * Rows by field of a variable that debug information describes. */
#include "prof/spied/spied.h"

#include <stdlib.h>

const struct prof_data_field *spied_field_of(const struct spied *s, uint32_t cell)
{
    const struct spy_cell *c = &s->cells[cell];
    const struct prof_input_datum *d = &s->in->data[c->object];
    return c->field && c->field <= d->field_count ? &d->fields[c->field - 1] : NULL;
}

static uint64_t field_key(const struct spied *s, uint32_t cell)
{
    uint32_t object = s->object[s->cells[cell].object];
    if (object == ID_NONE || !spied_field_of(s, cell))
        return UINT64_MAX;
    return (uint64_t)object << 32 | s->cells[cell].field;
}

static int by_key(const void *x, const void *y)
{
    const struct spied_group *a = x, *b = y;
    return (a->key > b->key) - (a->key < b->key);
}

void spied_fields(struct spied *s)
{
    struct prof_result *r = s->j->r;
    size_t count;
    struct spied_group *g = spied_groups(s, field_key, &count);
    qsort(g, count, sizeof *g, by_key); /* in the order of objects, then offsets */
    r->data_fields = ARENA_ARRAY(r->arena, struct prof_data_field, count + 1);
    for (size_t i = 0; i < count; i++) {
        struct prof_data_field row = *spied_field_of(s, g[i].cells[0]);
        row.object = (uint32_t)(g[i].key >> 32);
        row.references = g[i].references;
        spied_put_misses(s, PROF_OWNER_FIELD, (uint32_t)i, &g[i]);
        r->data_fields[r->data_field_count++] = row;
    }
}
