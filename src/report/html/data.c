/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found: the simulated caches, a bar for each data object (its part of the memory stall, split by the
 * causes of its misses), procedures and what they reach, lines that threads share. */
#include "report/html/data.h"

#include <math.h>

enum { CELLS = 60, PROCEDURES = 40, PROCESSES = 40, SHARING = 40, ADVICE = 20, EVICTORS = 1 };

/* ---- tables by level ---- */

void html_level_heads(struct html_page *p, const struct html_data *d, const char *class)
{
    for (size_t i = 0; i < d->level_count; i++) {
        const char *name = p->r->caches[d->levels[i]].name;
        str_printf(p->out, "<th scope=\"col\" class=\"%s\">", class);
        html_text(p, name ? name : "?");
        html_puts(p, " misses</th>");
    }
}

void html_level_cells(struct html_page *p, const struct html_data *d, enum prof_data_owner owner, uint32_t id,
                      const char *class)
{
    for (size_t i = 0; i < d->level_count; i++) {
        const struct prof_data_miss *m = data_miss(p->r, owner, id, d->levels[i]);
        str_printf(p->out, "<td class=\"%s\"", class);
        if (m && m->misses != PROF_UNKNOWN)
            html_attribute(p, "title",
                           arena_printf(p->a, "%s (%s to %s)", figure_count(p->a, m->misses),
                                        figure_count(p->a, m->misses_low), figure_count(p->a, m->misses_high)));
        str_printf(p->out, ">%s</td>", figure_brief(p->a, m ? m->misses : PROF_UNKNOWN));
    }
}

/* The rare ones only where there are any. */
static bool is_shown(const struct html_page *p, enum data_cause c)
{
    bool is_any = c <= DATA_CAUSE_FALSE_SHARING;
    double shares[DATA_STALL_COUNT];
    data_stall_causes(p->r, PROF_OWNER_PROGRAM, 0, shares);
    if (c == DATA_WALKS)
        return shares[DATA_WALKS] > 0;
    for (uint32_t i = 0; i < p->r->cache_count && !is_any; i++) {
        uint64_t n = data_cause_count(data_miss(p->r, PROF_OWNER_PROGRAM, 0, i), c);
        is_any = n && n != PROF_UNKNOWN;
    }
    return is_any;
}

static void put_cause_heads(struct html_page *p)
{
    for (unsigned c = 0; c < DATA_CAUSE_COUNT; c++) {
        if (!is_shown(p, (enum data_cause)c))
            continue;
        html_puts(p, "<th scope=\"col\" class=\"n\">");
        html_term(p, html_data_cause_term((enum data_cause)c), data_causes[c].word);
        html_puts(p, "</th>");
    }
}

static void put_level(struct html_page *p, const struct prof_data_miss *m, const char *name)
{
    bool has_rate = m && m->misses != PROF_UNKNOWN && m->references && m->references != PROF_UNKNOWN;
    html_puts(p, "<tr><th scope=\"row\">");
    html_text(p, name);
    html_puts(p, "</th>");
    html_cell(p, "n", figure_count(p->a, m ? m->references : PROF_UNKNOWN));
    html_cell(p, "n strong", figure_count(p->a, m ? m->misses : PROF_UNKNOWN));
    html_cell(p, "n", figure_percent(p->a, has_rate ? (double)m->misses / (double)m->references : NAN));
    for (unsigned c = 0; c < DATA_CAUSE_COUNT; c++)
        if (is_shown(p, (enum data_cause)c))
            html_cell(p, "n", figure_count(p->a, data_cause_count(m, (enum data_cause)c)));
    html_puts(p, "</tr>\n");
}

