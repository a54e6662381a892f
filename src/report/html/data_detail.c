/* SPDX-License-Identifier: Apache-2.0
 * One data object: what it is, by whom it is allocated, reached and evicted, where in it and in the source it misses.
 */
#include "report/html/data.h"

#include <math.h>

enum { ROWS = 12, EVICTORS = 8 };

static void put_steps(struct html_page *p, const struct html_data *d, uint32_t id)
{
    html_puts(p, "<nav class=\"steps\" aria-label=\"by part of the stall\">");
    if (id)
        str_printf(p->out, "<a class=\"button\" rel=\"prev\" href=\"#d%u\">PREV</a>", id - 1);
    else
        html_puts(p, "<span class=\"button off\">PREV</span>");
    str_printf(p->out, " <span class=\"at\">%u of %zu</span> ", id + 1, d->shown);
    if (id + 1 < d->shown)
        str_printf(p->out, "<a class=\"button\" rel=\"next\" href=\"#d%u\">NEXT</a>", id + 1);
    else
        html_puts(p, "<span class=\"button off\">NEXT</span>");
    html_puts(p, " <a href=\"#data\">data objects</a></nav>\n");
}

static void put_facts(struct html_page *p, const struct html_data *d, uint32_t id)
{
    const struct prof_data *o = &p->r->data[id];
    const struct prof_interval percent = prof_interval_scaled(&o->stall_share, 100);
    bool is_exact = o->stall_share.low == o->stall_share.high || !isfinite(o->stall_share.low);
    const char *share = figure_percent(p->a, o->stall_share.value);
    html_puts(p, "<dl class=\"top\">\n");
    html_fact(p, "stall", "of the stall",
              is_exact ? share : arena_printf(p->a, "%s (%s %%)", share, figure_interval(p->a, &percent, 1)));
    if (isfinite(o->memory_s.value))
        html_fact(p, "memory", "memory",
                  arena_printf(p->a, "%s s (%s)", figure_real(p->a, o->memory_s.value, d->decimals),
                               figure_interval(p->a, &o->memory_s, d->decimals)));
    html_fact_count(p, "reference", "references", o->references);
    html_fact(p, NULL, "bytes", o->bytes == PROF_UNKNOWN ? NULL : figure_count(p->a, o->bytes));
    html_fact_count(p, NULL, "blocks", o->blocks);
    html_fact(p, NULL, "type", o->type);
    html_fact(p, NULL, "in", o->module);
    html_fact_count(p, NULL, "page walks", data_walks(p->r, PROF_OWNER_OBJECT, id));
    html_puts(p, "</dl>\n");
}

static void put_advice(struct html_page *p, const struct html_data *d, uint32_t id)
{
    for (size_t i = 0; i < p->r->data_advice_count; i++) {
        const struct prof_data_advice *x = &p->r->data_advice[i];
        if (x->object != id)
            continue;
        html_puts(p, "<p class=\"note\"><b>");
        html_text(p, x->advice);
        html_puts(p, "</b>: ");
        html_text(p, x->evidence ? x->evidence : "");
        html_puts(p, " (gain at best: ");
        html_text(p, html_data_gain(p, d, x));
        html_puts(p, ")</p>\n");
    }
}

static void put_site(struct html_page *p, uint32_t id)
{
    struct data_range range = DATA_RANGE(p->r->data_frames, p->r->data_frame_count, object, id);
    if (range.first == range.end)
        return;
    html_puts(p, "<h4>Allocated by</h4>\n<ol>\n");
    for (size_t i = range.first; i < range.end; i++) {
        const struct prof_data_frame *f = &p->r->data_frames[i];
        html_puts(p, "<li>");
        html_text(p, data_function(f->function, f->module, p->a));
        html_puts(p, " <small>");
        html_text(p, data_place(f->file, f->line, p->a));
        html_puts(p, "</small></li>\n");
    }
    html_puts(p, "</ol>\n");
}

static void put_evictors(struct html_page *p, const struct html_data *d, uint32_t id)
{
    static const struct html_column columns[] = {{"", "data object"}, {"n", "misses"}, {"n", "share"}};
    struct data_range range = DATA_RANGE(p->r->data_evictors, p->r->data_evictor_count, object, id);
    const char *evicted = data_evicted(p->r, id, EVICTORS, p->a);
    uint32_t level = data_evictor_level(p->r, id);
    size_t shown = 0;
    for (size_t i = range.first; i < range.end && shown < EVICTORS; i++) {
        const struct prof_data_evictor *e = &p->r->data_evictors[i];
        if (e->cache != level)
            continue;
        if (!shown++) {
            html_puts(p, "<h4>Evicted from ");
            html_text(p, p->r->caches[level].name);
            html_puts(p, " by</h4>\n");
            html_table(p, "table of evictors", columns, ARRAY_LEN(columns));
        }
        html_puts(p, "<tr><td>");
        if (e->by == id)
            html_puts(p, "itself");
        else
            html_data_link(p, d, e->by);
        html_puts(p, "</td>");
        html_cell(p, "n", figure_count(p->a, e->misses));
        html_cell(p, "n strong", figure_percent(p->a, e->share));
        html_puts(p, "</tr>\n");
    }
    if (shown)
        html_table_end(p);
    if (evicted) {
        html_puts(p, "<p>It evicts what others then miss: ");
        html_text(p, evicted);
        html_puts(p, ".</p>\n");
    }
}

