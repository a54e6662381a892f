/* SPDX-License-Identifier: Apache-2.0
 * The paper's text window, one section a bottleneck: its figures on top, PREV and NEXT by size, INFO, its source. The
 * script shows one of them at a time; without it they follow each other. */
#include <math.h>

#include "report/html/html.h"

static void put_steps(struct html_page *p, size_t row)
{
    html_puts(p, "<nav class=\"steps\" aria-label=\"by size\">");
    if (row)
        str_printf(p->out, "<a class=\"button\" rel=\"prev\" href=\"#o%zu\">PREV</a>", row - 1);
    else
        html_puts(p, "<span class=\"button off\">PREV</span>");
    str_printf(p->out, " <span class=\"at\">%zu of %zu</span> ", row + 1, p->shown);
    if (row + 1 < p->shown)
        str_printf(p->out, "<a class=\"button\" rel=\"next\" href=\"#o%zu\">NEXT</a>", row + 1);
    else
        html_puts(p, "<span class=\"button off\">NEXT</span>");
    html_puts(p, " <a href=\"#histogram\">histogram</a></nav>\n");
}

static void put_title(struct html_page *p, size_t row)
{
    const struct prof_object *o = p->rows.objects[row];
    str_printf(p->out, "<h3 id=\"t%zu\" tabindex=\"-1\">", row);
    html_text(p, html_name(p, o));
    str_printf(p->out, " <small>%s ", prof_kind_name[o->kind]);
    html_text(p, html_place(p, o));
    html_puts(p, "</small></h3>\n");
}

static struct prof_interval over(const struct prof_interval *x, double whole)
{
    return whole > 0 ? html_scaled(x, 1 / whole) : (struct prof_interval){NAN, NAN, NAN};
}

/* The profile has the value; its ends follow those of the memory time that it is made of. */
static const char *extra_cycles(struct html_page *p, const struct prof_object *o)
{
    double extra = o->extra_cycles_per_memory_op, memory = o->memory_s.value;
    if (!isfinite(extra))
        return NULL;
    double per_second = memory != 0 ? extra / memory : NAN;
    struct prof_interval x = {extra, o->memory_s.low * per_second, o->memory_s.high * per_second};
    const char *value = figure_real(p->a, extra, 1);
    return isfinite(x.low) && isfinite(x.high) ? arena_printf(p->a, "%s (%s)", value, figure_interval(p->a, &x, 1)) : value;
}

static void put_top(struct html_page *p, const struct prof_object *o)
{
    struct prof_interval share = over(&o->memory_s, p->whole_memory_s), overhead = over(&o->memory_s, o->ideal_s.value);
    html_puts(p, "<dl class=\"top\">\n");
    html_fact(p, "memory", "lost to memory", html_interval(p, &o->memory_s));
    html_fact(p, NULL, "of the whole overhead", html_percent_interval(p, &share));
    html_fact(p, "extra", "extra cycles per memory operation", extra_cycles(p, o));
    html_fact(p, "overhead", "overhead", html_percent_interval(p, &overhead));
    html_puts(p, "</dl>\n");
    if (!o->is_significant)
        html_puts(p, "<p class=\"note\">The interval reaches down to zero or there are few samples: no loss can be told from none here.</p>\n");
}

/* ---- INFO ---- */

static const char *replayed_text(struct html_page *p, const struct prof_object *o)
{
    const char *method = o->ideal_method ? o->ideal_method : "?";
    return o->replayed_share > 0 ? arena_printf(p->a, "%s: %s of it in code that was replayed; simulated alone %s s", method,
                                                figure_percent(p->a, o->replayed_share), html_seconds(p, o->simulated_s))
                                 : method;
}

static const char *of_all(struct html_page *p, uint64_t n, double share)
{
    const char *count = figure_count(p->a, n);
    return n == PROF_UNKNOWN     ? NULL
           : isfinite(share) ? arena_printf(p->a, "%s (%s of all)", count, figure_percent(p->a, share))
                             : count;
}

static const char *actual_text(struct html_page *p, const struct prof_object *o)
{
    const char *s = html_interval(p, &o->actual_s);
    return s ? arena_printf(p->a, "%s, %s", s, o->actual_method ? o->actual_method : "?") : NULL;
}

