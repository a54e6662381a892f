/* SPDX-License-Identifier: Apache-2.0
 * The whole program in a few lines (the paper's Figure 2 in today's words), and the table of bottlenecks. Lines fit the
 * given width; colour only for terminals, and never as the only sign of anything. */
#include <math.h>
#include <stdlib.h>

#include "report/data.h"
#include "result/stats.h"

#define BOLD "\033[1m"
#define PLAIN "\033[0m"

unsigned report_width(const struct report_options *o) { return o->columns ? o->columns : REPORT_COLUMNS; }

static bool is_known(const struct prof_interval *i) { return isfinite(i->value); }

/* ---- summary ---- */

static void put_time(struct strbuf *out, struct arena *a, const char *what, const struct prof_interval *s, int decimals,
                     const char *note)
{
    if (!is_known(s))
        return;
    str_printf(out, "  %-20s %9s", what, figure_real(a, s->value, decimals));
    if (isfinite(s->low) && isfinite(s->high))
        str_printf(out, "  %-16s", figure_interval(a, s, decimals));
    else
        str_printf(out, "  %-16s", "");
    str_puts(out, note);
    while (out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
    str_puts(out, "\n");
}

static const char *overhead_note(const struct prof_result *r, struct arena *a)
{
    const struct prof_interval *o = &r->overhead;
    if (!isfinite(o->low) || !isfinite(o->high))
        return arena_printf(a, "%s of predicted", figure_percent(a, o->value));
    const struct prof_interval percent = prof_interval_scaled(o, 100);
    return arena_printf(a, "%s of predicted (%s%%)", figure_percent(a, o->value), figure_interval(a, &percent, 0));
}

static void put_times(const struct prof_result *r, struct arena *a, struct strbuf *out)
{
    if (!is_known(&r->predicted_user_s) && !is_known(&r->actual_user_s))
        return;
    int decimals = figure_decimals(fmax(r->actual_user_s.value, r->predicted_user_s.value));
    struct prof_interval memory = stats_whole_memory(r);
    str_printf(out, "  %-20s %9s  95%% interval\n", "", "seconds");
    bool replayed = r->replayed_share >= 0.005;
    put_time(out, a, "predicted user time", &r->predicted_user_s, decimals,
             replayed ? arena_printf(a, "L1 hits only; %s by replay", figure_percent(a, r->replayed_share))
                      : "every access hits the L1 cache");
    put_time(out, a, "       of it branches", &r->branch_user_s, decimals, "mispredicted");
    put_time(out, a, "measured user time", &r->actual_user_s, decimals,
             r->plain_runs == 1 && isfinite(r->counting_user_s)
                 ? arena_printf(a, "one run; counting's %s s subtracted", figure_real(a, r->counting_user_s, decimals))
             : r->plain_runs == 1 ? "one run"
             : r->plain_runs      ? arena_printf(a, "median of %u runs", r->plain_runs)
             : r->stall_count     ? "on the described machine"
                                  : "");
    put_time(out, a, "overhead: memory", &memory, decimals, overhead_note(r, a));
    put_time(out, a, "          system", &r->actual_system_s, decimals,
             isfinite(r->windows_system_s)
                 ? arena_printf(a, "windows' %s s subtracted", figure_real(a, r->windows_system_s, decimals))
                 : "in the kernel");
}

/* Words that a shell would not take as one word are quoted. */
static void put_word(struct strbuf *line, const char *word, bool is_first, struct arena *a)
{
    const char *quote = *word && !strpbrk(word, " \t\n*?$&|;<>()`\"'\\#") ? "" : strchr(word, '\'') ? "\"" : "'";
    str_printf(line, "%s%s%s%s", is_first ? "" : " ", quote, cell_safe(a, word), quote);
}

static void put_command(const struct prof_result *r, const struct report_options *o, struct arena *a,
                        struct strbuf *out)
{
    struct strbuf line = {0};
    for (const char **w = r->command; w && *w; w++)
        put_word(&line, *w, w == r->command, a);
    if (!line.len)
        str_puts(&line, r->program ? cell_safe(a, r->program) : "?");
    str_puts(out, o->is_terminal ? BOLD : "");
    cell_put_short(out, line.data, report_width(o));
    str_puts(out, o->is_terminal ? PLAIN : "");
    str_puts(out, "\n");
    if (r->exit_status)
        str_printf(out, "  ended with status %d\n", r->exit_status);
    str_free(&line);
}

const char *coverage_by_probes(const struct prof_result *r, struct arena *a)
{
    if (!isfinite(r->coverage.memory_ops_probed))
        return "";
    return arena_printf(a, ", %s of them by probes too", figure_percent(a, r->coverage.memory_ops_probed));
}

const char *coverage_unexplained(const struct prof_result *r, struct arena *a)
{
    const struct prof_interval *u = &r->coverage.unexplained_overhead, percent = prof_interval_scaled(u, 100);
    double s = u->value * r->predicted_user_s.value;
    int decimals = figure_decimals(r->predicted_user_s.value);
    const char *text =
        arena_printf(a, "%s s, %s of predicted", figure_real(a, s, decimals), figure_percent(a, u->value));
    bool has_ends = isfinite(u->low) && isfinite(u->high);
    return has_ends ? arena_printf(a, "%s (%s%%)", text, figure_interval(a, &percent, 1)) : text;
}

const char *coverage_crosschecks(const struct prof_result *r, struct arena *a)
{
    struct prof_crosschecks w = prof_crosschecks_of(r);
    return w.known ? arena_printf(a, "Samples agree with %zu of %zu probes", w.agree, w.known) : NULL;
}

static void put_coverage(const struct prof_result *r, struct arena *a, struct strbuf *out)
{
    if (isfinite(r->coverage.memory_ops_measured))
        str_printf(out, "Measured %s of memory operations%s\n", figure_percent(a, r->coverage.memory_ops_measured),
                   coverage_by_probes(r, a));
    if (isfinite(r->coverage.unexplained_overhead.value))
        str_printf(out, "Unexplained overhead %s\n", coverage_unexplained(r, a));
    if (coverage_crosschecks(r, a))
        str_printf(out, "%s\n", coverage_crosschecks(r, a));
    if (isfinite(r->coverage.instructions_counted_share))
        str_printf(out, "%s of user time was in counted code\n",
                   figure_percent(a, r->coverage.instructions_counted_share));
    if (r->coverage.instructions_counted != PROF_UNKNOWN)
        str_printf(out, "%s instructions counted, %s of them memory operations\n",
                   figure_count(a, r->coverage.instructions_counted), figure_count(a, r->coverage.memory_ops));
    if (r->coverage.functions != PROF_UNKNOWN && r->coverage.functions_rewritten != PROF_UNKNOWN)
        str_printf(out, "%s of %s functions rewritten\n", figure_count(a, r->coverage.functions_rewritten),
                   figure_count(a, r->coverage.functions));
}

/* What the user should know of: whole modules, and functions that took at least a hundredth of the time. */
static bool is_worth_a_line(const struct prof_refused *f)
{
    return f->time_share >= 0.01 || (!f->function && isnan(f->time_share));
}

static void put_refused(const struct prof_result *r, const struct report_options *o, struct arena *a,
                        struct strbuf *out)
{
    enum { MAX = 5 };
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < r->refused_count; i++) {
        const struct prof_refused *f = &r->refused[i];
        if (!is_worth_a_line(f) || shown == MAX) {
            more += is_worth_a_line(f);
            continue;
        }
        const char *share =
            isnan(f->time_share) ? "" : arena_printf(a, " (%s of user time)", figure_percent(a, f->time_share));
        const char *what = f->function ? name_brief(a, name_plain(a, f->function)) : "";
        const char *module = f->module ? file_base_name(f->module) : "?";
        const char *line = arena_printf(a, "Not counted: %s%s%s%s: %s", what, f->function ? " in " : "", module, share,
                                        f->reason ? f->reason : "unknown");
        cell_put_wrapped(out, cell_safe(a, line), report_width(o), 2);
        shown++;
    }
    if (more)
        str_printf(out, "Not counted: %zu more (mtool report --json lists them)\n", more);
}

