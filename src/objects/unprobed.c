/* SPDX-License-Identifier: Apache-2.0
 *
 * hidden: what the user wants no probe to time. */
#include "objects/selection.h"

#include <math.h>

#define UNPROBED_SHARE 0.01 /* of a hidden object's work: more within an object, and that is not probed either */

static void hide(struct selection *s, struct join_module *m, uint32_t func, uint32_t loop, const char *name)
{
    struct procedure_search p = {.m = m, .func = func};
    select_find_owners(s, &p);
    struct region all = select_region_of(s, &p, loop, false);
    if (all.count)
        VEC_PUSH(&s->unprobed, ((struct unprobed){{m, all, false, false}, name}));
}

void select_find_unprobed(struct selection *s)
{
    struct join *j = s->j;
    const bool *is =
        requested_objects(j, &(struct requested_set){j->in->unprobed, j->in->unprobed_count, "--unprobed", false});
    for (uint32_t i = 0; j->in->unprobed_count && i < j->module_count; i++) {
        struct join_module *m = &j->modules[i];
        for (uint32_t f = 0; m->cfg && f < m->cfg->funcs.len; f++) {
            uint32_t object = j->funcs[m->func_base + f].object;
            if (object != ID_NONE && is[object])
                hide(s, m, f, ID_NONE, j->r->objects[object].function);
        }
        for (uint32_t l = 0; m->cfg && l < m->cfg->loops.len; l++) {
            uint32_t object = j->loops[m->loop_base + l].object;
            if (object != ID_NONE && is[object])
                hide(s, m, m->cfg->loops.data[l].func, l, j->r->objects[object].function);
        }
    }
}

/* How much of x is done in y, or on its behalf. */
static double done_within(struct selection *s, const struct cover_part *x, const struct cover_part *y)
{
    cover_add(s->cover, y);
    cover_flow(s->cover);
    double share = cover_of_part(s->cover, x);
    cover_clear(s->cover);
    return share;
}

/* Neither what is hidden, nor what it is a part of the time of, nor what works for it alone. */
void select_keep_unprobed(struct selection *s, size_t candidate)
{
    struct prof_candidate *o = &s->out.data[candidate];
    const struct cover_part *part = &s->details.data[candidate].part;
    for (size_t i = 0; i < s->unprobed.len && o->verdict == PROF_TAKEN; i++) {
        const struct unprobed *h = &s->unprobed.data[i];
        if (done_within(s, &h->part, part) <= UNPROBED_SHARE && done_within(s, part, &h->part) < 1 - UNPROBED_SHARE)
            continue;
        o->verdict = PROF_SAMPLED;
        o->reason = arena_printf(s->j->r->arena, "%s is excluded from probes", h->name);
    }
}
