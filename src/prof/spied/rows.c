/* SPDX-License-Identifier: Apache-2.0
 * Rows by data object, by function and object, by line and object. */
#include "prof/spied/spied.h"

enum { OBJECTS_MAX = 4000, CELLS_MAX = 3000, LINES_MAX = 3000 };

/* ---- data objects ---- */

static uint64_t object_key(const struct spied *s, uint32_t cell) { return s->cells[cell].object; }

static void add_frames(struct prof_result *r, uint32_t row, const struct prof_input_datum *d)
{
    for (size_t i = 0; i < d->frame_count; i++) {
        r->data_frames[r->data_frame_count] = d->frames[i];
        r->data_frames[r->data_frame_count++].object = row;
    }
}

/* Unknown where a filter left some out. */
static uint64_t bytes_of(const struct spied *s, const struct spied_group *g, bool is_written)
{
    uint64_t sum = 0;
    if (s->in->is_filtered)
        return PROF_UNKNOWN;
    for (size_t i = 0; i < g->count; i++) {
        const struct spy_cell *c = &s->cells[g->cells[i]];
        const struct spy_site *site = spy_site(s->in->spy, c->site);
        if (site->kind == CACHE_MODIFY || (site->kind == CACHE_WRITE) == is_written)
            sum += c->references * site->bytes + c->range_bytes;
    }
    return sum;
}

static void add_object(struct spied *s, const struct spied_group *g)
{
    struct prof_result *r = s->j->r;
    const struct prof_input_datum *d = &s->in->data[g->key];
    uint32_t row = (uint32_t)r->data_count;
    s->object[g->key] = row;
    r->data[r->data_count++] = (struct prof_data){.name = d->name,
                                                  .kind = d->kind,
                                                  .module = d->module,
                                                  .type = d->type,
                                                  .bytes = d->bytes,
                                                  .blocks = d->blocks,
                                                  .references = g->references,
                                                  .stall_share = spied_share(s, g),
                                                  .memory_s = spied_memory(s, g),
                                                  .read_bytes = bytes_of(s, g, false),
                                                  .written_bytes = bytes_of(s, g, true)};
    add_frames(r, row, d);
    spied_put_misses(s, PROF_OWNER_OBJECT, row, g);
}

void spied_objects(struct spied *s)
{
    struct prof_result *r = s->j->r;
    size_t count, frames = 0;
    struct spied_group *g = spied_groups(s, object_key, &count);
    count = min_u64(count, OBJECTS_MAX);
    for (size_t i = 0; i < count; i++)
        frames += s->in->data[g[i].key].frame_count;
    r->data = ARENA_ARRAY(r->arena, struct prof_data, count + 1);
    r->data_frames = ARENA_ARRAY(r->arena, struct prof_data_frame, frames + 1);
    s->object = ARENA_ARRAY(s->j->scratch, uint32_t, s->in->data_count + 1);
    memset(s->object, 0xff, (s->in->data_count + 1) * sizeof *s->object);
    s->groups = g;
    s->group_count = count;
    for (size_t i = 0; i < count; i++)
        add_object(s, &g[i]);
}

/* ---- by function and object ---- */

static uint64_t cell_key(const struct spied *s, uint32_t cell)
{
    uint32_t func = s->place[cell].func, object = s->object[s->cells[cell].object];
    return func == ID_NONE || object == ID_NONE ? UINT64_MAX : (uint64_t)func << 32 | object;
}

void spied_cells(struct spied *s)
{
    struct prof_result *r = s->j->r;
    size_t count;
    struct spied_group *g = spied_groups(s, cell_key, &count);
    count = min_u64(count, CELLS_MAX);
    r->data_cells = ARENA_ARRAY(r->arena, struct prof_data_cell, count + 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t func = (uint32_t)(g[i].key >> 32);
        struct join_module *m = &s->j->modules[s->place[g[i].cells[0]].module];
        spied_put_misses(s, PROF_OWNER_CELL, (uint32_t)i, &g[i]);
        r->data_cells[r->data_cell_count++] =
            (struct prof_data_cell){.function = join_func_name(s->j, m, func - m->func_base),
                                    .module = m->path,
                                    .object = (uint32_t)g[i].key,
                                    .references = g[i].references,
                                    .function_references = s->function_references[func],
                                    .stall_share = spied_share(s, &g[i]),
                                    .memory_s = spied_memory(s, &g[i])};
    }
}

/* ---- by line and object ---- */

enum { LINE_BITS = 22, OBJECT_BITS = 20 };

static uint64_t line_key(const struct spied *s, uint32_t cell)
{
    const struct spied_place *p = &s->place[cell];
    uint32_t object = s->object[s->cells[cell].object];
    if (!p->line || p->line >> LINE_BITS || p->file >> LINE_BITS || object == ID_NONE)
        return UINT64_MAX;
    return (uint64_t)p->file << (LINE_BITS + OBJECT_BITS) | (uint64_t)p->line << OBJECT_BITS | object;
}

void spied_lines(struct spied *s)
{
    struct prof_result *r = s->j->r;
    size_t count;
    struct spied_group *g = spied_groups(s, line_key, &count);
    count = min_u64(count, LINES_MAX);
    r->data_lines = ARENA_ARRAY(r->arena, struct prof_data_line, count + 1);
    for (size_t i = 0; i < count; i++) {
        spied_put_misses(s, PROF_OWNER_LINE, (uint32_t)i, &g[i]);
        r->data_lines[r->data_line_count++] =
            (struct prof_data_line){.file = join_file_name(s->j, (uint32_t)(g[i].key >> (LINE_BITS + OBJECT_BITS))),
                                    .line = (uint32_t)(g[i].key >> OBJECT_BITS) & ((1u << LINE_BITS) - 1),
                                    .object = (uint32_t)g[i].key & ((1u << OBJECT_BITS) - 1),
                                    .references = g[i].references,
                                    .stall_share = spied_share(s, &g[i])};
    }
}
