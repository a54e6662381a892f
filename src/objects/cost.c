/* SPDX-License-Identifier: Apache-2.0
 *
 * cost: what all probes may cost together. */
#include "objects/selection.h"

#include <stdlib.h>

static int by_worth(const void *a, const void *b, void *ctx)
{
    const struct selection *s = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    double p = s->details.data[x].worth, q = s->details.data[y].worth;
    return p != q ? (p < q ? 1 : -1) : (x > y) - (x < y);
}

void select_keep_to_budget(struct selection *s)
{
    s->left_s = COST_SHARE * s->j->r->actual_user_s.value;
    uint32_t *order = xmalloc((s->out.len + 1) * sizeof *order);
    for (uint32_t i = 0; i < s->out.len; i++)
        order[i] = i;
    qsort_r(order, s->out.len, sizeof *order, by_worth, s);
    for (size_t i = 0; i < s->out.len; i++) {
        struct prof_candidate *o = &s->out.data[order[i]];
        if (o->verdict != PROF_TAKEN)
            continue;
        if (o->probe_s > s->left_s && !o->is_asked) {
            o->verdict = PROF_SAMPLED;
            o->reason = "not timable: with the probes of heavier objects its own would cost more than 1 % of the "
                        "program's time";
            continue;
        }
        s->left_s -= o->probe_s;
    }
    free(order);
}
