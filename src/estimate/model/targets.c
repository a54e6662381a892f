/* SPDX-License-Identifier: Apache-2.0
 *
 * targets: where windows of the real instruction stream saw calls and jumps through pointers lead, and the exact count
 * of each such site become estimated calls from there to each target. What no window saw, and what would be more than
 * arrives at a target, stays unknown. Does not look at code: walks.c says which blocks they are.
 */
#include "estimate/model/targets.h"

#include <stdlib.h>

enum { OBSERVED_MIN = 30, ROUNDS = 20 }; /* of a site, by all windows: fewer say nothing of the rest */

void targets_see(struct targets *t, uint32_t site, uint32_t to)
{
    uint64_t key = (uint64_t)site << 32 | to, at;
    if (!map_get(&t->index, key, &at)) {
        at = t->v.len;
        map_put(&t->index, key, at);
        VEC_PUSH(&t->v, ((struct target){.site = site, .to = to}));
    }
    t->v.data[at].observed++;
}

static int by_site(const void *a, const void *b)
{
    const struct target *x = a, *y = b;
    return x->site != y->site ? (x->site < y->site ? -1 : 1) : (x->to > y->to) - (x->to < y->to);
}

/* From the heap to the arena, in order. */
static void file_targets(struct join *j, struct targets *t)
{
    struct target *kept = ARENA_ARRAY(j->scratch, struct target, t->v.len + 1);
    size_t count = t->v.len;
    if (count) {
        qsort(t->v.data, count, sizeof *kept, by_site);
        memcpy(kept, t->v.data, count * sizeof *kept);
    }
    map_fini(&t->index);
    VEC_FREE(&t->v);
    t->index = (struct map){0};
    t->v.data = kept;
    t->v.len = count;
    t->first = ARENA_ARRAY(j->scratch, uint32_t, j->block_count + 2);
    for (size_t i = 0; i < count; i++)
        t->first[kept[i].site + 1]++;
    for (uint32_t b = 0; b < j->block_count; b++)
        t->first[b + 1] += t->first[b];
}

/* All calls of the site, but for the part that led to code that is not known, in the proportion that they have. */
static void fill_site(const struct join *j, struct targets *t, uint32_t site)
{
    uint64_t all = 0, known = 0;
    double sum = 0;
    for (uint32_t i = t->first[site]; i < t->first[site + 1]; i++) {
        const struct target *a = &t->v.data[i];
        all += a->observed;
        known += a->to != ID_NONE ? a->observed : 0;
        sum += a->calls;
    }
    double factor = all >= OBSERVED_MIN && sum > 0 ? (double)j->counts[site] * (double)known / (double)all / sum : 0;
    for (uint32_t i = t->first[site]; i < t->first[site + 1]; i++)
        t->v.data[i].calls *= factor;
}

static void limit_targets(struct targets *t, const uint64_t *outside, double *arriving)
{
    for (size_t i = 0; i < t->v.len; i++)
        if (t->v.data[i].to != ID_NONE)
            arriving[t->v.data[i].to] = 0;
    for (size_t i = 0; i < t->v.len; i++)
        if (t->v.data[i].to != ID_NONE)
            arriving[t->v.data[i].to] += t->v.data[i].calls;
    for (size_t i = 0; i < t->v.len; i++) {
        struct target *a = &t->v.data[i];
        if (a->to != ID_NONE && arriving[a->to] > (double)outside[a->to])
            a->calls *= (double)outside[a->to] / arriving[a->to];
    }
}

/* Sites and targets in turn, until both fit (Deming and Stephan 1940). */
void targets_share(struct join *j, const uint64_t *outside, struct targets *t)
{
    double *arriving = xmalloc_sparse((j->block_count + 1) * sizeof *arriving);
    file_targets(j, t);
    for (size_t i = 0; i < t->v.len; i++)
        t->v.data[i].calls = t->v.data[i].to != ID_NONE ? (double)t->v.data[i].observed : 0;
    for (int round = 0; round < ROUNDS && t->v.len; round++) {
        for (uint32_t b = 0; b < j->block_count; b++)
            fill_site(j, t, b);
        limit_targets(t, outside, arriving);
    }
    xfree_sparse(arriving);
}

const struct target *targets_of(const struct targets *t, uint32_t site, uint32_t *count)
{
    *count = t ? t->first[site + 1] - t->first[site] : 0;
    return t ? t->v.data + t->first[site] : NULL;
}