static void put_info_facts(struct html_page *p, const struct prof_object *o)
{
    html_puts(p, "<dl>\n");
    html_fact(p, NULL, "function", o->function ? name_plain(p->a, o->function) : NULL);
    html_fact(p, NULL, "in", o->module);
    html_fact(p, NULL, "address", arena_printf(p->a, "0x%llx", (unsigned long long)o->address));
    html_fact_count(p, NULL, o->kind == PROF_PROCEDURE ? "calls" : "entries", o->entries);
    html_fact_count(p, "iteration", "iterations", o->iterations);
    if (o->iterations != PROF_UNKNOWN && o->entries != PROF_UNKNOWN && o->entries)
        html_fact(p, NULL, "iterations per entry", figure_real(p->a, (double)o->iterations / (double)o->entries, 1));
    html_fact_count(p, NULL, "instructions", o->instructions);
    html_fact(p, "memory-op", "memory operations", of_all(p, o->memory_ops, o->memory_share));
    html_fact(p, "bound-by", "bound by", o->bound_by);
    html_fact(p, "ideal", "ideal", html_interval(p, &o->ideal_s));
    html_fact(p, NULL, "ideal time found by", replayed_text(p, o));
    html_fact(p, "branch", "branches", isfinite(o->branch_s) ? arena_printf(p->a, "%s s", html_seconds(p, o->branch_s)) : NULL);
    html_fact(p, "actual", "actual", actual_text(p, o));
    html_fact_count(p, "sample", "samples", o->samples);
    html_puts(p, "</dl>\n");
}

static void put_object_link(struct html_page *p, size_t row)
{
    const struct prof_object *o = p->rows.objects[row];
    if (row < p->shown)
        str_printf(p->out, "<a href=\"#o%zu\">", row);
    html_text(p, html_name(p, o));
    html_puts(p, " ");
    html_text(p, html_place(p, o));
    html_puts(p, row < p->shown ? "</a>" : "");
}

static void put_part(struct html_page *p, const struct prof_object *whole, const struct prof_object *part, size_t row, bool is_self)
{
    uint64_t n = is_self ? part->memory_ops : part->memory_ops_incl;
    const struct prof_interval *memory = is_self ? &part->memory_s : &part->memory_incl_s;
    const char *s = html_interval(p, memory);
    html_puts(p, "<tr><th scope=\"row\">");
    is_self ? html_puts(p, "itself") : put_object_link(p, row);
    str_printf(p->out, "</th><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n", figure_count(p->a, n),
               n == PROF_UNKNOWN || !whole->memory_ops_incl || whole->memory_ops_incl == PROF_UNKNOWN
                   ? "?"
                   : figure_percent(p->a, (double)n / (double)whole->memory_ops_incl),
               s ? s : "?");
}

/* The paper's Figure 6: how the memory operations are shared out between an object and the loops inside of it. */
static void put_parts(struct html_page *p, size_t row)
{
    const struct prof_object *o = p->rows.objects[row];
    size_t parts = 0;
    for (size_t k = 0; k < p->rows.count; k++) {
        const struct prof_object *in = p->rows.objects[k];
        if (in == o || in->parent != o->id)
            continue;
        if (!parts++) {
            html_puts(p, "<table class=\"parts\"><caption>Memory operations in it and in the loops inside of it</caption><thead><tr><td></td>"
                         "<th scope=\"col\" class=\"n\">memory ops</th><th scope=\"col\" class=\"n\">share</th><th scope=\"col\" class=\"n\">lost to memory</th></tr></thead><tbody>\n");
            put_part(p, o, o, row, true);
        }
        put_part(p, o, in, k, false);
    }
    html_puts(p, parts ? "</tbody></table>\n" : "");
}

static void put_parent(struct html_page *p, const struct prof_object *o)
{
    uint64_t row;
    if (o->parent == ID_NONE || !map_get(&p->row_of, o->parent, &row) || p->rows.objects[row] == o)
        return;
    html_puts(p, "<p>Inside of ");
    put_object_link(p, row);
    html_puts(p, "</p>\n");
}

static void put_info(struct html_page *p, size_t row)
{
    const struct prof_object *o = p->rows.objects[row];
    html_puts(p, "<details class=\"info\"><summary class=\"button\">INFO</summary>\n");
    put_info_facts(p, o);
    put_parent(p, o);
    put_parts(p, row);
    html_puts(p, "</details>\n");
}

void html_details(struct html_page *p)
{
    html_puts(p, "<section id=\"source\" aria-labelledby=\"h-source\"><h2 id=\"h-source\">Source</h2>\n");
    if (!p->shown)
        html_puts(p, "<p>Nothing was timed.</p>\n");
    for (size_t row = 0; row < p->shown; row++) {
        str_printf(p->out, "<article class=\"obj\" id=\"o%zu\" aria-labelledby=\"t%zu\">\n", row, row);
        put_steps(p, row);
        put_title(p, row);
        put_top(p, p->rows.objects[row]);
        put_info(p, row);
        html_source(p, row);
        html_puts(p, "</article>\n");
    }
    html_puts(p, "</section>\n");
}
