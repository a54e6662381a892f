/* SPDX-License-Identifier: Apache-2.0
 * What threads did with their time, as text. */
#include <math.h>
#include <stdlib.h>

#include "report/impl.h"

static const struct grid_column thread_columns[] = {
    {{"", "rank"}, false, NULL}, /* of a merged profile only */
    {{"", "thread"}, false, NULL},  {{"wall", "s"}, false, NULL},      {{"compute", "s"}, false, NULL},
    {{"memory", "s"}, false, NULL}, {{"uncounted", "s"}, false, NULL}, {{"kernel", "s"}, false, NULL},
    {{"spin", "s"}, false, NULL},   {{"blocked", "s"}, false, NULL},   {{"asleep", "s"}, false, NULL},
    {{"no cpu", "s"}, false, NULL},
};

static int compare_threads(const void *x, const void *y)
{
    const struct prof_thread *a = *(const struct prof_thread *const *)x, *b = *(const struct prof_thread *const *)y;
    if (a->wall_s != b->wall_s)
        return a->wall_s > b->wall_s ? -1 : 1;
    return (a > b) - (a < b);
}

/* Those that lived longest, in order of their beginnings. */
static size_t choose(const struct prof_result *r, const struct report_options *o, const struct prof_thread **list)
{
    size_t max = o->top ? o->top : o->all ? r->thread_count : REPORT_TOP;
    for (size_t i = 0; i < r->thread_count; i++)
        list[i] = &r->thread[i];
    if (r->thread_count > max)
        qsort(list, r->thread_count, sizeof *list, compare_threads);
    return min_u64(r->thread_count, max);
}

static const struct grid_column wait_columns[] = {
    {{"waited", "s"}, false, NULL},       {{"spin", "s"}, false, NULL},       {{"blocked", "s"}, false, NULL},
    {{"", "thread"}, false, NULL},        {{"", "in"}, true, shorten_middle}, {{"", "called by"}, true, shorten_middle},
    {{"", "place"}, true, shorten_place},
};

static const char *function_brief(const char *function, struct arena *a)
{
    return function ? cell_safe(a, name_brief(a, name_plain(a, function))) : "";
}

/* Where threads waited for each other: what is worth a line. */
static void put_waits(const struct prof_result *r, const struct report_options *o, double longest, struct arena *a,
                      struct strbuf *out)
{
    const double min_s = o->all ? 0 : longest / 1000;
    size_t max = o->top ? o->top : o->all ? r->wait_count : REPORT_TOP, shown = 0, count = 0;
    struct grid g;
    int decimals = figure_decimals(longest);
    grid_init(&g, wait_columns, ARRAY_LEN(wait_columns), o, a);
    for (size_t i = 0; i < r->wait_count; i++) {
        const struct prof_wait *w = &r->waits[i];
        const struct prof_object *by = w->object == ID_NONE ? NULL : &r->objects[w->object];
        if (w->spin_s + w->blocked_s <= min_s || (count++, shown == max))
            continue;
        const char *const cells[ARRAY_LEN(wait_columns)] = {
            figure_real(a, w->spin_s + w->blocked_s, decimals),
            figure_real(a, w->spin_s, decimals),
            figure_real(a, w->blocked_s, decimals),
            arena_printf(a, "%u", w->thread),
            w->into ? function_brief(w->into, a) : "its own loop",
            by ? function_brief(by->function, a) : "",
            by ? cell_safe(a, place_of(by, a)) : "",
        };
        grid_row(&g, cells, false);
        shown++;
    }
    if (shown)
        str_puts(out, "\nWaits for other threads:\n");
    shown ? grid_put(&g, out) : (void)0;
    if (shown < count)
        str_printf(out, "%zu more (--top %zu)\n", count - shown, count);
}

static const struct grid_column region_columns[] = {
    {{"waited", "s"}, false, NULL},         {{"work", "s"}, false, NULL},
    {{"a thread: mean", "s"}, false, NULL}, {{"most", "s"}, false, NULL},
    {{"most/", "mean"}, false, NULL},       {{"most", "thread"}, false, NULL},
    {{"", "region"}, true, shorten_middle}, {{"", "place"}, true, shorten_place},
};

const char *place_of_region(const struct prof_region *x, struct arena *a)
{
    const struct prof_object at = {.file = x->file, .line_first = x->line_first, .line_last = x->line_last};
    return x->file && x->line_first ? place_of(&at, a) : "";
}

