/* SPDX-License-Identifier: Apache-2.0
 * The histogram: one bar an object, ideal, branch and memory part side by side, those that lose most to memory first.
 * It is a table: who cannot see the bars reads the same figures beside them. */
#include "report/html/html.h"

#include <math.h>

#define SCALE 1000.0 /* units of a bar */

static void put_rect(struct html_page *p, const char *class, double from, double to, double max)
{
    double x = fmin(from / max, 1) * SCALE, end = fmin(to / max, 1) * SCALE;
    if (end > x)
        str_printf(p->out, "<rect class=\"%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"20\"/>", class, x, end - x);
}

/* Where the bar might end as well. */
static void put_whisker(struct html_page *p, double at, const struct prof_interval *memory, double max)
{
    double low = fmin(fmax(at + memory->low, 0) / max, 1) * SCALE,
           high = fmin(fmax(at + memory->high, 0) / max, 1) * SCALE;
    if (!isfinite(low) || !isfinite(high) || !(high > low))
        return;
    str_printf(p->out, "<path class=\"w\" d=\"M%.1f 10H%.1fM%.1f 5V15M%.1f 5V15\"/>", low, high, low, high);
}

static void put_label(struct html_page *p, double ideal, double branch, const struct prof_interval *memory)
{
    const char *m = tour_interval(&p->tour, memory);
    html_attribute(p, "aria-label",
                   arena_printf(p->a, "ideal %s s, branches %s s, memory %s", tour_seconds(&p->tour, ideal),
                                tour_seconds(&p->tour, branch), m ? m : "?"));
}

void html_bar(struct html_page *p, double ideal, double branch, const struct prof_interval *memory, double max)
{
    double i = tour_part(ideal), b = i + tour_part(branch), m = b + tour_part(memory->value);
    html_puts(p, "<svg class=\"bar\" viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\"");
    put_label(p, ideal, branch, memory);
    html_puts(p, ">");
    if (max > 0) {
        put_rect(p, "i", 0, i, max);
        put_rect(p, "b", i, b, max);
        put_rect(p, "m", b, m, max);
        put_whisker(p, b, memory, max);
    }
    html_puts(p, "</svg>");
}

void html_legend(struct html_page *p)
{
    html_puts(p, "<p class=\"legend\"><span class=\"key i\"></span>");
    html_term(p, "ideal", "ideal");
    html_puts(p, " <span class=\"key b\"></span>");
    html_term(p, "branch", "branches");
    html_puts(p, " <span class=\"key m\"></span>");
    html_term(p, "memory", "memory");
    html_puts(p, " <span class=\"key w\"></span>");
    html_term(p, "interval", "95 % interval");
    html_puts(p, "</p>\n");
}

static void put_figure(struct html_page *p, const char *class, const char *text)
{
    str_printf(p->out, "<td class=\"%s\">", class);
    html_text(p, text ? text : "?");
    html_puts(p, "</td>");
}

/* The figure, and its interval for who points at it. */
static void put_seconds(struct html_page *p, const struct prof_interval *s)
{
    const char *whole = tour_interval(&p->tour, s);
    html_puts(p, "<td class=\"n wide\"");
    if (whole)
        html_attribute(p, "title", whole);
    str_printf(p->out, ">%s</td>", tour_seconds(&p->tour, s->value));
}

static void put_overhead(struct html_page *p, const struct prof_object *o)
{
    struct prof_interval overhead = prof_interval_scaled(&o->memory_s, 1 / o->ideal_s.value);
    const char *whole = o->ideal_s.value > 0 ? tour_percent_interval(&p->tour, &overhead) : NULL;
    html_puts(p, "<td class=\"n wide\"");
    if (whole)
        html_attribute(p, "title", whole);
    str_printf(p->out, ">%s</td>", figure_percent(p->a, overhead_of(o)));
}

