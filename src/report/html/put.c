/* SPDX-License-Identifier: Apache-2.0
 * Text and figures to markup. What comes from a profile is made harmless twice: what would drive a terminal or turn the
 * direction of text is shown as \xNN, what means something in HTML is written as an entity. */
#include "report/html/html.h"

void html_text(struct html_page *p, const char *text)
{
    const char *safe = text ? cell_safe(p->a, text) : "?";
    for (size_t len; *safe; safe += len) {
        len = strcspn(safe, "&<>\"'");
        str_put(p->out, safe, len);
        if (safe[len])
            str_printf(p->out, "&#%u;", (unsigned)safe[len++]);
    }
}

void html_attribute(struct html_page *p, const char *name, const char *text)
{
    str_printf(p->out, " %s=\"", name);
    html_text(p, text);
    str_puts(p->out, "\"");
}

void html_puts(struct html_page *p, const char *markup) { str_puts(p->out, markup); }

void html_term(struct html_page *p, const char *id, const char *word)
{
    if (id)
        str_printf(p->out, "<a class=\"term\" href=\"#g-%s\">%s</a>", id, word);
    else
        str_puts(p->out, word);
}

void html_fact(struct html_page *p, const char *id, const char *word, const char *text)
{
    if (!text || !*text)
        return;
    html_puts(p, "<div><dt>");
    html_term(p, id, word);
    html_puts(p, "</dt><dd>");
    html_text(p, text);
    html_puts(p, "</dd></div>\n");
}

void html_fact_count(struct html_page *p, const char *id, const char *word, uint64_t n)
{
    if (n != PROF_UNKNOWN)
        html_fact(p, id, word, figure_count(p->a, n));
}

void html_cell(struct html_page *p, const char *class, const char *text)
{
    str_printf(p->out, "<td class=\"%s\">", class);
    html_text(p, text);
    html_puts(p, "</td>");
}

void html_section(struct html_page *p, const char *id, const char *link, const char *title)
{
    str_printf(&p->nav, "<a href=\"#%s\">%s</a> ", id, link);
    str_printf(p->out, "<section id=\"%s\" aria-labelledby=\"h-%s\"><h2 id=\"h-%s\">%s</h2>\n", id, id, id, title);
}

void html_table(struct html_page *p, const char *label, const struct html_column *columns, size_t n)
{
    str_printf(p->out, "<div class=\"wrap\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table><thead><tr>",
               label);
    for (size_t i = 0; i < n; i++)
        str_printf(p->out, "<th scope=\"col\" class=\"%s\">%s</th>", columns[i].class, columns[i].head);
    html_puts(p, "</tr></thead><tbody>\n");
}

void html_table_end(struct html_page *p) { html_puts(p, "</tbody></table></div>\n"); }

void html_more(struct html_page *p, size_t count, size_t shown, const char *options)
{
    if (shown < count)
        str_printf(p->out, "<p>%zu more: <code>mtool report %s</code> lists them.</p>\n", count - shown, options);
}
