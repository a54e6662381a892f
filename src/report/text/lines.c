/* SPDX-License-Identifier: Apache-2.0
 * Source lines as a table: counts and samples, and seconds where a described machine told them (mtool monster). */
#include <math.h>
#include <stdlib.h>

#include "report/impl.h"

static const struct grid_column line_columns[] = {
    {{"samples", ""}, false, NULL},    {{"share", ""}, false, NULL},        {{"instructions", ""}, false, NULL},
    {{"memory ops", ""}, false, NULL}, {{"line", ""}, true, shorten_place},
};
static const struct grid_column timed_line_columns[] = {
    {{"memory", "s"}, false, NULL},      {{"actual", "s"}, false, NULL},    {{"share", ""}, false, NULL},
    {{"instructions", ""}, false, NULL}, {{"memory ops", ""}, false, NULL}, {{"line", ""}, true, shorten_place},
};
static int compare_lines(const void *x, const void *y)
{
    const struct prof_line *a = *(const struct prof_line *const *)x, *b = *(const struct prof_line *const *)y;
    uint64_t sa = a->samples + 1, sb = b->samples + 1; /* unknown becomes 0: last */
    if (sa != sb)
        return sa > sb ? -1 : 1;
    return a->memory_ops != b->memory_ops ? (a->memory_ops > b->memory_ops ? -1 : 1) : (a > b) - (a < b);
}

static double samples_of_lines(const struct prof_result *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->line_count; i++)
        sum += r->lines[i].samples == PROF_UNKNOWN ? 0 : r->lines[i].samples;
    return (double)sum;
}

static int compare_timed_lines(const void *x, const void *y)
{
    const struct prof_line *a = *(const struct prof_line *const *)x, *b = *(const struct prof_line *const *)y;
    if (a->memory_s < b->memory_s || a->memory_s > b->memory_s)
        return a->memory_s < b->memory_s ? 1 : -1;
    if (a->actual_s < b->actual_s || a->actual_s > b->actual_s)
        return a->actual_s < b->actual_s ? 1 : -1;
    return (a > b) - (a < b);
}

static void table_timed_lines(const struct prof_result *r, const struct report_options *o, double all, struct arena *a,
                              struct strbuf *out)
{
    const struct prof_line **list = ARENA_ARRAY(a, const struct prof_line *, r->line_count);
    struct grid g;
    for (size_t i = 0; i < r->line_count; i++)
        list[i] = &r->lines[i];
    qsort(list, r->line_count, sizeof *list, compare_timed_lines);
    int decimals = figure_decimals(list[0]->actual_s);
    grid_init(&g, timed_line_columns, ARRAY_LEN(timed_line_columns), o, a);
    for (size_t i = 0; i < row_limit(o, r->line_count); i++) {
        const struct prof_line *l = list[i];
        const char *const cells[ARRAY_LEN(timed_line_columns)] = {
            figure_real(a, l->memory_s, decimals),
            figure_real(a, l->actual_s, decimals),
            figure_percent(a, l->actual_s / all),
            figure_count(a, l->instructions),
            figure_count(a, l->memory_ops),
            cell_safe(a, arena_printf(a, "%s:%u", l->file ? l->file : "?", l->line)),
        };
        grid_row(&g, cells, false);
    }
    grid_put(&g, out);
    put_rest(row_limit(o, r->line_count), r->line_count, out);
}

static double seconds_of_lines(const struct prof_result *r)
{
    double sum = NAN;
    for (size_t i = 0; i < r->line_count; i++)
        sum = prof_sum(sum, r->lines[i].actual_s);
    return sum;
}

void lines_put(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    double all_s = seconds_of_lines(r);
    if (all_s > 0) {
        table_timed_lines(r, o, all_s, a, out);
        return;
    }
    const struct prof_line **list = ARENA_ARRAY(a, const struct prof_line *, r->line_count);
    double all = samples_of_lines(r);
    struct grid g;
    for (size_t i = 0; i < r->line_count; i++)
        list[i] = &r->lines[i];
    qsort(list, r->line_count, sizeof *list, compare_lines);
    grid_init(&g, line_columns, ARRAY_LEN(line_columns), o, a);
    for (size_t i = 0; i < row_limit(o, r->line_count); i++) {
        const struct prof_line *l = list[i];
        const char *const cells[ARRAY_LEN(line_columns)] = {
            figure_count(a, l->samples),
            figure_percent(a, l->samples == PROF_UNKNOWN ? NAN : (double)l->samples / all),
            figure_count(a, l->instructions),
            figure_count(a, l->memory_ops),
            cell_safe(a, arena_printf(a, "%s:%u", l->file ? l->file : "?", l->line)),
        };
        grid_row(&g, cells, false);
    }
    if (r->line_count)
        grid_put(&g, out);
    else
        str_puts(out, "No source line is known: the program has no line table (compile it with -g).\n");
    put_rest(row_limit(o, r->line_count), r->line_count, out);
}
