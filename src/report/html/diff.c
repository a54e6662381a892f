/* SPDX-License-Identifier: Apache-2.0
 * The difference of two profiles as a page like that of one: the whole, a row for each object with a bar for both
 * sides, and the source of those that changed by more than noise. */
#include <math.h>

#include "report/data.h"
#include "report/html/html.h"

enum { ROWS_MAX = 200, UNCHANGED_ROWS_MAX = 20, SECTIONS_MAX = 60 };

struct diff_page {
    const struct prof_diff *d;
    struct html_page now, old; /* they write to one text */
    size_t rows, sections;     /* shown; sections: of what changed by more than noise, but one at least */
    double max;                /* seconds of the longest bar */
};

static const struct prof_object *any_of(const struct diff_object *x) { return x->now ? x->now : x->old; }

/* No "+0.000". */
static const char *with_sign(struct html_page *p, double x, const char *text)
{
    return isfinite(x) && x > 0 && strspn(text, "0.") < strlen(text) ? arena_printf(p->a, "+%s", text) : text;
}

static const char *signed_seconds(struct html_page *p, double s) { return with_sign(p, s, tour_seconds(&p->tour, s)); }

/* ---- the whole ---- */

static void put_side(struct html_page *p, const char *what, const char *path)
{
    const char *command = tour_command(&p->tour);
    html_fact(p, NULL, what, arena_printf(p->a, "%s: %s", path, command ? command : "?"));
    html_fact(p, NULL, "run",
              arena_printf(p->a, "%s on %s", p->r->started ? p->r->started : "?",
                           p->r->machine.cpu ? p->r->machine.cpu : "?"));
}

static void put_whole_row(struct html_page *p, const struct diff_figure *f, unsigned field)
{
    double unit = field == DIFF_OVERHEAD ? 100 : 1;
    int decimals = field == DIFF_OVERHEAD ? 1 : p->tour.decimals;
    struct prof_interval change = prof_interval_scaled(&f->change, unit);
    html_puts(p, "<tr><th scope=\"row\">");
    html_term(p, diff_field_about[field].term, diff_field_about[field].word);
    str_printf(p->out, "</th><td class=\"n\">%s</td><td class=\"n\">%s</td>",
               figure_real(p->a, f->old.value * unit, decimals), figure_real(p->a, f->now.value * unit, decimals));
    html_cell(p, "n strong", with_sign(p, change.value, figure_real(p->a, change.value, decimals)));
    html_cell(p, "n", figure_interval(p->a, &change, decimals));
    html_cell(p, "", diff_verdict(f));
    html_puts(p, "</tr>\n");
}

static void put_conditions(struct diff_page *x, const struct diff_condition *conditions, size_t count)
{
    struct html_page *p = &x->now;
    html_puts(p, count ? "<ul class=\"coverage\">\n" : "");
    for (size_t i = 0; i < count; i++) {
        html_puts(p, "<li><code>--fail-if ");
        html_text(p, conditions[i].text);
        html_puts(p, diff_holds(x->d, &conditions[i]) ? "</code>: <b>failed</b></li>\n" : "</code>: passed</li>\n");
    }
    html_puts(p, count ? "</ul>\n" : "");
}

static void put_overview(struct diff_page *x, const struct report_diff_html_options *o)
{
    struct html_page *p = &x->now;
    html_section(p, "overview", "Overview", "Overview");
    html_puts(p, "<div class=\"facts\"><dl>");
    put_side(&x->old, "old", o->paths[0]);
    put_side(&x->now, "new", o->paths[1]);
    html_puts(p, "</dl></div>\n<table class=\"times\"><caption class=\"vh\">The whole program, old and "
                 "new</caption><thead><tr><td></td>"
                 "<th scope=\"col\" class=\"n\">old</th><th scope=\"col\" class=\"n\">new</th><th scope=\"col\" "
                 "class=\"n\">change</th>"
                 "<th scope=\"col\" class=\"n\">");
    html_term(p, "interval", "95&#160;% interval");
    html_puts(p, "</th><td></td></tr></thead><tbody>\n");
    for (unsigned i = 0; i < DIFF_TIMED_COUNT; i++)
        put_whole_row(p, &x->d->whole[i], i);
    html_puts(p, "</tbody></table>\n");
    put_conditions(x, o->conditions, o->condition_count);
    html_puts(p, "</section>\n");
}

/* ---- rows ---- */

static double length_of(const struct prof_object *o)
{
    return o ? tour_part(o->ideal_s.value) + tour_part(o->branch_s) + tour_part(o->memory_s.value) : 0;
}

