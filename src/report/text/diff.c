/* SPDX-License-Identifier: Apache-2.0
 * The difference of two results as text and as JSON (schema mtool-diff-1, doc/profile.md). */
#include <assert.h>
#include <math.h>

#include "report/data.h"
#include "report/impl.h"

static bool is_changed(const struct diff_object *x)
{
    return diff_is_change(&x->memory_s) || diff_is_change(&x->actual_s);
}

static const struct prof_object *any_of(const struct diff_object *x)
{
    assert(x->now || x->old); /* else there is nothing to tell */
    return x->now ? x->now : x->old;
}

/* ---- text ---- */

static void put_side(struct strbuf *out, const char *what, const char *path, const struct prof_result *r,
                     unsigned width, struct arena *a)
{
    struct strbuf line = {0};
    str_printf(&line, "%s %s:", what, cell_safe(a, path));
    for (const char **w = r->command; w && *w; w++)
        str_printf(&line, " %s", cell_safe(a, *w));
    if (r->started)
        str_printf(&line, " (%s)", cell_safe(a, r->started));
    cell_put_short(out, line.data, width);
    str_puts(out, "\n");
    str_free(&line);
}

static const char *change_text(struct arena *a, double x, int decimals)
{
    const char *s = figure_real(a, x, decimals);
    return isfinite(x) && s[0] != '-' && strspn(s, "0.") != strlen(s) ? arena_printf(a, "+%s", s) : s;
}

const struct prof_result *diff_doubtful(const struct prof_diff *d)
{
    return prof_model_failed(d->now) ? d->now : d->old;
}

const char *diff_verdict(const struct diff_figure *f)
{
    return !isfinite(f->change.low) || !isfinite(f->change.high) ? "not known"
           : !diff_is_change(f)                                  ? "within noise"
           : f->change.value > 0                                 ? "worse"
                                                                 : "better";
}

static void put_whole(const struct prof_diff *d, struct arena *a, struct strbuf *out)
{
    double max = 0;
    for (size_t i = 0; i < DIFF_OVERHEAD; i++)
        max = fmax(max, fmax(d->whole[i].old.value, d->whole[i].now.value));
    str_printf(out, "%-12s %9s %9s %9s  %s\n", "", "old", "new", "change", "95% interval");
    for (size_t i = 0; i < DIFF_TIMED_COUNT; i++) {
        struct diff_figure f = d->whole[i];
        int decimals = i == DIFF_OVERHEAD ? 1 : figure_decimals(max);
        double unit = i == DIFF_OVERHEAD ? 100 : 1;
        struct prof_interval change = {f.change.value * unit, f.change.low * unit, f.change.high * unit};
        str_printf(out, "%-12s %9s %9s %9s  %-18s %s\n", diff_field_about[i].word,
                   figure_real(a, f.old.value * unit, decimals), figure_real(a, f.now.value * unit, decimals),
                   change_text(a, change.value, decimals), figure_interval(a, &change, decimals), diff_verdict(&f));
    }
}

static const struct grid_column columns[] = {
    {{"memory", "s old"}, false, NULL},       {{"", "new"}, false, NULL},           {{"", "change"}, false, NULL},
    {{"95%", "interval"}, false, NULL},       {{"actual", "change"}, false, NULL},  {{"", ""}, true, NULL},
    {{"", "function"}, true, shorten_middle}, {{"", "place"}, true, shorten_place},
};

/* What is not more than noise stands in brackets. */
static const char *change_cell(struct arena *a, const struct diff_figure *f, int decimals)
{
    const char *s = change_text(a, f->change.value, decimals);
    return !isfinite(f->change.value) || diff_is_change(f) ? s : arena_printf(a, "(%s)", s);
}

static void add_row(struct grid *g, const struct diff_object *x, int decimals, struct arena *a)
{
    static const char *const kinds[PROF_KIND_COUNT] = {"loop", "proc", "piece", "region"};
    const struct prof_object *o = any_of(x);
    const char *const cells[ARRAY_LEN(columns)] = {
        x->old          ? figure_real(a, x->memory_s.old.value, decimals)
        : x->is_refused ? "?"
                        : "-",
        x->now          ? figure_real(a, x->memory_s.now.value, decimals)
        : x->is_refused ? "?"
                        : "-",
        change_cell(a, &x->memory_s, decimals),
        figure_interval(a, &x->memory_s.change, decimals),
        change_cell(a, &x->actual_s, decimals),
        kinds[o->kind],
        cell_safe(a, o->function ? name_brief(a, name_plain(a, o->function)) : "?"),
        cell_safe(a, place_of(o, a)),
    };
    grid_row(g, cells, !is_changed(x));
}

static double largest_time(const struct prof_diff *d)
{
    double max = 0;
    for (size_t i = 0; i < d->object_count; i++)
        max = fmax(max, fmax(d->objects[i].memory_s.old.value, d->objects[i].memory_s.now.value));
    return max;
}

static void put_table(const struct prof_diff *d, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    size_t changed = 0, max = o->top ? o->top : o->all ? d->object_count : REPORT_TOP;
    while (changed < d->object_count && is_changed(&d->objects[changed]))
        changed++; /* they stand first */
    size_t wanted = o->all ? d->object_count : changed, count = min_u64(wanted, max);
    str_puts(out, "\n");
    if (!wanted) {
        str_puts(out, d->object_count ? "No loop or procedure changed by more than noise (--all shows all).\n"
                                      : "Neither profile holds a loop or procedure.\n");
        return;
    }
    struct grid g;
    grid_init(&g, columns, ARRAY_LEN(columns), o, a);
    for (size_t i = 0; i < count; i++)
        add_row(&g, &d->objects[i], figure_decimals(largest_time(d)), a);
    grid_put(&g, out);
    if (count < wanted)
        str_printf(out, "%zu more (--top %zu)\n", wanted - count, wanted);
    if (!o->all && changed < d->object_count)
        str_printf(out, "%zu changed by no more than noise (--all shows them)\n", d->object_count - changed);
    str_puts(out, "(in brackets: within noise; -: not there; ?: not known)\n");
}

