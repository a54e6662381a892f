/* SPDX-License-Identifier: Apache-2.0
 * What ran, where and how; predicted and measured time; how much of the program the figures are of (the paper's Figure
 * 2 and the line "Measured 91% of memory operations"). */
#include <math.h>

#include "report/html/html.h"
#include "result/stats.h"

static void put_time(struct html_page *p, const char *id, const char *word, const struct prof_interval *s,
                     const char *note)
{
    if (!isfinite(s->value))
        return;
    html_puts(p, "<tr><th scope=\"row\">");
    html_term(p, id, word);
    str_printf(p->out, "</th><td class=\"n strong\">%s</td><td class=\"n\">%s</td><td>",
               tour_seconds(&p->tour, s->value), figure_interval(p->a, s, p->tour.decimals));
    html_text(p, note ? note : "");
    html_puts(p, "</td></tr>\n");
}

static const char *predicted_note(struct html_page *p)
{
    double share = p->r->replayed_share;
    return !(share >= 0.005) ? "every access hits the first-level cache"
                             : arena_printf(p->a, "every access hits the first-level cache; %s of it replayed",
                                            figure_percent(p->a, share));
}

static const char *overhead_note(struct html_page *p)
{
    const char *percent = tour_percent_interval(&p->tour, &p->r->overhead);
    return percent ? arena_printf(p->a, "%s of predicted", percent) : NULL;
}

static void put_times(struct html_page *p)
{
    const struct prof_result *r = p->r;
    struct prof_interval memory = stats_whole_memory(r);
    if (!isfinite(r->predicted_user_s.value) && !isfinite(r->actual_user_s.value))
        return;
    html_puts(p, "<table class=\"times\"><caption class=\"vh\">Predicted and measured "
                 "time</caption><thead><tr><td></td><th scope=\"col\" class=\"n\">seconds</th>"
                 "<th scope=\"col\" class=\"n\">");
    html_term(p, "interval", "95&#160;% interval");
    html_puts(p, "</th><td></td></tr></thead><tbody>\n");
    put_time(p, "predicted", "predicted user time", &r->predicted_user_s, predicted_note(p));
    put_time(p, "branch", "of it branches", &r->branch_user_s, "mispredicted");
    put_time(p, "actual", "measured user time", &r->actual_user_s,
             r->plain_runs > 1 ? arena_printf(p->a, "median of %u runs", r->plain_runs)
             : r->stall_count  ? "on the described machine"
                               : "one run");
    put_time(p, "overhead", "overhead: memory", &memory, overhead_note(p));
    put_time(p, NULL, "overhead: system", &r->actual_system_s, "in the kernel");
    html_puts(p, "</tbody></table>\n");
}

static void put_whole_bar(struct html_page *p)
{
    const struct prof_result *r = p->r;
    struct prof_interval memory = stats_whole_memory(r);
    double branch = isfinite(r->branch_user_s.value) ? r->branch_user_s.value : 0,
           ideal = r->predicted_user_s.value - branch;
    if (!isfinite(ideal) || !isfinite(memory.value))
        return;
    double end = ideal + branch + fmax(memory.value, 0);
    html_puts(p, "<div class=\"whole\">");
    html_bar(p, ideal, branch, &memory,
             fmax(end, fmin(ideal + branch + (isfinite(memory.high) ? memory.high : 0), 1.3 * end)));
    html_puts(p, "</div>\n");
    html_legend(p);
}

static void put_stalls(struct html_page *p)
{
    static const struct html_column columns[] = {{"", "stalled for"}, {"n", "user s"}, {"n", "kernel s"}};
    if (!p->r->stall_count)
        return;
    html_table(p, "what the described machine waited for", columns, ARRAY_LEN(columns));
    for (unsigned c = 0; c < STALL_CAUSES; c++) {
        html_puts(p, "<tr>");
        html_cell(p, "", stall_word(c));
        html_cell(p, "n", tour_seconds(&p->tour, stall_seconds(p->r, ID_NONE, "user", c)));
        html_cell(p, "n", tour_seconds(&p->tour, stall_seconds(p->r, ID_NONE, "kernel", c)));
        html_puts(p, "</tr>\n");
    }
    html_table_end(p);
}

