/* SPDX-License-Identifier: Apache-2.0
 * The paper's text view, one section a bottleneck: its figures on top, PREV and NEXT by size, INFO, its source. The
 * script shows one of them at a time; without it they follow each other. */
#include <math.h>

#include "report/html/html.h"

void html_steps(struct html_page *p, size_t row, size_t count)
{
    html_puts(p, "<nav class=\"steps\" aria-label=\"by size\">");
    if (row)
        str_printf(p->out, "<a class=\"button\" rel=\"prev\" href=\"#o%zu\">PREV</a>", row - 1);
    else
        html_puts(p, "<span class=\"button off\">PREV</span>");
    str_printf(p->out, " <span class=\"at\">%zu of %zu</span> ", row + 1, count);
    if (row + 1 < count)
        str_printf(p->out, "<a class=\"button\" rel=\"next\" href=\"#o%zu\">NEXT</a>", row + 1);
    else
        html_puts(p, "<span class=\"button off\">NEXT</span>");
    html_puts(p, " <a href=\"#histogram\">histogram</a></nav>\n");
}

static void put_title(struct html_page *p, size_t row)
{
    const struct prof_object *o = p->tour.rows.objects[row];
    str_printf(p->out, "<h3 id=\"t%zu\" tabindex=\"-1\">", row);
    html_text(p, tour_name(&p->tour, o));
    str_printf(p->out, " <small>%s ", prof_kind_name[o->kind]);
    html_text(p, tour_place(&p->tour, o));
    html_puts(p, "</small></h3>\n");
}

void html_facts(struct html_page *p, const struct facts *f)
{
    for (size_t i = 0; i < f->count; i++)
        html_fact(p, f->list[i].term, f->list[i].word, f->list[i].text);
    html_puts(p, "</dl>\n");
}

static void put_top(struct html_page *p, const struct prof_object *o)
{
    struct facts f;
    facts_top(&p->tour, o, &f);
    html_puts(p, "<dl class=\"top\">\n");
    html_facts(p, &f);
    if (!o->is_significant)
        html_puts(
            p,
            "<p class=\"note\">The interval reaches down to zero or there are few samples: the memory overhead is not "
            "significant.</p>\n");
}

/* ---- INFO ---- */

static void put_info_facts(struct html_page *p, const struct prof_object *o)
{
    struct facts f;
    facts_info(&p->tour, o, &f);
    html_puts(p, "<dl>\n");
    html_facts(p, &f);
}

static void put_object_link(struct html_page *p, size_t row)
{
    const struct prof_object *o = p->tour.rows.objects[row];
    if (row < p->tour.shown)
        str_printf(p->out, "<a href=\"#o%zu\">", row);
    html_text(p, tour_name(&p->tour, o));
    html_puts(p, " ");
    html_text(p, tour_place(&p->tour, o));
    html_puts(p, row < p->tour.shown ? "</a>" : "");
}

static void put_part(struct html_page *p, const struct facts_part *x)
{
    const char *s = tour_interval(&p->tour, &x->memory_s);
    html_puts(p, "<tr><th scope=\"row\">");
    x->object ? put_object_link(p, x->row) : html_puts(p, "itself");
    str_printf(p->out, "</th><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
               figure_count(p->a, x->memory_ops), figure_percent(p->a, x->share), s ? s : "?");
}

static void put_parts(struct html_page *p, size_t row)
{
    const struct facts_part *parts;
    size_t count = facts_of_parts(&p->tour, p->tour.rows.objects[row], &parts);
    if (!count)
        return;
    html_puts(p, "<table class=\"parts\"><caption>Memory operations in it and in the loops inside of "
                 "it</caption><thead><tr><td></td>"
                 "<th scope=\"col\" class=\"n\">memory ops</th><th scope=\"col\" class=\"n\">share</th><th "
                 "scope=\"col\" class=\"n\">memory overhead</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < count; i++)
        put_part(p, &parts[i]);
    html_puts(p, "</tbody></table>\n");
}

static void put_call(struct html_page *p, const struct prof_call *c)
{
    const struct prof_object as = {.function = c->function};
    html_puts(p, "<tr><th scope=\"row\">");
    html_text(p, tour_name(&p->tour, &as));
    html_puts(p, " <small>");
    html_text(p, c->module ? file_base_name(c->module) : "?");
    str_printf(p->out, "</small></th><td class=\"n\">%s%s</td><td class=\"n\">%s</td></tr>\n",
               c->is_estimated ? "~" : "", figure_count(p->a, c->calls), figure_count(p->a, c->memory_ops));
}

static void put_calls(struct html_page *p, size_t row)
{
    const struct prof_call *calls;
    size_t count = facts_of_calls(&p->tour, p->tour.rows.objects[row], &calls);
    if (!count)
        return;
    html_puts(p, "<table class=\"parts\"><caption>What it calls, and the memory operations there (of each function "
                 "with its loops, shared out among its callers as its calls are; "
                 "calls through pointers only where windows saw where they lead: ~)</caption><thead><tr><td></td><th "
                 "scope=\"col\" class=\"n\">calls</th>"
                 "<th scope=\"col\" class=\"n\">memory ops</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < count; i++)
        put_call(p, &calls[i]);
    html_puts(p, "</tbody></table>\n");
}

static void put_parent(struct html_page *p, const struct prof_object *o)
{
    uint64_t row;
    if (o->parent == ID_NONE || !map_get(&p->tour.row_of, o->parent, &row) || p->tour.rows.objects[row] == o)
        return;
    html_puts(p, "<p>Inside of ");
    put_object_link(p, row);
    html_puts(p, "</p>\n");
}

static void put_info(struct html_page *p, size_t row)
{
    const struct prof_object *o = p->tour.rows.objects[row];
    html_puts(p, "<details class=\"info\"><summary class=\"button\">INFO</summary>\n");
    put_info_facts(p, o);
    put_parent(p, o);
    put_parts(p, row);
    put_calls(p, row);
    html_puts(p, "</details>\n");
}

void html_details(struct html_page *p)
{
    html_section(p, "source", "Source", "Source");
    if (!p->tour.shown)
        html_puts(p, "<p>Nothing was timed.</p>\n");
    for (size_t row = 0; row < p->tour.shown; row++) {
        str_printf(p->out, "<article class=\"obj\" id=\"o%zu\" aria-labelledby=\"t%zu\">\n", row, row);
        html_steps(p, row, p->tour.shown);
        put_title(p, row);
        put_top(p, p->tour.rows.objects[row]);
        put_info(p, row);
        html_listing(p, p->tour.rows.objects[row], row, !html_source(p, p->tour.rows.objects[row], row));
        html_puts(p, "</article>\n");
    }
    html_puts(p, "</section>\n");
}
