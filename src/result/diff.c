/* SPDX-License-Identifier: Apache-2.0
 * The change of each figure from one result to another, with its interval. Pairs come from diff_match.c. */
#include "result/diff.h"

#include "result/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

const struct diff_field_about diff_field_about[DIFF_FIELD_COUNT] = {
#define COMPARED(id, member, whole, is_modelled, is_again, term, word)                                                 \
    {#member, term, word, offsetof(struct diff_object, member)},
#include "result/diff.def"
#undef COMPARED
    {"overhead", "overhead", "overhead %", 0}, {"misses", "miss", "misses", 0}};

static const struct prof_interval unknown = {NAN, NAN, NAN};

/* Of figures that rest on ideal times no change is told from a side that has them from a model that failed. */
static struct diff_figure figure_told(bool may_tell, bool is_again, struct prof_interval old, struct prof_interval now)
{
    struct diff_figure f = {old, now, is_again ? stats_change(now, old) : stats_difference(now, old)};
    if (!may_tell)
        f.change = gate_opened(f.change);
    return f;
}

bool diff_is_change(const struct diff_figure *f) { return f->change.low > 0 || f->change.high < 0; }

/* ---- the whole program ---- */

#define COMPARED(id, member, of_whole, is_modelled, is_again, term, word)                                              \
    static struct prof_interval whole_##member(const struct prof_result *r) { return of_whole; }
#include "result/diff.def"
#undef COMPARED

static void compare_whole(struct prof_diff *d)
{
    bool is_validated =
        prof_is_validated(d->old, d->old->replayed_share) && prof_is_validated(d->now, d->now->replayed_share);
#define COMPARED(id, member, of_whole, is_modelled, is_again, term, word)                                              \
    d->whole[DIFF_##id] =                                                                                              \
        figure_told(is_validated || !(is_modelled), is_again, whole_##member(d->old), whole_##member(d->now));
#include "result/diff.def"
#undef COMPARED
    d->whole[DIFF_OVERHEAD] = figure_told(is_validated, true, d->old->overhead, d->now->overhead);
}

double diff_rise(const struct prof_diff *d, const struct diff_condition *c)
{
    const struct diff_figure *f = &d->whole[c->field];
    double change = f->change.value;
    if (!c->is_percent || isnan(change))
        return change;
    if (c->field == DIFF_OVERHEAD)
        return 100 * change;
    return f->old.value > 0 ? 100 * change / f->old.value : change > 0 ? (double)INFINITY : 0;
}

bool diff_holds(const struct prof_diff *d, const struct diff_condition *c)
{
    return diff_rise(d, c) > c->limit &&
           !(d->whole[c->field].change.low <= 0); /* without an interval the figure decides */
}

/* ---- objects ---- */

static bool is_same_text(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/* Was the object's function, or its whole module, left alone in `r`? */
static bool is_refused(const struct prof_result *r, const struct prof_object *o)
{
    for (size_t i = 0; i < r->refused_count; i++) {
        const struct prof_refused *f = &r->refused[i];
        const char *a = f->module ? f->module : "", *b = o->module ? o->module : "";
        if (strcmp(file_base_name(a), file_base_name(b)) == 0 &&
            (!f->function || is_same_text(f->function, o->function)))
            return true;
    }
    return false;
}

/* An object that is not there takes no time, but one that was not counted takes nobody knows how much. */
static struct prof_interval side(const struct prof_object *o, size_t field, bool is_unknown)
{
    if (!o)
        return is_unknown ? unknown : (struct prof_interval){0, 0, 0};
    struct prof_interval i;
    memcpy(&i, (const char *)o + field, sizeof i);
    return i;
}

static struct diff_object compare_objects(const struct prof_diff *d, const struct diff_pair *p)
{
    struct diff_object x = {.how = p->how};
    x.old = p->old == ID_NONE ? NULL : &d->old->objects[p->old];
    x.now = p->now == ID_NONE ? NULL : &d->now->objects[p->now];
    assert(x.old || x.now); /* a pair has one side at least */
    bool is_validated = (!x.old || prof_is_validated(d->old, x.old->replayed_share)) &&
                        (!x.now || prof_is_validated(d->now, x.now->replayed_share));
    x.is_refused = !x.now ? is_refused(d->now, x.old) : !x.old && is_refused(d->old, x.now);
#define COMPARED(id, member, of_whole, is_modelled, is_again, term, word)                                              \
    x.member = figure_told(is_validated || !(is_modelled), is_again,                                                   \
                           side(x.old, offsetof(struct prof_object, member), x.is_refused),                            \
                           side(x.now, offsetof(struct prof_object, member), x.is_refused));
#include "result/diff.def"
#undef COMPARED
    return x;
}

static int compare_sizes(double a, double b)
{
    a = isnan(a) ? -1 : fabs(a); /* unknown last */
    b = isnan(b) ? -1 : fabs(b);
    return a > b ? -1 : a < b;
}

static int compare(const void *x, const void *y)
{
    const struct diff_object *a = x, *b = y;
    bool ca = diff_is_change(&a->memory_s), cb = diff_is_change(&b->memory_s);
    bool ta = diff_is_change(&a->actual_s), tb = diff_is_change(&b->actual_s);
    if ((ca || ta) != (cb || tb))
        return ca || ta ? -1 : 1;
    int c = compare_sizes(a->memory_s.change.value, b->memory_s.change.value);
    c = c ? c : compare_sizes(a->actual_s.change.value, b->actual_s.change.value);
    if (c)
        return c;
    uint32_t ia = a->now ? a->now->id : a->old->id, ib = b->now ? b->now->id : b->old->id;
    return ia != ib ? (ia > ib ? 1 : -1) : !a->now - !b->now;
}

struct prof_diff *prof_diff_new(const struct prof_result *old, const struct prof_result *now)
{
    struct arena *a = arena_new();
    struct prof_diff *d = ARENA_NEW(a, struct prof_diff);
    *d = (struct prof_diff){.old = old, .now = now, .arena = a};
    compare_whole(d);
    const struct diff_pair *pairs = diff_match(old, now, a, &d->object_count);
    d->objects = ARENA_ARRAY(a, struct diff_object, d->object_count + 1);
    for (size_t i = 0; i < d->object_count; i++)
        d->objects[i] = compare_objects(d, &pairs[i]);
    qsort(d->objects, d->object_count, sizeof *d->objects, compare);
    diff_data_fill(d);
    return d;
}

void prof_diff_free(struct prof_diff *d)
{
    if (d)
        arena_free(d->arena);
}
