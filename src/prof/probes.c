/* SPDX-License-Identifier: Apache-2.0
 *
 * probes: candidates to what the rewriter is to probe, and the ticks that probes measured to seconds of each candidate.
 * What the probes took themselves is taken off: their own inside part, and for each pair that ran within another object
 * of the same function a whole pair. Time that a thread did not run is waiting, and told apart. Samples are kept beside
 * it, and differences beyond both intervals are said.
 */
#include "prof/impl.h"

#include <math.h>

#define PROBE_ERROR 0.25  /* of what the probes took themselves: how far that may be off */
#define COUNT_UNLIKE 0.01 /* entries that differ by more between runs are told */
#define RUN_ERROR 0.01    /* one run measures a time to so much at best */

static bool is_probed_in(const struct prof_candidate *o, const char *module)
{
    return o->verdict == PROF_TAKEN && strcmp(o->module, module) == 0;
}

const char *prof_probes_list(const struct prof_result *r, const char *module)
{
    struct strbuf s = {0};
    for (size_t i = 0; i < r->candidate_count; i++) {
        const struct prof_candidate *o = &r->candidates[i];
        if (!is_probed_in(o, module))
            continue;
        if (o->kind == PROF_REGION)
            str_printf(&s, "%s %s", prof_kind_name[o->kind], o->region);
        else
            str_printf(&s, "%s %llx", prof_kind_name[o->kind], (unsigned long long)o->address);
        if (o->kind == PROF_PIECE)
            str_printf(&s, " %llx", (unsigned long long)o->address_end);
        str_puts(&s, "\n");
    }
    const char *list = s.data ? arena_strdup(r->arena, s.data) : NULL;
    str_free(&s);
    return list;
}

static struct prof_candidate *candidate_of(struct prof_result *r, const struct prof_probed *p)
{
    uint32_t cell = 0;
    for (size_t i = 0; i < r->candidate_count; i++)
        if (is_probed_in(&r->candidates[i], p->module) && ++cell == p->cell)
            return &r->candidates[i];
    return NULL;
}

static bool is_within(const struct prof_candidate *inner, const struct prof_candidate *outer)
{
    if (inner == outer || inner->depth <= outer->depth || strcmp(inner->module, outer->module) ||
        strcmp(inner->function, outer->function))
        return false;
    return outer->kind == PROF_PROCEDURE ||
           (outer->line_first <= inner->line_first && inner->line_last <= outer->line_last);
}

/* Pairs of other objects' probes inside of it, as far as the same function has them. */
static double pairs_within(const struct prof_result *r, const struct prof_candidate *o)
{
    double pairs = o->pairs_inside;
    for (size_t i = 0; i < r->candidate_count; i++)
        if (o->kind != PROF_REGION && r->candidates[i].verdict == PROF_TAKEN && is_within(&r->candidates[i], o))
            pairs += (double)r->candidates[i].entries;
    return pairs;
}

static double run_error(const struct prof_result *r)
{
    const struct prof_interval *t = &r->actual_user_s;
    double spread = t->value > 0 ? (t->high - t->low) / 2 / t->value : 0;
    return fmin(0.2, fmax(RUN_ERROR, isfinite(spread) ? spread : RUN_ERROR));
}

/* Of its own code, and taken for that of what it calls too. */
static double replayed_share(const struct prof_result *r, const struct prof_candidate *o)
{
    return o->object < r->object_count ? r->objects[o->object].replayed_share : 0;
}

static void take(struct prof_result *r, struct prof_candidate *o, const struct prof_probed *p,
                 const struct prof_probe_terms *t)
{
    double hz = t->ticks_a_second;
    double own = (double)p->count * t->inside_ticks + pairs_within(r, o) * t->pair_ticks;
    double waiting = fmax(0, (double)p->window_ticks / hz - (double)p->window_ns * 1e-9);
    double open = (double)p->open_ticks / hz;
    double s = fmax(0, ((double)p->ticks - own) / hz - waiting), error = run_error(r) * s + PROBE_ERROR * own / hz;
    o->probed_entries = p->count + p->open;
    if (!o->probed_entries)
        return;
    o->waiting_s = waiting;
    o->probed_s = (struct prof_interval){s + open * t->run_share, fmax(0, s - error), s + error + open};
    if (isfinite(o->ideal_s.value) && o->estimable != PROF_ESTIMABLE_NOT)
        o->memory_s = gate_loss(r, replayed_share(r, o), stats_difference(o->probed_s, o->ideal_s));
}