void html_data_levels(struct html_page *p, enum prof_data_owner owner, uint32_t id)
{
    html_puts(p, "<div class=\"wrap\" tabindex=\"0\" role=\"region\" aria-label=\"misses by level\"><table><thead><tr>"
                 "<th scope=\"col\">level</th><th scope=\"col\" class=\"n\">");
    html_term(p, "reference", "references");
    html_puts(p, "</th><th scope=\"col\" class=\"n\">");
    html_term(p, "miss", "misses");
    html_puts(p, "</th><th scope=\"col\" class=\"n\">rate</th>");
    put_cause_heads(p);
    html_puts(p, "</tr></thead><tbody>\n");
    for (uint32_t i = 0; i < p->r->cache_count; i++) {
        const struct prof_data_miss *m = data_miss(p->r, owner, id, i);
        if (m || owner == PROF_OWNER_PROGRAM)
            put_level(p, m, data_level(&p->r->caches[i], p->a));
    }
    html_table_end(p);
}

/* ---- bars ---- */

const char *html_data_cause_term(enum data_cause c)
{
    static const char *const ids[DATA_STALL_COUNT] = {[DATA_CAUSE_COLD] = "cold",
                                                      [DATA_CAUSE_CAPACITY] = "capacity",
                                                      [DATA_CAUSE_CONFLICT] = "conflict",
                                                      [DATA_CAUSE_TRUE_SHARING] = "true-sharing",
                                                      [DATA_CAUSE_FALSE_SHARING] = "false-sharing",
                                                      [DATA_WALKS] = "tlb-walk"};
    return ids[c];
}

static void put_rect(struct html_page *p, const char *class, double x, double width)
{
    if (width > 0)
        str_printf(p->out, "<rect class=\"%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"20\"/>", class, x, width);
}

/* The share on a scale that ends at `max`, parted by causes. */
void html_data_bar(struct html_page *p, enum prof_data_owner owner, uint32_t id, double share, double max)
{
    double width = max > 0 && share > 0 ? 1000 * fmin(1, share / max) : 0, at = 0, shares[DATA_STALL_COUNT];
    data_stall_causes(p->r, owner, id, shares);
    html_puts(p, "<svg class=\"bar\" viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\"");
    html_attribute(p, "aria-label",
                   arena_printf(p->a, "%s of the stall, mostly %s", figure_percent(p->a, share),
                                data_cause_text(p->r, owner, id, false, p->a)));
    html_puts(p, ">");
    for (unsigned c = 0; c < DATA_STALL_COUNT; c++) {
        char class[8];
        snprintf(class, sizeof class, "c%u", c);
        if (!(shares[c] > 0))
            continue;
        put_rect(p, class, width * at, width * shares[c]);
        at += shares[c];
    }
    put_rect(p, "r", width * at, at < 0.999 ? width * (1 - at) : 0);
    html_puts(p, "</svg>");
}

static void put_legend(struct html_page *p)
{
    html_puts(p, "<p class=\"legend\">");
    for (unsigned c = 0; c < DATA_STALL_COUNT; c++) {
        if (!is_shown(p, (enum data_cause)c))
            continue;
        str_printf(p->out, "<span class=\"key c%u\"></span>", c);
        html_term(p, html_data_cause_term((enum data_cause)c), data_causes[c].word);
        html_puts(p, " ");
    }
    html_puts(p, "<span class=\"key r\"></span>not known</p>\n");
}

void html_data_link(struct html_page *p, const struct html_data *d, uint32_t id)
{
    if (id != ID_NONE && id < d->shown)
        str_printf(p->out, "<a href=\"#d%u\">", id);
    html_text(p, data_name(p->r, id, p->a));
    html_puts(p, id != ID_NONE && id < d->shown ? "</a>" : "");
}

