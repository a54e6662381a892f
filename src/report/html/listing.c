/* SPDX-License-Identifier: Apache-2.0
 * The instructions of an object, as the profile has them: its own marked, each with how often it was executed and
 * sampled. Shown at once where there is no source, else on demand. */
#include "report/html/html.h"

#include <math.h>

/* Its part of the object's ideal time, and what it waits for then: of a chain these are the instructions. */
static void put_ideal(struct html_page *p, const struct prof_object *o, const struct prof_insn *insn)
{
    double part = insn->object == o->id ? insn->ideal_s / o->ideal_s.value : NAN;
    html_puts(p, "<td class=\"n wide\">");
    if (part >= 0.005) {
        html_text(p, figure_percent(p->a, part));
        html_puts(p, " ");
        html_text(p, insn->bound_by ? insn->bound_by : "");
    }
    html_puts(p, "</td>");
}

static void put_insn(struct html_page *p, const struct listing *l, size_t i)
{
    static const char *const rows[] = {
        [EXCERPT_OUTSIDE] = "<tr>", [EXCERPT_INNER] = "<tr class=\"in\">", [EXCERPT_OWN] = "<tr class=\"own\">"};
    const struct prof_insn *insn = l->insns[i];
    enum excerpt_line b = listing_belongs(&p->tour, l, insn);
    html_puts(p, rows[b]);
    str_printf(p->out, "<th scope=\"row\">%llx</th>", (unsigned long long)insn->address);
    html_heat(p, insn->samples, p->r->samples);
    str_printf(p->out, "<td class=\"n wide\">%s</td><td class=\"n wide\">", figure_count(p->a, insn->count));
    bool has_memory_ops = insn->memory_ops && insn->count < PROF_UNKNOWN / insn->memory_ops;
    str_printf(p->out, "%s</td>", has_memory_ops ? figure_count(p->a, insn->count * insn->memory_ops) : "");
    put_ideal(p, l->object, insn);
    html_puts(p, "<td><code>");
    html_text(p, insn->text ? insn->text : "?");
    html_puts(p, "</code></td></tr>\n");
}

static void put_table(struct html_page *p, size_t row, const struct listing *l)
{
    size_t shown = 0;
    str_printf(p->out,
               "<div class=\"src\" tabindex=\"0\" role=\"region\" aria-label=\"instructions of bottleneck %zu\">",
               row + 1);
    html_puts(p, "<table><thead><tr><th scope=\"col\">address</th><th scope=\"col\" class=\"n\">samples</th>"
                 "<th scope=\"col\" class=\"n wide\">executed</th><th scope=\"col\" class=\"n wide\">memory ops</th>"
                 "<th scope=\"col\" class=\"n wide\">ideal, waits for</th>"
                 "<th scope=\"col\">instruction</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < l->count && shown < HTML_INSNS; i++) {
        if (l->count > HTML_INSNS_AROUND && listing_belongs(&p->tour, l, l->insns[i]) == EXCERPT_OUTSIDE)
            continue;
        if (shown++ && listing_has_gap(l, i))
            html_puts(p, "<tr class=\"gap\"><td></td><td></td><td class=\"wide\"></td><td class=\"wide\"></td><td "
                         "class=\"wide\"></td><td>&#8230;</td></tr>\n");
        put_insn(p, l, i);
    }
    html_puts(p, "</tbody></table></div>\n");
}

void html_listing(struct html_page *p, const struct prof_object *o, size_t row, bool is_open)
{
    struct listing l;
    size_t before = p->out->len;
    listing_open(&p->tour, o, &l);
    if (!l.count)
        return;
    if (p->insns_bytes > HTML_INSNS_BYTES) {
        html_puts(p, "<p class=\"nosource\">The page holds the instructions of larger bottlenecks only; <code>mtool "
                     "view</code> shows them.</p>\n");
        return;
    }
    html_puts(p, is_open ? "<details class=\"insns\" open=\"open\">" : "<details class=\"insns\">");
    html_puts(p, "<summary>Instructions</summary>\n");
    put_table(p, row, &l);
    html_puts(p, "</details>\n");
    p->insns_bytes += p->out->len - before;
}
