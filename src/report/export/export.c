/* SPDX-License-Identifier: Apache-2.0
 * What all exporters need: which object lies in which, names and places as other tools show them, whole numbers.
 * Other tools know no unknown figure: where a format has no place for one it becomes 0 (and is empty in CSV). */
#include "report/export/export.h"

#include <assert.h>
#include <math.h>

#define INLINED " (inlined in " /* as prof names a loop that was inlined: "INNER (inlined in OUTER)" */
enum { DEEPEST = 200 };         /* loops in loops; a damaged profile may go round in circles */

const struct report_export_format report_export_formats[REPORT_EXPORT_COUNT] = {
#define EXPORT(id, name, text) {name, text},
#include "report/export/exports.def"
#undef EXPORT
};

void report_export(const struct prof_result *r, enum report_export format, const struct export_options *o,
                   struct strbuf *out)
{
    static void (*const painters[REPORT_EXPORT_COUNT])(const struct prof_result *, const struct export_options *,
                                                       struct arena *, struct strbuf *) = {
#define EXPORT(id, name, text) export_##id,
#include "report/export/exports.def"
#undef EXPORT
    };
    struct arena *a = arena_new();
    painters[format](r, o, a, out);
    arena_free(a);
}

/* ---- the tree of objects ---- */

void tree_init(struct tree *t, const struct prof_result *r)
{
    *t = (struct tree){.result = r};
    for (size_t i = 0; i < r->object_count; i++)
        map_put(&t->by_id, r->objects[i].id, i);
}

void tree_fini(struct tree *t) { map_fini(&t->by_id); }

const struct prof_object *tree_parent(const struct tree *t, const struct prof_object *o)
{
    uint64_t i;
    if (o->parent == ID_NONE || o->parent == o->id || !map_get(&t->by_id, o->parent, &i))
        return NULL;
    return &t->result->objects[i];
}

const struct prof_object *tree_outermost(const struct tree *t, const struct prof_object *o)
{
    const struct prof_object *parent;
    for (int n = 0; n < DEEPEST && o->kind != PROF_PROCEDURE && (parent = tree_parent(t, o)); n++)
        o = parent;
    return o;
}

/* ---- names and places ---- */

static const char *readable(struct arena *a, const char *function) { return cell_safe(a, name_plain(a, function)); }

const char *export_function(struct arena *a, const char *function, const char **inner)
{
    const char *inlined = function ? strstr(function, INLINED) : NULL;
    *inner = NULL;
    if (!function || !*function)
        return "?";
    if (!inlined)
        return readable(a, function);
    const char *outer = inlined + sizeof INLINED - 1;
    *inner = readable(a, arena_strndup(a, function, (size_t)(inlined - function)));
    return readable(a, arena_strndup(a, outer, strlen(outer) - (*outer != 0)));
}

const char *export_label(struct arena *a, const struct prof_object *o)
{
    if (o->kind == PROF_PROCEDURE)
        return NULL;
    if (!o->file || !o->line_first)
        return arena_printf(a, "%s at 0x%llx", prof_kind_name[o->kind], (unsigned long long)o->address);
    return arena_printf(a, "%s at %s:%u", prof_kind_name[o->kind], cell_safe(a, file_base_name(o->file)),
                        o->line_first);
}

const char *export_module(struct arena *a, const char *module)
{
    return module && *module ? cell_safe(a, file_base_name(module)) : "?";
}

/* ---- whole numbers ---- */

int64_t export_signed(double seconds, double per_second)
{
    double x = seconds * per_second;
    return !isfinite(x) ? 0 : x > 9e18 ? (int64_t)9e18 : x < -9e18 ? (int64_t)-9e18 : llround(x);
}

uint64_t export_unsigned(double seconds, double per_second)
{
    int64_t x = export_signed(seconds, per_second);
    return x < 0 ? 0 : (uint64_t)x;
}

uint64_t export_count(uint64_t n) { return n == PROF_UNKNOWN ? 0 : n; }

uint64_t export_hash(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* ---- stacks ---- */

static uint64_t hash_frame(const struct stack_frame *f)
{
    return export_hash(export_hash(EXPORT_HASH ^ f->line, f->name), f->file ? f->file : "");
}

static bool is_same_frame(const struct stack_frame *x, const struct stack_frame *y)
{
    return x->line == y->line && !strcmp(x->name, y->name) && !strcmp(x->file ? x->file : "", y->file ? y->file : "");
}

static void push_frame(struct stacks *s, struct stack_frame f)
{
    uint64_t h = hash_frame(&f), id;
    while (map_get(&s->by_text, h, &id) && !is_same_frame(&s->frames.data[id], &f))
        h++;
    if (!map_get(&s->by_text, h, &id)) {
        id = s->frames.len;
        map_put(&s->by_text, h, id);
        VEC_PUSH(&s->frames, f);
    }
    VEC_PUSH(&s->ids, (uint32_t)id);
}

static struct stack_frame frame_of(const struct prof_object *o, const char *name, struct arena *a)
{
    return (struct stack_frame){name, o->file ? cell_safe(a, o->file) : NULL, o->line_first};
}

/* "INNER: loop at file.h:12" where it was inlined. */
static void push_object(struct stacks *s, const struct prof_object *o)
{
    const char *inner, *label = export_label(s->arena, o);
    export_function(s->arena, o->function, &inner);
    if (label)
        push_frame(s, frame_of(o, inner ? arena_printf(s->arena, "%s: %s", inner, label) : label, s->arena));
}

static void push_stack(struct stacks *s, const struct tree *t, const struct prof_object *o)
{
    assert(o);
    const struct prof_object *chain[DEEPEST], *top = tree_outermost(t, o);
    const char *inner, *function = export_function(s->arena, top->function, &inner);
    size_t begin = s->ids.len, n = 0;
    for (const struct prof_object *p = o; p && p->kind != PROF_PROCEDURE && n < DEEPEST; p = tree_parent(t, p))
        chain[n++] = p;
    push_frame(s, (struct stack_frame){export_module(s->arena, o->module), NULL, 0});
    push_frame(s, top->kind == PROF_PROCEDURE ? frame_of(top, function, s->arena)
                                              : (struct stack_frame){function, NULL, 0});
    while (n > 0)
        push_object(s, chain[--n]);
    VEC_PUSH(&s->lengths, (uint32_t)(s->ids.len - begin));
}

void stacks_build(struct stacks *s, const struct prof_result *r, struct arena *a)
{
    struct tree t;
    *s = (struct stacks){.arena = a};
    tree_init(&t, r);
    for (size_t i = 0; i < r->object_count; i++)
        push_stack(s, &t, &r->objects[i]);
    tree_fini(&t);
}

void stacks_fini(struct stacks *s)
{
    VEC_FREE(&s->frames);
    VEC_FREE(&s->ids);
    VEC_FREE(&s->lengths);
    map_fini(&s->by_text);
}
