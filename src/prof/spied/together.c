/* SPDX-License-Identifier: Apache-2.0
 *
 * What the instructions of a function that go through an object in the same steps use of it together: of a record of
 * 256 bytes that eight of them load 32 bytes each of nothing is left unused, though each of them jumps.
 */
#include "prof/spied/spied.h"

#include <math.h>
#include <stdlib.h>

struct step { /* a cell of the object, in order of function, stride and site */
    uint32_t func, site;
    int64_t stride;
    double bytes, stall;
    size_t at; /* in the group */
};

static int by_step(const void *x, const void *y)
{
    const struct step *a = x, *b = y;
    if (a->func != b->func)
        return a->func < b->func ? -1 : 1;
    if (a->stride != b->stride)
        return a->stride < b->stride ? -1 : 1;
    return (a->site > b->site) - (a->site < b->site);
}

/* Where some have the misses of others' lines too, there are as many lines as the stall says. */
static struct spied_used used_by(const struct step *first, const struct step *end)
{
    double bytes = 0, stall = 0, most = 0, of_site = 0;
    for (const struct step *p = first; p < end; p++) {
        bool is_new = p == first || p->site != p[-1].site;
        of_site = is_new ? p->stall : of_site + p->stall; /* an instruction may reach several fields */
        bytes += is_new ? p->bytes : 0;
        stall += p->stall;
        most = fmax(most, of_site);
    }
    bytes = fmin(bytes, fabs((double)first->stride));
    return (struct spied_used){stall > 0 ? bytes * most / stall : 0, bytes};
}

const struct spied_used *spied_used_together(const struct spied *s, const struct spied_group *g)
{
    struct spied_used *used = ARENA_ARRAY(s->j->scratch, struct spied_used, g->count + 1);
    struct step *steps = ARENA_ARRAY(s->j->scratch, struct step, g->count + 1);
    size_t n = 0;
    for (size_t i = 0; i < g->count; i++) {
        uint32_t cell = g->cells[i];
        const struct spy_cell *c = &s->cells[cell];
        double bytes = spy_site(s->in->spy, c->site)->bytes;
        used[i] = (struct spied_used){bytes, bytes};
        if (spied_is_regular(c) && s->place[cell].func != ID_NONE)
            steps[n++] = (struct step){s->place[cell].func, c->site, c->stride, bytes, s->stall[cell], i};
    }
    if (n)
        qsort(steps, n, sizeof *steps, by_step);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && steps[end].func == steps[i].func && steps[end].stride == steps[i].stride; end++)
            ;
        struct spied_used all = used_by(steps + i, steps + end);
        for (size_t k = i; k < end; k++) {
            struct spied_used *of = &used[steps[k].at];
            *of = (struct spied_used){fmax(of->of_line, all.of_line), fmax(of->of_step, all.of_step)};
        }
    }
    return used;
}
