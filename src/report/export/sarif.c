/* SPDX-License-Identifier: Apache-2.0
 * The worst objects as remarks at source lines: SARIF 2.1.0 for code scanners and editors, and the annotations of
 * GitHub's workflows. Only objects with a significant loss and a known line; paths below the folder `root` become
 * relative to it, since both tools look for files from the root of a repository. */
#include <math.h>

#include "report/export/export.h"

#define RULE "memory-bound"

/* The objects to tell of, in their order; *count of them. */
static const struct prof_object **worst(const struct prof_result *r, const struct export_options *o, struct arena *a,
                                        size_t *count)
{
    const struct report_options all = {.by = REPORT_BY_OBJECT};
    struct row_set rows;
    report_rows_build(r, &all, a, &rows);
    size_t n = 0, max = o->top ? o->top : 10;
    for (size_t i = 0; i < rows.count && n < max; i++)
        if (rows.objects[i]->file && rows.objects[i]->line_first && !isnan(rows.objects[i]->memory_s.value))
            rows.objects[n++] = rows.objects[i];
    *count = n;
    return rows.objects;
}

/* Below `root`: relative to it. */
static const char *from_root(const char *file, const char *root)
{
    size_t len = root ? strlen(root) : 0;
    while (len && root[len - 1] == '/')
        len--;
    bool is_below = root && root[0] == '/' && strncmp(file, root, len) == 0 && file[len] == '/' && file[len + 1];
    return is_below ? file + len + 1 : file;
}

static uint32_t last_line(const struct prof_object *o)
{
    return o->line_last > o->line_first ? o->line_last : o->line_first;
}

static const char *sentence(const struct prof_object *o, struct arena *a)
{
    const char *inner, *function = export_function(a, o->function, &inner);
    int decimals = figure_decimals(o->actual_s.value);
    const char *text =
        arena_printf(a, "%s %s: memory overhead %s s of %s s (95%% interval %s s; %s of the ideal time)",
                     o->kind == PROF_LOOP    ? "A loop of"
                     : o->kind == PROF_PIECE ? "A piece of"
                                             : "The procedure",
                     inner ? arena_printf(a, "%s (inlined in %s)", inner, function) : function,
                     figure_real(a, o->memory_s.value, decimals), figure_real(a, o->actual_s.value, decimals),
                     figure_interval(a, &o->memory_s, decimals), figure_percent(a, overhead_of(o)));
    if (!isfinite(o->extra_cycles_per_memory_op))
        return text;
    return arena_printf(a, "%s, %s cycles more for each memory operation than the first-level cache would take", text,
                        figure_real(a, o->extra_cycles_per_memory_op, 1));
}

/* ---- SARIF ---- */

/* RFC 3986: all but unreserved characters and the slash as %XX. */
static const char *uri_of(const char *file, struct arena *a)
{
    struct strbuf s = {0};
    str_puts(&s, file[0] == '/' ? "file://" : "");
    for (; *file; file++) {
        bool is_plain = (*file >= 'a' && *file <= 'z') || (*file >= 'A' && *file <= 'Z') ||
                        (*file >= '0' && *file <= '9') || strchr("-._~/", *file);
        if (is_plain)
            str_put(&s, file, 1);
        else
            str_printf(&s, "%%%02X", (uint8_t)*file);
    }
    const char *uri = arena_strndup(a, s.data ? s.data : "", s.len);
    str_free(&s);
    return uri;
}

static void put_text(struct json *j, const char *key, const char *text)
{
    json_object(j, key);
    json_str(j, "text", text);
    json_object_end(j);
}

static void put_tool(struct json *j)
{
    json_object(j, "tool");
    json_object(j, "driver");
    json_str(j, "name", "mtool");
    json_str(j, "version", MTOOL_VERSION);
    json_array(j, "rules");
    json_object(j, NULL);
    json_str(j, "id", RULE);
    put_text(j, "shortDescription", "Memory-bound code");
    put_text(j, "fullDescription",
             "The code takes longer than it would if every memory access hit the first-level cache; the difference is "
             "larger "
             "than the error of both figures.");
    json_object_end(j);
    json_array_end(j);
    json_object_end(j);
    json_object_end(j);
}

static void put_location(struct json *j, const struct prof_object *o, const char *root, struct arena *a)
{
    const char *file = from_root(o->file, root), *inner;
    json_array(j, "locations");
    json_object(j, NULL);
    json_object(j, "physicalLocation");
    json_object(j, "artifactLocation");
    json_str(j, "uri", uri_of(file, a));
    if (file[0] != '/')
        json_str(j, "uriBaseId", "%SRCROOT%");
    json_object_end(j);
    json_object(j, "region");
    json_u64(j, "startLine", o->line_first);
    json_u64(j, "endLine", last_line(o));
    json_object_end(j);
    json_object_end(j);
    json_array(j, "logicalLocations");
    json_object(j, NULL);
    json_str(j, "fullyQualifiedName", export_function(a, o->function, &inner));
    json_str(j, "kind", "function");
    json_object_end(j);
    json_array_end(j);
    json_object_end(j);
    json_array_end(j);
}

static void put_figures(struct json *j, const struct prof_object *o)
{
    json_object(j, "properties");
    json_real(j, "memory_s", o->memory_s.value);
    json_real(j, "memory_low_s", o->memory_s.low);
    json_real(j, "memory_high_s", o->memory_s.high);
    json_real(j, "actual_s", o->actual_s.value);
    json_real(j, "ideal_s", o->ideal_s.value);
    json_object_end(j);
}

void export_sarif(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    size_t count;
    const struct prof_object **list = worst(r, o, a, &count);
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    json_str(&j, "version", "2.1.0");
    json_array(&j, "runs");
    json_object(&j, NULL);
    put_tool(&j);
    json_array(&j, "results");
    for (size_t i = 0; i < count; i++) {
        json_object(&j, NULL);
        json_str(&j, "ruleId", RULE);
        json_u64(&j, "ruleIndex", 0);
        json_str(&j, "level", "warning");
        put_text(&j, "message", cell_safe(a, sentence(list[i], a)));
        put_location(&j, list[i], o->root, a);
        put_figures(&j, list[i]);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    json_array_end(&j);
    json_object_end(&j);
}

/* ---- GitHub ---- */

/* In values of properties ':' and ',' are taken too. */
static void put_escaped(struct strbuf *out, const char *text, bool is_property)
{
    for (; *text; text++) {
        if (strchr("%\r\n", *text) || (is_property && strchr(":,", *text)))
            str_printf(out, "%%%02X", (uint8_t)*text);
        else
            str_put(out, text, 1);
    }
}

void export_github(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    size_t count;
    const struct prof_object **list = worst(r, o, a, &count);
    for (size_t i = 0; i < count; i++) {
        str_puts(out, "::warning file=");
        put_escaped(out, cell_safe(a, from_root(list[i]->file, o->root)), true);
        str_printf(out, ",line=%u,endLine=%u,title=Memory overhead::", list[i]->line_first, last_line(list[i]));
        put_escaped(out, cell_safe(a, sentence(list[i], a)), false);
        str_puts(out, "\n");
    }
}
