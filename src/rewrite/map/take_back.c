/* SPDX-License-Identifier: Apache-2.0
 *
 * take_back: samples and chains of calls of a counted run, which are in the copies, become those of the originals;
 * those that counting itself took are taken out.
 */
#include "rewrite/rewrite.h"

#include <math.h>

struct backs {
    const struct rewrite_copies *copies;
    struct rewrite_reverse_map **of; /* [count] by module; NULL: none, or not asked for yet */
    bool *asked;
    struct map taken; /* by what was inserted, module << 48 | its address: thousandths of samples */
    double due;       /* samples to be taken out, */
    uint64_t all;     /* and those that were */
};

static const struct rewrite_reverse_map *back_of(struct backs *b, uint32_t module)
{
    if (module >= b->copies->count)
        return NULL;
    const char *copy = NULL;
    const struct rewrite_map *map = b->asked[module] ? NULL : b->copies->map_of(b->copies->ctx, module, &copy);
    b->asked[module] = true;
    if (map && copy)
        b->of[module] = rewrite_reverse_map_new(map, copy);
    return b->of[module];
}

/* A caller's address lies in the call that ends its block. True if it was in what was inserted. */
static bool take_back(struct backs *b, uint32_t module, uint64_t *vaddr, struct rewrite_place *at)
{
    const struct rewrite_reverse_map *back = back_of(b, module);
    if (!back || !rewrite_reverse_map_find(back, *vaddr, at))
        return false;
    *vaddr = at->addr;
    return at->is_inserted;
}

/* Half of the samples on what counts are its own time, which are taken out: it is often the first instruction of its
 * block, so what the block waits for (a mispredicted branch, its code) shows there too. And no more than it can have
 * taken for as often as it was executed: where a function of few calls waits long, its counter does. */
static void take_share(struct backs *b, struct observed_sample *s, const struct rewrite_place *at)
{
    enum { PARTS = 1000 };
    uint64_t key = (uint64_t)s->module << 48 | at->inserted, taken = 0;
    map_get(&b->taken, key, &taken);
    double most = b->copies->most_of(b->copies->ctx, s->module, at) - (double)taken / PARTS;
    double share = fmax(0, fmin((double)s->count / 2, most));
    map_put(&b->taken, key, taken + (uint64_t)(share * PARTS));
    b->due += share;
    uint64_t now = min_u64(s->count, (uint64_t)b->due - b->all);
    b->all += now;
    s->count -= now;
}

uint64_t rewrite_take_back(const struct rewrite_copies *copies, struct observed_sample *samples, size_t sample_count,
                           struct observed_frame *frames, size_t frame_count)
{
    struct arena *a = arena_new();
    struct backs b = {.copies = copies,
                      .of = ARENA_ARRAY(a, struct rewrite_reverse_map *, copies->count),
                      .asked = ARENA_ARRAY(a, bool, copies->count)};
    struct rewrite_place at;
    for (size_t i = 0; i < sample_count; i++)
        if (take_back(&b, samples[i].module, &samples[i].vaddr, &at))
            take_share(&b, &samples[i], &at);
    for (size_t i = 0; i < frame_count; i++)
        take_back(&b, frames[i].module, &frames[i].vaddr, &at);
    for (size_t i = 0; i < copies->count; i++)
        rewrite_reverse_map_free(b.of[i]);
    map_fini(&b.taken);
    arena_free(a);
    return b.all;
}
