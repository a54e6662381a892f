/* SPDX-License-Identifier: Apache-2.0
 * The source around an object, read when the page is written: its procedure if that is short, else some lines around
 * it; lines of its own are marked, those of objects inside of it less so, each with what was counted and sampled there.
 * Where the file is not found the page says where it was looked for. */
#include "report/html/html.h"

#include <math.h>

static void put_count(struct html_page *p, const char *class, uint64_t n)
{
    str_printf(p->out, "<td class=\"%s\">%s</td>", class, n == PROF_UNKNOWN || !n ? "" : figure_count(p->a, n));
}

void html_heat(struct html_page *p, uint64_t samples, uint64_t all)
{
    if (samples == PROF_UNKNOWN || !samples || !all || all == PROF_UNKNOWN) {
        html_puts(p, "<td class=\"n\"></td>");
        return;
    }
    double share = (double)samples / (double)all;
    str_printf(p->out, "<td class=\"n heat\" style=\"--h:%.0f%%\" title=\"%s of %s samples\">%s</td>", 100 * share,
               figure_count(p->a, samples), figure_count(p->a, all), figure_percent(p->a, share));
}

/* The line's part of the time: by samples, or on a described machine. */
static void put_share(struct html_page *p, const struct prof_line *l)
{
    double share = tour_line_share(&p->tour, l);
    if (!(p->tour.lines_s > 0) || !(share > 0)) {
        html_heat(p, l ? l->samples : 0, p->tour.samples);
        return;
    }
    str_printf(p->out, "<td class=\"n heat\" style=\"--h:%.0f%%\" title=\"%s s\">%s</td>", 100 * fmin(share, 1),
               tour_seconds(&p->tour, l->actual_s), figure_percent(p->a, share));
}

/* The line's part of the stall, and whose it is; no cell without anything of that kind. */
static void put_stall(struct html_page *p, const char *file, uint32_t line)
{
    const char *objects;
    if (!tour_has_stalls(&p->tour))
        return;
    double share = tour_stall(&p->tour, file, line, &objects);
    if (!(share > 0)) {
        html_puts(p, "<td class=\"n\"></td>");
        return;
    }
    str_printf(p->out, "<td class=\"n heat\" style=\"--h:%.0f%%\"", 100 * fmin(share, 1));
    if (objects)
        html_attribute(p, "title", objects);
    str_printf(p->out, ">%s</td>", figure_percent(p->a, share));
}

static void put_stall_head(struct html_page *p)
{
    if (!tour_has_stalls(&p->tour))
        return;
    html_puts(p, "<th scope=\"col\" class=\"n\">");
    html_term(p, "stall", "stall");
    html_puts(p, "</th>");
}

/* ---- lines ---- */

/* Not longer than fits. */
static const char *line_text(struct html_page *p, const struct source *s, uint32_t line)
{
    struct strbuf cut = {0};
    str_puts(&cut, "");
    cell_put_short(&cut, source_line(p->a, s, line), HTML_COLUMNS);
    const char *out = arena_strdup(p->a, cut.data);
    str_free(&cut);
    return out;
}

static void put_line(struct html_page *p, const struct excerpt *x, uint32_t line)
{
    static const char *const row[] = {
        [EXCERPT_OUTSIDE] = "<tr>", [EXCERPT_INNER] = "<tr class=\"in\">", [EXCERPT_OWN] = "<tr class=\"own\">"};
    const struct prof_line *l = tour_line(&p->tour, x->object->file, line);
    enum excerpt_line b = excerpt_belongs(x, line);
    html_puts(p, row[b]);
    str_printf(p->out, "<th scope=\"row\">%u</th>", line);
    put_share(p, l);
    put_count(p, "n wide", l ? l->instructions : 0);
    put_count(p, "n wide", l ? l->memory_ops : 0);
    put_stall(p, x->object->file, line);
    html_puts(p, b == EXCERPT_OUTSIDE ? "<td><code>" : "<td><mark><code>");
    html_text(p, line_text(p, x->source, line));
    html_puts(p, b == EXCERPT_OUTSIDE ? "</code></td></tr>\n" : "</code></mark></td></tr>\n");
}

static void put_missing(struct html_page *p, const struct excerpt *x)
{
    html_puts(p, "<p class=\"nosource\">");
    html_text(p, excerpt_problem(&p->tour, x));
    html_puts(p, "</p>\n");
}

static void put_lines(struct html_page *p, size_t row, const struct excerpt *x)
{
    const char *problem = excerpt_problem(&p->tour, x);
    if (problem)
        str_printf(p->out, "<p class=\"note\">%s</p>", problem);
    str_printf(
        p->out,
        "<div class=\"src\" tabindex=\"0\" role=\"region\" aria-labelledby=\"c%zu\"><table><caption id=\"c%zu\">", row,
        row);
    html_text(p, x->source->path);
    str_printf(p->out, "</caption><thead><tr><th scope=\"col\">line</th><th scope=\"col\" class=\"n\">%s</th>",
               tour_share_word(&p->tour));
    html_puts(p,
              "<th scope=\"col\" class=\"n wide\">instructions</th><th scope=\"col\" class=\"n wide\">memory ops</th>");
    put_stall_head(p);
    html_puts(p, "<th scope=\"col\">source</th></tr></thead><tbody>\n");
    for (uint32_t line = x->first; line <= x->last; line++)
        put_line(p, x, line);
    html_puts(p, "</tbody></table></div>\n");
}

bool html_source(struct html_page *p, const struct prof_object *o, size_t row)
{
    size_t before = p->out->len;
    struct excerpt x;
    excerpt_open(&p->tour, o, HTML_SOURCE_LINES, &x);
    bool is_found = x.state == EXCERPT_FOUND;
    if (!is_found)
        put_missing(p, &x);
    else if (p->source_bytes > HTML_SOURCE_BYTES)
        html_puts(p, "<p class=\"nosource\">The page holds the source of larger bottlenecks only.</p>\n");
    else
        put_lines(p, row, &x);
    p->source_bytes += p->out->len - before;
    excerpt_close(&x);
    return is_found;
}
