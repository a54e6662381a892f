/* SPDX-License-Identifier: Apache-2.0
 * pprof's profile.proto, written by hand and not compressed. A sample an object, with its place in the code as a stack
 * of one (two, where it was inlined: pprof has lines of one location for that) and labels that say what it is; five
 * values: instructions, memory operations, ideal, actual and memory nanoseconds. Memory time may be negative here, as
 * in the profile. */
#include "report/export/export.h"

#include <assert.h>

#define NS 1e9 /* a second */

/* Protocol buffers: a field is its number and type, then a varint, or a length and bytes. */
enum { VARINT = 0, BYTES = 2 };

static void put_key(struct strbuf *out, unsigned field, unsigned type) { str_put_uleb(out, field << 3 | type); }

static void put_varint(struct strbuf *out, unsigned field, uint64_t v)
{
    if (!v)
        return; /* the default */
    put_key(out, field, VARINT);
    str_put_uleb(out, v);
}

static void put_bytes(struct strbuf *out, unsigned field, const void *bytes, size_t len)
{
    put_key(out, field, BYTES);
    str_put_uleb(out, len);
    str_put(out, bytes, len);
}

/* Puts a message that stands in `m`, and empties m for the next one. */
static void put_message(struct strbuf *out, unsigned field, struct strbuf *m)
{
    put_bytes(out, field, m->len ? m->data : "", m->len);
    m->len = 0;
}

/* Fields of profile.proto */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT = 14
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_TEXT, LABEL_NUMBER };
enum {
    MAPPING_ID = 1,
    MAPPING_START,
    MAPPING_LIMIT,
    MAPPING_OFFSET,
    MAPPING_FILE,
    MAPPING_BUILD_ID,
    MAPPING_HAS_FUNCTIONS,
    MAPPING_HAS_FILES,
    MAPPING_HAS_LINES,
    MAPPING_HAS_INLINED
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE };

static const struct {
    const char *name, *unit;
} values[] = {{"instructions", "count"},
              {"memory_ops", "count"},
              {"ideal", "nanoseconds"},
              {"actual", "nanoseconds"},
              {"memory", "nanoseconds"}};
enum { VALUE_COUNT = ARRAY_LEN(values) };

struct table { /* texts, or functions as text: what was there before keeps its number */
    struct map by_hash;
    VEC(const char *) texts;
};
struct pprof {
    struct strbuf *out, message, inner, packed;
    struct arena *arena;
    struct table strings;   /* numbered from 0, which is "" */
    struct table functions; /* from 1 */
    struct table mappings;  /* from 1 */
};

/* The number of a text, from 0; *is_new if it had none. */
static uint64_t number_of(struct table *t, const char *text, bool *is_new)
{
    uint64_t h = export_hash(EXPORT_HASH, text), id;
    for (; map_get(&t->by_hash, h, &id); h++) {
        assert(id < t->texts.len);
        if (!strcmp(t->texts.data[id], text))
            return *is_new = false, id;
    }
    map_put(&t->by_hash, h, t->texts.len);
    VEC_PUSH(&t->texts, text);
    *is_new = true;
    return t->texts.len - 1;
}

static void table_fini(struct table *t)
{
    map_fini(&t->by_hash);
    VEC_FREE(&t->texts);
}

/* Strings must be UTF-8: they are safe for a terminal too. NULL is "". */
static uint64_t string_of(struct pprof *p, const char *text)
{
    bool is_new;
    return number_of(&p->strings, text ? cell_safe(p->arena, text) : "", &is_new);
}

/* ---- what samples refer to ---- */

static uint64_t function_of(struct pprof *p, const char *name, const char *system_name, const char *file)
{
    bool is_new;
    const char *key = arena_printf(p->arena, "%s\n%s\n%s", name, system_name, file ? file : "");
    uint64_t id = number_of(&p->functions, key, &is_new) + 1;
    if (!is_new)
        return id;
    put_varint(&p->message, FUNCTION_ID, id);
    put_varint(&p->message, FUNCTION_NAME, string_of(p, name));
    put_varint(&p->message, FUNCTION_SYSTEM_NAME, string_of(p, system_name));
    put_varint(&p->message, FUNCTION_FILE, string_of(p, file));
    put_message(p->out, PROFILE_FUNCTION, &p->message);
    return id;
}

static uint64_t mapping_of(struct pprof *p, const struct prof_result *r, const char *module)
{
    bool is_new;
    module = module ? module : "?";
    uint64_t id = number_of(&p->mappings, module, &is_new) + 1;
    if (!is_new)
        return id;
    put_varint(&p->message, MAPPING_ID, id);
    put_varint(&p->message, MAPPING_LIMIT, UINT64_MAX); /* addresses are those in the file */
    put_varint(&p->message, MAPPING_FILE, string_of(p, module));
    for (size_t i = 0; i < r->module_count; i++)
        if (r->modules[i].path && !strcmp(r->modules[i].path, module))
            put_varint(&p->message, MAPPING_BUILD_ID, string_of(p, r->modules[i].build_id));
    for (unsigned has = MAPPING_HAS_FUNCTIONS; has <= MAPPING_HAS_INLINED; has++)
        put_varint(&p->message, has, 1); /* there is nothing to look up */
    put_message(p->out, PROFILE_MAPPING, &p->message);
    return id;
}

