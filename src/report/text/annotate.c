/* SPDX-License-Identifier: Apache-2.0
 * The source of a function beside its figures: a row a line with what was counted and sampled there, and above the
 * first line of each loop what it loses. A line's figures are those of the line: where it is inlined into several
 * functions they hold all of them. */
#include <math.h>
#include <stdlib.h>

#include "report/export/export.h"
#include "report/tour.h"

enum { AROUND = 2, LINES_MAX = 2000 }; /* lines before and behind an object; shown of one object */

enum column { SAMPLES, INSTRUCTIONS, MEMORY_OPS, STALL, LINE, COLUMN_COUNT };
static const char *const heads[COLUMN_COUNT] = {"samp", "instr", "mem ops", "stall", "line"};

struct view {
    const struct prof_result *r;
    const struct annotate_options *o;
    struct arena *a;
    struct strbuf *out;
    VEC(const struct prof_object *) objects; /* of the function */
    struct tour tour;                        /* of it: the figures of lines */
    size_t widths[COLUMN_COUNT];             /* of the figures of the file at hand */
    int decimals;
};
struct range {
    uint32_t first, last;
};

/* ---- which objects ---- */

static bool is_same(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/* By the name in the file, as the author wrote it, or without arguments; a loop that was inlined by either of its
 * names. */
static bool is_called(struct arena *a, const struct prof_object *o, const char *name)
{
    if (!o->function)
        return false;
    const char *inner, *outer = export_function(a, o->function, &inner);
    return is_same(o->function, name) || is_same(outer, name) || is_same(name_brief(a, outer), name) ||
           is_same(inner, name) || (inner && is_same(name_brief(a, inner), name));
}

/* What compilers add for clones (.constprop.0, .part.1) is not part of a name; a part laid aside (.cold) is no
 * function. */
static bool is_clone(const char *function, const char *name)
{
    size_t n = strlen(name);
    return strncmp(function, name, n) == 0 && function[n] == '.' && strncmp(function + n, ".cold", 5) != 0;
}

bool report_names_function(const char *function, const char *name)
{
    struct arena *a = arena_new();
    bool is = is_called(a, &(struct prof_object){.function = function}, name) || is_clone(function, name);
    arena_free(a);
    return is;
}

size_t report_annotate_nearest(const struct prof_result *r, const char *function, struct arena *a, const char **names,
                               size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < r->object_count && n < max; i++) {
        const char *inner;
        const char *brief = name_brief(a, export_function(a, r->objects[i].function, &inner));
        bool is_known = !*function || !strcasestr(brief, function);
        for (size_t k = 0; k < n; k++)
            is_known |= is_same(names[k], brief);
        if (!is_known)
            names[n++] = brief;
    }
    return n;
}

/* ---- text ---- */

static const char *loss(const struct view *v, const struct prof_object *o)
{
    const char *label = export_label(v->a, o);
    const char *text = arena_printf(
        v->a, "%s: memory %s s (%s) of %s s, ideal %s s", label ? label : "procedure",
        figure_real(v->a, o->memory_s.value, v->decimals), figure_interval(v->a, &o->memory_s, v->decimals),
        figure_real(v->a, o->actual_s.value, v->decimals), figure_real(v->a, o->ideal_s.value, v->decimals));
    return o->bound_by ? arena_printf(v->a, "%s, bound by %s", text, cell_safe(v->a, o->bound_by)) : text;
}

/* A stall only where mtool spy or mtool monster found one. */
static bool has_column(const struct view *v, unsigned c) { return c != STALL || tour_has_stalls(&v->tour); }
static const char *head_of(const struct view *v, unsigned c)
{
    return c == SAMPLES && v->tour.lines_s > 0 ? tour_share_word(&v->tour) : heads[c];
}

static const char *cell(const struct view *v, const char *file, const struct prof_line *l, enum column c, uint32_t line)
{
    double stall = c == STALL ? tour_stall(&v->tour, file, line, NULL) : NAN;
    double share = c == SAMPLES ? tour_line_share(&v->tour, l) : NAN;
    switch (c) {
    case SAMPLES:
        return share > 0 ? figure_percent(v->a, share) : "";
    case INSTRUCTIONS:
        return l && l->instructions ? figure_count(v->a, l->instructions) : "";
    case MEMORY_OPS:
        return l && l->memory_ops ? figure_count(v->a, l->memory_ops) : "";
    case STALL:
        return stall > 0 ? figure_percent(v->a, stall) : "";
    default:
        return arena_printf(v->a, "%u", line);
    }
}