static void put_coverage(struct html_page *p)
{
    const struct prof_result *r = p->r;
    html_puts(p, "<ul class=\"coverage\">\n");
    if (isfinite(r->coverage.memory_ops_measured))
        str_printf(p->out, "<li class=\"strong\">Measured %s of memory operations%s</li>\n",
                   figure_percent(p->a, r->coverage.memory_ops_measured), coverage_by_probes(r, p->a));
    if (isfinite(r->coverage.unexplained_overhead.value))
        str_printf(p->out, "<li>Overhead that no probed loop or procedure explains: %s</li>\n",
                   coverage_unexplained(r, p->a));
    if (coverage_crosschecks(r, p->a))
        str_printf(p->out, "<li>%s</li>\n", coverage_crosschecks(r, p->a));
    if (isfinite(r->coverage.instructions_counted_share))
        str_printf(p->out, "<li>%s of user time was in <a href=\"#refused\">counted code</a></li>\n",
                   figure_percent(p->a, r->coverage.instructions_counted_share));
    if (r->coverage.instructions_counted != PROF_UNKNOWN)
        str_printf(p->out, "<li>%s instructions counted, %s of them memory operations</li>\n",
                   figure_count(p->a, r->coverage.instructions_counted), figure_count(p->a, r->coverage.memory_ops));
    if (r->coverage.functions != PROF_UNKNOWN && r->coverage.functions_rewritten != PROF_UNKNOWN)
        str_printf(p->out, "<li>%s of %s functions rewritten</li>\n",
                   figure_count(p->a, r->coverage.functions_rewritten), figure_count(p->a, r->coverage.functions));
    if (r->warning_count)
        str_printf(p->out, "<li class=\"warned\"><a href=\"#warnings\">%zu warning%s</a></li>\n", r->warning_count,
                   r->warning_count > 1 ? "s" : "");
    html_puts(p, "</ul>\n");
}

static const char *clock_text(struct html_page *p)
{
    double hz = p->r->machine.tsc_hz * p->r->machine.cycles_per_tsc;
    return isfinite(hz) && hz > 0 ? arena_printf(p->a, "%.2f GHz while it ran", hz / 1e9) : NULL;
}

static const char *model_error(struct html_page *p)
{
    double median = p->r->machine.ideal_error_median;
    return !isfinite(median)
               ? NULL
               : arena_printf(p->a, "predictions off by %s in the median, %s for nine in ten kernels",
                              figure_percent(p->a, median), figure_percent(p->a, p->r->machine.ideal_error_p90));
}

static const char *sampling(struct html_page *p)
{
    const struct prof_result *r = p->r;
    if (r->samples == PROF_UNKNOWN)
        return r->sampler;
    const char *lost = r->samples_lost && r->samples_lost != PROF_UNKNOWN
                           ? arena_printf(p->a, ", %s lost", figure_count(p->a, r->samples_lost))
                           : "";
    return arena_printf(p->a, "%s%s; %s", figure_count(p->a, r->samples), lost, r->sampler ? r->sampler : "?");
}

static void put_facts(struct html_page *p)
{
    const struct prof_result *r = p->r;
    html_puts(p, "<details class=\"facts\"><summary>The run and the machine</summary><dl>\n");
    html_fact(p, NULL, "program", r->program);
    html_fact(p, NULL, "started", r->started);
    html_fact(p, NULL, "ended with status", arena_printf(p->a, "%d", r->exit_status));
    html_fact(p, NULL, "by", r->options);
    html_fact_count(p, NULL, "plain runs", r->plain_runs ? r->plain_runs : PROF_UNKNOWN);
    html_fact(p, "sample", "samples", sampling(p));
    html_fact(p, NULL, "copies put in place by", r->launch_mode);
    html_fact_count(p, NULL, "processes", r->processes ? r->processes : PROF_UNKNOWN);
    html_fact_count(p, NULL, "threads", r->threads ? r->threads : PROF_UNKNOWN);
    html_fact(p, NULL, "processor", r->machine.cpu);
    html_fact(p, NULL, "clock", clock_text(p));
    html_fact(p, NULL, "kernel", r->machine.kernel);
    html_fact(p, NULL, "model of the processor", r->machine.description);
    html_fact(p, NULL, "its self-test", model_error(p));
    html_fact(p, "replayed", "ideal time replayed",
              isfinite(r->replayed_share) ? figure_percent(p->a, r->replayed_share) : NULL);
    html_fact(p, "simulated", "ideal time simulated",
              isfinite(r->simulated_user_s)
                  ? arena_printf(p->a, "%s s of counted code", tour_seconds(&p->tour, r->simulated_user_s))
                  : NULL);
    html_puts(p, "</dl></details>\n");
}

void html_overview(struct html_page *p)
{
    html_section(p, "overview", "Overview", "Overview");
    html_puts(p, "<p class=\"command\"><code>");
    html_text(p, tour_command(&p->tour));
    html_puts(p, "</code>");
    if (p->r->machine.cpu) {
        html_puts(p, "<br/><small>on ");
        html_text(p, p->r->machine.cpu);
        html_puts(p, "</small>");
    }
    html_puts(p, "</p>\n");
    if (p->r->exit_status)
        str_printf(p->out, "<p class=\"note\">It ended with status %d.</p>\n", p->r->exit_status);
    put_whole_bar(p);
    html_puts(p, "<div class=\"columns\">\n");
    put_times(p);
    put_stalls(p);
    put_coverage(p);
    html_puts(p, "</div>\n");
    put_facts(p);
    html_puts(p, "</section>\n");
}
