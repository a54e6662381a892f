/* SPDX-License-Identifier: Apache-2.0
 * Which part of a data object was reached when and by whom, of those objects that lie in more than a few lines. */
#include "prof/spied/spied.h"

#include <stdlib.h>

enum { PICTURES_MAX = 16, PARTS_MIN = 4 };

struct shown {
    const struct spy_picture *of;
    uint32_t object;              /* its row */
    unsigned first, parts, times; /* as far as anything was reached; the times are those of all */
};

static bool is_reached(const struct spy_picture *x, unsigned time, unsigned part)
{
    return x->cells[time * SPY_PICTURE_PARTS + part].count != 0;
}

/* Objects grow as they are met: what lies before the first and behind the last part that was reached is cut away. */
static struct shown shown_of(const struct spied *s, const struct spy_picture *x)
{
    unsigned first = SPY_PICTURE_PARTS, last = 0;
    struct shown out = {.of = x, .object = s->object[x->object]};
    for (unsigned t = 0; t < SPY_PICTURE_TIMES; t++)
        for (unsigned p = 0; p < SPY_PICTURE_PARTS; p++) {
            if (!is_reached(x, t, p))
                continue;
            first = p < first ? p : first;
            last = p > last ? p : last;
            out.times = t + 1;
        }
    out.first = first;
    out.parts = out.times ? last - first + 1 : 0;
    return out;
}

static int by_object(const void *x, const void *y)
{
    const struct shown *a = x, *b = y;
    return (a->object > b->object) - (a->object < b->object);
}

static const char *function_of(const struct spied *s, const struct spy_picture_cell *c)
{
    uint32_t func = c->votes ? s->place[c->cell].func : ID_NONE;
    if (func == ID_NONE)
        return NULL;
    struct join_module *m = &s->j->modules[s->place[c->cell].module];
    return join_func_name(s->j, m, func - m->func_base);
}

static void put(const struct spied *s, const struct shown *x)
{
    struct prof_result *r = s->j->r;
    r->data_pictures[r->data_picture_count++] = (struct prof_data_picture){
        .object = x->object, .times = x->times, .parts = x->parts, .part_bytes = 1ull << x->of->part_shift};
    for (unsigned t = 0; t < x->times; t++)
        for (unsigned p = 0; p < x->parts; p++) {
            const struct spy_picture_cell *c = &x->of->cells[t * SPY_PICTURE_PARTS + x->first + p];
            if (c->count)
                r->data_touched[r->data_touched_count++] =
                    (struct prof_data_touched){.object = x->object,
                                               .time = t,
                                               .part = p,
                                               .function = function_of(s, c),
                                               .references = (uint64_t)c->count * spy_picture_sample()};
        }
}

void spied_pictures(struct spied *s)
{
    struct prof_result *r = s->j->r;
    size_t count, n = 0;
    unsigned times = 0;
    const struct spy_picture *list = spy_pictures(s->in->spy, &count);
    struct shown *shown = ARENA_ARRAY(s->j->scratch, struct shown, count + 1);
    for (size_t i = 0; i < count; i++) {
        shown[n] = shown_of(s, &list[i]);
        n += shown[n].object != ID_NONE && shown[n].parts >= PARTS_MIN;
    }
    qsort(shown, n, sizeof *shown, by_object);
    n = min_u64(n, PICTURES_MAX);
    for (size_t i = 0; i < n; i++)
        times = shown[i].times > times ? shown[i].times : times;
    r->data_pictures = ARENA_ARRAY(r->arena, struct prof_data_picture, n + 1);
    r->data_touched = ARENA_ARRAY(r->arena, struct prof_data_touched, n * SPY_PICTURE_TIMES * SPY_PICTURE_PARTS + 1);
    for (size_t i = 0; i < n; i++) {
        shown[i].times = times;
        put(s, &shown[i]);
    }
}