static void widen(struct view *v, const char *file, uint32_t line)
{
    const struct prof_line *l = tour_line(&v->tour, file, line);
    for (unsigned c = 0; c < COLUMN_COUNT; c++)
        v->widths[c] = max_u64(v->widths[c], strlen(cell(v, file, l, (enum column)c, line)));
}

static unsigned width_of(const struct view *v) { return v->o->columns ? v->o->columns : REPORT_COLUMNS; }

/* The objects that begin there. True if there is one. */
static bool put_objects(struct view *v, const char *file, uint32_t line)
{
    bool any = false;
    for (size_t i = 0; i < v->objects.len; i++) {
        const struct prof_object *o = v->objects.data[i];
        if (!is_same(o->file, file) || o->line_first != line)
            continue;
        cell_put_wrapped(v->out, arena_printf(v->a, "==> %s", loss(v, o)), width_of(v), 2);
        any = true;
    }
    return any;
}

/* Without source only lines that have something to say. */
static void put_line(struct view *v, const char *file, const struct source *s, uint32_t line)
{
    const struct prof_line *l = tour_line(&v->tour, file, line);
    bool has_source = s->path && line <= s->line_count;
    if (!put_objects(v, file, line) && !has_source && !l && !*cell(v, file, l, STALL, line))
        return;
    size_t taken = 0;
    for (unsigned c = 0; c < COLUMN_COUNT; c++) {
        if (!has_column(v, c))
            continue;
        taken += v->widths[c] + 1;
        cell_put_right(v->out, cell(v, file, l, (enum column)c, line), v->widths[c]);
        str_puts(v->out, " ");
    }
    if (has_source)
        cell_put_head(v->out, source_line(v->a, s, line), width_of(v) > taken ? width_of(v) - taken : 0);
    while (v->out->data[v->out->len - 1] == ' ')
        v->out->data[--v->out->len] = 0;
    str_puts(v->out, "\n");
}

static void put_heads(struct view *v)
{
    for (unsigned c = 0; c < COLUMN_COUNT; c++) {
        if (!has_column(v, c))
            continue;
        cell_put_right(v->out, head_of(v, c), v->widths[c]);
        str_puts(v->out, c + 1 < COLUMN_COUNT ? " " : "\n");
    }
}

/* ---- files ---- */

static int compare_ranges(const void *x, const void *y)
{
    const struct range *a = x, *b = y;
    return a->first != b->first ? (a->first > b->first ? 1 : -1) : (a->last > b->last) - (a->last < b->last);
}

/* The lines of the function in a file, in order, without overlap. */
static size_t ranges_of(const struct view *v, const char *file, struct range *out)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < v->objects.len; i++) {
        const struct prof_object *o = v->objects.data[i];
        if (!is_same(o->file, file) || !o->line_first)
            continue;
        uint32_t last = o->line_last > o->line_first ? o->line_last : o->line_first;
        last = last - o->line_first < LINES_MAX ? last : o->line_first + (LINES_MAX - 1);
        out[n++] = (struct range){o->line_first > AROUND ? o->line_first - AROUND : 1,
                                  last < UINT32_MAX - AROUND - 1 ? last + AROUND : last};
    }
    qsort(out, n, sizeof *out, compare_ranges);
    for (size_t i = 0; i < n; i++) {
        if (kept && out[i].first <= (uint64_t)out[kept - 1].last + 1)
            out[kept - 1].last = (uint32_t)max_u64(out[kept - 1].last, out[i].last);
        else
            out[kept++] = out[i];
    }
    return kept;
}

static void put_missing(struct view *v, const struct source *s, uint32_t last)
{
    const char *text = NULL;
    if (!s->path)
        text = arena_printf(v->a, "Its source was not found; looked for: %s. --source-path FOLDER says where it is.",
                            s->looked);
    else if (s->line_count < last)
        text = "The source has fewer lines than the function, so it is not the one that was compiled.";
    else if (s->is_newer)
        text = "This file was changed after the run: lines may not be those that ran.";
    if (text)
        cell_put_wrapped(v->out, cell_safe(v->a, text), width_of(v), 0);
}