/* ---- what is to be said ---- */

static const char *what(const struct prof_result *r, const struct prof_candidate *o)
{
    if (o->region)
        return arena_printf(r->arena, "the region %s", o->region);
    if (o->file && o->line_first)
        return arena_printf(r->arena, "the %s at %s:%u", prof_kind_name[o->kind], file_base_name(o->file),
                            o->line_first);
    return arena_printf(r->arena, "the %s in %s at 0x%llx", prof_kind_name[o->kind], o->function,
                        (unsigned long long)o->address);
}

static bool counts_differ(const struct prof_candidate *o)
{
    double a = (double)o->entries, b = (double)o->probed_entries;
    if (o->is_in_circle) /* probes see the first entry only */
        return false;
    return o->probed_entries != PROF_UNKNOWN && fabs(a - b) > fmax(1, COUNT_UNLIKE * a);
}

/* The program did not do the same as when it was counted: the time is that of other work. */
static void widen(struct prof_candidate *o)
{
    double unlike = fabs((double)o->entries - (double)o->probed_entries) /
                    fmax(1, fmax((double)o->entries, (double)o->probed_entries));
    o->probed_s.low -= unlike * o->probed_s.value;
    o->probed_s.high += unlike * o->probed_s.value;
}

/* Probes see the time in the kernel as well, samples that of the user only. */
static bool disagrees(const struct prof_result *r, const struct prof_candidate *o)
{
    double system = isfinite(r->actual_system_s.high) ? r->actual_system_s.high : 0;
    bool known = o->estimable != PROF_ESTIMABLE_NOT && isfinite(o->probed_s.value) && isfinite(o->sampled_s.value);
    return known && (o->probed_s.low > o->sampled_s.high + system || o->probed_s.high < o->sampled_s.low);
}

static void judge(struct prof_result *r, struct prof_candidate *o)
{
    if (o->probed_entries == 0) {
        prof_warn(r, PROF_WARN_PROBE_SILENT, "the probes of %s saw no entry, where %llu were counted", what(r, o),
                  (unsigned long long)o->entries);
        return;
    }
    if (counts_differ(o)) {
        prof_warn(r, PROF_WARN_PROBE_COUNTS, "%s was entered %llu times with probes, %llu times when it was counted",
                  what(r, o), (unsigned long long)o->probed_entries, (unsigned long long)o->entries);
        widen(o);
    }
    if (disagrees(r, o))
        prof_warn(r, PROF_WARN_PROBE_DISAGREES,
                  "%s: probes measured %.3g s (%.3g to %.3g), samples say %.3g s (%.3g to %.3g)", what(r, o),
                  o->probed_s.value, o->probed_s.low, o->probed_s.high, o->sampled_s.value, o->sampled_s.low,
                  o->sampled_s.high);
}

void prof_probes_take(struct prof_result *r, const struct prof_probed *probed, size_t count,
                      const struct prof_probe_terms *terms)
{
    if (!(terms->ticks_a_second > 0))
        return;
    for (size_t i = 0; i < r->candidate_count; i++)
        if (r->candidates[i].verdict == PROF_TAKEN)
            r->candidates[i].probed_entries = 0;
    for (size_t i = 0; i < count; i++) {
        struct prof_candidate *o = candidate_of(r, &probed[i]);
        if (o)
            take(r, o, &probed[i], terms);
    }
    for (size_t i = 0; i < r->candidate_count; i++)
        if (r->candidates[i].verdict == PROF_TAKEN)
            judge(r, &r->candidates[i]);
}