static void put_row(struct html_page *p, size_t row, double max)
{
    const struct prof_object *o = p->tour.rows.objects[row];
    str_printf(p->out, "<tr%s><td class=\"n wide\">%zu</td><th scope=\"row\"><a class=\"pick\" href=\"#o%zu\"",
               o->is_significant ? "" : " class=\"dim\"", row + 1, row);
    html_attribute(p, "title", o->is_significant ? "open it" : "not significant; open it");
    html_puts(p, ">");
    html_text(p, tour_name(&p->tour, o));
    str_printf(p->out, "</a><small>%s ", prof_kind_name[o->kind]);
    html_text(p, tour_place(&p->tour, o));
    html_puts(p, "</small></th><td class=\"barcell\">");
    html_bar(p, o->ideal_s.value, o->branch_s, &o->memory_s, max);
    html_puts(p, "</td>");
    put_figure(p, "n strong", tour_seconds(&p->tour, o->memory_s.value));
    put_figure(p, "n mid", figure_interval(p->a, &o->memory_s, p->tour.decimals));
    put_seconds(p, &o->actual_s);
    put_seconds(p, &o->ideal_s);
    put_figure(p, "n wide", tour_seconds(&p->tour, o->branch_s));
    put_overhead(p, o);
    put_figure(p, "n wide", figure_percent(p->a, o->memory_share));
    html_puts(p, "</tr>\n");
}

static void put_head(struct html_page *p)
{
    static const struct {
        const char *class, *id, *word;
    } columns[] = {{"n", "memory", "memory&#160;s"},      {"n mid", "interval", "95&#160;% interval"},
                   {"n wide", "actual", "actual&#160;s"}, {"n wide", "ideal", "ideal&#160;s"},
                   {"n wide", "branch", "branch&#160;s"}, {"n wide", "overhead", "overhead"},
                   {"n wide", "memory-op", "memory ops"}};
    html_puts(p, "<table class=\"bars\"><caption class=\"vh\">Loops and procedures, in order of their memory "
                 "overhead</caption>"
                 "<thead><tr><th scope=\"col\" class=\"n wide\">#</th><th scope=\"col\">loop or procedure</th>"
                 "<th scope=\"col\" class=\"barcell\">time</th>");
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        str_printf(p->out, "<th scope=\"col\" class=\"%s\">", columns[i].class);
        html_term(p, columns[i].id, columns[i].word);
        html_puts(p, "</th>");
    }
    html_puts(p, "</tr></thead>\n<tbody>\n");
}

static void put_others(struct html_page *p)
{
    size_t more = p->tour.rows.count - p->tour.shown, significant = 0;
    double memory = 0;
    for (size_t k = p->tour.shown; k < p->tour.rows.count; k++) {
        const struct prof_object *o = p->tour.rows.objects[k];
        significant += o->is_significant;
        memory += isfinite(o->memory_s.value) ? o->memory_s.value : 0;
    }
    if (more)
        str_printf(p->out,
                   "<p>%zu more with little or no memory overhead have no row: together %s s, %zu of them significant "
                   "(<code>mtool report --all</code> lists them).</p>\n",
                   more, tour_seconds(&p->tour, memory), significant);
}

void html_histogram(struct html_page *p)
{
    html_section(p, "histogram", "Histogram", "Where memory costs time");
    if (!p->tour.shown) {
        html_puts(p, "<p>No loop or procedure was timed: only counts are in this profile. <code>mtool run</code> takes "
                     "times too.</p></section>\n");
        return;
    }
    html_puts(p, "<p class=\"hint\">Choose a row to see its source. Each row is of the loop or procedure alone: inner "
                 "loops and called functions have rows "
                 "of their own. Faint rows are not significant. Arrow keys move from row to row.</p>\n");
    html_legend(p);
    put_head(p);
    double max = tour_longest(&p->tour);
    for (size_t row = 0; row < p->tour.shown; row++)
        put_row(p, row, max);
    html_puts(p, "</tbody></table>\n");
    put_others(p);
    html_puts(p, "</section>\n");
}
