/* SPDX-License-Identifier: Apache-2.0
 * A profile to one HTML page that needs nothing else: the paper's views (section 5) as sections of it. All is there
 * without the script, which shows one bottleneck at a time and moves by arrow keys. The same profile, source and
 * options make the same page. */
#include <math.h>

#include "report/html/data.h"
#include "report_html_text.h"

static const char *title(struct html_page *p)
{
    const char *program = p->r->program ? p->r->program : p->r->command && p->r->command[0] ? p->r->command[0] : "?";
    return arena_printf(p->a, "%s: where memory costs time", file_base_name(program));
}

static void put_first(struct html_page *p, const char *sentence)
{
    html_puts(p, sentence ? "<p class=\"note strong\">" : "");
    html_text(p, sentence ? sentence : "");
    html_puts(p, sentence ? "</p>\n" : "");
}

void html_put_page(struct html_page *p, const char *title, const char *first, struct strbuf *out)
{
    struct strbuf *sections = p->out;
    p->out = out;
    html_puts(p, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                 "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
                 "<meta name=\"referrer\" content=\"no-referrer\"/>\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                 "'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
                 "<title>");
    html_text(p, title);
    html_puts(p, "</title>\n<style>\n" HTML_CSS "</style>\n"
                 "<script>document.documentElement.classList.add('js');</script></head>\n<body>\n"
                 "<a class=\"skip\" href=\"#");
    html_puts(p, data_is_all(p->r) ? "data" : "histogram");
    html_puts(p, "\">to the bottlenecks</a>\n");
    put_first(p, first);
    html_puts(p, "<header><h1>");
    html_text(p, title);
    html_puts(p, "</h1>\n<nav aria-label=\"sections\">");
    html_puts(p, p->nav.data);
    html_puts(p, "</nav></header>\n<main>\n");
    str_put(out, sections->data, sections->len);
    html_puts(p, "</main>\n<footer><p>Written by mtool ");
    html_text(p, p->r->mtool_version);
    html_puts(p, ". This file needs no network and no other file.</p></footer>\n<p class=\"vh\" role=\"status\" "
                 "id=\"said\"></p>\n<script>/*<![CDATA[*/\n" HTML_JS "/*]]>*/</script>\n</body></html>\n");
    str_free(sections);
    str_free(&p->nav);
}

void report_html(const struct prof_result *r, const struct report_html_options *o, struct strbuf *out)
{
    struct strbuf sections = {0};
    struct html_page p = {.r = r, .o = o, .out = &sections, .a = arena_new()};
    bool timed = isfinite(r->actual_user_s.value);
    tour_init(&p.tour, r, o->source_path, p.a);
    tour_sort(&p.tour, timed ? REPORT_SORT_MEMORY : REPORT_SORT_IDEAL, HTML_OBJECTS);
    html_overview(&p);
    html_data(&p);
    tour_turn_to_objects(&p.tour);
    if (!data_is_all(r)) {
        html_histogram(&p);
        html_details(&p);
        html_tree(&p);
    }
    html_pages(&p);
    html_ranks(&p);
    html_threads(&p);
    html_rest(&p);
    html_put_page(&p, title(&p), banner_sentence(r, p.a), out);
    tour_fini(&p.tour);
    arena_free(p.a);
}