void report_diff(const struct prof_diff *d, const char *const paths[2], const struct report_options *o,
                 struct strbuf *out)
{
    struct arena *a = arena_new();
    unsigned width = report_width(o);
    banner_put(diff_doubtful(d), width, a, out);
    put_side(out, "old", paths[0], d->old, width, a);
    put_side(out, "new", paths[1], d->now, width, a);
    str_puts(out, "\n");
    if (isfinite(d->now->actual_user_s.value)) {
        put_whole(d, a, out);
        put_table(d, o, a, out);
    }
    data_put_diff(d, o, a, out);
    arena_free(a);
}

/* ---- JSON ---- */

static void put_interval(struct json *j, const char *key, const struct prof_interval *i)
{
    json_object(j, key);
    json_real(j, "value", i->value);
    json_real(j, "low", i->low);
    json_real(j, "high", i->high);
    json_object_end(j);
}

static void put_figure(struct json *j, const char *key, const struct diff_figure *f)
{
    json_object(j, key);
    put_interval(j, "old", &f->old);
    put_interval(j, "new", &f->now);
    put_interval(j, "change", &f->change);
    json_bool(j, "more_than_noise", diff_is_change(f));
    json_object_end(j);
}

static void put_json_side(struct json *j, const char *key, const char *path, const struct prof_result *r)
{
    json_object(j, key);
    json_str(j, "profile", path);
    json_str(j, "program", r->program);
    json_array(j, "command");
    for (const char **w = r->command; w && *w; w++)
        json_str(j, NULL, *w);
    json_array_end(j);
    json_str(j, "started", r->started);
    json_str(j, "cpu", r->machine.cpu);
    member_passed(j, r);
    json_object_end(j);
}

static void put_json_object(struct json *j, const struct diff_object *x, struct arena *a)
{
    const struct prof_object *o = any_of(x);
    json_object(j, NULL);
    json_str(j, "in", !x->old ? "new" : !x->now ? "old" : "both");
    json_str(j, "matched_by", x->how);
    json_bool(j, "not_counted", x->is_refused);
    member_id(j, "old_id", x->old ? x->old->id : ID_NONE);
    member_id(j, "new_id", x->now ? x->now->id : ID_NONE);
    json_str(j, "kind", prof_kind_name[o->kind]);
    json_str(j, "module", o->module);
    json_str(j, "function", o->function);
    json_str(j, "function_plain", o->function ? name_plain(a, o->function) : NULL);
    json_str(j, "file", o->file);
    member_line(j, "line_first", o->line_first);
    member_line(j, "line_last", o->line_last);
    for (size_t i = 0; i < DIFF_FIELD_COUNT; i++)
        if (diff_field_about[i].offset)
            put_figure(j, diff_field_about[i].name,
                       (const struct diff_figure *)(const void *)((const char *)x + diff_field_about[i].offset));
    json_object_end(j);
}

static void put_json_data(struct json *j, const struct prof_diff *d)
{
    json_array(j, "data");
    for (size_t i = 0; i < d->data_count; i++) {
        const struct diff_data *x = &d->data[i];
        const struct prof_data *o = data_diff_any(x);
        json_object(j, NULL);
        json_str(j, "in", !x->old ? "new" : !x->now ? "old" : "both");
        member_id(j, "old_id", x->old ? (uint32_t)(x->old - d->old->data) : ID_NONE);
        member_id(j, "new_id", x->now ? (uint32_t)(x->now - d->now->data) : ID_NONE);
        json_str(j, "kind", prof_data_kind_name[o->kind]);
        json_str(j, "name", o->name);
        put_figure(j, "memory_s", &x->memory_s);
        put_figure(j, "misses", &x->misses);
        json_object_end(j);
    }
    json_array_end(j);
}

void report_diff_json(const struct prof_diff *d, const char *const paths[2], const struct diff_condition *conditions,
                      size_t count, struct strbuf *out)
{
    struct arena *a = arena_new();
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "schema", "mtool-diff-1");
    put_json_side(&j, "old", paths[0], d->old);
    put_json_side(&j, "new", paths[1], d->now);
    json_object(&j, "whole");
    for (size_t i = 0; i < (d->is_of_data ? DIFF_FIELD_COUNT : DIFF_TIMED_COUNT); i++)
        put_figure(&j, diff_field_about[i].name, &d->whole[i]);
    json_object_end(&j);
    json_array(&j, "fail_if");
    for (size_t i = 0; i < count; i++) {
        json_object(&j, NULL);
        json_str(&j, "condition", conditions[i].text);
        json_bool(&j, "holds", diff_holds(d, &conditions[i]));
        json_object_end(&j);
    }
    json_array_end(&j);
    json_array(&j, "objects");
    for (size_t i = 0; i < d->object_count; i++)
        put_json_object(&j, &d->objects[i], a);
    json_array_end(&j);
    if (d->is_of_data)
        put_json_data(&j, d);
    json_object_end(&j);
    arena_free(a);
}
