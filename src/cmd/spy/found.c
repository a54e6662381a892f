/* SPDX-License-Identifier: Apache-2.0
 * What was found, as the join wants it. */
#include "cmd/spy/program.h"

static enum prof_data_kind kind_of(enum data_kind k)
{
    static const enum prof_data_kind kinds[DATA_KIND_COUNT] = {
        [DATA_HEAP] = PROF_DATA_HEAP,   [DATA_GLOBAL] = PROF_DATA_GLOBAL,   [DATA_THREAD] = PROF_DATA_THREAD,
        [DATA_STACK] = PROF_DATA_STACK, [DATA_MAPPING] = PROF_DATA_MAPPING, [DATA_CODE] = PROF_DATA_CODE,
        [DATA_OTHER] = PROF_DATA_OTHER};
    return kinds[k];
}

static const char *path_of(const struct spied_program *s, uint32_t module)
{
    const struct image *img = module == ID_NONE ? NULL : data_module_image(s->data, module);
    return img ? arena_strdup(s->profile->result->arena, img->path) : NULL;
}

static const char *keep(struct arena *a, const char *text) { return text ? arena_strdup(a, text) : NULL; }

static void put_frames(const struct spied_program *s, const struct data_object *o, struct prof_input_datum *d)
{
    struct arena *a = s->profile->result->arena;
    struct prof_data_frame *frames = ARENA_ARRAY(a, struct prof_data_frame, o->path_len + 1);
    for (uint32_t i = 0; i < o->path_len; i++) {
        const struct data_frame *f = data_frame(s->data, o->path[i]);
        frames[i] = (struct prof_data_frame){.depth = i,
                                             .function = keep(a, f->function),
                                             .module = path_of(s, f->module),
                                             .file = keep(a, f->file),
                                             .line = f->line};
    }
    d->frames = frames;
    d->frame_count = o->path_len;
}