static void put_row(struct html_page *p, const struct html_data *d, uint32_t id)
{
    const struct prof_data *o = &p->r->data[id];
    const struct prof_interval percent = prof_interval_scaled(&o->stall_share, 100);
    const char *evictors = data_evictors(p->r, id, EVICTORS, p->a);
    str_printf(p->out, "<tr><th scope=\"row\"><a class=\"pick d\" href=\"#d%u\">", id);
    html_text(p, data_name(p->r, id, p->a));
    str_printf(p->out, "</a><small>%s ", prof_data_kind_name[o->kind]);
    html_text(p, o->type ? o->type : "");
    html_puts(p, "</small></th><td class=\"barcell\">");
    html_data_bar(p, PROF_OWNER_OBJECT, id, o->stall_share.value, d->max_share);
    html_puts(p, "</td><td class=\"n strong\"");
    html_attribute(p, "title", arena_printf(p->a, "%s %%", figure_interval(p->a, &percent, 1)));
    str_printf(p->out, ">%s</td>", figure_percent(p->a, o->stall_share.value));
    if (d->is_timed) {
        html_cell(p, "n", figure_real(p->a, o->memory_s.value, d->decimals));
        html_cell(p, "n mid", figure_interval(p->a, &o->memory_s, d->decimals));
    }
    html_level_cells(p, d, PROF_OWNER_OBJECT, id, "n wide");
    html_cell(p, "n wide", figure_bytes(p->a, o->bytes));
    html_cell(p, "wide", evictors ? evictors : "");
    html_puts(p, "</tr>\n");
}

static void put_bars(struct html_page *p, const struct html_data *d)
{
    html_puts(p, "<p class=\"hint\">Choose a data object to see who allocates, reaches and evicts it. The bar is its "
                 "part of the memory stall, in the colours of their causes.</p>\n");
    put_legend(p);
    html_puts(p, "<table class=\"bars\"><caption class=\"vh\">Data objects, in order of their part of the memory "
                 "stall</caption><thead><tr><th scope=\"col\">");
    html_term(p, "data-object", "data object");
    html_puts(p, "</th><th scope=\"col\" class=\"barcell\">stall by cause</th><th scope=\"col\" class=\"n\">");
    html_term(p, "stall", "stall");
    html_puts(p, d->is_timed ? "</th><th scope=\"col\" class=\"n\">memory&#160;s</th><th scope=\"col\" class=\"n mid\">"
                               "95&#160;% interval</th>"
                             : "</th>");
    html_level_heads(p, d, "n wide");
    html_puts(p, "<th scope=\"col\" class=\"n wide\">bytes</th><th scope=\"col\" class=\"wide\">evicted most by</th>"
                 "</tr></thead>\n<tbody>\n");
    for (uint32_t i = 0; i < d->shown; i++)
        put_row(p, d, i);
    html_puts(p, "</tbody></table>\n");
    html_more(p, p->r->data_count, d->shown, "--by data --all");
}

/* ---- procedures ---- */

static void put_procedures(struct html_page *p)
{
    static const struct html_column columns[] = {
        {"n", "stall"}, {"n", "references"}, {"n", "misses in the nearest level"}, {"n", "rate"}, {"", "procedure"}};
    size_t count;
    const struct data_procedure *list = data_procedures(p->r, p->a, &count);
    html_puts(p, "<h3>Procedures, and their part of the memory stall</h3>\n");
    html_table(p, "table of procedures", columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < count && i < PROCEDURES; i++) {
        html_puts(p, "<tr>");
        html_cell(p, "n strong", figure_percent(p->a, list[i].stall_share));
        html_cell(p, "n", figure_count(p->a, list[i].references));
        html_cell(p, "n", figure_count(p->a, list[i].misses));
        html_cell(p, "n", figure_percent(p->a, data_rate(list[i].misses, list[i].references)));
        html_cell(p, "", data_function(list[i].function, list[i].module, p->a));
        html_puts(p, "</tr>\n");
    }
    html_table_end(p);
    html_more(p, count, PROCEDURES, "--by cell --all");
}

