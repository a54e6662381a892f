/* SPDX-License-Identifier: Apache-2.0
 * The ranks of a merged profile: what each did with its time, and what they share unevenly. Left out of other pages. */
#include <math.h>

#include "report/html/html.h"

enum { RANKS_MAX = 256, SPREADS_MAX = 20 };

static void put_rank(struct html_page *p, const struct prof_rank *k)
{
    const double seconds[] = {k->wall_s, k->user_s, k->predicted_user_s, k->memory_s, k->sync_s, k->system_s};
    str_printf(p->out, "<tr><th scope=\"row\" class=\"n\">%u</th>", k->rank);
    for (size_t i = 0; i < ARRAY_LEN(seconds); i++)
        html_cell(p, "n", tour_seconds(&p->tour, seconds[i]));
    html_cell(p, "n", figure_count(p->a, k->instructions));
    html_puts(p, "</tr>\n");
}

static void put_ranks(struct html_page *p)
{
    static const struct html_column columns[] = {{"n", "rank"},          {"n", "wall&#160;s"},   {"n", "user&#160;s"},
                                                 {"n", "ideal&#160;s"},  {"n", "memory&#160;s"}, {"n", "waited&#160;s"},
                                                 {"n", "kernel&#160;s"}, {"n", "instructions"}};
    double longest = 0;
    for (size_t i = 0; i < p->r->rank_row_count; i++)
        longest = fmax(longest, p->r->ranks[i].wall_s);
    p->tour.decimals = figure_decimals(longest);
    html_table(p, "table of ranks", columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < p->r->rank_row_count && i < RANKS_MAX; i++)
        put_rank(p, &p->r->ranks[i]);
    html_table_end(p);
    html_more(p, p->r->rank_row_count, RANKS_MAX, "--by rank --all");
}

static void put_spread(struct html_page *p, const struct prof_spread *s)
{
    const struct prof_object *o = tour_object(&p->tour, s->object);
    const double seconds[] = {s->min_s, s->mean_s, s->max_s};
    html_puts(p, "<tr>");
    for (size_t i = 0; i < ARRAY_LEN(seconds); i++)
        html_cell(p, "n", tour_seconds(&p->tour, seconds[i]));
    html_cell(p, "n strong", figure_real(p->a, s->imbalance, 2));
    html_cell(p, "n", arena_printf(p->a, "%u", s->rank_most));
    html_cell(p, "", o ? arena_printf(p->a, "%s %s", tour_name(&p->tour, o), tour_place(&p->tour, o)) : "");
    html_puts(p, "</tr>\n");
}

static void put_spreads(struct html_page *p)
{
    static const struct html_column columns[] = {{"n", "least&#160;s"}, {"n", "mean&#160;s"},
                                                 {"n", "most&#160;s"},  {"n", "most/mean"},
                                                 {"n", "most: rank"},   {"", "loop or procedure"}};
    size_t count;
    const struct prof_spread **list = ranks_uneven(p->r, 0, p->a, &count);
    if (!count)
        return;
    html_puts(p, "<h3>Load imbalance over ranks</h3>\n");
    html_table(p, "table of load imbalance", columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < count && i < SPREADS_MAX; i++)
        put_spread(p, list[i]);
    html_table_end(p);
    html_more(p, count, SPREADS_MAX, "--by rank --all");
}

void html_ranks(struct html_page *p)
{
    if (!p->r->rank_row_count)
        return;
    html_section(p, "ranks", "Ranks", "Ranks");
    put_ranks(p);
    put_spreads(p);
    html_puts(p, "</section>\n");
}