static void put_regions(const struct prof_result *r, const struct report_options *o, int decimals, struct arena *a,
                        struct strbuf *out)
{
    size_t max = min_u64(r->region_count, o->top ? o->top : o->all ? r->region_count : REPORT_TOP);
    struct grid g;
    if (!r->region_count)
        return;
    grid_init(&g, region_columns, ARRAY_LEN(region_columns), o, a);
    for (size_t i = 0; i < max; i++) {
        const struct prof_region *x = &r->regions[i];
        const char *const cells[ARRAY_LEN(region_columns)] = {
            figure_real(a, x->wait_s, decimals),
            figure_real(a, x->work_s, decimals),
            figure_real(a, x->mean_s, decimals),
            figure_real(a, x->max_s, decimals),
            x->threads > 1 ? figure_real(a, x->imbalance, 2) : "",
            arena_printf(a, "%u", x->thread_most),
            x->function ? function_brief(x->function, a) : "(outside of all)",
            cell_safe(a, place_of_region(x, a)),
        };
        grid_row(&g, cells, false);
    }
    str_puts(out, "\nParallel regions, and how long threads waited for each other there:\n");
    grid_put(&g, out);
    if (max < r->region_count)
        str_printf(out, "%zu more (--top %zu)\n", r->region_count - max, r->region_count);
}

static const struct grid_column extra_columns[] = {
    {{"extra", "s"}, false, NULL},
    {{"ideal", "s"}, false, NULL},
    {{"", "instructions"}, false, NULL},
    {{"with fewer", "threads"}, false, NULL},
    {{"", "function"}, true, shorten_middle},
    {{"", "place"}, true, shorten_place},
};

/* Objects that do a hundredth of the whole more. */
static void put_extras(const struct prof_result *r, const struct report_options *o, int decimals, struct arena *a,
                       struct strbuf *out)
{
    if (r->baseline_threads == ID_NONE)
        return;
    double more = (double)r->coverage.instructions_counted / (double)r->baseline_instructions - 1;
    struct grid g;
    size_t max = o->top ? o->top : REPORT_TOP, shown = 0;
    str_puts(out, "\n");
    cell_put_wrapped(
        out,
        arena_printf(
            a, "With %u thread%s: %s s of user time, %s instructions; now %s more instructions (waiting included).",
            r->baseline_threads, r->baseline_threads == 1 ? "" : "s", figure_real(a, r->baseline_user_s, decimals),
            figure_count(a, r->baseline_instructions), figure_percent(a, more)),
        report_width(o), 0);
    grid_init(&g, extra_columns, ARRAY_LEN(extra_columns), o, a);
    for (size_t i = 0; i < r->extra_count && shown < max; i++) {
        const struct prof_extra *x = &r->extras[i];
        const struct prof_object *by = &r->objects[x->object];
        if (!(x->extra_s > 0.01 * r->baseline_user_s) && !(o->all && x->extra_s > 0))
            continue;
        const char *const cells[ARRAY_LEN(extra_columns)] = {
            figure_real(a, x->extra_s, decimals), figure_real(a, x->ideal_s, decimals),
            figure_count(a, x->instructions),     figure_count(a, x->base_instructions),
            function_brief(by->function, a),      cell_safe(a, place_of(by, a)),
        };
        grid_row(&g, cells, false);
        shown++;
    }
    if (shown)
        grid_put(&g, out);
    else
        str_puts(out, "No loop or procedure does a hundredth more work than with fewer threads.\n");
}

static void put_thread(struct grid *g, const struct prof_result *r, const struct prof_thread *t, int decimals,
                       struct arena *a)
{
    const double seconds[] = {t->wall_s, t->compute_s, t->memory_s, t->uncounted_s, t->system_s,
                              t->spin_s, t->blocked_s, t->asleep_s, t->ready_s};
    const char *cells[ARRAY_LEN(thread_columns)] = {t->rank == ID_NONE ? "" : arena_printf(a, "%u", t->rank),
                                                    arena_printf(a, "%zu", (size_t)(t - r->thread))};
    for (size_t k = 0; k < ARRAY_LEN(seconds); k++)
        cells[k + 2] = figure_real(a, seconds[k], decimals);
    grid_row(g, cells + (r->rank_row_count ? 0 : 1), false);
}

void threads_put(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    const struct prof_thread **list = ARENA_ARRAY(a, const struct prof_thread *, r->thread_count + 1);
    struct grid g;
    double longest = 0;
    if (!r->thread_count) {
        str_puts(out, "No thread is known: the program was not sampled.\n");
        return;
    }
    for (size_t i = 0; i < r->thread_count; i++)
        longest = fmax(longest, r->thread[i].wall_s);
    int decimals = figure_decimals(longest);
    size_t shown = choose(r, o, list);
    size_t left_out = r->rank_row_count ? 0 : 1;
    grid_init(&g, thread_columns + left_out, ARRAY_LEN(thread_columns) - left_out, o, a);
    for (size_t i = 0; i < shown; i++)
        put_thread(&g, r, list[i], decimals, a);
    grid_put(&g, out);
    if (shown < r->thread_count)
        str_printf(out, "%zu more that lived less long (--top %zu)\n", r->thread_count - shown, r->thread_count);
    put_regions(r, o, decimals, a, out);
    put_waits(r, o, longest, a, out);
    put_extras(r, o, decimals, a, out);
}