/* What the described machine waited for, beside the time in which it did not. */
static void put_stalls(const struct prof_result *r, struct arena *a, struct strbuf *out)
{
    static const char *const modes[] = {"user", "kernel"};
    int decimals = figure_decimals(fmax(r->actual_user_s.value, r->actual_system_s.value));
    if (!r->stall_count)
        return;
    str_printf(out, "  %-20s %9s %9s  seconds of the described machine\n", "stalled for", modes[0], modes[1]);
    for (unsigned c = 0; c < STALL_CAUSES; c++) {
        str_printf(out, "  %20s", stall_word(c));
        for (int m = 0; m < 2; m++) {
            double s = stall_seconds(r, ID_NONE, modes[m], c); /* nobody idles in user mode */
            str_printf(out, " %9s", isnan(s) ? "" : figure_real(a, s, decimals));
        }
        str_puts(out, "\n");
    }
}

void report_summary(const struct prof_result *r, const struct report_options *o, struct strbuf *out)
{
    struct arena *a = arena_new();
    banner_put(r, report_width(o), a, out);
    put_command(r, o, a, out);
    put_times(r, a, out);
    put_stalls(r, a, out);
    put_coverage(r, a, out);
    put_refused(r, o, a, out);
    arena_free(a);
}

/* ---- table ---- */

