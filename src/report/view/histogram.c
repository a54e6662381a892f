/* SPDX-License-Identifier: Apache-2.0
 * The first page: the program in two lines, then a bar an object: ideal, branch and memory part side by side, and
 * beside it the seconds lost to memory with their interval. */
#include <math.h>

#include "report/view/view.h"

enum { SHORT_SCREEN = 10, INTERVAL_FROM = 72, OVERHEAD_FROM = 96, PLACE_FROM = 25 }; /* rows; columns */

static bool is_short(const struct view *v) { return screen_rows(v->screen) < SHORT_SCREEN; }

/* A line above all others. */
static unsigned height_of_first(const struct view *v) { return prof_model_failed(v->tour.r); }

static unsigned height_of_top(const struct view *v) { return height_of_first(v) + (is_short(v) ? 2 : 5); }

unsigned histogram_height(const struct view *v)
{
    unsigned taken = height_of_top(v) + (is_short(v) ? 1 : 2), rows = screen_rows(v->screen);
    return rows > taken ? rows - taken : 1;
}

/* ---- the program ---- */

static const char *times(struct view *v)
{
    const struct prof_result *r = v->tour.r;
    struct arena *a = v->frame;
    if (!isfinite(r->actual_user_s.value) && !isfinite(r->predicted_user_s.value))
        return "Nothing was timed: only counts are in this profile.";
    int decimals = figure_decimals(fmax(r->actual_user_s.value, r->predicted_user_s.value));
    const char *predicted = figure_real(a, r->predicted_user_s.value, decimals);
    if (!isfinite(r->actual_user_s.value))
        return arena_printf(a, "predicted %s s (%s)", predicted, figure_interval(a, &r->predicted_user_s, decimals));
    const struct prof_interval percent = prof_interval_scaled(&r->overhead, 100);
    return arena_printf(a, "measured %s s, predicted %s s; memory %s of it (%s%%)",
                        figure_real(a, r->actual_user_s.value, decimals), predicted,
                        figure_percent(a, r->overhead.value), figure_interval(a, &percent, 0));
}

static const char *several(struct view *v, size_t n, const char *what)
{
    return arena_printf(v->frame, "%zu %s%s", n, what, n == 1 ? "" : "s");
}

static const char *coverage(struct view *v)
{
    const struct prof_result *r = v->tour.r;
    struct arena *a = v->frame;
    const char *measured = "";
    if (isfinite(r->coverage.memory_ops_measured))
        measured =
            arena_printf(a, "Measured %s of memory operations. ", figure_percent(a, r->coverage.memory_ops_measured));
    static const char *const by[] = {[REPORT_SORT_MEMORY] = "memory",
                                     [REPORT_SORT_ACTUAL] = "actual time",
                                     [REPORT_SORT_IDEAL] = "ideal time",
                                     [REPORT_SORT_OVERHEAD] = "overhead",
                                     [REPORT_SORT_INSTRUCTIONS] = "instructions"};
    return arena_printf(
        a, "%s%s by %s%s.", measured, several(v, view_rows(v), "row"), by[v->sort],
        v->all || v->tour.shown == v->tour.rows.count ? "" : arena_printf(a, " (of %zu: a)", v->tour.rows.count));
}

/* What is there beside the rows, each with its key. */
static const char *beside(struct view *v)
{
    const struct prof_result *r = v->tour.r;
    const char *shares = "", *data = "", *warnings = "";
    if (r->rank_row_count || r->thread_count > 1)
        shares = arena_printf(v->frame, "%s (t)  ",
                              r->rank_row_count ? several(v, r->rank_row_count, "rank")
                                                : several(v, r->thread_count, "thread"));
    if (r->data_count)
        data = arena_printf(v->frame, "%s (o)  ", several(v, r->data_count, "data object"));
    if (r->warning_count)
        warnings = arena_printf(v->frame, "%s (i)", several(v, r->warning_count, "warning"));
    return arena_printf(v->frame, "%s%s%s", shares, data, warnings);
}

static void paint_legend(struct view *v, unsigned row)
{
    static const char *const words[] = {[BAR_IDEAL] = "ideal", [BAR_BRANCH] = "branches", [BAR_MEMORY] = "memory"};
    unsigned column = 1;
    for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
        screen_bar(v->screen, row, column, 2, (enum screen_bar)i);
        screen_put(v->screen, row, column + 3, 10, STYLE_PLAIN, words[i]);
        column += 4 + (unsigned)strlen(words[i]) + 1;
    }
    screen_put(v->screen, row, column + 2, screen_columns(v->screen), STYLE_PLAIN, beside(v));
}

/* ---- rows ---- */

struct columns { /* where each begins, and how wide it is; width 0: not shown */
    unsigned memory, interval, interval_width, overhead, overhead_width, name, name_width, bar, bar_width;
};

static struct columns lay_out(const struct view *v)
{
    unsigned width = screen_columns(v->screen), at = 1 + 4;
    struct columns c = {.memory = at};
    at += 9;
    if (width >= INTERVAL_FROM) {
        c.interval = at;
        c.interval_width = 17;
        at += c.interval_width + 1;
    }
    if (width >= OVERHEAD_FROM) {
        c.overhead = at;
        c.overhead_width = 6;
        at += c.overhead_width + 1;
    }
    unsigned rest = width > at + 2 ? width - at - 2 : 0;
    c.name = at + 1;
    c.name_width = rest * 3 / 5;
    c.bar = c.name + c.name_width + 1;
    c.bar_width = rest > c.name_width + 1 ? rest - c.name_width - 1 : 0;
    return c;
}

