/* SPDX-License-Identifier: Apache-2.0
 * The candidates of the selection, and why each was taken or not, as text and as JSON (schema mtool-objects-1). */
#include <math.h>

#include "report/impl.h"

static const char *place(const struct prof_candidate *o, struct arena *a)
{
    const struct prof_object at = {.module = o->module,
                                   .address = o->address,
                                   .file = o->file,
                                   .line_first = o->line_first,
                                   .line_last = o->line_last};
    return cell_safe(a, place_of(&at, a));
}

const char *candidate_name(struct arena *a, const struct prof_candidate *o)
{
    if (o->region)
        return cell_safe(a, o->region);
    return cell_safe(a, o->function ? name_brief(a, name_plain(a, o->function)) : "?");
}

static const char *size(const struct prof_candidate *o, struct arena *a)
{
    const char *insns = figure_count(a, o->own_instructions);
    if (o->own_lines)
        return arena_printf(a, "own code %llu lines, %s instructions", (unsigned long long)o->own_lines, insns);
    return arena_printf(a, "own code %s instructions", insns);
}

static const char *samples_text(const struct prof_candidate *o, struct arena *a)
{
    return o->samples == PROF_UNKNOWN ? "" : arena_printf(a, " in %s samples", figure_count(a, o->samples));
}

static void put_figures(struct strbuf *out, const struct prof_result *r, const struct prof_candidate *o,
                        struct arena *a)
{
    double share = r->coverage.memory_ops ? (double)o->memory_ops / (double)r->coverage.memory_ops : NAN;
    str_printf(out, "    %s of memory operations, entered %s times", figure_percent(a, share),
               figure_count(a, o->entries));
    if (isfinite(o->time_s) && o->entries)
        str_printf(out, ", about %.3g us each", 1e6 * o->time_s / (double)o->entries);
    str_printf(out, "; Tot %s, TDES %s; %s", figure_real(a, o->tot, 2), figure_real(a, o->tdes, 0), size(o, a));
    if (o->pieces)
        str_printf(out, " in %u pieces", o->pieces);
    str_puts(out, "\n");
    if (isfinite(o->probed_s.value))
        str_printf(out,
                   "    probed %.4g s (%.4g to %.4g) in %s entries, sampled %.4g s (%.4g to %.4g)%s%s; ideal %.4g s; "
                   "waiting %.3g s%s\n",
                   o->probed_s.value, o->probed_s.low, o->probed_s.high, figure_count(a, o->probed_entries),
                   o->sampled_all_s.value, o->sampled_all_s.low, o->sampled_all_s.high, samples_text(o, a),
                   o->agrees == 0 ? ": they disagree" : "", o->ideal_s.value, o->waiting_s,
                   o->is_summed ? "; disjoint from the others" : "");
}

void report_candidates_text(const struct prof_result *r, struct strbuf *out)
{
    struct arena *a = arena_new();
    size_t count[PROF_VERDICT_COUNT] = {0};
    for (size_t i = 0; i < r->candidate_count; i++) {
        const struct prof_candidate *o = &r->candidates[i];
        str_printf(out, "%-8s %-9s %s  %s\n", prof_verdict_name[o->verdict], prof_kind_name[o->kind],
                   candidate_name(a, o), place(o, a));
        str_printf(out, "    %s\n", o->reason ? cell_safe(a, o->reason) : "?");
        put_figures(out, r, o, a);
        count[o->verdict]++;
    }
    for (size_t v = 0; v < PROF_VERDICT_COUNT; v++)
        str_printf(out, "%s%zu %s", v ? ", " : "", count[v], prof_verdict_name[v]);
    str_puts(out, "\n");
    arena_free(a);
}

void report_candidates_json(const struct prof_result *r, struct strbuf *out)
{
    struct arena *a = arena_new();
    struct json j;
    struct json_rows w = {.json = &j, .arena = a};
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "schema", "mtool-objects-1");
    json_str(&j, "program", r->program);
    json_u64(&j, "memory_ops", r->coverage.memory_ops == PROF_UNKNOWN ? 0 : r->coverage.memory_ops);
    rows_put_list(&w, "candidates", PROF_ROW_CANDIDATE, r);
    json_object_end(&j);
    arena_free(a);
}
