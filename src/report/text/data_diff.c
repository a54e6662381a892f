/* SPDX-License-Identifier: Apache-2.0
 * What data objects miss, before and after a change, as text. */
#include <assert.h>
#include <math.h>

#include "report/text/data.h"

const char *data_misses_text(double misses, struct arena *a)
{
    return isfinite(misses) && misses >= 0 ? figure_brief(a, (uint64_t)misses) : "?";
}

const char *data_change_text(const struct diff_figure *f, struct arena *a)
{
    double change = f->change.value;
    if (!isfinite(change))
        return "?";
    const char *n = figure_brief(a, (uint64_t)fabs(change)), *sign = change > 0 ? "+" : change < 0 ? "-" : "";
    return f->old.value > 0 ? arena_printf(a, "%s%s (%s%s)", sign, n, change > 0 ? "+" : "",
                                           figure_percent(a, change / f->old.value))
                            : arena_printf(a, "%s%s", sign, n);
}

const struct prof_data *data_diff_any(const struct diff_data *x)
{
    assert(x->now || x->old); /* else there is nothing to tell */
    return x->now ? x->now : x->old;
}

const char *data_diff_name(const struct prof_diff *d, const struct diff_data *x, struct arena *a)
{
    return x->now ? data_name(d->now, (uint32_t)(x->now - d->now->data), a)
                  : data_name(d->old, (uint32_t)(x->old - d->old->data), a);
}

static bool is_any_timed(const struct prof_diff *d)
{
    for (size_t i = 0; i < d->data_count; i++)
        if (d->data[i].old && d->data[i].now && isfinite(d->data[i].memory_s.change.value))
            return true;
    return false;
}

static double longest(const struct prof_diff *d)
{
    double max = 0;
    for (size_t i = 0; i < d->data_count; i++)
        max = fmax(max, fmax(d->data[i].memory_s.old.value, d->data[i].memory_s.now.value));
    return max;
}

static void put_row(struct data_table *t, const struct prof_diff *d, const struct diff_data *x, struct arena *a)
{
    int decimals = figure_decimals(longest(d));
    data_table_cell(t, x->old ? data_misses_text(x->misses.old.value, a) : "-");
    data_table_cell(t, x->now ? data_misses_text(x->misses.now.value, a) : "-");
    data_table_cell(t, data_change_text(&x->misses, a));
    if (t->is_timed) {
        data_table_cell(t, figure_real(a, x->memory_s.change.value, decimals));
        data_table_cell(t, figure_interval(a, &x->memory_s.change, decimals));
    }
    data_table_cell(t, prof_data_kind_name[data_diff_any(x)->kind]);
    data_table_cell(t, data_diff_name(d, x, a));
    data_table_row(t, NULL);
}

static void put_rows(const struct prof_diff *d, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    struct data_table t = {.is_timed = is_any_timed(d)};
    size_t worth = 0, wanted, shown;
    while (worth < d->data_count && d->data[worth].is_worth)
        worth++; /* they stand first */
    wanted = o->all ? d->data_count : worth;
    shown = min_u64(wanted, o->top ? o->top : o->all ? wanted : REPORT_TOP);
    if (!wanted) {
        cell_put_wrapped(out, "No data object's misses changed by a hundredth of the program's (--all shows all).",
                         report_width(o), 0);
        return;
    }
    data_table_column(&t, "misses", "old", NULL, false);
    data_table_column(&t, "", "new", NULL, false);
    data_table_column(&t, "", "change", NULL, false);
    if (t.is_timed) {
        data_table_column(&t, "memory s", "change", NULL, false);
        data_table_column(&t, "95%", "interval", NULL, false);
    }
    data_table_column(&t, "", "kind", NULL, true);
    data_table_column(&t, "", "data object", shorten_middle, true);
    data_table_begin(&t, o, a);
    for (size_t i = 0; i < shown; i++)
        put_row(&t, d, &d->data[i], a);
    grid_put(&t.grid, out);
    if (shown < wanted)
        str_printf(out, "%zu more (--top %zu)\n", wanted - shown, wanted);
}

void data_put_diff(const struct prof_diff *d, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    if (!d->is_of_data)
        return;
    const struct diff_figure *f = &d->whole[DIFF_MISSES];
    if (d->levels[1] == ID_NONE) {
        str_puts(out, "\n");
        cell_put_wrapped(out, "The simulated caches of the two are not alike, so misses cannot be compared.",
                         report_width(o), 0);
        return;
    }
    const char *level = d->now->caches[d->levels[1]].name;
    str_puts(out, "\n");
    cell_put_wrapped(out,
                     arena_printf(a, "Simulated misses of %s: %s, now %s, %s", level ? cell_safe(a, level) : "?",
                                  data_misses_text(f->old.value, a), data_misses_text(f->now.value, a),
                                  data_change_text(f, a)),
                     report_width(o), 0);
    put_rows(d, o, a, out);
}
