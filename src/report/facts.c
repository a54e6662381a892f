/* SPDX-License-Identifier: Apache-2.0
 * What is said of one object, as pairs of a word and a text: above its source, and in INFO. What is unknown is left
 * out. */
#include <math.h>

#include "report/tour.h"

const struct term terms[] = {
#define X(id, word, meaning) {id, word, meaning},
#include "report/terms.def"

#include "report/data_terms.def"
#undef X
};
enum {
#define X(id, word, meaning) +1
    TERMS_OF_DATA = 0
#include "report/data_terms.def"
#undef X
};

size_t term_count(bool has_data) { return ARRAY_LEN(terms) - (has_data ? 0 : TERMS_OF_DATA); }

const struct term *term_find(const char *id)
{
    for (size_t i = 0; i < ARRAY_LEN(terms); i++)
        if (strcmp(terms[i].id, id) == 0)
            return &terms[i];
    return NULL;
}

static void add(struct facts *f, const char *term, const char *word, const char *text)
{
    if (text && *text && f->count < ARRAY_LEN(f->list))
        f->list[f->count++] = (struct fact){term, word, text};
}

static void add_count(struct tour *t, struct facts *f, const char *term, const char *word, uint64_t n)
{
    add(f, term, word, n == PROF_UNKNOWN ? NULL : figure_count(t->texts, n));
}

static struct prof_interval over(const struct prof_interval *x, double whole)
{
    return whole > 0 ? prof_interval_scaled(x, 1 / whole) : (struct prof_interval){NAN, NAN, NAN};
}

/* The profile has the value; its ends follow those of the memory time that it is made of. */
static const char *extra_cycles(struct tour *t, const struct prof_object *o)
{
    double extra = o->extra_cycles_per_memory_op, memory = o->memory_s.value;
    if (!isfinite(extra))
        return NULL;
    double per_second = memory != 0 ? extra / memory : NAN;
    struct prof_interval x = {extra, o->memory_s.low * per_second, o->memory_s.high * per_second};
    const char *value = figure_real(t->texts, extra, 1);
    bool has_ends = isfinite(x.low) && isfinite(x.high);
    return has_ends ? arena_printf(t->texts, "%s (%s)", value, figure_interval(t->texts, &x, 1)) : value;
}

void facts_top(struct tour *t, const struct prof_object *o, struct facts *out)
{
    struct prof_interval share = over(&o->memory_s, t->whole_memory_s), overhead = over(&o->memory_s, o->ideal_s.value);
    *out = (struct facts){0};
    add(out, "memory", "memory overhead", tour_interval(t, &o->memory_s));
    add(out, NULL, "of the whole overhead", tour_percent_interval(t, &share));
    add(out, "extra", "extra cycles per memory operation", extra_cycles(t, o));
    add(out, "overhead", "overhead", tour_percent_interval(t, &overhead));
}

/* ---- INFO ---- */

static const char *replayed_text(struct tour *t, const struct prof_object *o)
{
    const char *method = o->ideal_method ? o->ideal_method : "?";
    if (!(o->replayed_share > 0))
        return method;
    return arena_printf(t->texts, "%s: %s of it in code that was replayed; simulated alone %s s", method,
                        figure_percent(t->texts, o->replayed_share), tour_seconds(t, o->simulated_s));
}

static const char *of_all(struct tour *t, uint64_t n, double share)
{
    const char *count = figure_count(t->texts, n);
    return n == PROF_UNKNOWN ? NULL
           : isfinite(share) ? arena_printf(t->texts, "%s (%s of all)", count, figure_percent(t->texts, share))
                             : count;
}

static const char *actual_text(struct tour *t, const struct prof_object *o)
{
    const char *s = tour_interval(t, &o->actual_s);
    return s ? arena_printf(t->texts, "%s, %s", s, o->actual_method ? o->actual_method : "?") : NULL;
}

/* What probes measured of the same code with all that it calls, beside what samples say of that; NULL: not probed. */
static const char *probed_text(struct tour *t, const struct prof_object *o)
{
    for (size_t i = 0; i < t->r->candidate_count; i++) {
        const struct prof_candidate *c = &t->r->candidates[i];
        if (c->object != o->id || c->kind != o->kind ||
            !isfinite(c->probed_s.value)) /* pieces have the id of what they are of */
            continue;
        const char *sampled = tour_interval(t, &c->sampled_all_s);
        return arena_printf(t->texts, "%s with what it calls, %s entries; sampled %s%s", tour_interval(t, &c->probed_s),
                            figure_count(t->texts, c->probed_entries), sampled ? sampled : "?",
                            c->agrees == 0 ? ": they disagree" : "");
    }
    return NULL;
}

