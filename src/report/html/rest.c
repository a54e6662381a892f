/* SPDX-License-Identifier: Apache-2.0
 * The end of the page: warnings with their explanation, what was not counted and why, modules, processes, the words. */
#include <math.h>

#include "report/data.h"
#include "report/html/html.h"

static void put_paragraph(struct html_page *p, const char *head, const char *text)
{
    str_printf(p->out, "<p>%s", head);
    html_text(p, text);
    html_puts(p, "</p>");
}

static void put_warning(struct html_page *p, const struct prof_warning *w)
{
    const struct prof_warn_about *about = w->id && p->o->explain ? p->o->explain(w->id) : NULL;
    html_puts(p, "<li>");
    html_text(p, name_warning_text(p->a, w));
    if (about) {
        html_puts(p, "<details><summary>");
        html_text(p, w->id);
        html_puts(p, "</summary>");
        put_paragraph(p, "", about->meaning);
        put_paragraph(p, "<b>Cause.</b> ", about->cause);
        put_paragraph(p, "<b>Remedy.</b> ", about->remedy);
        html_puts(p, "</details>");
    } else {
        html_puts(p, " [");
        html_text(p, w->id);
        html_puts(p, "]");
    }
    html_puts(p, "</li>\n");
}

static void put_warnings(struct html_page *p)
{
    html_section(p, "warnings", "Warnings", "Warnings");
    html_puts(p, p->r->warning_count ? "<ul class=\"warnings\">\n" : "<p>None.</p>\n");
    for (size_t i = 0; i < p->r->warning_count; i++)
        put_warning(p, &p->r->warnings[i]);
    html_puts(p, p->r->warning_count ? "</ul>\n</section>\n" : "</section>\n");
}

static const char *module_name(const char *path) { return path ? file_base_name(path) : "?"; }

static void put_refused_rows(struct html_page *p, const char *label, size_t first, size_t end)
{
    static const struct html_column columns[] = {{"n", "user time"}, {"", "function"}, {"", "module"}, {"", "why"}};
    html_table(p, label, columns, ARRAY_LEN(columns));
    for (size_t i = first; i < end; i++) {
        const struct prof_refused *f = &p->r->refused[i];
        html_puts(p, "<tr>");
        html_cell(p, "n", figure_percent(p->a, f->time_share));
        html_cell(p, "",
                  f->function ? tour_name(&p->tour, &(struct prof_object){.function = f->function}) : "all of it");
        html_cell(p, "", module_name(f->module));
        html_cell(p, "", f->reason);
        html_puts(p, "</tr>\n");
    }
    html_table_end(p);
}

static void put_refused(struct html_page *p)
{
    size_t shown = min_u64(p->r->refused_count, HTML_REFUSED), first = min_u64(shown, HTML_REFUSED_FIRST);
    html_section(p, "refused", "Not counted", "Not counted, and why");
    if (!shown)
        html_puts(p, "<p>All code of the modules that were loaded was counted.</p>\n");
    else
        put_refused_rows(p, "not counted, most time", 0, first);
    if (first < shown) {
        str_printf(p->out, "<details><summary>%zu more with less of the time, or none</summary>\n", shown - first);
        put_refused_rows(p, "not counted, less time", first, shown);
        html_more(p, p->r->refused_count, shown, "--json");
        html_puts(p, "</details>\n");
    }
    html_puts(p, "</section>\n");
}

static void put_modules(struct html_page *p)
{
    size_t shown = min_u64(p->r->module_count, HTML_MODULES);
    static const struct html_column columns[] = {
        {"n", "user time"}, {"n", "instructions"}, {"n", "memory ops"}, {"n", "functions counted"}, {"", "file"}};
    html_section(p, "modules", "Modules", "Modules");
    if (!shown) {
        html_puts(p, "<p>No module is known.</p>\n</section>\n");
        return;
    }
    html_table(p, "table of modules", columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        const struct prof_module *m = &p->r->modules[i];
        html_puts(p, "<tr>");
        html_cell(p, "n", figure_percent(p->a, m->time_share));
        html_cell(p, "n", figure_count(p->a, m->instructions));
        html_cell(p, "n", figure_count(p->a, m->memory_ops));
        html_cell(p, "n",
                  m->is_counted ? arena_printf(p->a, "%s of %s", figure_count(p->a, m->functions_rewritten),
                                               figure_count(p->a, m->functions))
                                : "no");
        html_cell(p, "", m->path);
        html_puts(p, "</tr>\n");
    }
    html_table_end(p);
    html_more(p, p->r->module_count, shown, "--json");
    html_puts(p, "</section>\n");
}

static void put_processes(struct html_page *p)
{
    static const struct html_column columns[] = {
        {"n", "process"}, {"n", "instructions"}, {"", "command"}, {"", "not counted because"}};
    size_t shown = min_u64(p->r->process_count, HTML_PROCESSES);
    if (!shown)
        return;
    html_section(p, "processes", "Processes", "Processes");
    html_table(p, "table of processes", columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < shown; i++) {
        const struct prof_process *q = &p->r->process[i];
        html_puts(p, "<tr>");
        html_cell(p, "n", arena_printf(p->a, "%u%s", q->pid, q->is_fork ? " (fork)" : ""));
        html_cell(p, "n", figure_count(p->a, q->instructions));
        html_cell(p, "", q->command);
        html_cell(p, "", q->refused ? q->refused : "");
        html_puts(p, "</tr>\n");
    }
    html_table_end(p);
    html_more(p, p->r->process_count, shown, "--json");
    html_puts(p, "</section>\n");
}

void html_glossary(struct html_page *p)
{
    html_section(p, "glossary", "Glossary", "Glossary");
    html_puts(p, "<dl class=\"glossary\">\n");
    size_t count = term_count(p->r && p->r->spy_count);
    for (size_t i = 0; i < count; i++)
        str_printf(p->out, "<div><dt id=\"g-%s\">%s</dt><dd>%s</dd></div>\n", terms[i].id, terms[i].word,
                   terms[i].meaning);
    html_puts(p, "</dl></section>\n");
}

void html_rest(struct html_page *p)
{
    put_warnings(p);
    if (p->r->refused_count || !data_is_all(p->r))
        put_refused(p);
    put_modules(p);
    put_processes(p);
    html_glossary(p);
}