static void put_fields(const struct spied_program *s, uint32_t id, struct prof_input_datum *d)
{
    struct arena *a = s->profile->result->arena;
    enum data_kind kind = data_object(s->data, id)->kind;
    const struct data_fields *f = kind == DATA_GLOBAL || kind == DATA_THREAD ? data_fields(s->data, id) : NULL;
    if (!f)
        return;
    struct prof_data_field *fields = ARENA_ARRAY(a, struct prof_data_field, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        fields[i] = (struct prof_data_field){
            .name = keep(a, f->fields[i].name), .offset = f->fields[i].offset, .bytes = f->fields[i].bytes};
    d->type = keep(a, f->type);
    d->fields = fields;
    d->field_count = f->count;
}

struct prof_input_datum spied_counts(const struct spied_program *s, uint32_t id)
{
    const struct data_object *o = data_object(s->data, id);
    return (struct prof_input_datum){.kind = kind_of(o->kind),
                                     .bytes = o->kind == DATA_STACK ? PROF_UNKNOWN : o->peak_bytes,
                                     .blocks =
                                         o->kind == DATA_HEAP || o->kind == DATA_MAPPING ? o->blocks : PROF_UNKNOWN,
                                     .allocated = o->bytes};
}

struct prof_input_datum spied_datum(const struct spied_program *s, uint32_t id)
{
    const struct data_object *o = data_object(s->data, id);
    struct prof_input_datum d = spied_counts(s, id);
    d.name = keep(s->profile->result->arena, data_object_name(s->data, id));
    d.module = path_of(s, o->module);
    put_frames(s, o, &d);
    put_fields(s, id, &d);
    return d;
}

static const struct prof_input_caches *caches_of(const struct spied_program *s)
{
    struct prof_input_caches *out = ARENA_ARRAY(s->arena, struct prof_input_caches, s->cache_count + 1);
    for (size_t i = 0; i < s->cache_count; i++) {
        const struct spy_caches *c = &s->caches[i];
        out[i] = (struct prof_input_caches){
            .name = c->name, .config = c->config, .is_tlb = c->is_tlb, .huge_pages = c->huge_pages};
        memcpy(out[i].miss_cycles, c->miss_cycles, sizeof out[i].miss_cycles);
    }
    return out;
}

static uint64_t allocations(const struct spied_program *s)
{
    uint64_t n = s->family ? family_lost(s->family).blocks : 0;
    for (uint32_t i = 0; i < data_object_count(s->data); i++)
        n += data_object(s->data, i)->kind == DATA_HEAP ? data_object(s->data, i)->blocks : 0;
    return n;
}

/* Those that references reached: names of others would be asked for in vain. */
static void fill_reached(const struct spied_program *s, struct prof_input_datum *data)
{
    size_t cells;
    const struct spy_cell *cell = spy_cells(s->spy, &cells);
    for (size_t i = 0; i < cells; i++)
        if (!data[cell[i].object].name)
            data[cell[i].object] = spied_datum(s, cell[i].object);
}

static uint64_t block_begin(void *ctx, uint32_t object, uint64_t address)
{
    const struct spied_program *s = ctx;
    const struct data_block *b = data_block_at(s->data, address);
    return b->object == object ? b->start : PROF_UNKNOWN;
}

/* Of smaller caches than the filter holds lines of too little came; of some sets so many lines must be in the smallest
 * cache that chance does not tell of it. */
static uint64_t curve_min(const struct spied_program *s)
{
    enum { LINES_MIN = 16, LINE = 64 };
    uint64_t held = s->is_filtered ? (uint64_t)(WIRE_FILTER_SLOTS * s->filter_lines) << s->filter_shift : 0;
    uint64_t least = s->is_filtered ? 2 * SPY_CURVE_MIN : SPY_CURVE_MIN;
    return max_u64(max_u64(held, least), LINES_MIN * LINE * (uint64_t)s->part.one_in);
}

static bool comes_whole(const struct spied_program *s)
{
    return !s->is_filtered && s->part.one_in == 1 && !s->samples.length;
}

static struct prof_input_datum *data_of(const struct spied_program *s, uint32_t *count)
{
    *count = data_object_count(s->data);
    struct prof_input_datum *data = ARENA_ARRAY(s->arena, struct prof_input_datum, *count + 1ull);
    fill_reached(s, data);
    return data;
}

/* Of a site's module, as it is loaded. */
static uint32_t loaded(const struct spied_program *s, uint32_t site)
{
    const struct image *img = s->modules[spy_site(s->spy, site)->module].img;
    for (uint32_t i = 0; img && i < data_module_count(s->data); i++)
        if (strcmp(data_module_image(s->data, i)->path, img->path) == 0)
            return i;
    return ID_NONE;
}

static uint32_t variable_at(struct spied_program *s, uint32_t site, uint64_t address, uint32_t *field)
{
    uint32_t module = loaded(s, site);
    if (module == ID_NONE)
        return ID_NONE;
    struct spy_whose whose = spied_variable(s, data_module_load(s->data, module) + address);
    *field = whose.field;
    return whose.object ? whose.object : ID_NONE;
}

static uint32_t object_of(void *ctx, uint32_t site, uint64_t address, uint32_t *field)
{
    struct spied_program *s = ctx;
    uint32_t object = address == PROF_UNKNOWN ? spied_frames(s, site) : variable_at(s, site, address, field);
    if (object >= s->found_count)
        return ID_NONE;
    if (!s->found[object].name)
        s->found[object] = spied_datum(s, object);
    return object;
}

struct prof_input_spied *spied_found(struct spied_program *s, const struct launch_result *run)
{
    struct prof_input_spied *f = ARENA_NEW(s->arena, struct prof_input_spied);
    uint32_t count;
    struct prof_input_datum *data = s->family ? family_data(s->family, &count) : data_of(s, &count);
    spied_name(s->profile->result->arena, data, count);
    s->found = data;
    s->found_count = count;
    *f = (struct prof_input_spied){.spy = s->spy,
                                   .caches = caches_of(s),
                                   .caches_count = s->cache_count,
                                   .data = data,
                                   .data_count = count,
                                   .is_filtered = !comes_whole(s),
                                   .references = comes_whole(s) ? s->references : PROF_UNKNOWN,
                                   .dropped = run->references_lost,
                                   .unlogged = s->untold,
                                   .allocations = allocations(s),
                                   .threads = s->threads,
                                   .spied_s = run->wall_s,
                                   .block_begin = s->family ? family_block_begin : block_begin,
                                   .object_of = s->family ? NULL : object_of,
                                   .ctx = s,
                                   .curve_min = curve_min(s),
                                   .curve_max = SPY_CURVE_MAX};
    if (s->family)
        f->processes = family_processes(s->family, &f->process_count);
    return f;
}