/* A place that is empty says why it is. */
static void put_bar(struct diff_page *x, const struct prof_object *o, bool is_refused)
{
    struct html_page *p = &x->now;
    if (o)
        html_bar(p, o->ideal_s.value, o->branch_s, &o->memory_s, x->max);
    else
        html_puts(p, is_refused ? "<small>not counted</small>" : "<small>not there</small>");
}

static void put_row(struct diff_page *x, size_t row)
{
    const struct diff_object *c = &x->d->objects[row];
    struct html_page *p = &x->now;
    const struct prof_object *o = any_of(c);
    bool has_section = row < x->sections;
    str_printf(p->out, "<tr%s><th scope=\"row\">",
               diff_is_change(&c->memory_s) || diff_is_change(&c->actual_s) ? "" : " class=\"dim\"");
    if (has_section)
        str_printf(p->out, "<a class=\"pick\" href=\"#o%zu\">", row);
    html_text(p, tour_name(&p->tour, o));
    str_printf(p->out, "%s<small>%s ", has_section ? "</a>" : "", prof_kind_name[o->kind]);
    html_text(p, tour_place(&p->tour, o));
    html_puts(p, "</small></th><td class=\"barcell pair\">");
    put_bar(x, c->old, c->is_refused);
    put_bar(x, c->now, c->is_refused);
    html_puts(p, "</td>");
    html_cell(p, "n wide", c->old ? tour_seconds(&p->tour, c->memory_s.old.value) : "-");
    html_cell(p, "n wide", c->now ? tour_seconds(&p->tour, c->memory_s.now.value) : "-");
    html_cell(p, "n strong", signed_seconds(p, c->memory_s.change.value));
    html_cell(p, "n mid", figure_interval(p->a, &c->memory_s.change, p->tour.decimals));
    html_cell(p, "n wide", signed_seconds(p, c->actual_s.change.value));
    html_cell(p, "", diff_verdict(&c->memory_s));
    html_puts(p, "</tr>\n");
}

static void put_rows(struct diff_page *x)
{
    struct html_page *p = &x->now;
    html_section(p, "histogram", "What changed", "What changed");
    if (!x->rows) {
        html_puts(p, "<p>Neither profile holds a loop or procedure.</p></section>\n");
        return;
    }
    html_puts(p, "<p class=\"hint\">The upper bar is the old side, the lower the new one. Faint rows changed by no "
                 "more than noise.</p>\n");
    html_legend(p);
    html_puts(p, "<table class=\"bars\"><caption class=\"vh\">Loops and procedures, those that changed most "
                 "first</caption><thead><tr>"
                 "<th scope=\"col\">loop or procedure</th><th scope=\"col\" class=\"barcell\">time, old and new</th>"
                 "<th scope=\"col\" class=\"n wide\">memory&#160;s old</th><th scope=\"col\" class=\"n wide\">new</th>"
                 "<th scope=\"col\" class=\"n\">change</th><th scope=\"col\" class=\"n mid\">95&#160;% interval</th>"
                 "<th scope=\"col\" class=\"n wide\">actual&#160;s change</th><th scope=\"col\">memory "
                 "is</th></tr></thead>\n<tbody>\n");
    for (size_t row = 0; row < x->rows; row++)
        put_row(x, row);
    html_puts(p, "</tbody></table>\n");
    if (x->rows < x->d->object_count)
        str_printf(p->out, "<p>%zu more changed by little or nothing (<code>mtool diff --all</code> lists them).</p>\n",
                   x->d->object_count - x->rows);
    html_puts(p, "</section>\n");
}

/* ---- sections ---- */

static void put_info(struct html_page *p, const struct prof_object *o, const char *side)
{
    struct facts f;
    if (!o)
        return;
    facts_info(&p->tour, o, &f);
    str_printf(p->out, "<h4>%s</h4><dl>\n", side);
    html_facts(p, &f);
}

static void put_section(struct diff_page *x, size_t row)
{
    const struct diff_object *c = &x->d->objects[row];
    struct html_page *p = &x->now, *side = c->now ? &x->now : &x->old;
    const struct prof_object *o = any_of(c);
    str_printf(p->out, "<article class=\"obj\" id=\"o%zu\" aria-labelledby=\"t%zu\">\n", row, row);
    html_steps(p, row, x->sections);
    str_printf(p->out, "<h3 id=\"t%zu\" tabindex=\"-1\">", row);
    html_text(p, tour_name(&p->tour, o));
    str_printf(p->out, " <small>%s ", prof_kind_name[o->kind]);
    html_text(p, tour_place(&p->tour, o));
    html_puts(p, "</small></h3>\n<dl class=\"top\">\n");
    html_fact(p, "memory", "memory, old", c->old ? tour_interval(&p->tour, &c->memory_s.old) : "not there");
    html_fact(p, "memory", "memory, new", c->now ? tour_interval(&p->tour, &c->memory_s.now) : "not there");
    html_fact(p, NULL, "change", tour_interval(&p->tour, &c->memory_s.change));
    html_fact(p, "actual", "change of the actual time", tour_interval(&p->tour, &c->actual_s.change));
    html_puts(p, "</dl>\n<details class=\"info\"><summary class=\"button\">INFO</summary>\n");
    put_info(&x->old, c->old, "Old");
    put_info(&x->now, c->now, "New");
    html_puts(p, "</details>\n");
    html_listing(side, o, row, !html_source(side, o, row));
    html_puts(p, "</article>\n");
}

