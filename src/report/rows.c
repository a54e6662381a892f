/* SPDX-License-Identifier: Apache-2.0
 * Which objects a table shows and in which order. A function's row is the sum of its objects' own figures; the ends of
 * intervals are added too, since the errors of one estimator go the same way. */
#include <math.h>
#include <stdlib.h>

#include "report/impl.h"

double overhead_of(const struct prof_object *o)
{
    return o->ideal_s.value > 0 ? o->memory_s.value / o->ideal_s.value : NAN;
}

static double key_of(const struct prof_object *o, unsigned sort)
{
    switch (sort) {
    case REPORT_SORT_ACTUAL:
        return o->actual_s.value;
    case REPORT_SORT_IDEAL:
        return o->ideal_s.value;
    case REPORT_SORT_OVERHEAD:
        return overhead_of(o);
    case REPORT_SORT_INSTRUCTIONS:
        return o->instructions == PROF_UNKNOWN ? NAN : (double)o->instructions;
    default:
        return o->memory_s.value;
    }
}

/* Largest first, unknown last, ids where equal. */
static int compare(const void *x, const void *y, void *sort)
{
    const struct prof_object *a = *(const struct prof_object *const *)x, *b = *(const struct prof_object *const *)y;
    double ka = key_of(a, *(const unsigned *)sort), kb = key_of(b, *(const unsigned *)sort);
    if (isnan(ka) != isnan(kb))
        return isnan(ka) ? 1 : -1;
    if (!isnan(ka) && ka != kb)
        return ka > kb ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int compare_functions(const void *x, const void *y)
{
    const struct prof_object *a = *(const struct prof_object *const *)x, *b = *(const struct prof_object *const *)y;
    int c = strcmp(a->module ? a->module : "", b->module ? b->module : "");
    c = c ? c : strcmp(a->function ? a->function : "", b->function ? b->function : "");
    if (c)
        return c;
    if ((a->kind == PROF_PROCEDURE) != (b->kind == PROF_PROCEDURE))
        return a->kind == PROF_PROCEDURE ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static bool is_same_function(const struct prof_object *a, const struct prof_object *b)
{
    return strcmp(a->module ? a->module : "", b->module ? b->module : "") == 0 && a->function && b->function &&
           strcmp(a->function, b->function) == 0;
}

static void add_object(struct prof_object *sum, const struct prof_object *o)
{
    static const double users[] = {NAN, NAN}; /* no field of an object is a share of them */
    prof_row_add(PROF_ROW_OBJECT, sum, o, users);
    sum->memory_share = prof_sum(sum->memory_share, o->memory_share);
    sum->is_significant = sum->memory_s.low > 0;
}

/* In place: *list of `count` objects becomes one object a function. */
static size_t sum_functions(const struct prof_object **list, size_t count, struct arena *a)
{
    size_t n = 0;
    struct prof_object *sum = NULL;
    qsort(list, count, sizeof *list, compare_functions);
    for (size_t i = 0; i < count; i++) {
        if (sum && is_same_function(sum, list[i])) {
            add_object(sum, list[i]);
            continue;
        }
        sum = ARENA_NEW(a, struct prof_object);
        *sum = *list[i];
        sum->kind = PROF_PROCEDURE;
        list[n++] = sum;
    }
    return n;
}

void report_rows_build(const struct prof_result *r, const struct report_options *o, struct arena *a,
                       struct row_set *out)
{
    const struct prof_object **list = ARENA_ARRAY(a, const struct prof_object *, r->object_count + 1);
    size_t count = 0, kept = 0, known = 0;
    for (size_t i = 0; i < r->object_count; i++)
        if (o->by != REPORT_BY_LOOP || r->objects[i].kind == PROF_LOOP)
            list[count++] = &r->objects[i];
    if (o->by == REPORT_BY_FUNCTION)
        count = sum_functions(list, count, a);
    for (size_t i = 0; i < count; i++) {
        known += !isnan(list[i]->memory_s.value);
        if (o->all || list[i]->is_significant)
            list[kept++] = list[i];
    }
    unsigned sort = o->sort;
    qsort_r(list, kept, sizeof *list, compare, &sort);
    *out = (struct row_set){list, kept, count - kept, known};
}
