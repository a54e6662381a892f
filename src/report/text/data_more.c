/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found in finer grain, as text: fields, source lines, processes, lines of caches that threads share,
 * and other sizes of caches. */
#include <math.h>

#include "report/text/data.h"

enum { CURVES_NARROW = 4, CURVES_MAX = 8, CURVE_NAME = 16 };

/* A place in an object: to the byte, unless it is far. */
static const char *offset_text(uint64_t offset, struct arena *a)
{
    return offset < 10 << 20 || offset == PROF_UNKNOWN ? figure_count(a, offset) : figure_bytes(a, offset);
}

/* ---- fields ---- */

static void put_field(struct data_table *t, const struct prof_result *r, uint32_t id, struct arena *a)
{
    const struct prof_data_field *f = &r->data_fields[id];
    double of = data_stall_cycles(r, PROF_OWNER_OBJECT, f->object);
    data_table_cell(t, figure_percent(a, of > 0 ? data_stall_cycles(r, PROF_OWNER_FIELD, id) / of : NAN));
    data_table_cell(t, figure_brief(a, f->references));
    data_levels_cells(t, r, PROF_OWNER_FIELD, id, a);
    data_table_cell(t, offset_text(f->offset, a));
    data_table_cell(t, offset_text(f->bytes, a));
    data_table_cell(t, f->name ? cell_safe(a, f->name) : "?");
    data_table_cell(t, data_name(r, f->object, a));
    data_table_row(t, NULL);
}

void data_put_fields(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    struct data_table t = {0};
    size_t shown = data_limit(o, r->data_field_count, REPORT_TOP);
    if (!r->data_field_count) {
        str_puts(out, "No field is known: fields are told of variables with debug information.\n");
        return;
    }
    str_puts(out, "Fields of data objects, and their part of the object's memory stall:\n");
    data_table_column(&t, "of its", "stall", NULL, false);
    data_table_column(&t, "refe-", "rences", NULL, false);
    data_levels_columns(&t, r, o, a);
    data_table_column(&t, "", "offset", NULL, false);
    data_table_column(&t, "", "bytes", NULL, false);
    data_table_column(&t, "", "field", shorten_middle, true);
    data_table_column(&t, "", "data object", shorten_middle, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++)
        put_field(&t, r, (uint32_t)i, a);
    grid_put(&t.grid, out);
    data_put_rest(shown, r->data_field_count, "--all", out);
}

/* ---- source lines ---- */

void data_put_lines(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    struct data_table t = {0};
    size_t shown = data_limit(o, r->data_line_count, REPORT_TOP);
    if (!r->data_line_count) {
        str_puts(out, "No source line of a reference is known: the program has no line table (compile it with -g).\n");
        return;
    }
    str_puts(out, "Source lines and the data objects that they reach:\n");
    data_table_column(&t, "", "stall", NULL, false);
    data_table_column(&t, "refe-", "rences", NULL, false);
    data_levels_columns(&t, r, o, a);
    data_table_column(&t, "most", "by cause", NULL, true);
    data_table_column(&t, "", "line", shorten_place, true);
    data_table_column(&t, "", "data object", shorten_middle, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++) {
        const struct prof_data_line *l = &r->data_lines[i];
        data_table_cell(&t, data_stall(&l->stall_share, a));
        data_table_cell(&t, figure_brief(a, l->references));
        data_levels_cells(&t, r, PROF_OWNER_LINE, (uint32_t)i, a);
        data_table_cell(&t, data_cause_text(r, PROF_OWNER_LINE, (uint32_t)i, report_width(o) < REPORT_WIDE, a));
        data_table_cell(&t, cell_safe(a, arena_printf(a, "%s:%u", l->file ? l->file : "?", l->line)));
        data_table_cell(&t, data_name(r, l->object, a));
        data_table_row(&t, NULL);
    }
    grid_put(&t.grid, out);
    data_put_rest(shown, r->data_line_count, "--all", out);
}

/* ---- processes ---- */

