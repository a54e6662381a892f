/* SPDX-License-Identifier: Apache-2.0
 * The callgrind format (version 1, positions "instr line"), which callgrind_annotate and KCachegrind read. Where the
 * profile holds counts of blocks, instructions and memory operations stand at the line and address of each block; else,
 * like the times always, at the first line of their loop or procedure. All costs are self costs: who calls whom is not
 * in a profile. The format has no negative costs: a memory time below zero is 0. */
#include "report/export/export.h"

#include <assert.h>

#define NS 1e9 /* a second */

static const struct {
    const char *name, *text;
} events[] = {{"Ir", "instructions executed"},
              {"Mem", "memory operations executed"},
              {"IdealNs", "time as if every access hit the first-level cache (ns)"},
              {"ActualNs", "time on the processor (ns)"},
              {"MemoryNs", "memory overhead (ns)"}};
enum { EVENT_COUNT = ARRAY_LEN(events) };

struct function {                     /* of a module */
    const char *module, *name, *file; /* as in the profile; file: where it stands, NULL unknown */
};
struct writer {
    struct strbuf *out;
    struct arena *arena;
    struct map texts[3];  /* pointer -> id, of objects, files and functions: a name is written once */
    struct map functions; /* hash -> index in list */
    VEC(struct function) list;
    const char *module, *home, *file; /* what was said last */
    const struct function *function;
    uint64_t totals[EVENT_COUNT];
};
enum text { TEXT_OBJECT, TEXT_FILE, TEXT_FUNCTION };

/* ---- functions and where they stand ---- */

static const char *known(const char *text) { return text && *text ? text : "?"; }

/* The index of a function, which is new if need be. */
static size_t function_of(struct writer *w, const char *module, const char *name, const char *file)
{
    module = known(module);
    name = known(name);
    uint64_t h = export_hash(export_hash(EXPORT_HASH, module), name), i;
    for (; map_get(&w->functions, h, &i); h++) {
        assert(i < w->list.len);
        if (!strcmp(w->list.data[i].module, module) && !strcmp(w->list.data[i].name, name))
            return (size_t)i;
    }
    VEC_PUSH(&w->list, ((struct function){module, name, file}));
    map_put(&w->functions, h, w->list.len - 1);
    return w->list.len - 1;
}

/* ---- lines of the file ---- */

static void put_name(struct writer *w, const char *key, enum text kind, const void *pointer, const char *name)
{
    uint64_t id;
    bool is_new = !map_get(&w->texts[kind], (uintptr_t)pointer, &id);
    if (is_new)
        map_put(&w->texts[kind], (uintptr_t)pointer, id = w->texts[kind].len + 1);
    str_printf(w->out, "%s=(%llu)", key, (unsigned long long)id);
    if (is_new)
        str_printf(w->out, " %s", name);
    str_puts(w->out, "\n");
}

static void put_file(struct writer *w, const char *key, const char *file)
{
    static const char unknown[] = "???";
    put_name(w, key, TEXT_FILE, file ? file : unknown, file ? cell_safe(w->arena, file) : unknown);
}

static void put_function(struct writer *w, const struct function *f)
{
    const char *inner;
    if (w->function == f)
        return;
    if (!w->module || strcmp(w->module, f->module) != 0)
        put_name(w, "ob", TEXT_OBJECT, f->module, cell_safe(w->arena, f->module));
    put_file(w, "fl", f->file);
    put_name(w, "fn", TEXT_FUNCTION, f, export_function(w->arena, f->name, &inner));
    w->function = f;
    w->module = f->module;
    w->home = w->file = f->file;
}

/* Costs that stand in another file than their function: they were inlined. */
static void put_place(struct writer *w, const char *file)
{
    if (!file)
        file = w->home;
    if (file != w->file && (!file || !w->file || strcmp(file, w->file) != 0))
        put_file(w, file == w->home ? "fe" : "fi", file);
    w->file = file;
}

static void put_cost(struct writer *w, uint64_t address, uint32_t line, const uint64_t costs[EVENT_COUNT])
{
    size_t count = EVENT_COUNT;
    while (count && !costs[count - 1])
        count--;
    if (!count)
        return;
    str_printf(w->out, "0x%llx %u", (unsigned long long)address, line);
    for (size_t i = 0; i < count; i++)
        str_printf(w->out, " %llu", (unsigned long long)costs[i]);
    for (size_t i = 0; i < EVENT_COUNT; i++)
        w->totals[i] += costs[i];
    str_puts(w->out, "\n");
}

