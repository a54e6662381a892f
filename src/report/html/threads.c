/* SPDX-License-Identifier: Apache-2.0
 * What each thread did with its time, a bar each, what threads execute together and where they waited for each other.
 * Left out of the page of a program that has one thread. */
#include <math.h>

#include "report/html/html.h"

enum { THREADS_MAX = 100, REGIONS_MAX = 50, WAITS_MAX = 50 };

struct part {
    const char *class, *word;
    double s;
};
enum { PARTS = 5 };

static void parts_of(const struct prof_thread *t, struct part out[PARTS])
{
    const struct part parts[PARTS] = {
        {"i", "computed", t->compute_s},
        {"m", "memory", t->memory_s},
        {"b", "uncounted and kernel", prof_sum(t->uncounted_s, t->system_s)},
        {"s", "waited for threads", prof_sum(t->spin_s, t->blocked_s)},
        {"r", "asleep, or without a processor", prof_sum(t->asleep_s, t->ready_s)},
    };
    memcpy(out, parts, sizeof parts);
}

static void put_bar(struct html_page *p, const struct part parts[PARTS], double max)
{
    const double scale = 1000;
    double at = 0;
    struct strbuf label = {0};
    for (unsigned i = 0; i < PARTS; i++)
        str_printf(&label, "%s%s %s s", i ? ", " : "", parts[i].word, tour_seconds(&p->tour, parts[i].s));
    html_puts(p, "<svg class=\"bar\" viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\"");
    html_attribute(p, "aria-label", label.data);
    html_puts(p, ">");
    for (unsigned i = 0; i < PARTS && max > 0; i++) {
        double width = scale * tour_part(parts[i].s) / max;
        if (width > 0)
            str_printf(p->out, "<rect class=\"%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"20\"/>", parts[i].class,
                       at, width);
        at += width;
    }
    html_puts(p, "</svg>");
    str_free(&label);
}

static void put_legend(struct html_page *p)
{
    static const struct prof_thread none;
    struct part parts[PARTS];
    parts_of(&none, parts);
    html_puts(p, "<p class=\"legend\">");
    for (unsigned i = 0; i < PARTS; i++)
        str_printf(p->out, "<span class=\"key %s\"></span>%s ", parts[i].class, parts[i].word);
    html_puts(p, "</p>\n");
}

static void put_thread(struct html_page *p, size_t i, double max)
{
    const struct prof_thread *t = &p->r->thread[i];
    struct part parts[PARTS];
    parts_of(t, parts);
    str_printf(p->out, "<tr><th scope=\"row\" class=\"n\">%zu</th>", i);
    if (p->r->rank_row_count)
        html_cell(p, "n", t->rank == ID_NONE ? "" : arena_printf(p->a, "%u", t->rank));
    html_puts(p, "<td class=\"barcell\">");
    put_bar(p, parts, max);
    html_puts(p, "</td>");
    html_cell(p, "n strong", tour_seconds(&p->tour, t->wall_s));
    for (unsigned k = 0; k < PARTS; k++)
        html_cell(p, "n wide", tour_seconds(&p->tour, parts[k].s));
    html_puts(p, "</tr>\n");
}

static void put_table(struct html_page *p)
{
    struct part parts[PARTS];
    double max = 0;
    parts_of(&p->r->thread[0], parts);
    for (size_t i = 0; i < p->r->thread_count; i++)
        max = fmax(max, p->r->thread[i].wall_s);
    p->tour.decimals = figure_decimals(max);
    put_legend(p);
    str_printf(p->out,
               "<table class=\"bars\"><caption class=\"vh\">Threads in order of their beginnings</caption><thead><tr>"
               "<th scope=\"col\" class=\"n\">thread</th>%s<th scope=\"col\" class=\"barcell\">time</th>"
               "<th scope=\"col\" class=\"n\">lived&#160;s</th>",
               p->r->rank_row_count ? "<th scope=\"col\" class=\"n\">rank</th>" : "");
    for (unsigned k = 0; k < PARTS; k++)
        str_printf(p->out, "<th scope=\"col\" class=\"n wide\">%s&#160;s</th>", parts[k].word);
    html_puts(p, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < p->r->thread_count && i < THREADS_MAX; i++)
        put_thread(p, i, max);
    html_puts(p, "</tbody></table>\n");
    html_more(p, p->r->thread_count, THREADS_MAX, "--by thread --all");
}

static void put_region(struct html_page *p, const struct prof_region *x)
{
    const double seconds[] = {x->wait_s, x->work_s, x->mean_s, x->max_s};
    const struct prof_object as = {.function = x->function};
    html_puts(p, "<tr>");
    for (size_t i = 0; i < ARRAY_LEN(seconds); i++)
        html_cell(p, i ? "n" : "n strong", tour_seconds(&p->tour, seconds[i]));
    html_cell(p, "n", x->threads > 1 ? figure_real(p->a, x->imbalance, 2) : "");
    html_cell(p, "n", arena_printf(p->a, "%u", x->thread_most));
    html_cell(p, "",
              x->function ? arena_printf(p->a, "%s %s", tour_name(&p->tour, &as), place_of_region(x, p->a))
                          : "(outside of all)");
    html_puts(p, "</tr>\n");
}

static void put_regions(struct html_page *p)
{
    static const struct html_column columns[] = {{"n", "waited&#160;s"}, {"n", "work&#160;s"}, {"n", "mean&#160;s"},
                                                 {"n", "most&#160;s"},   {"n", "most/mean"},   {"n", "most: thread"},
                                                 {"", "region"}};
    if (!p->r->region_count)
        return;
    html_puts(p, "<h3>Parallel regions, and how long threads waited for each other there</h3>\n");
    html_table(p, "table of parallel regions", columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < p->r->region_count && i < REGIONS_MAX; i++)
        put_region(p, &p->r->regions[i]);
    html_table_end(p);
    html_more(p, p->r->region_count, REGIONS_MAX, "--by thread --all");
}

static void put_wait(struct html_page *p, const struct prof_wait *w)
{
    const struct prof_object *by = tour_object(&p->tour, w->object), in = {.function = w->into};
    html_puts(p, "<tr>");
    html_cell(p, "n strong", tour_seconds(&p->tour, w->spin_s + w->blocked_s));
    html_cell(p, "n", arena_printf(p->a, "%u", w->thread));
    html_cell(p, "", w->into ? tour_name(&p->tour, &in) : "its own loop");
    html_cell(p, "", by ? arena_printf(p->a, "%s %s", tour_name(&p->tour, by), tour_place(&p->tour, by)) : "");
    html_puts(p, "</tr>\n");
}

static void put_waits(struct html_page *p)
{
    static const struct html_column columns[] = {
        {"n", "waited&#160;s"}, {"n", "thread"}, {"", "in"}, {"", "called by"}};
    if (!p->r->wait_count)
        return;
    html_puts(p, "<h3>Waits for other threads</h3>\n");
    html_table(p, "table of waits", columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < p->r->wait_count && i < WAITS_MAX; i++)
        put_wait(p, &p->r->waits[i]);
    html_table_end(p);
    html_more(p, p->r->wait_count, WAITS_MAX, "--by thread --all");
}

void html_threads(struct html_page *p)
{
    if (p->r->thread_count < 2)
        return;
    html_section(p, "threads", "Threads", "Threads");
    html_puts(p, "<p class=\"hint\">From the sampled run; the parts of each add up to the time that it lived.</p>\n");
    put_table(p);
    put_regions(p);
    put_waits(p);
    html_puts(p, "</section>\n");
}