static const struct grid_column object_columns[] = {
    {{"memory", "s"}, false, NULL}, {{"95%", "interval"}, false, NULL},       {{"actual", "s"}, false, NULL},
    {{"ideal", "s"}, false, NULL},  {{"over-", "head"}, false, NULL},         {{"mem", "ops"}, false, NULL},
    {{"", ""}, true, NULL},         {{"", "function"}, true, shorten_middle}, {{"", "place"}, true, shorten_place},
};
static const char *const kind_short[PROF_KIND_COUNT] = {"loop", "proc", "piece", "region"};

const char *place_of(const struct prof_object *o, struct arena *a)
{
    if (!o->file || !o->line_first)
        return arena_printf(a, "%s+0x%llx", o->module ? file_base_name(o->module) : "?",
                            (unsigned long long)o->address);
    if (o->line_last > o->line_first)
        return arena_printf(a, "%s:%u-%u", file_base_name(o->file), o->line_first, o->line_last);
    return arena_printf(a, "%s:%u", file_base_name(o->file), o->line_first);
}

static void add_object(struct grid *g, const struct prof_object *o, int decimals, struct arena *a)
{
    const char *const cells[ARRAY_LEN(object_columns)] = {
        figure_real(a, o->memory_s.value, decimals),
        figure_interval(a, &o->memory_s, decimals),
        figure_real(a, o->actual_s.value, decimals),
        figure_real(a, o->ideal_s.value, decimals),
        figure_percent(a, overhead_of(o)),
        figure_percent(a, o->memory_share),
        kind_short[o->kind],
        cell_safe(a, o->function ? name_brief(a, name_plain(a, o->function)) : "?"),
        cell_safe(a, place_of(o, a)),
    };
    grid_row(g, cells, !o->is_significant);
}

/* What each row could save at most. */
static const struct grid_column what_if_columns[] = {
    {{"program", "s"}, false, NULL},
    {{"95%", "interval"}, false, NULL},
    {{"saved", "s"}, false, NULL},
    {{"", "of all"}, false, NULL},
    {{"times", "faster"}, false, NULL},
    {{"", ""}, true, NULL},
    {{"", "function"}, true, shorten_middle},
    {{"", "place"}, true, shorten_place},
};