/* ---- the parts ---- */

static void put_head(struct writer *w, const struct prof_result *r)
{
    str_puts(w->out, "# callgrind format\nversion: 1\ncreator: mtool " MTOOL_VERSION "\ncmd:");
    for (const char **word = r->command; word && *word; word++)
        str_printf(w->out, " %s", cell_safe(w->arena, *word));
    if (!r->command || !r->command[0])
        str_printf(w->out, " %s", cell_safe(w->arena, known(r->program)));
    str_puts(w->out, "\npart: 1\npositions: instr line\n");
    for (size_t i = 0; i < EVENT_COUNT; i++)
        str_printf(w->out, "event: %s : %s\n", events[i].name, events[i].text);
    str_puts(w->out, "events:");
    for (size_t i = 0; i < EVENT_COUNT; i++)
        str_printf(w->out, " %s", events[i].name);
    str_puts(w->out, "\n\n");
}

/* The name without what was inlined, as in the profile: "INNER (inlined in OUTER)" is OUTER. */
static const char *outer_name(struct arena *a, const char *function)
{
    static const char inlined[] = " (inlined in ";
    const char *s = function ? strstr(function, inlined) : NULL;
    if (!s)
        return function;
    s += sizeof inlined - 1;
    return arena_strndup(a, s, strlen(s) - (*s != 0));
}

static void find_functions(struct writer *w, const struct prof_result *r, uint32_t *of_object, uint32_t *of_block)
{
    for (size_t i = 0; i < r->object_count; i++) {
        const struct prof_object *o = &r->objects[i];
        if (o->kind == PROF_PROCEDURE)
            function_of(w, o->module, outer_name(w->arena, o->function), o->file);
    }
    for (size_t i = 0; i < r->object_count; i++) {
        const struct prof_object *o = &r->objects[i];
        of_object[i] = (uint32_t)function_of(w, o->module, outer_name(w->arena, o->function), o->file);
    }
    for (size_t i = 0; i < r->block_count; i++) {
        const struct prof_block_row *b = &r->blocks[i];
        bool is_next = i && b->function && b->function == b[-1].function && b->module == b[-1].module;
        of_block[i] =
            is_next ? of_block[i - 1] : (uint32_t)function_of(w, r->modules[b->module].path, b->function, b->file);
    }
}

static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t x;
    return __builtin_mul_overflow(a, b, &x) ? 0 : x; /* no run is that long: a damaged profile */
}

static void put_blocks(struct writer *w, const struct prof_result *r, const uint32_t *of_block)
{
    for (size_t i = 0; i < r->block_count; i++) {
        const struct prof_block_row *b = &r->blocks[i];
        uint64_t count = export_count(b->count);
        put_function(w, &w->list.data[of_block[i]]);
        put_place(w, b->file);
        put_cost(w, b->address, b->line,
                 (uint64_t[EVENT_COUNT]){product(count, b->instructions), product(count, b->memory_ops)});
    }
}

static void put_objects(struct writer *w, const struct prof_result *r, const uint32_t *of_object)
{
    bool has_counts = r->block_count == 0;
    for (size_t i = 0; i < r->object_count; i++) {
        const struct prof_object *o = &r->objects[i];
        put_function(w, &w->list.data[of_object[i]]);
        put_place(w, o->file);
        put_cost(w, o->address, o->line_first,
                 (uint64_t[EVENT_COUNT]){has_counts ? export_count(o->instructions) : 0,
                                         has_counts ? export_count(o->memory_ops) : 0,
                                         export_unsigned(o->ideal_s.value, NS), export_unsigned(o->actual_s.value, NS),
                                         export_unsigned(o->memory_s.value, NS)});
    }
}

void export_callgrind(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    struct writer w = {.out = out, .arena = a};
    uint32_t *of_object = ARENA_ARRAY(a, uint32_t, r->object_count + 1);
    uint32_t *of_block = ARENA_ARRAY(a, uint32_t, r->block_count + 1);
    (void)o;
    find_functions(&w, r, of_object, of_block);
    put_head(&w, r);
    put_blocks(&w, r, of_block);
    put_objects(&w, r, of_object);
    str_puts(out, "\ntotals:");
    for (size_t i = 0; i < EVENT_COUNT; i++)
        str_printf(out, " %llu", (unsigned long long)w.totals[i]);
    str_puts(out, "\n");
    for (size_t i = 0; i < ARRAY_LEN(w.texts); i++)
        map_fini(&w.texts[i]);
    map_fini(&w.functions);
    VEC_FREE(&w.list);
}
