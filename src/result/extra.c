/* SPDX-License-Identifier: Apache-2.0
 *
 * extra: what a program executes more than in a run with fewer threads, object by object. Objects are the same where
 * module, kind and address are. Loops that wait are no work and left out.
 */
#include "result/result.h"

#include <math.h>
#include <stdlib.h>

static int compare_places(const void *a, const void *b)
{
    const struct prof_object *x = *(const struct prof_object *const *)a, *y = *(const struct prof_object *const *)b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->module, y->module);
}

static int compare_extra(const void *a, const void *b)
{
    const struct prof_extra *x = a, *y = b;
    double ex = isnan(x->extra_s) ? 0 : x->extra_s, ey = isnan(y->extra_s) ? 0 : y->extra_s;
    return ex != ey ? (ex < ey ? 1 : -1) : (x->object > y->object) - (x->object < y->object);
}

static struct prof_extra extra_of(const struct prof_object *o, const struct prof_object *base)
{
    struct prof_extra x = {.object = o->id, .instructions = o->instructions, .ideal_s = o->ideal_s.value};
    x.base_instructions = base ? base->instructions : 0;
    x.base_ideal_s = base ? base->ideal_s.value : isnan(x.ideal_s) ? NAN : 0;
    x.extra_s = x.ideal_s - x.base_ideal_s;
    return x;
}

void prof_extra_build(struct prof_result *r, const struct prof_result *base, uint32_t threads)
{
    const struct prof_object **sorted = xmalloc((base->object_count + 1) * sizeof *sorted);
    for (size_t i = 0; i < base->object_count; i++)
        sorted[i] = &base->objects[i];
    qsort(sorted, base->object_count, sizeof *sorted, compare_places);
    r->baseline_threads = threads;
    r->baseline_user_s = base->actual_user_s.value;
    r->baseline_instructions = base->coverage.instructions_counted;
    r->extras = ARENA_ARRAY(r->arena, struct prof_extra, r->object_count + 1);
    for (size_t i = 0; i < r->object_count; i++) {
        const struct prof_object *o = &r->objects[i], *const *found = bsearch(&o, sorted, base->object_count,
                                                                              sizeof *sorted, compare_places);
        if (!o->is_wait)
            r->extras[r->extra_count++] = extra_of(o, found ? *found : NULL);
    }
    qsort(r->extras, r->extra_count, sizeof *r->extras, compare_extra);
    free(sorted);
}