static void put_file(struct view *v, const char *file)
{
    struct range *ranges = ARENA_ARRAY(v->a, struct range, v->objects.len + 1);
    size_t count = ranges_of(v, file, ranges);
    if (!count)
        return;
    const struct source *s = source_read(v->a, file, v->o->source_path, v->r->started);
    str_printf(v->out, "\n%s\n", cell_safe(v->a, s->path ? s->path : file));
    put_missing(v, s, ranges[count - 1].last - AROUND);
    for (unsigned c = 0; c < COLUMN_COUNT; c++)
        v->widths[c] = strlen(head_of(v, c));
    for (size_t i = 0; i < count; i++)
        for (uint64_t line = ranges[i].first; line <= ranges[i].last; line++)
            widen(v, file, (uint32_t)line);
    put_heads(v);
    for (size_t i = 0; i < count; i++) {
        str_puts(v->out, i ? "...\n" : "");
        for (uint64_t line = ranges[i].first; line <= ranges[i].last; line++)
            put_line(v, file, s, (uint32_t)line);
    }
}

/* Each file once; that of the procedure first, since the first object is it. */
static void put_files(struct view *v)
{
    for (size_t i = 0; i < v->objects.len; i++) {
        const char *file = v->objects.data[i]->file;
        bool is_done = file == NULL;
        for (size_t k = 0; k < i && !is_done; k++)
            is_done = is_same(v->objects.data[k]->file, file);
        if (!is_done)
            put_file(v, file);
    }
}

static void put_without_lines(struct view *v)
{
    bool is_first = true;
    for (size_t i = 0; i < v->objects.len; i++) {
        const struct prof_object *o = v->objects.data[i];
        if (o->file && o->line_first)
            continue;
        str_puts(v->out, is_first ? "\nWithout source lines (compile with -g, or install debug symbols):\n" : "");
        is_first = false;
        cell_put_wrapped(v->out, arena_printf(v->a, "==> %s", loss(v, o)), width_of(v), 2);
    }
}

/* ---- the function ---- */

static int compare_objects(const void *x, const void *y)
{
    const struct prof_object *a = *(const struct prof_object *const *)x, *b = *(const struct prof_object *const *)y;
    if ((a->kind == PROF_PROCEDURE) != (b->kind == PROF_PROCEDURE))
        return a->kind == PROF_PROCEDURE ? -1 : 1;
    return a->address != b->address ? (a->address > b->address ? 1 : -1) : (a->id > b->id) - (a->id < b->id);
}

static void put_function(struct view *v)
{
    const struct prof_object *first = v->objects.data[0];
    const char *inner, *name = export_function(v->a, first->function, &inner);
    cell_put_wrapped(v->out, arena_printf(v->a, "%s in %s", name, export_module(v->a, first->module)), width_of(v), 2);
    put_files(v);
    put_without_lines(v);
}

/* Objects of one module and one outer function are shown together. */
static bool is_with(struct arena *a, const struct prof_object *x, const struct prof_object *y)
{
    const char *inner;
    return !strcmp(x->module ? x->module : "", y->module ? y->module : "") &&
           is_same(export_function(a, x->function, &inner), export_function(a, y->function, &inner));
}

size_t report_annotate(const struct prof_result *r, const char *function, const struct annotate_options *o,
                       struct strbuf *out)
{
    struct view v = {.r = r, .o = o, .a = arena_new(), .out = out};
    bool *is_done = ARENA_ARRAY(v.a, bool, r->object_count + 1);
    double max = 0;
    size_t functions = 0;
    tour_init(&v.tour, r, o->source_path, v.a);
    for (size_t i = 0; i < r->object_count; i++) {
        if (is_done[i] || !is_called(v.a, &r->objects[i], function))
            continue;
        v.objects.len = 0;
        for (size_t k = i; k < r->object_count; k++) {
            if (is_done[k] || !is_with(v.a, &r->objects[i], &r->objects[k]))
                continue;
            is_done[k] = true;
            VEC_PUSH(&v.objects, &r->objects[k]);
            max = fmax(max, r->objects[k].actual_s.value);
        }
        qsort(v.objects.data, v.objects.len, sizeof *v.objects.data, compare_objects);
        v.decimals = figure_decimals(max);
        functions++ ? str_puts(out, "\n") : banner_put(r, width_of(&v), v.a, out);
        put_function(&v);
    }
    VEC_FREE(&v.objects);
    tour_fini(&v.tour);
    arena_free(v.a);
    return functions;
}