static void put_sections(struct diff_page *x)
{
    html_section(&x->now, "source", "Source", "Source");
    for (size_t row = 0; row < x->sections; row++)
        put_section(x, row);
    html_puts(&x->now, x->sections ? "</section>\n" : "<p>Nothing was timed.</p></section>\n");
}

/* ---- what mtool spy found ---- */

enum { DATA_ROWS_MAX = 60 };

static void put_misses(struct html_page *p, const struct diff_figure *f)
{
    html_cell(p, "n", data_misses_text(f->old.value, p->a));
    html_cell(p, "n", data_misses_text(f->now.value, p->a));
    html_cell(p, "n strong", data_change_text(f, p->a));
}

static void put_data(struct diff_page *x)
{
    static const struct html_column columns[] = {
        {"", "data object"}, {"n", "misses, old"}, {"n", "new"}, {"n", "change"}, {"n", "change of memory&#160;s"}};
    struct html_page *p = &x->now;
    if (!x->d->is_of_data)
        return;
    html_section(p, "data", "Data objects", "Data objects");
    html_table(p, "table of data objects", columns, ARRAY_LEN(columns));
    html_puts(p, "<tr><td>the whole program</td>");
    put_misses(p, &x->d->whole[DIFF_MISSES]);
    html_puts(p, "<td></td></tr>\n");
    for (size_t i = 0; i < x->d->data_count && i < DATA_ROWS_MAX; i++) {
        const struct diff_data *y = &x->d->data[i];
        const char *s = tour_interval(&p->tour, &y->memory_s.change);
        html_puts(p, y->is_worth ? "<tr>" : "<tr class=\"dim\">");
        html_cell(p, "", data_diff_name(x->d, y, p->a));
        put_misses(p, &y->misses);
        html_cell(p, "n", s ? s : "");
        html_puts(p, "</tr>\n");
    }
    html_table_end(p);
    html_puts(p, "</section>\n");
}

/* ---- the page ---- */

static void init(struct html_page *p, const struct prof_result *r, const struct report_html_options *o,
                 struct strbuf *out, struct arena *a)
{
    *p = (struct html_page){.r = r, .o = o, .out = out, .a = a};
    tour_init(&p->tour, r, o->source_path, a);
    tour_sort(&p->tour, REPORT_SORT_MEMORY, 0);
}

static void measure(struct diff_page *x)
{
    size_t changed = 0;
    for (size_t i = 0; i < x->d->object_count; i++) {
        const struct diff_object *c = &x->d->objects[i];
        changed += diff_is_change(&c->memory_s) || diff_is_change(&c->actual_s);
        x->max = fmax(x->max, fmax(length_of(c->old), length_of(c->now)));
    }
    x->rows = min_u64(x->d->object_count, min_u64(changed + UNCHANGED_ROWS_MAX, ROWS_MAX));
    x->sections = min_u64(changed ? changed : x->rows ? 1 : 0, SECTIONS_MAX);
    x->now.tour.decimals = x->old.tour.decimals = figure_decimals(x->max);
}

static const char *title(struct html_page *p)
{
    const char *program = p->r->program ? p->r->program : "?";
    return arena_printf(p->a, "%s: what changed", file_base_name(program));
}

void report_diff_html(const struct prof_diff *d, const struct report_diff_html_options *o, struct strbuf *out)
{
    struct diff_page x = {.d = d};
    struct arena *a = arena_new();
    const struct report_html_options page = {.source_path = o->source_path};
    struct strbuf sections = {0};
    init(&x.old, d->old, &page, &sections, a);
    init(&x.now, d->now, &page, &sections, a);
    measure(&x);
    put_overview(&x, o);
    put_rows(&x);
    put_sections(&x);
    put_data(&x);
    html_glossary(&x.now);
    html_put_page(&x.now, title(&x.now), banner_sentence(diff_doubtful(d), a), out);
    tour_fini(&x.old.tour);
    tour_fini(&x.now.tour);
    arena_free(a);
}
