/* SPDX-License-Identifier: Apache-2.0
 * A profile to one HTML page that needs nothing else: the paper's windows (section 5) as sections of it. All is there
 * without the script, which shows one bottleneck at a time and moves by arrow keys. The same profile, source and options
 * make the same page. */
#include <math.h>
#include <stdlib.h>

#include "report/html/html.h"
#include "report_html_text.h"

static int compare_lines(const void *x, const void *y)
{
    const struct prof_line *a = *(const struct prof_line *const *)x, *b = *(const struct prof_line *const *)y;
    int c = strcmp(a->file ? a->file : "", b->file ? b->file : "");
    return c ? c : (a->line > b->line) - (a->line < b->line);
}

static void sort_lines(struct html_page *p)
{
    const struct prof_result *r = p->r;
    p->lines = ARENA_ARRAY(p->a, const struct prof_line *, r->line_count + 1);
    for (size_t i = 0; i < r->line_count; i++) {
        p->lines[i] = &r->lines[i];
        p->samples += r->lines[i].samples == PROF_UNKNOWN ? 0 : r->lines[i].samples;
    }
    qsort(p->lines, r->line_count, sizeof *p->lines, compare_lines);
}

/* Those that lose time, or that at least took some; rows that only exist would hide them. */
static bool is_worth_a_row(const struct prof_result *r, const struct prof_object *o)
{
    const double share = 0.001;
    bool timed = isfinite(r->actual_user_s.value);
    return o->is_significant || (timed ? o->actual_s.value > share * r->actual_user_s.value && o->samples
                                       : o->ideal_s.value > share * r->predicted_user_s.value);
}

/* Both parts keep their order. */
static void part_rows(struct html_page *p)
{
    const struct prof_object **list = ARENA_ARRAY(p->a, const struct prof_object *, p->rows.count + 1);
    size_t count = 0;
    for (int worth = 1; worth >= 0; worth--) {
        for (size_t i = 0; i < p->rows.count; i++)
            if (is_worth_a_row(p->r, p->rows.objects[i]) == worth)
                list[count++] = p->rows.objects[i];
        p->shown = worth ? min_u64(count, HTML_OBJECTS) : p->shown;
    }
    p->rows.objects = list;
}

static void page_init(struct html_page *p)
{
    const struct prof_result *r = p->r;
    bool timed = isfinite(r->actual_user_s.value);
    const struct report_options all = {.all = true, .sort = timed ? REPORT_SORT_MEMORY : REPORT_SORT_IDEAL};
    report_rows_build(r, &all, p->a, &p->rows);
    part_rows(p);
    for (size_t row = 0; row < p->rows.count; row++)
        map_put(&p->row_of, p->rows.objects[row]->id, row);
    p->decimals = figure_decimals(fmax(r->actual_user_s.value, r->predicted_user_s.value));
    p->whole_memory_s = r->overhead.value * r->predicted_user_s.value;
    sort_lines(p);
}

/* Of a program whose time is spread thin, the largest object still shows two digits. */
static int object_decimals(const struct html_page *p)
{
    double most = 0;
    for (size_t row = 0; row < p->shown; row++)
        most = fmax(most, fmax(p->rows.objects[row]->actual_s.value, p->rows.objects[row]->ideal_s.value));
    return most > 0 && most < 0.01 ? 5 : most > 0 && most < 0.1 ? 4 : figure_decimals(most);
}

static const char *title(struct html_page *p)
{
    const char *program = p->r->program ? p->r->program : p->r->command && p->r->command[0] ? p->r->command[0] : "?";
    return arena_printf(p->a, "%s: where memory costs time", file_base_name(program));
}

static void put_head(struct html_page *p)
{
    html_puts(p, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                 "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
                 "<meta name=\"referrer\" content=\"no-referrer\"/>\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
                 "<title>");
    html_text(p, title(p));
    html_puts(p, "</title>\n<style>\n" HTML_CSS "</style>\n"
                 "<script>document.documentElement.classList.add('js');</script></head>\n<body>\n"
                 "<a class=\"skip\" href=\"#histogram\">to the bottlenecks</a>\n<header><h1>");
    html_text(p, title(p));
    html_puts(p, "</h1>\n<nav aria-label=\"sections\"><a href=\"#overview\">Overview</a> <a href=\"#histogram\">Histogram</a> "
                 "<a href=\"#source\">Source</a> <a href=\"#tree\">Loop tree</a> <a href=\"#warnings\">Warnings</a> "
                 "<a href=\"#refused\">Not counted</a> <a href=\"#modules\">Modules</a> <a href=\"#glossary\">Glossary</a></nav></header>\n<main>\n");
}

static void put_foot(struct html_page *p)
{
    html_puts(p, "</main>\n<footer><p>Written by mtool ");
    html_text(p, p->r->mtool_version);
    html_puts(p, ". This file needs no network and no other file.</p></footer>\n<p class=\"vh\" role=\"status\" id=\"said\"></p>\n<script>/*<![CDATA[*/\n" HTML_JS
                 "/*]]>*/</script>\n</body></html>\n");
}

void report_html(const struct prof_result *r, const struct report_html_options *o, struct strbuf *out)
{
    struct html_page p = {.r = r, .o = o, .out = out, .a = arena_new()};
    page_init(&p);
    put_head(&p);
    html_overview(&p);
    p.decimals = object_decimals(&p);
    html_histogram(&p);
    html_details(&p);
    html_tree(&p);
    html_rest(&p);
    put_foot(&p);
    html_source_fini(&p);
    map_fini(&p.row_of);
    arena_free(p.a);
}
