/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found, as text: data objects, then procedures (the Figure 2 of MemSpy: compute against memory stall)
 * and procedures with what they reach (its Figure 3: misses, stall, causes). */
#include <math.h>
#include <stdlib.h>

#include "report/text/data.h"

enum { LEVELS = 3, LEVELS_NARROW = 2, FEW = 5, BAR = 20, FRAMES = 3, EVICTORS = 3 };

/* ---- tables whose columns depend on what is known ---- */

void data_table_column(struct data_table *t, const char *above, const char *below, shorten_fn *shorten, bool is_left)
{
    t->columns[t->count++] = (struct grid_column){{above, below}, is_left, shorten};
}

void data_table_begin(struct data_table *t, const struct report_options *o, struct arena *a)
{
    grid_init(&t->grid, t->columns, t->count, o, a);
}

void data_table_cell(struct data_table *t, const char *text) { t->cells[t->at++] = text; }

void data_table_row(struct data_table *t, const char *note)
{
    grid_row(&t->grid, t->cells, false);
    if (note)
        grid_note(&t->grid, note);
    t->at = 0;
}

size_t data_limit(const struct report_options *o, size_t count, size_t few)
{
    return min_u64(count, o->top ? o->top : o->all ? count : few);
}

void data_put_rest(size_t shown, size_t count, const char *how, struct strbuf *out)
{
    if (shown < count)
        str_printf(out, "%zu more (%s)\n", count - shown, how);
}

const char *data_stall(const struct prof_interval *share, struct arena *a) { return figure_percent(a, share->value); }

static bool is_exact(const struct prof_interval *i) { return i->low == i->high || !isfinite(i->low); }

/* Of all rows that have an interval. */
static bool is_any_inexact(const struct prof_result *r)
{
    for (size_t i = 0; i < r->data_count; i++)
        if (!is_exact(&r->data[i].stall_share))
            return true;
    return false;
}

static bool is_any_timed(const struct prof_result *r)
{
    for (size_t i = 0; i < r->data_count; i++)
        if (isfinite(r->data[i].memory_s.value))
            return true;
    return false;
}

static int decimals_of(const struct prof_result *r)
{
    double max = 0;
    for (size_t i = 0; i < r->data_count; i++)
        max = fmax(max, r->data[i].memory_s.value);
    return figure_decimals(max);
}

/* Those of sharing only where there is any. */
static unsigned causes_of(const struct prof_result *r)
{
    for (uint32_t i = 0; i < r->cache_count; i++) {
        const struct prof_data_miss *m = data_miss(r, PROF_OWNER_PROGRAM, 0, i);
        if (m && m->true_sharing != PROF_UNKNOWN && m->true_sharing + m->false_sharing)
            return DATA_CAUSE_FALSE_SHARING + 1;
    }
    return DATA_CAUSE_CONFLICT + 1;
}

/* ---- columns that several tables have ---- */

void data_levels_columns(struct data_table *t, const struct prof_result *r, const struct report_options *o,
                         struct arena *a)
{
    size_t room = report_width(o) < REPORT_WIDE ? LEVELS_NARROW : LEVELS;
    t->level_count = data_levels(r, t->levels, t->level_max ? t->level_max : room);
    for (size_t i = 0; i < t->level_count; i++) {
        const char *name = r->caches[t->levels[i]].name;
        struct strbuf head = {0};
        cell_put_short(&head, name ? cell_safe(a, name) : "?", 6);
        data_table_column(t, arena_strdup(a, head.data ? head.data : ""), "misses", NULL, false);
        str_free(&head);
    }
}

void data_levels_cells(struct data_table *t, const struct prof_result *r, enum prof_data_owner owner, uint32_t id,
                       struct arena *a)
{
    for (size_t i = 0; i < t->level_count; i++)
        data_table_cell(t, figure_brief(a, data_misses_at(r, owner, id, t->levels[i])));
}

/* ---- the caches ---- */

/* Of samples, or of some sets. */
static bool have_intervals(const struct prof_result *r)
{
    for (uint32_t i = 0; i < r->cache_count; i++) {
        const struct prof_data_miss *m = data_miss(r, PROF_OWNER_PROGRAM, 0, i);
        if (m && m->misses_low != m->misses_high)
            return true;
    }
    return false;
}

static const char *misses_interval(const struct prof_data_miss *m, struct arena *a)
{
    if (!m || m->misses_low == PROF_UNKNOWN || m->misses_high == PROF_UNKNOWN || m->misses_low == m->misses_high)
        return "";
    return arena_printf(a, "%s..%s", figure_brief(a, m->misses_low), figure_brief(a, m->misses_high));
}