static void put_cells(struct html_page *p, const struct html_data *d)
{
    if (!p->r->data_cell_count)
        return;
    html_puts(p, "<h3>Procedures and the data objects that they reach</h3>\n<table class=\"bars\"><thead><tr>"
                 "<th scope=\"col\">procedure</th><th scope=\"col\">data object</th>"
                 "<th scope=\"col\" class=\"barcell\">stall by cause</th><th scope=\"col\" class=\"n\">stall</th>");
    html_puts(p, d->is_timed ? "<th scope=\"col\" class=\"n\">memory&#160;s</th>" : "");
    html_level_heads(p, d, "n wide");
    html_puts(p, "</tr></thead><tbody>\n");
    for (uint32_t i = 0; i < p->r->data_cell_count && i < CELLS; i++) {
        const struct prof_data_cell *c = &p->r->data_cells[i];
        html_puts(p, "<tr><td>");
        html_text(p, data_function(c->function, c->module, p->a));
        html_puts(p, "</td><td>");
        html_data_link(p, d, c->object);
        html_puts(p, "</td><td class=\"barcell\">");
        html_data_bar(p, PROF_OWNER_CELL, i, c->stall_share.value, d->max_share);
        html_puts(p, "</td>");
        html_cell(p, "n strong", figure_percent(p->a, c->stall_share.value));
        if (d->is_timed)
            html_cell(p, "n", figure_real(p->a, c->memory_s.value, d->decimals));
        html_level_cells(p, d, PROF_OWNER_CELL, i, "n wide");
        html_puts(p, "</tr>\n");
    }
    html_puts(p, "</tbody></table>\n");
    html_more(p, p->r->data_cell_count, CELLS, "--by cell --all");
}

/* ---- processes ---- */

static void put_processes(struct html_page *p, const struct html_data *d)
{
    if (!p->r->data_process_count)
        return;
    html_puts(p, "<h3>Processes, each with caches of its own</h3>\n<table class=\"bars\"><thead><tr>"
                 "<th scope=\"col\">command</th><th scope=\"col\" class=\"n\">pid</th>"
                 "<th scope=\"col\" class=\"barcell\">stall by cause</th><th scope=\"col\" class=\"n\">stall</th>");
    html_level_heads(p, d, "n wide");
    html_puts(p, "</tr></thead><tbody>\n");
    for (uint32_t i = 0; i < p->r->data_process_count && i < PROCESSES; i++) {
        const struct prof_data_process *x = &p->r->data_processes[i];
        html_puts(p, "<tr><td>");
        html_text(p, x->command ? x->command : "?");
        html_puts(p, x->is_fork ? " (fork)</td>" : "</td>");
        html_cell(p, "n", arena_printf(p->a, "%u", x->pid));
        html_puts(p, "<td class=\"barcell\">");
        html_data_bar(p, PROF_OWNER_PROCESS, i, x->stall_share.value, p->r->data_processes[0].stall_share.value);
        html_puts(p, "</td>");
        html_cell(p, "n strong", figure_percent(p->a, x->stall_share.value));
        html_level_cells(p, d, PROF_OWNER_PROCESS, i, "n wide");
        html_puts(p, "</tr>\n");
    }
    html_puts(p, "</tbody></table>\n");
    html_more(p, p->r->data_process_count, PROCESSES, "--by process --all");
}

/* ---- sharing ---- */

void html_data_sites(struct html_page *p, uint32_t sharing)
{
    struct data_range range = DATA_RANGE(p->r->data_sites, p->r->data_site_count, sharing, sharing);
    html_puts(p, "<ul>");
    for (size_t i = range.first; i < range.end; i++) {
        html_puts(p, "<li>");
        html_text(p, data_site_text(p->r, &p->r->data_sites[i], p->a));
        html_puts(p, "</li>");
    }
    html_puts(p, "</ul>");
}

static void put_sharing(struct html_page *p, const struct html_data *d)
{
    static const struct html_column columns[] = {
        {"n", "misses"}, {"", "sharing"}, {"n", "at byte of block"}, {"", "data object"}, {"", "threads"}};
    if (!p->r->data_sharing_count)
        return;
    html_puts(p, "<h3>Lines of caches that threads take from each other</h3>\n");
    html_table(p, "table of shared lines", columns, ARRAY_LEN(columns));
    for (uint32_t i = 0; i < p->r->data_sharing_count && i < SHARING; i++) {
        const struct prof_data_sharing *s = &p->r->data_sharing[i];
        html_puts(p, "<tr>");
        html_cell(p, "n strong", figure_count(p->a, s->misses));
        html_cell(p, "", s->kind);
        html_cell(p, "n", figure_count(p->a, s->line_offset));
        html_puts(p, "<td>");
        html_data_link(p, d, s->object);
        html_puts(p, "</td><td>");
        html_data_sites(p, i);
        html_puts(p, "</td></tr>\n");
    }
    html_table_end(p);
    html_more(p, p->r->data_sharing_count, SHARING, "--by sharing --all");
}

