/* SPDX-License-Identifier: Apache-2.0
 * Text and figures to markup. What comes from a profile is made harmless twice: what would drive a terminal or turn the
 * direction of text is shown as \xNN, what means something in HTML is written as an entity. */
#include "report/html/html.h"

#include <math.h>

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

const char *html_seconds(struct html_page *p, double s) { return figure_real(p->a, s, p->decimals); }

static bool has_ends(const struct prof_interval *i) { return isfinite(i->low) && isfinite(i->high); }

const char *html_interval(struct html_page *p, const struct prof_interval *s)
{
    const char *value = html_seconds(p, s->value);
    if (!isfinite(s->value))
        return NULL;
    return has_ends(s) ? arena_printf(p->a, "%s s (%s)", value, figure_interval(p->a, s, p->decimals))
                       : arena_printf(p->a, "%s s", value);
}

const char *html_percent_interval(struct html_page *p, const struct prof_interval *fraction)
{
    if (!isfinite(fraction->value))
        return NULL;
    const char *value = figure_percent(p->a, fraction->value);
    return has_ends(fraction) ? arena_printf(p->a, "%s (%s..%s)", value, figure_percent(p->a, fraction->low),
                                             figure_percent(p->a, fraction->high))
                              : value;
}

struct prof_interval html_scaled(const struct prof_interval *i, double factor)
{
    return (struct prof_interval){i->value * factor, i->low * factor, i->high * factor};
}

static const char *cut(struct html_page *p, const char *text)
{
    struct strbuf s = {0};
    str_puts(&s, "");
    cell_put_short(&s, cell_safe(p->a, text), HTML_NAME);
    const char *out = arena_strdup(p->a, s.data);
    str_free(&s);
    return out;
}

const char *html_name(struct html_page *p, const struct prof_object *o)
{
    return o->function ? cut(p, name_brief(p->a, name_plain(p->a, o->function))) : "?";
}

const char *html_place(struct html_page *p, const struct prof_object *o)
{
    const char *file = cut(p, o->file ? file_base_name(o->file) : o->module ? file_base_name(o->module) : "?");
    if (!o->file || !o->line_first)
        return arena_printf(p->a, "%s+0x%llx", file, (unsigned long long)o->address);
    if (o->line_last > o->line_first)
        return arena_printf(p->a, "%s:%u-%u", file, o->line_first, o->line_last);
    return arena_printf(p->a, "%s:%u", file, o->line_first);
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