static void add_what_if(struct grid *g, const struct prof_result *r, const struct prof_object *o, int decimals,
                        struct arena *a)
{
    double whole = r->actual_user_s.value, saved = whole - o->without_s.value;
    const char *const cells[ARRAY_LEN(what_if_columns)] = {
        figure_real(a, o->without_s.value, decimals),
        figure_interval(a, &o->without_s, decimals),
        figure_real(a, saved, decimals),
        figure_percent(a, saved / whole),
        figure_real(a, whole / o->without_s.value, 2),
        kind_short[o->kind],
        cell_safe(a, o->function ? name_brief(a, name_plain(a, o->function)) : "?"),
        cell_safe(a, place_of(o, a)),
    };
    grid_row(g, cells, !o->is_significant);
}

static void put_what_if_note(const struct prof_result *r, const struct report_options *o, struct arena *a,
                             struct strbuf *out)
{
    if (r->threads > 1)
        cell_put_wrapped(out,
                         arena_printf(a,
                                      "Seconds are processor time of %u threads together. The time on the wall falls "
                                      "by as much at best, where all others "
                                      "wait for this, and not at all at worst.",
                                      r->threads),
                         report_width(o), 0);
}

/* Where nothing was measured: what was predicted, and why it is not less. */
static const struct grid_column ideal_columns[] = {
    {{"ideal", "s"}, false, NULL},
    {{"95%", "interval"}, false, NULL},
    {{"", "instructions"}, false, NULL},
    {{"cycles/", "instr"}, false, NULL},
    {{"mem", "ops"}, false, NULL},
    {{"bound", "by"}, true, NULL},
    {{"", ""}, true, NULL},
    {{"", "function"}, true, shorten_middle},
    {{"", "place"}, true, shorten_place},
};

static void add_ideal(struct grid *g, const struct prof_result *r, const struct prof_object *o, int decimals,
                      struct arena *a)
{
    double hz = r->machine.tsc_hz * r->machine.cycles_per_tsc;
    const char *const cells[ARRAY_LEN(ideal_columns)] = {
        figure_real(a, o->ideal_s.value, decimals),
        figure_interval(a, &o->ideal_s, decimals),
        figure_count(a, o->instructions),
        figure_real(a, o->instructions ? o->ideal_s.value * hz / (double)o->instructions : NAN, 2),
        figure_percent(a, o->memory_share),
        o->bound_by ? cell_safe(a, o->bound_by) : "?",
        kind_short[o->kind],
        cell_safe(a, o->function ? name_brief(a, name_plain(a, o->function)) : "?"),
        cell_safe(a, place_of(o, a)),
    };
    grid_row(g, cells, false);
}

static double largest_time(const struct row_set *rows)
{
    double max = 0;
    for (size_t i = 0; i < rows->count; i++)
        max = fmax(max, fmax(rows->objects[i]->actual_s.value, rows->objects[i]->ideal_s.value));
    return max;
}

size_t row_limit(const struct report_options *o, size_t count)
{
    size_t max = o->top ? o->top : o->all ? count : REPORT_TOP;
    return min_u64(count, max);
}

void put_rest(size_t shown, size_t count, struct strbuf *out)
{
    if (shown < count)
        str_printf(out, "%zu more (--top %zu)\n", count - shown, count);
}

/* Why there is no row. */
static const char *no_rows_sentence(const struct prof_result *r, const struct row_set *rows, const char *what,
                                    struct arena *a)
{
    if (!rows->known && !r->plain_runs && r->coverage.instructions_counted != PROF_UNKNOWN)
        return "Only counts are in this profile: mtool dump counts prints them, mtool run takes times too.";
    if (!rows->insignificant)
        return arena_printf(a, "No %s was timed.", what);
    if (!rows->known)
        return arena_printf(a, "The memory overhead of each %s is not known (--all shows what is: %zu).", what,
                            rows->insignificant);
    if (prof_model_failed(r))
        return arena_printf(
            a, "No %s has a significant memory overhead with a model that fails (--all shows what it says: %zu).", what,
            rows->insignificant);
    return arena_printf(a, "No %s has a significant memory overhead (--all shows what there is: %zu).", what,
                        rows->insignificant);
}