static void put_process(struct data_table *t, const struct prof_result *r, uint32_t id, bool is_narrow, struct arena *a)
{
    const struct prof_data_process *p = &r->data_processes[id];
    data_table_cell(t, data_stall(&p->stall_share, a));
    data_levels_cells(t, r, PROF_OWNER_PROCESS, id, a);
    data_table_cell(t, data_cause_text(r, PROF_OWNER_PROCESS, id, is_narrow, a));
    data_table_cell(t, arena_printf(a, "%u", p->threads));
    data_table_cell(t, arena_printf(a, "%u", p->pid));
    data_table_cell(t, p->command ? cell_safe(a, p->command) : "?");
    data_table_row(t, p->is_fork ? "a fork, that goes on with its parent's program" : NULL);
}

void data_put_processes(const struct prof_result *r, const struct report_options *o, struct arena *a,
                        struct strbuf *out)
{
    struct data_table t = {0};
    size_t shown = data_limit(o, r->data_process_count, REPORT_TOP);
    if (!r->data_process_count) {
        str_puts(out, "Processes are told of with mtool spy --follow.\n");
        return;
    }
    str_puts(out, "Processes, each with caches of its own, and their part of the memory stall:\n");
    data_table_column(&t, "", "stall", NULL, false);
    data_levels_columns(&t, r, o, a);
    data_table_column(&t, "most", "by cause", NULL, true);
    data_table_column(&t, "", "threads", NULL, false);
    data_table_column(&t, "", "pid", NULL, false);
    data_table_column(&t, "", "command", shorten_middle, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++)
        put_process(&t, r, (uint32_t)i, report_width(o) < REPORT_WIDE, a);
    grid_put(&t.grid, out);
    data_put_rest(shown, r->data_process_count, "--all", out);
}

/* ---- lines of caches that threads take from each other ---- */

static const char *sites_text(const struct prof_result *r, uint32_t sharing, struct arena *a)
{
    struct data_range range = DATA_RANGE(r->data_sites, r->data_site_count, sharing, sharing);
    const char *text = NULL;
    for (size_t i = range.first; i < range.end; i++)
        text = arena_printf(a, "%s%s%s", text ? text : "", text ? "; " : "", data_site_text(r, &r->data_sites[i], a));
    return text;
}

void data_put_sharing(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    struct data_table t = {0};
    size_t shown = data_limit(o, r->data_sharing_count, REPORT_TOP);
    if (!r->data_sharing_count) {
        str_puts(out, r->spy->threads > 1 ? "No line of a cache was taken by one thread from another.\n"
                                          : "There was one thread, which shares nothing.\n");
        return;
    }
    str_puts(out, "Lines of caches that threads take from each other:\n");
    data_table_column(&t, "", "misses", NULL, false);
    data_table_column(&t, "", "sharing", NULL, true);
    data_table_column(&t, "at byte", "of block", NULL, false);
    data_table_column(&t, "", "data object", shorten_middle, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++) {
        const struct prof_data_sharing *s = &r->data_sharing[i];
        data_table_cell(&t, figure_brief(a, s->misses));
        data_table_cell(&t, s->kind ? cell_safe(a, s->kind) : "?");
        data_table_cell(&t, offset_text(s->line_offset, a));
        data_table_cell(&t, data_name(r, s->object, a));
        data_table_row(&t, sites_text(r, (uint32_t)i, a));
    }
    grid_put(&t.grid, out);
    data_put_rest(shown, r->data_sharing_count, "--all", out);
}

/* ---- what to do ---- */