static const char *iterations_per_entry(struct tour *t, const struct prof_object *o)
{
    bool is_known = o->iterations != PROF_UNKNOWN && o->entries != PROF_UNKNOWN && o->entries;
    return is_known ? figure_real(t->texts, (double)o->iterations / (double)o->entries, 1) : NULL;
}

static const char *stalls_text(struct tour *t, const struct prof_object *o)
{
    const char *text = NULL;
    for (unsigned c = 0; c < STALL_CAUSES && t->r->stall_count; c++) {
        double s = stall_seconds(t->r, o->id, NULL, c);
        if (s > 0)
            text = arena_printf(t->texts, "%s%s%s %s s", text ? text : "", text ? ", " : "", stall_word(c),
                                tour_seconds(t, s));
    }
    return text;
}

/* Seconds without an interval that have a word of their own: branches, TLB. */
static void add_parts(struct tour *t, struct facts *out, const struct prof_object *o)
{
    for (size_t i = 0; i < prof_rows[PROF_ROW_OBJECT].field_count; i++) {
        const struct prof_field *f = &prof_rows[PROF_ROW_OBJECT].fields[i];
        const struct term *term = f->term ? term_find(f->term) : NULL;
        if (f->type != PROF_TYPE_SECONDS || f->is_span || !term)
            continue;
        double s = *(const double *)(const void *)((const char *)o + f->offset);
        add(out, term->id, term->word, isfinite(s) ? arena_printf(t->texts, "%s s", tour_seconds(t, s)) : NULL);
    }
}

void facts_info(struct tour *t, const struct prof_object *o, struct facts *out)
{
    *out = (struct facts){0};
    add(out, NULL, "function", o->function ? name_plain(t->texts, o->function) : NULL);
    add(out, NULL, "in", o->module);
    add(out, NULL, "address", arena_printf(t->texts, "0x%llx", (unsigned long long)o->address));
    add_count(t, out, NULL, o->kind == PROF_PROCEDURE ? "calls" : "entries", o->entries);
    add_count(t, out, "iteration", "iterations", o->iterations);
    add(out, NULL, "iterations per entry", iterations_per_entry(t, o));
    add_count(t, out, NULL, "instructions", o->instructions);
    add(out, "memory-op", "memory operations", of_all(t, o->memory_ops, o->memory_share));
    add(out, "bound-by", "bound by", o->bound_by);
    add(out, "ideal", "ideal", tour_interval(t, &o->ideal_s));
    add(out, NULL, "ideal time found by", replayed_text(t, o));
    add_parts(t, out, o);
    add(out, "actual", "actual", actual_text(t, o));
    add(out, NULL, "probed", probed_text(t, o));
    add(out, NULL, "stalled for", stalls_text(t, o));
    add_count(t, out, "sample", "samples", o->samples);
}

size_t facts_of_calls(struct tour *t, const struct prof_object *o, const struct prof_call **first)
{
    size_t count = 0, i = 0;
    while (i < t->r->call_count && t->r->calls[i].object != o->id)
        i++;
    *first = &t->r->calls[i];
    while (i + count < t->r->call_count && t->r->calls[i + count].object == o->id)
        count++;
    return count;
}

static struct facts_part part_of(const struct prof_object *whole, const struct prof_object *part, size_t row)
{
    uint64_t n = part == whole ? part->memory_ops : part->memory_ops_incl, all = whole->memory_ops_incl;
    bool is_known = n != PROF_UNKNOWN && all && all != PROF_UNKNOWN;
    return (struct facts_part){
        .object = part == whole ? NULL : part,
        .row = row,
        .memory_ops = n,
        .share = is_known ? (double)n / (double)all : NAN,
        .memory_s = part == whole ? part->memory_s : part->memory_incl_s,
    };
}

size_t facts_of_parts(struct tour *t, const struct prof_object *o, const struct facts_part **out)
{
    size_t count = 0;
    for (size_t k = 0; k < t->rows.count; k++)
        count += t->rows.objects[k] != o && t->rows.objects[k]->parent == o->id;
    if (!count)
        return 0;
    struct facts_part *parts = ARENA_ARRAY(t->texts, struct facts_part, count + 1), *next = parts;
    *next++ = part_of(o, o, 0);
    for (size_t k = 0; k < t->rows.count; k++)
        if (t->rows.objects[k] != o && t->rows.objects[k]->parent == o->id)
            *next++ = part_of(o, t->rows.objects[k], k);
    *out = parts;
    return count + 1;
}