static void put_level(struct data_table *t, const struct prof_result *r, uint32_t cache, bool has_interval,
                      struct arena *a)
{
    const struct prof_data_miss *m = data_miss(r, PROF_OWNER_PROGRAM, 0, cache);
    uint64_t misses = m ? m->misses : PROF_UNKNOWN, references = m ? m->references : PROF_UNKNOWN;
    bool has_rate = misses != PROF_UNKNOWN && references != PROF_UNKNOWN && references;
    data_table_cell(t, data_level(&r->caches[cache], a));
    data_table_cell(t, figure_brief(a, references));
    data_table_cell(t, figure_brief(a, misses));
    if (has_interval)
        data_table_cell(t, misses_interval(m, a));
    data_table_cell(t, figure_percent(a, has_rate ? (double)misses / (double)references : NAN));
    for (unsigned c = 0; c < t->cause_count; c++)
        data_table_cell(t, figure_brief(a, data_cause_count(m, (enum data_cause)c)));
    data_table_row(t, NULL);
}

void data_put_caches(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    struct data_table t = {.cause_count = causes_of(r)};
    bool has_interval = have_intervals(r);
    cell_put_wrapped(out, data_how(r, a), report_width(o), 0);
    data_table_column(&t, "", "level", shorten_middle, true);
    data_table_column(&t, "refe-", "rences", NULL, false);
    data_table_column(&t, "", "misses", NULL, false);
    if (has_interval)
        data_table_column(&t, "95%", "interval", NULL, false);
    data_table_column(&t, "", "rate", NULL, false);
    for (unsigned c = 0; c < t.cause_count; c++)
        data_table_column(&t, c > DATA_CAUSE_CONFLICT ? data_causes[c].brief : "",
                          c > DATA_CAUSE_CONFLICT ? "shar." : data_causes[c].word, NULL, false);
    data_table_begin(&t, o, a);
    for (uint32_t i = 0; i < r->cache_count; i++)
        put_level(&t, r, i, has_interval, a);
    grid_put(&t.grid, out);
}

/* ---- data objects ---- */

static const char *object_note(const struct prof_result *r, uint32_t id, bool is_all, struct arena *a)
{
    const char *evictors = data_evictors(r, id, EVICTORS, a), *site = data_site(r, id, is_all ? SIZE_MAX : FRAMES, a),
               *evicted = is_all ? data_evicted(r, id, EVICTORS, a) : NULL, *type = r->data[id].type;
    struct strbuf s = {0};
    const char *const parts[][2] = {{"evicted by ", evictors},
                                    {"evicts ", evicted},
                                    {"allocated by ", site},
                                    {"type ", is_all && type ? cell_safe(a, type) : NULL}};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i][1])
            str_printf(&s, "%s%s%s", s.len ? "; " : "", parts[i][0], parts[i][1]);
    const char *note = s.len ? arena_strdup(a, s.data) : NULL;
    str_free(&s);
    return note;
}

static void put_object(struct data_table *t, const struct prof_result *r, uint32_t id, const struct report_options *o,
                       int decimals, struct arena *a)
{
    const struct prof_data *d = &r->data[id];
    const struct prof_interval percent = prof_interval_scaled(&d->stall_share, 100);
    data_table_cell(t, data_stall(&d->stall_share, a));
    if (t->is_timed) {
        data_table_cell(t, figure_real(a, d->memory_s.value, decimals));
        data_table_cell(t, figure_interval(a, &d->memory_s, decimals));
    } else if (t->is_inexact) {
        data_table_cell(t, figure_interval(a, &percent, 1));
    }
    data_levels_cells(t, r, PROF_OWNER_OBJECT, id, a);
    data_table_cell(t, data_cause_text(r, PROF_OWNER_OBJECT, id, report_width(o) < REPORT_WIDE, a));
    data_table_cell(t, figure_bytes(a, d->bytes));
    data_table_cell(t, prof_data_kind_name[d->kind]);
    data_table_cell(t, data_name(r, id, a));
    data_table_row(t, object_note(r, id, o->by == REPORT_BY_DATA, a));
}