static void put_fields(struct html_page *p, const struct html_data *d, uint32_t id)
{
    struct data_range range = DATA_RANGE(p->r->data_fields, p->r->data_field_count, object, id);
    if (range.first == range.end)
        return;
    html_puts(p, "<h4>Fields</h4>\n<div class=\"wrap\" tabindex=\"0\" role=\"region\" aria-label=\"fields\"><table>"
                 "<thead><tr><th scope=\"col\" class=\"n\">offset</th><th scope=\"col\" class=\"n\">bytes</th>"
                 "<th scope=\"col\">field</th><th scope=\"col\" class=\"n\">references</th>");
    html_level_heads(p, d, "n");
    html_puts(p, "</tr></thead><tbody>\n");
    for (size_t i = range.first; i < range.end && i < range.first + 4 * ROWS; i++) {
        const struct prof_data_field *f = &p->r->data_fields[i];
        html_puts(p, "<tr>");
        html_cell(p, "n", figure_count(p->a, f->offset));
        html_cell(p, "n", figure_count(p->a, f->bytes));
        html_cell(p, "strong", f->name);
        html_cell(p, "n", figure_count(p->a, f->references));
        html_level_cells(p, d, PROF_OWNER_FIELD, (uint32_t)i, "n");
        html_puts(p, "</tr>\n");
    }
    html_table_end(p);
}

/* ---- by whom it is reached ---- */

static void put_head(struct html_page *p, const struct html_data *d, const char *title, const char *what)
{
    str_printf(p->out,
               "<h4>%s</h4>\n<div class=\"wrap\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table><thead><tr>"
               "<th scope=\"col\" class=\"n\">stall</th><th scope=\"col\" class=\"n\">references</th>",
               title, title);
    html_level_heads(p, d, "n");
    str_printf(p->out, "<th scope=\"col\">most by cause</th><th scope=\"col\">%s</th></tr></thead><tbody>\n", what);
}

static void put_figures(struct html_page *p, const struct html_data *d, enum prof_data_owner owner, uint32_t id,
                        double share, uint64_t references)
{
    html_puts(p, "<tr>");
    html_cell(p, "n strong", figure_percent(p->a, share));
    html_cell(p, "n", figure_brief(p->a, references));
    html_level_cells(p, d, owner, id, "n");
    html_cell(p, "", data_cause_text(p->r, owner, id, false, p->a));
}

static void put_cells(struct html_page *p, const struct html_data *d, uint32_t id)
{
    size_t shown = 0;
    for (uint32_t i = 0; i < p->r->data_cell_count && shown < ROWS; i++) {
        const struct prof_data_cell *c = &p->r->data_cells[i];
        if (c->object != id)
            continue;
        if (!shown++)
            put_head(p, d, "Reached by", "procedure");
        put_figures(p, d, PROF_OWNER_CELL, i, c->stall_share.value, c->references);
        html_cell(p, "", data_function(c->function, c->module, p->a));
        html_puts(p, "</tr>\n");
    }
    if (shown)
        html_table_end(p);
}

/* "" where the file is not found, or was changed so that it lacks the line. */
static const char *text_of(struct html_page *p, const struct prof_data_line *l)
{
    const struct source *s = l->file ? tour_source(&p->tour, l->file) : NULL;
    return s && s->path && l->line && l->line <= s->line_count ? source_line(p->a, s, l->line) : "";
}

static void put_lines(struct html_page *p, const struct html_data *d, uint32_t id)
{
    size_t shown = 0;
    for (uint32_t i = 0; i < p->r->data_line_count && shown < ROWS; i++) {
        const struct prof_data_line *l = &p->r->data_lines[i];
        if (l->object != id)
            continue;
        if (!shown++)
            put_head(p, d, "Reached in these lines", "line");
        put_figures(p, d, PROF_OWNER_LINE, i, l->stall_share.value, l->references);
        html_puts(p, "<td>");
        html_text(p, data_place(l->file, l->line, p->a));
        html_puts(p, " <code>");
        html_text(p, text_of(p, l));
        html_puts(p, "</code></td></tr>\n");
    }
    if (shown)
        html_table_end(p);
}

static void put_sharing(struct html_page *p, uint32_t id)
{
    bool is_any = false;
    for (uint32_t i = 0; i < p->r->data_sharing_count; i++) {
        const struct prof_data_sharing *s = &p->r->data_sharing[i];
        if (!data_is_shared(p->r, i, id))
            continue;
        html_puts(p, is_any ? "" : "<h4>Shared by threads</h4>\n");
        is_any = true;
        html_puts(p, "<p>");
        html_text(p, s->kind);
        str_printf(p->out, " sharing of the line at byte %s: %s misses</p>\n", figure_count(p->a, s->line_offset),
                   figure_count(p->a, s->misses));
        html_data_sites(p, i);
        html_puts(p, "\n");
    }
}

static void put_article(struct html_page *p, const struct html_data *d, uint32_t id)
{
    str_printf(p->out, "<article class=\"obj d\" id=\"d%u\" aria-labelledby=\"dt%u\">\n", id, id);
    put_steps(p, d, id);
    str_printf(p->out, "<h3 id=\"dt%u\" tabindex=\"-1\">", id);
    html_text(p, data_name(p->r, id, p->a));
    str_printf(p->out, " <small>%s</small></h3>\n", prof_data_kind_name[p->r->data[id].kind]);
    put_facts(p, d, id);
    put_advice(p, d, id);
    html_data_levels(p, PROF_OWNER_OBJECT, id);
    put_site(p, id);
    put_evictors(p, d, id);
    put_cells(p, d, id);
    put_lines(p, d, id);
    put_fields(p, d, id);
    put_sharing(p, id);
    html_data_curve(p, id, "Misses in caches of other sizes, of all references of the program");
    html_data_picture(p, id);
    html_puts(p, "</article>\n");
}

void html_data_details(struct html_page *p, const struct html_data *d)
{
    for (uint32_t i = 0; i < d->shown; i++)
        put_article(p, d, i);
}
