/* SPDX-License-Identifier: Apache-2.0
 *
 * overlay: a description that was shipped for a processor, with what was measured on one of them put over it; for where
 * the calibration failed. What a calibration gets right even then is what rests on one thing at a time: clocks (chains
 * of adds beside the time stamp counter), latencies (chains, which neither neighbours nor other forms disturb), caches
 * (chases of pointers). Width, units, schedulers and reorder limits are computed from many mixes at full width, and are
 * the documents' here, and so are intervals: a neighbour lengthens them, and forms that read the flags they write wait
 * for themselves. */
#include "machine/calibrate/calib.h"

#include <math.h>

static const double ELIMINATED = 0.5; /* shorter latencies are moves that take none: an affair of the width */
static const double LATENCY_MAX = 4;  /* times that of the documents; more is a mistake of either */
static const double ALIKE = 0.15;     /* documents are exact where a latency depends on operands */

static struct machine *copy_of(const struct machine *m)
{
    struct strbuf text = {0};
    struct machine *copy = NULL;
    machine_format(m, &text);
    if (machine_parse("shipped description", text.data, text.len, &copy) < 0)
        copy = NULL;
    str_free(&text);
    return copy;
}

static void take_clock(struct machine *to, const struct machine *from)
{
    to->name = arena_strdup(to->arena, from->name);
    to->date = arena_strdup(to->arena, from->date);
    to->source = "shipped, with what could be measured";
    to->tsc_ghz = from->tsc_ghz;
    to->core_per_tsc = from->core_per_tsc;
    to->nop_cycles = from->nop_cycles;
    to->noise = from->noise;
    to->experiments = from->experiments;
}

/* All or none: the levels of the two may be cut differently. */
static void take_caches(struct machine *to, const struct machine *from)
{
    bool is_rising = from->cache_count > 0;
    for (size_t i = 1; i < from->cache_count; i++) {
        const struct machine_cache *a = &from->caches[i - 1], *b = &from->caches[i];
        is_rising &= a->kind == MACHINE_CACHE_TLB || b->kind == MACHINE_CACHE_TLB || a->latency < b->latency;
    }
    if (!is_rising)
        return;
    memcpy(to->caches, from->caches, sizeof to->caches);
    to->cache_count = from->cache_count;
}

/* To halves, which is what latencies are, unless it is far from one. */
static double rounded(double latency)
{
    double half = round(latency * 2) / 2;
    return fabs(latency - half) < 0.12 ? half : round(latency * 10) / 10;
}

static bool change_latency(struct machine_class *c, double latency)
{
    bool is_sane = latency >= ELIMINATED && latency <= LATENCY_MAX * fmax(1, c->latency);
    if (!is_sane || !c->use_count || fabs(latency - c->latency) < ALIKE * c->latency)
        return false;
    double spread = c->latency_high - c->latency, more = rounded(latency) - c->latency;
    c->latency += more;
    c->latency_high = c->latency + fmax(0, spread);
    c->latency_bypass += c->latency_bypass > 0 ? more : 0;
    c->latency_flags += c->latency_flags > 0 ? more : 0;
    return true;
}

static void name_class(const struct machine *m, struct machine_class *c)
{
    char base[MACHINE_NAME_LEN];
    snprintf(base, sizeof base, "%.30s", c->name);
    for (int n = 2; machine_class_named(m, c->name); n++)
        snprintf(c->name, sizeof c->name, "%.30s.%d", base, n);
}

static bool is_alike(const struct machine_class *a, const struct machine_class *b)
{
    bool alike = a->latency == b->latency && a->latency_high == b->latency_high &&
                 a->latency_second == b->latency_second && a->latency_bypass == b->latency_bypass &&
                 a->latency_flags == b->latency_flags && a->occupies_high == b->occupies_high && a->slots == b->slots &&
                 a->use_count == b->use_count;
    for (unsigned i = 0; alike && i < a->use_count; i++)
        alike = a->uses[i].ports == b->uses[i].ports && a->uses[i].issue == b->uses[i].issue;
    return alike;
}

static uint32_t add_alike(struct machine *m, struct machine_class *c)
{
    for (uint32_t i = 0; i < m->class_count; i++)
        if (is_alike(&m->classes[i], c))
            return i;
    name_class(m, c);
    return machine_add_class(m, c);
}

static uint32_t index_of(const struct machine *m, const struct machine_class *c) { return (uint32_t)(c - m->classes); }

static void set_form(struct machine *m, const struct machine_form *f, uint32_t class_id)
{
    struct machine_form now = *f;
    now.class_id = class_id;
    uint32_t i = machine_add_form(m, &now);
    m->forms[i] = now;
}

static void take_form(struct machine *m, const struct machine_form *f)
{
    struct x86_form form;
    x86_form_parse(f->form, &form);
    struct x86_detail d = detail_of_form(&form);
    enum machine_match how = MACHINE_MATCH_OTHER;
    bool is_itself = strcmp(d.form, f->form) == 0; /* not all can be made */
    const struct machine_class *old = is_itself ? machine_class_of(m, &d, &how) : NULL;
    if (!old || how == MACHINE_MATCH_OTHER)
        return;
    struct machine_class c = *old;
    bool is_new = change_latency(&c, f->measured_latency);
    if (is_new || how == MACHINE_MATCH_FORM)
        set_form(m, f, is_new ? add_alike(m, &c) : index_of(m, old));
}

struct machine *machine_overlay(const struct machine *shipped, const struct machine *measured)
{
    struct machine *m = copy_of(shipped);
    if (!m)
        return NULL;
    take_clock(m, measured);
    take_caches(m, measured);
    for (size_t i = 0; i < measured->form_count; i++)
        take_form(m, &measured->forms[i]);
    return m;
}