static void put_objects(const struct prof_result *r, const struct report_options *o, size_t few, struct arena *a,
                        struct strbuf *out)
{
    struct data_table t = {.is_timed = is_any_timed(r), .is_inexact = is_any_inexact(r)};
    size_t shown = data_limit(o, r->data_count, few);
    str_puts(out, "\nData objects, and what of the program's memory stall is theirs:\n");
    data_table_column(&t, "", "stall", NULL, false);
    if (t.is_timed)
        data_table_column(&t, "memory", "s", NULL, false);
    if (t.is_timed || t.is_inexact)
        data_table_column(&t, "95%", "interval", NULL, false);
    data_levels_columns(&t, r, o, a);
    data_table_column(&t, "most", "by cause", NULL, true);
    data_table_column(&t, "", "bytes", NULL, false);
    data_table_column(&t, "", "kind", NULL, true);
    data_table_column(&t, "", "data object", shorten_middle, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++)
        put_object(&t, r, (uint32_t)i, o, decimals_of(r), a);
    if (r->data_count)
        grid_put(&t.grid, out);
    else
        str_puts(out, "None was reached.\n");
    data_put_rest(shown, r->data_count, o->by == REPORT_BY_DATA ? "--all" : "--by data --all", out);
}

/* ---- procedures: compute against memory stall ---- */

static const char *bar(const struct prof_object *p, double largest, struct arena *a)
{
    double compute = fmax(0, p->actual_s.value - fmax(0, p->memory_s.value)), memory = fmax(0, p->memory_s.value);
    char text[BAR + 1];
    size_t dots = largest > 0 && isfinite(compute) ? (size_t)lround(BAR * compute / largest) : 0,
           all = largest > 0 && isfinite(compute + memory) ? (size_t)lround(BAR * (compute + memory) / largest) : 0;
    all = min_u64(all, BAR);
    for (size_t i = 0; i < all; i++)
        text[i] = i < dots ? '.' : '#';
    return arena_strndup(a, text, all);
}

static void put_measured(const struct prof_result *r, const struct report_options *o, size_t few, struct arena *a,
                         struct strbuf *out)
{
    const struct report_options by = {.by = REPORT_BY_FUNCTION, .sort = REPORT_SORT_ACTUAL, .all = true};
    struct data_table t = {0};
    struct row_set rows;
    report_rows_build(r, &by, a, &rows);
    size_t shown = data_limit(o, rows.count, few);
    double whole = r->actual_user_s.value, largest = rows.count ? rows.objects[0]->actual_s.value : 0;
    int decimals = figure_decimals(largest);
    str_puts(out, "\nProcedures, measured: compute (.) and memory stall (#):\n");
    data_table_column(&t, "of", "time", NULL, false);
    data_table_column(&t, "", "time s", NULL, false);
    data_table_column(&t, "compute", "s", NULL, false);
    data_table_column(&t, "stall", "s", NULL, false);
    data_table_column(&t, "95%", "interval", NULL, false);
    data_table_column(&t, "", "", NULL, true);
    data_table_column(&t, "", "procedure", shorten_middle, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++) {
        const struct prof_object *p = rows.objects[i];
        data_table_cell(&t, figure_percent(a, whole > 0 ? p->actual_s.value / whole : NAN));
        data_table_cell(&t, figure_real(a, p->actual_s.value, decimals));
        data_table_cell(&t, figure_real(a, p->actual_s.value - p->memory_s.value, decimals));
        data_table_cell(&t, figure_real(a, p->memory_s.value, decimals));
        data_table_cell(&t, figure_interval(a, &p->memory_s, decimals));
        data_table_cell(&t, bar(p, largest, a));
        data_table_cell(&t, data_function(p->function, p->module, a));
        data_table_row(&t, NULL);
    }
    grid_put(&t.grid, out);
    data_put_rest(shown, rows.count, "--by function --all", out);
}

static const char *nearest_name(const struct prof_result *r, struct arena *a)
{
    uint32_t level = data_nearest(r);
    return level == ID_NONE || !r->caches[level].name ? "" : cell_safe(a, r->caches[level].name);
}

/* Nothing was measured: what of the stall is each one's. */
static void put_simulated(const struct prof_result *r, const struct report_options *o, size_t few, struct arena *a,
                          struct strbuf *out)
{
    struct data_table t = {0};
    size_t count, shown;
    const struct data_procedure *list = data_procedures(r, a, &count);
    shown = data_limit(o, count, few);
    str_puts(out, "\nProcedures, and their part of the memory stall (no time was measured):\n");
    data_table_column(&t, "", "stall", NULL, false);
    data_table_column(&t, "", "references", NULL, false);
    data_table_column(&t, nearest_name(r, a), "misses", NULL, false);
    data_table_column(&t, "", "rate", NULL, false);
    data_table_column(&t, "", "procedure", shorten_middle, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++) {
        const struct data_procedure *p = &list[i];
        data_table_cell(&t, figure_percent(a, p->stall_share));
        data_table_cell(&t, figure_brief(a, p->references));
        data_table_cell(&t, figure_brief(a, p->misses));
        data_table_cell(&t, figure_percent(a, data_rate(p->misses, p->references)));
        data_table_cell(&t, data_function(p->function, p->module, a));
        data_table_row(&t, NULL);
    }
    grid_put(&t.grid, out);
    data_put_rest(shown, count, "--by cell --all", out);
}