static void put_line(struct pprof *p, uint64_t function, uint32_t line)
{
    put_varint(&p->inner, LINE_FUNCTION, function);
    put_varint(&p->inner, LINE_LINE, line);
    put_message(&p->message, LOCATION_LINE, &p->inner);
}

/* Numbered as the object; the innermost line first. */
static void put_location(struct pprof *p, const struct prof_result *r, const struct tree *t, size_t i)
{
    const struct prof_object *o = &r->objects[i], *top = tree_outermost(t, o);
    const char *inner, *outer = export_function(p->arena, o->function, &inner);
    uint64_t mapping = mapping_of(p, r, o->module);
    uint64_t in = inner ? function_of(p, inner, inner, o->file) : 0;
    bool is_other_file = inner != NULL && top->kind == PROF_PROCEDURE;
    uint64_t of = function_of(p, outer,
                              inner         ? outer
                              : o->function ? o->function
                                            : "?",
                              is_other_file ? top->file : o->file);
    put_varint(&p->message, LOCATION_ID, i + 1);
    put_varint(&p->message, LOCATION_MAPPING, mapping);
    put_varint(&p->message, LOCATION_ADDRESS, o->address);
    if (inner)
        put_line(p, in, o->line_first);
    put_line(p, of, inner ? top->kind == PROF_PROCEDURE ? top->line_first : 0 : o->line_first);
    put_message(p->out, PROFILE_LOCATION, &p->message);
}

/* ---- samples ---- */

static void put_label(struct pprof *p, const char *key, const char *text, uint64_t number)
{
    put_varint(&p->inner, LABEL_KEY, string_of(p, key));
    if (text)
        put_varint(&p->inner, LABEL_TEXT, string_of(p, text));
    else
        put_varint(&p->inner, LABEL_NUMBER, number);
    put_message(&p->message, SAMPLE_LABEL, &p->inner);
}

static void put_sample(struct pprof *p, const struct prof_object *o, size_t i)
{
    const int64_t all[VALUE_COUNT] = {(int64_t)export_count(o->instructions), (int64_t)export_count(o->memory_ops),
                                      export_signed(o->ideal_s.value, NS), export_signed(o->actual_s.value, NS),
                                      export_signed(o->memory_s.value, NS)};
    str_put_uleb(&p->packed, i + 1);
    put_message(&p->message, SAMPLE_LOCATION, &p->packed);
    for (size_t v = 0; v < VALUE_COUNT; v++)
        str_put_uleb(&p->packed, (uint64_t)all[v]);
    put_message(&p->message, SAMPLE_VALUE, &p->packed);
    put_label(p, "kind", prof_kind_name[o->kind], 0);
    if (o->bound_by)
        put_label(p, "bound_by", o->bound_by, 0);
    if (o->kind == PROF_LOOP)
        put_label(p, "depth", NULL, o->depth);
    put_message(p->out, PROFILE_SAMPLE, &p->message);
}

static void put_types(struct pprof *p)
{
    for (size_t v = 0; v < VALUE_COUNT; v++) {
        put_varint(&p->message, TYPE_TYPE, string_of(p, values[v].name));
        put_varint(&p->message, TYPE_UNIT, string_of(p, values[v].unit));
        put_message(p->out, PROFILE_SAMPLE_TYPE, &p->message);
    }
    put_varint(p->out, PROFILE_DEFAULT, string_of(p, values[VALUE_COUNT - 1].name));
}

static void put_comments(struct pprof *p, const struct prof_result *r)
{
    put_varint(p->out, PROFILE_COMMENT, string_of(p, "mtool " MTOOL_VERSION "; self figures of loops and procedures"));
    if (r->program)
        put_varint(p->out, PROFILE_COMMENT, string_of(p, r->program));
}

void export_pprof(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    struct pprof p = {.out = out, .arena = a};
    struct tree t;
    (void)o;
    tree_init(&t, r);
    string_of(&p, "");
    put_types(&p);
    for (size_t i = 0; i < r->object_count; i++) {
        put_sample(&p, &r->objects[i], i);
        put_location(&p, r, &t, i);
    }
    put_comments(&p, r);
    for (size_t i = 0; i < p.strings.texts.len; i++)
        put_bytes(out, PROFILE_STRING, p.strings.texts.data[i], strlen(p.strings.texts.data[i]));
    tree_fini(&t);
    table_fini(&p.strings);
    table_fini(&p.functions);
    table_fini(&p.mappings);
    str_free(&p.message);
    str_free(&p.inner);
    str_free(&p.packed);
}
