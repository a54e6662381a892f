/* SPDX-License-Identifier: Apache-2.0
 * The ranks of a merged profile and how unevenly they share the work, as text. */
#include <math.h>
#include <stdlib.h>

#include "report/impl.h"

static const struct grid_column rank_columns[] = {
    {{"", "rank"}, false, NULL},    {{"wall", "s"}, false, NULL},        {{"user", "s"}, false, NULL},
    {{"ideal", "s"}, false, NULL},  {{"memory", "s"}, false, NULL},      {{"waited", "s"}, false, NULL},
    {{"kernel", "s"}, false, NULL}, {{"", "instructions"}, false, NULL},
};
static const struct grid_column spread_columns[] = {
    {{"actual s", "least"}, false, NULL},     {{"", "mean"}, false, NULL},          {{"", "most"}, false, NULL},
    {{"most/", "mean"}, false, NULL},         {{"most", "rank"}, false, NULL},      {{"", ""}, true, NULL},
    {{"", "function"}, true, shorten_middle}, {{"", "place"}, true, shorten_place},
};

static void put_rank(struct grid *g, const struct prof_rank *k, int decimals, struct arena *a)
{
    const double seconds[] = {k->wall_s, k->user_s, k->predicted_user_s, k->memory_s, k->sync_s, k->system_s};
    const char *cells[ARRAY_LEN(rank_columns)] = {arena_printf(a, "%u", k->rank)};
    for (size_t i = 0; i < ARRAY_LEN(seconds); i++)
        cells[i + 1] = figure_real(a, seconds[i], decimals);
    cells[ARRAY_LEN(rank_columns) - 1] = figure_count(a, k->instructions);
    grid_row(g, cells, false);
}

/* What one rank does more of than the mean rank does: all others wait for that long at worst. */
static int compare_spreads(const void *x, const void *y)
{
    const struct prof_spread *a = *(const struct prof_spread *const *)x, *b = *(const struct prof_spread *const *)y;
    double more_a = a->max_s - a->mean_s, more_b = b->max_s - b->mean_s;
    return more_a != more_b ? (more_a < more_b ? 1 : -1) : (a->object > b->object) - (a->object < b->object);
}

const struct prof_spread **ranks_uneven(const struct prof_result *r, double min_s, struct arena *a, size_t *count)
{
    const struct prof_spread **list = ARENA_ARRAY(a, const struct prof_spread *, r->spread_count + 1);
    *count = 0;
    for (size_t i = 0; i < r->spread_count; i++)
        if (r->spreads[i].max_s - r->spreads[i].mean_s > min_s)
            list[(*count)++] = &r->spreads[i];
    qsort(list, *count, sizeof *list, compare_spreads);
    return list;
}

static void put_spreads(const struct prof_result *r, const struct report_options *o, double longest, struct arena *a,
                        struct strbuf *out)
{
    int decimals = figure_decimals(longest);
    size_t count;
    struct grid g;
    const struct prof_spread **list = ranks_uneven(r, o->all ? 0 : longest / 100, a, &count);
    size_t max = min_u64(count, o->top ? o->top : o->all ? count : REPORT_TOP);
    if (!count) {
        str_puts(out, "\nThere is no load imbalance over ranks.\n");
        return;
    }
    grid_init(&g, spread_columns, ARRAY_LEN(spread_columns), o, a);
    for (size_t i = 0; i < max; i++) {
        const struct prof_object *x = &r->objects[list[i]->object];
        const char *const cells[ARRAY_LEN(spread_columns)] = {
            figure_real(a, list[i]->min_s, decimals),
            figure_real(a, list[i]->mean_s, decimals),
            figure_real(a, list[i]->max_s, decimals),
            figure_real(a, list[i]->imbalance, 2),
            arena_printf(a, "%u", list[i]->rank_most),
            x->is_wait ? "waits" : prof_kind_name[x->kind],
            cell_safe(a, x->function ? name_brief(a, name_plain(a, x->function)) : "?"),
            cell_safe(a, place_of(x, a)),
        };
        grid_row(&g, cells, x->is_wait);
    }
    str_puts(out, "\nLoad imbalance over ranks:\n");
    grid_put(&g, out);
}

void ranks_put(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    struct grid g;
    double longest = 0;
    if (!r->rank_row_count) {
        cell_put_wrapped(out,
                         "There are no ranks in this profile: mtool merge makes one of the profiles of a parallel job.",
                         report_width(o), 0);
        return;
    }
    for (size_t i = 0; i < r->rank_row_count; i++)
        longest = fmax(longest, r->ranks[i].wall_s);
    int decimals = figure_decimals(longest);
    grid_init(&g, rank_columns, ARRAY_LEN(rank_columns), o, a);
    for (size_t i = 0; i < r->rank_row_count; i++)
        put_rank(&g, &r->ranks[i], decimals, a);
    grid_put(&g, out);
    if (r->spread_count)
        put_spreads(r, o, longest, a, out);
}