void data_put_advice(const struct prof_result *r, const struct report_options *o, size_t few, struct arena *a,
                     struct strbuf *out)
{
    struct data_table t = {0};
    size_t shown = data_limit(o, r->data_advice_count, few);
    double max_s = 0;
    for (size_t i = 0; i < r->data_advice_count; i++)
        max_s = fmax(max_s, r->data_advice[i].gain_s.value);
    if (!r->data_advice_count)
        return;
    str_puts(out, "What would make data objects cost less, and the gain if it did all that it can:\n");
    data_table_column(&t, "of the", "stall", NULL, false);
    if (max_s > 0) {
        data_table_column(&t, "", "gain s", NULL, false);
        data_table_column(&t, "95%", "interval", NULL, false);
    }
    data_table_column(&t, "", "advice", NULL, true);
    data_table_column(&t, "", "data object", shorten_middle, true);
    data_table_column(&t, "", "function", shorten_middle, true);
    data_table_column(&t, "", "line", shorten_place, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++) {
        const struct prof_data_advice *x = &r->data_advice[i];
        data_table_cell(&t, figure_percent(a, x->gain_share));
        if (max_s > 0) {
            data_table_cell(&t, figure_real(a, x->gain_s.value, figure_decimals(max_s)));
            data_table_cell(&t, figure_interval(a, &x->gain_s, figure_decimals(max_s)));
        }
        data_table_cell(&t, x->advice ? cell_safe(a, x->advice) : "?");
        data_table_cell(&t, data_name(r, x->object, a));
        data_table_cell(&t, x->function ? data_function(x->function, NULL, a) : "");
        data_table_cell(&t, data_place(x->file, x->line, a));
        data_table_row(&t, x->evidence ? cell_safe(a, x->evidence) : NULL);
    }
    grid_put(&t.grid, out);
    data_put_rest(shown, r->data_advice_count, o->by == REPORT_BY_ADVICE ? "--all" : "--by advice --all", out);
}

/* ---- other sizes of caches ---- */

/* Two digits behind the point: most are small. */
static const char *ratio_text(const struct prof_result *r, uint32_t object, uint64_t bytes, struct arena *a)
{
    struct data_range range = DATA_RANGE(r->data_curves, r->data_curve_count, object, object);
    for (size_t i = range.first; i < range.end; i++) {
        const struct prof_data_curve *c = &r->data_curves[i];
        double ratio = data_curve_ratio(r, c);
        if (c->bytes == bytes)
            return isnan(ratio) ? "?" : arena_printf(a, "%.2f%%", 100 * ratio);
    }
    return "?";
}

/* The program, then the first objects that have one. */
static size_t choose_curves(const struct prof_result *r, size_t max, uint32_t *list)
{
    size_t n = 0;
    for (size_t i = 0; i < r->data_curve_count && n < max; i++)
        if (i == 0 || r->data_curves[i].object != r->data_curves[i - 1].object)
            list[n++] = r->data_curves[i].object;
    return n;
}

static void add_curve_column(struct data_table *t, const struct prof_result *r, uint32_t object, struct arena *a)
{
    struct strbuf head = {0};
    cell_put_short(&head, object == ID_NONE ? "program" : data_name(r, object, a), CURVE_NAME);
    data_table_column(t, "", arena_strdup(a, head.data ? head.data : ""), NULL, false);
    str_free(&head);
}

/* A filter in front of the caches keeps what only smaller ones would miss. */
static void put_smaller(const struct prof_result *r, uint64_t least, const struct report_options *o, struct strbuf *out)
{
    enum { LEAST = 4096 };
    if (least > LEAST && r->spy_count && r->spy->ratio >= 1)
        cell_put_wrapped(out, "Of smaller caches mtool spy --unfiltered tells.", report_width(o), 0);
}

void data_put_curves(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    struct data_table t = {0};
    uint32_t list[CURVES_MAX];
    size_t n = choose_curves(r, report_width(o) < 140 ? CURVES_NARROW : CURVES_MAX, list);
    if (!n) {
        str_puts(out, "No miss-ratio curve is in this profile.\n");
        return;
    }
    cell_put_wrapped(out,
                     "Misses of each reference of the program in fully associative LRU caches of other sizes, in all "
                     "and of the first objects:",
                     report_width(o), 0);
    data_table_column(&t, "", "bytes", NULL, false);
    for (size_t k = 0; k < n; k++)
        add_curve_column(&t, r, list[k], a);
    data_table_begin(&t, o, a);
    struct data_range first = DATA_RANGE(r->data_curves, r->data_curve_count, object, list[0]);
    for (size_t i = first.first; i < first.end; i++) {
        data_table_cell(&t, figure_bytes(a, r->data_curves[i].bytes));
        for (size_t k = 0; k < n; k++)
            data_table_cell(&t, ratio_text(r, list[k], r->data_curves[i].bytes, a));
        data_table_row(&t, NULL);
    }
    grid_put(&t.grid, out);
    put_smaller(r, r->data_curves[first.first].bytes, o, out);
}
