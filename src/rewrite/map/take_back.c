/* SPDX-License-Identifier: Apache-2.0
 *
 * take_back: samples and chains of calls of a counted run, which are in the copies, become those of the originals; half
 * of those on what counts are taken out.
 */
#include "rewrite/rewrite.h"

struct backs { /* [count] by module; NULL: none, or not asked for yet */
    const struct rewrite_copies *copies;
    struct rewrite_reverse_map **of;
    bool *asked;
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
static bool take_back(struct backs *b, uint32_t module, uint64_t *vaddr)
{
    struct rewrite_place at;
    const struct rewrite_reverse_map *back = back_of(b, module);
    if (!back || !rewrite_reverse_map_find(back, *vaddr, &at))
        return false;
    *vaddr = at.addr;
    return at.is_inserted;
}

/* Half of the samples on what counts, which are taken out, are its own time: it is often the first instruction of its
 * block, so what the block waits for (a mispredicted branch, its code) shows there too. */
static uint64_t take_share(struct observed_sample *s, uint64_t *inserted)
{
    uint64_t before = *inserted / 2;
    *inserted += s->count;
    uint64_t taken = *inserted / 2 - before;
    s->count -= taken;
    return taken;
}

uint64_t rewrite_take_back(const struct rewrite_copies *copies, struct observed_sample *samples, size_t sample_count,
                           struct observed_frame *frames, size_t frame_count)
{
    struct arena *a = arena_new();
    struct backs b = {copies, ARENA_ARRAY(a, struct rewrite_reverse_map *, copies->count),
                      ARENA_ARRAY(a, bool, copies->count)};
    uint64_t inserted = 0, taken = 0;
    for (size_t i = 0; i < sample_count; i++)
        if (take_back(&b, samples[i].module, &samples[i].vaddr))
            taken += take_share(&samples[i], &inserted);
    for (size_t i = 0; i < frame_count; i++)
        take_back(&b, frames[i].module, &frames[i].vaddr);
    for (size_t i = 0; i < copies->count; i++)
        rewrite_reverse_map_free(b.of[i]);
    arena_free(a);
    return taken;
}