static void table_objects(const struct prof_result *r, const struct report_options *o, struct arena *a,
                          struct strbuf *out)
{
    static const char *const what[] = {
        [REPORT_BY_OBJECT] = "loop or procedure", [REPORT_BY_FUNCTION] = "function", [REPORT_BY_LOOP] = "loop"};
    struct row_set rows;
    struct grid g;
    report_rows_build(r, o, a, &rows);
    if (!rows.count) {
        cell_put_wrapped(out, no_rows_sentence(r, &rows, what[o->by], a), report_width(o), 0);
        return;
    }
    bool timed = is_known(&r->actual_user_s);
    if (timed && o->what_if) {
        grid_init(&g, what_if_columns, ARRAY_LEN(what_if_columns), o, a);
        for (size_t i = 0; i < row_limit(o, rows.count); i++)
            add_what_if(&g, r, rows.objects[i], figure_decimals(r->actual_user_s.value), a);
        grid_put(&g, out);
        put_rest(row_limit(o, rows.count), rows.count, out);
        put_what_if_note(r, o, a, out);
        return;
    }
    grid_init(&g, timed ? object_columns : ideal_columns, timed ? ARRAY_LEN(object_columns) : ARRAY_LEN(ideal_columns),
              o, a);
    for (size_t i = 0; i < row_limit(o, rows.count); i++) {
        int decimals = figure_decimals(largest_time(&rows));
        timed ? add_object(&g, rows.objects[i], decimals, a) : add_ideal(&g, r, rows.objects[i], decimals, a);
    }
    grid_put(&g, out);
    put_rest(row_limit(o, rows.count), rows.count, out);
}

/* ---- modules: counts and samples, no seconds of their own ---- */

static const struct grid_column module_columns[] = {
    {{"user", "time"}, false, NULL}, {{"", "instructions"}, false, NULL},   {{"", "memory ops"}, false, NULL},
    {{"", "counted"}, false, NULL},  {{"", "module"}, true, shorten_place},
};

static void table_modules(const struct prof_result *r, const struct report_options *o, struct arena *a,
                          struct strbuf *out)
{
    struct grid g;
    grid_init(&g, module_columns, ARRAY_LEN(module_columns), o, a);
    for (size_t i = 0; i < r->module_count; i++) {
        const struct prof_module *m = &r->modules[i];
        double counted = m->functions == PROF_UNKNOWN ? NAN : (double)m->functions_rewritten / (double)m->functions;
        const char *const cells[ARRAY_LEN(module_columns)] = {
            figure_percent(a, m->time_share),      figure_count(a, m->instructions),
            figure_count(a, m->memory_ops),        m->is_counted ? figure_percent(a, counted) : "no",
            cell_safe(a, m->path ? m->path : "?"),
        };
        grid_row(&g, cells, !m->is_counted);
    }
    if (r->module_count)
        grid_put(&g, out);
    else
        str_puts(out, "No module is known.\n");
}

/* ---- what probes measured ---- */

static const struct grid_column probe_columns[] = {
    {{"probed", "s"}, false, NULL},           {{"95%", "interval"}, false, NULL},
    {{"sampled", "s"}, false, NULL},          {{"", "agree"}, true, NULL},
    {{"over-", "head"}, false, NULL},         {{"en-", "tries"}, false, NULL},
    {{"sam-", "ples"}, false, NULL},          {{"", ""}, true, NULL},
    {{"", "function"}, true, shorten_middle}, {{"", "place"}, true, shorten_place},
};