/* ---- procedures and data objects ---- */

static void put_cell_row(struct data_table *t, const struct prof_result *r, uint32_t id, int decimals, struct arena *a)
{
    const struct prof_data_cell *c = &r->data_cells[id];
    double shares[DATA_STALL_COUNT];
    data_table_cell(t, data_stall(&c->stall_share, a));
    if (t->is_timed)
        data_table_cell(t, figure_real(a, c->memory_s.value, decimals));
    data_levels_cells(t, r, PROF_OWNER_CELL, id, a);
    data_stall_causes(r, PROF_OWNER_CELL, id, shares);
    for (unsigned k = 0; k < t->cause_count; k++)
        data_table_cell(t, shares[k] == 0 ? "-" : figure_percent(a, shares[k]));
    data_table_cell(t, data_function(c->function, c->module, a));
    data_table_cell(t, data_name(r, c->object, a));
    data_table_row(t, NULL);
}

static void put_cells(const struct prof_result *r, const struct report_options *o, size_t few, struct arena *a,
                      struct strbuf *out)
{
    struct data_table t = {.is_timed = is_any_timed(r), .cause_count = causes_of(r)};
    size_t shown = data_limit(o, r->data_cell_count, few);
    if (!r->data_cell_count)
        return;
    t.level_max = t.is_timed && t.cause_count > DATA_CAUSE_CONFLICT + 1 && report_width(o) < REPORT_WIDE;
    str_puts(out, "Procedures and data objects: misses, and which causes their stall has:\n");
    data_table_column(&t, "", "stall", NULL, false);
    if (t.is_timed)
        data_table_column(&t, "memory", "s", NULL, false);
    data_levels_columns(&t, r, o, a);
    for (unsigned c = 0; c < t.cause_count; c++)
        data_table_column(&t, c > DATA_CAUSE_CONFLICT ? data_causes[c].brief : "",
                          c > DATA_CAUSE_CONFLICT ? "shar." : data_causes[c].brief, NULL, false);
    data_table_column(&t, "", "procedure", shorten_middle, true);
    data_table_column(&t, "", "data object", shorten_middle, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++)
        put_cell_row(&t, r, (uint32_t)i, decimals_of(r), a);
    grid_put(&t.grid, out);
    data_put_rest(shown, r->data_cell_count, o->by == REPORT_BY_CELL ? "--all" : "--by cell --all", out);
}

/* ---- the whole ---- */

static void put_overview(const struct prof_result *r, const struct report_options *o, struct arena *a,
                         struct strbuf *out)
{
    data_put_caches(r, o, a, out);
    put_objects(r, o, FEW, a, out);
    if (r->object_count && isfinite(r->actual_user_s.value))
        put_measured(r, o, FEW, a, out);
    else
        put_simulated(r, o, FEW, a, out);
    str_puts(out, "\n");
    put_cells(r, o, FEW, a, out);
    str_puts(out, r->data_advice_count ? "\n" : "");
    data_put_advice(r, o, FEW, a, out);
    cell_put_wrapped(out,
                     arena_printf(a,
                                  "More with --by data (all objects), cell, field, line, %ssharing (what threads take "
                                  "from each other) and curve (other sizes of caches).",
                                  r->data_process_count ? "process, " : ""),
                     report_width(o), 0);
}

void data_put(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    if (!r->spy_count)
        str_puts(out, "No reference was followed through simulated caches for this profile.\n");
    else if (o->by == REPORT_BY_DATA)
        data_put_caches(r, o, a, out), put_objects(r, o, REPORT_TOP, a, out);
    else if (o->by == REPORT_BY_CELL)
        put_cells(r, o, REPORT_TOP, a, out);
    else if (o->by == REPORT_BY_FIELD)
        data_put_fields(r, o, a, out);
    else if (o->by == REPORT_BY_LINE)
        data_put_lines(r, o, a, out);
    else if (o->by == REPORT_BY_SHARING)
        data_put_sharing(r, o, a, out);
    else if (o->by == REPORT_BY_ADVICE && !r->data_advice_count)
        str_puts(out, "There is no advice: no rule holds for a data object with a part of the stall worth it.\n");
    else if (o->by == REPORT_BY_ADVICE)
        data_put_advice(r, o, REPORT_TOP, a, out);
    else if (o->by == REPORT_BY_CURVE)
        data_put_curves(r, o, a, out);
    else if (o->by == REPORT_BY_PROCESS)
        data_put_processes(r, o, a, out);
    else
        put_overview(r, o, a, out);
}