static void put_right(struct view *v, unsigned row, unsigned column, unsigned width, enum view_style style,
                      const char *text)
{
    struct strbuf s = {0};
    str_puts(&s, "");
    cell_put_right(&s, text, width);
    if (width)
        screen_put(v->screen, row, column, width, style, s.data);
    str_free(&s);
}

static void paint_heads(struct view *v, unsigned row, const struct columns *c)
{
    static const char *const heads[] = {[REPORT_SORT_MEMORY] = "memory s",
                                        [REPORT_SORT_ACTUAL] = "actual s",
                                        [REPORT_SORT_IDEAL] = "ideal s",
                                        [REPORT_SORT_OVERHEAD] = "memory s",
                                        [REPORT_SORT_INSTRUCTIONS] = "memory s"};
    screen_put(v->screen, row, 0, screen_columns(v->screen), STYLE_HEAD, "");
    put_right(v, row, 0, 4, STYLE_HEAD, "#");
    put_right(v, row, c->memory, 8, STYLE_HEAD, heads[v->sort]);
    put_right(v, row, c->interval, c->interval_width, STYLE_HEAD, "95% interval");
    put_right(v, row, c->overhead, c->overhead_width, STYLE_HEAD, "over");
    screen_put(v->screen, row, c->name, c->name_width, STYLE_HEAD, "loop or procedure");
    screen_put(v->screen, row, c->bar, c->bar_width, STYLE_HEAD, "time");
}

/* The figure that the rows are ordered by, where it is one of seconds; else the memory part. */
static const struct prof_interval *figure_of(const struct view *v, const struct prof_object *o)
{
    return v->sort == REPORT_SORT_ACTUAL ? &o->actual_s : v->sort == REPORT_SORT_IDEAL ? &o->ideal_s : &o->memory_s;
}

static unsigned scaled(double seconds, double max, unsigned width)
{
    return max > 0 ? (unsigned)lround(fmin(seconds / max, 1) * width) : 0;
}

static void paint_bar(struct view *v, unsigned row, const struct columns *c, const struct prof_object *o, double max)
{
    double ideal = tour_part(o->ideal_s.value), branch = ideal + tour_part(o->branch_s);
    unsigned i = scaled(ideal, max, c->bar_width), b = scaled(branch, max, c->bar_width);
    unsigned m = scaled(branch + tour_part(o->memory_s.value), max, c->bar_width);
    screen_bar(v->screen, row, c->bar, i, BAR_IDEAL);
    screen_bar(v->screen, row, c->bar + i, b - i, BAR_BRANCH);
    screen_bar(v->screen, row, c->bar + b, m - b, BAR_MEMORY);
}

static void paint_row(struct view *v, unsigned row, size_t at, const struct columns *c, double max)
{
    const struct prof_object *o = v->tour.rows.objects[at];
    const struct prof_interval *s = figure_of(v, o);
    enum view_style style = at == v->at ? STYLE_CHOSEN : o->is_significant ? STYLE_PLAIN : STYLE_DIM;
    screen_put(v->screen, row, 0, c->bar - 1, style, "");
    put_right(v, row, 0, 4, style, arena_printf(v->frame, "%s%zu", at == v->at ? ">" : "", at + 1));
    put_right(v, row, c->memory, 8, style, tour_seconds(&v->tour, s->value));
    put_right(v, row, c->interval, c->interval_width, style, figure_interval(v->frame, s, v->tour.decimals));
    put_right(v, row, c->overhead, c->overhead_width, style, figure_percent(v->frame, overhead_of(o)));
    const char *name = tour_name(&v->tour, o);
    if (c->name_width >= PLACE_FROM)
        name = arena_printf(v->frame, "%s  %s", name, tour_place(&v->tour, o));
    screen_put(v->screen, row, c->name, c->name_width, style, name);
    paint_bar(v, row, c, o, max);
}

static void paint_chosen(struct view *v, unsigned row)
{
    const struct prof_object *o = view_object(v);
    const char *text = "No loop or procedure was timed; mtool run takes times.";
    if (o)
        text = arena_printf(v->frame, "%s %s in %s, %s%s", prof_kind_name[o->kind], tour_name(&v->tour, o),
                            o->module ? cell_safe(v->frame, file_base_name(o->module)) : "?", tour_place(&v->tour, o),
                            o->is_significant ? "" : ": overhead not significant");
    view_put(v, row, STYLE_PLAIN, text);
}

void histogram_paint(struct view *v)
{
    struct columns c = lay_out(v);
    unsigned top = height_of_top(v), height = histogram_height(v);
    unsigned at = height_of_first(v);
    const char *command = tour_command(&v->tour);
    if (at)
        view_put(v, 0, STYLE_TITLE, banner_sentence(v->tour.r, v->frame));
    view_put(v, at, STYLE_TITLE, command ? cell_safe(v->frame, command) : "?");
    if (!is_short(v)) {
        view_put(v, at + 1, STYLE_PLAIN, times(v));
        view_put(v, at + 2, STYLE_PLAIN, coverage(v));
        paint_legend(v, at + 3);
        paint_chosen(v, top + height);
    }
    paint_heads(v, top - 1, &c);
    double max = tour_longest(&v->tour);
    for (unsigned i = 0; i < height && v->top + i < view_rows(v); i++)
        paint_row(v, top + i, v->top + i, &c, max);
}