/* ---- what to do ---- */

const char *html_data_gain(struct html_page *p, const struct html_data *d, const struct prof_data_advice *x)
{
    const char *share = figure_percent(p->a, x->gain_share);
    if (isnan(x->gain_share))
        return "not known";
    if (!isfinite(x->gain_s.value))
        return arena_printf(p->a, "%s of the stall", share);
    return arena_printf(p->a, "%s of the stall, %s s (%s)", share, figure_real(p->a, x->gain_s.value, d->decimals),
                        figure_interval(p->a, &x->gain_s, d->decimals));
}

static void put_advice(struct html_page *p, const struct html_data *d)
{
    static const struct html_column columns[] = {
        {"", "advice"}, {"", "data object"}, {"n", "gain at best"}, {"", "where"}, {"", "evidence"}};
    if (!p->r->data_advice_count)
        return;
    html_puts(p, "<h3>What would make them cost less</h3>\n");
    html_table(p, "table of advice", columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < p->r->data_advice_count && i < ADVICE; i++) {
        const struct prof_data_advice *x = &p->r->data_advice[i];
        html_puts(p, "<tr>");
        html_cell(p, "strong", x->advice);
        html_puts(p, "<td>");
        html_data_link(p, d, x->object);
        html_puts(p, "</td>");
        html_cell(p, "n", html_data_gain(p, d, x));
        html_cell(p, "",
                  x->function ? arena_printf(p->a, "%s %s", data_function(x->function, NULL, p->a),
                                             data_place(x->file, x->line, p->a))
                              : "");
        html_cell(p, "", x->evidence ? x->evidence : "");
        html_puts(p, "</tr>\n");
    }
    html_table_end(p);
    html_more(p, p->r->data_advice_count, ADVICE, "--by advice --all");
}

/* ---- the section ---- */

/* Those with a thousandth of the stall, and some more where these are few. */
static size_t worth_a_row(const struct prof_result *r)
{
    const double share = 0.001;
    size_t n = 0;
    while (n < r->data_count && n < HTML_DATA && (n < HTML_DATA_LEAST || r->data[n].stall_share.value >= share))
        n++;
    return n;
}

static struct html_data prepare(const struct html_page *p)
{
    struct html_data d = {.shown = worth_a_row(p->r)};
    double max_s = 0;
    d.level_count = data_levels(p->r, d.levels, ARRAY_LEN(d.levels));
    for (uint32_t i = 0; i < d.shown; i++) {
        d.max_share = fmax(d.max_share, p->r->data[i].stall_share.value);
        max_s = fmax(max_s, p->r->data[i].memory_s.value);
        d.is_timed |= isfinite(p->r->data[i].memory_s.value);
    }
    d.decimals = figure_decimals(max_s);
    return d;
}

void html_data(struct html_page *p)
{
    if (!p->r->spy_count)
        return;
    struct html_data d = prepare(p);
    html_section(p, "data", "Data objects", "Data objects");
    html_puts(p, "<p>");
    html_text(p, data_how(p->r, p->a));
    html_puts(p, "</p>\n");
    html_data_levels(p, PROF_OWNER_PROGRAM, 0);
    if (d.shown)
        put_bars(p, &d);
    html_data_details(p, &d);
    put_advice(p, &d);
    if (data_is_all(p->r))
        put_procedures(p);
    put_cells(p, &d);
    put_processes(p, &d);
    put_sharing(p, &d);
    html_data_curve(p, ID_NONE, "Misses in caches of other sizes, in all and of the first objects");
    html_puts(p, "</section>\n");
}