static void add_probed(struct grid *g, const struct prof_candidate *o, int decimals, struct arena *a)
{
    const struct prof_object at = {.module = o->module,
                                   .address = o->address,
                                   .file = o->file,
                                   .line_first = o->line_first,
                                   .line_last = o->line_last};
    const char *const cells[ARRAY_LEN(probe_columns)] = {
        figure_real(a, o->probed_s.value, decimals),
        figure_interval(a, &o->probed_s, decimals),
        figure_real(a, o->agrees == ID_NONE ? NAN : o->sampled_all_s.value, decimals),
        o->agrees == ID_NONE ? "?"
        : o->agrees          ? "yes"
                             : "no",
        figure_percent(a, o->memory_s.value / o->ideal_s.value),
        figure_count(a, o->probed_entries),
        figure_count(a, o->samples),
        kind_short[o->kind],
        candidate_name(a, o),
        cell_safe(a, place_of(&at, a)),
    };
    grid_row(g, cells, false);
}

static int compare_probed(const void *x, const void *y)
{
    const struct prof_candidate *a = *(const struct prof_candidate *const *)x,
                                *b = *(const struct prof_candidate *const *)y;
    double p = a->probed_s.value, q = b->probed_s.value;
    return p != q ? (p < q ? 1 : -1) : (a > b) - (a < b);
}

static void table_probes(const struct prof_result *r, const struct report_options *o, struct arena *a,
                         struct strbuf *out)
{
    const struct prof_candidate **list = ARENA_ARRAY(a, const struct prof_candidate *, r->candidate_count + 1);
    size_t n = 0;
    struct grid g;
    for (size_t i = 0; i < r->candidate_count; i++)
        if (is_known(&r->candidates[i].probed_s))
            list[n++] = &r->candidates[i];
    if (!n)
        return;
    qsort(list, n, sizeof *list, compare_probed);
    str_puts(out, "\nTimed by probes, with all that they call:\n");
    grid_init(&g, probe_columns, ARRAY_LEN(probe_columns), o, a);
    for (size_t i = 0; i < row_limit(o, n); i++)
        add_probed(&g, list[i], figure_decimals(list[0]->probed_s.value), a);
    grid_put(&g, out);
    put_rest(row_limit(o, n), n, out);
}

/* What was followed through caches comes first; true if it is all. */
static bool put_data(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    if (o->by >= REPORT_BY_DATA || (r->spy_count && (o->by == REPORT_BY_OBJECT || o->by == REPORT_BY_LINE))) {
        data_put(r, o, a, out);
        if (o->by >= REPORT_BY_DATA || data_is_all(r))
            return true;
        str_puts(out, o->by == REPORT_BY_LINE ? "\n" : "\nLoops and procedures, measured:\n");
    }
    return false;
}

static void put_table(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out)
{
    if (o->by == REPORT_BY_LINE)
        lines_put(r, o, a, out);
    else if (o->by == REPORT_BY_MODULE)
        table_modules(r, o, a, out);
    else if (o->by == REPORT_BY_THREAD)
        threads_put(r, o, a, out);
    else if (o->by == REPORT_BY_RANK)
        ranks_put(r, o, a, out);
    else
        table_objects(r, o, a, out);
    if (o->by == REPORT_BY_OBJECT || o->by == REPORT_BY_LOOP)
        table_probes(r, o, a, out);
}

void report_table(const struct prof_result *r, const struct report_options *o, struct strbuf *out)
{
    struct arena *a = arena_new();
    str_puts(out, "\n");
    if (!put_data(r, o, a, out))
        put_table(r, o, a, out);
    for (size_t i = 0; i < r->warning_count; i++) {
        const struct prof_warning *w = &r->warnings[i];
        const char *line = arena_printf(a, "warning: %s [%s]", name_warning_text(a, w), w->id ? w->id : "?");
        str_puts(out, i ? "" : "\n");
        cell_put_wrapped(out, cell_safe(a, line), report_width(o), 2);
    }
    arena_free(a);
}
