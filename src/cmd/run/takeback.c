/* SPDX-License-Identifier: Apache-2.0
 * Samples and chains of calls of a counted run, which are in the copies, become those of the originals; half of those
 * on what counts are taken out. */
#include "cmd/run/profile.h"

struct backs { /* [module]; NULL: none, or not asked for yet */
    struct profile *p;
    struct rewrite_back **of;
    bool *asked;
};

static const struct rewrite_back *back_of(struct backs *b, uint32_t module)
{
    const struct launch_program *prog = b->p->program;
    if (module >= prog->module_count)
        return NULL;
    const struct rewrite_map *map = b->asked[module] ? NULL : profile_map(b->p, module);
    b->asked[module] = true;
    if (map && prog->modules[module].copy)
        b->of[module] = rewrite_back_new(map, prog->modules[module].copy);
    return b->of[module];
}

/* A caller's address lies in the call that ends its block. True if it was in what was inserted. */
static bool take_back(struct backs *b, uint32_t module, uint64_t *vaddr)
{
    struct rewrite_place at;
    const struct rewrite_back *back = back_of(b, module);
    if (!back || !rewrite_back_find(back, *vaddr, &at))
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

uint64_t profile_take_back(struct profile *p, struct launch_result *run)
{
    struct arena *a = arena_new();
    size_t n = p->program->module_count;
    struct backs b = {p, ARENA_ARRAY(a, struct rewrite_back *, n), ARENA_ARRAY(a, bool, n)};
    uint64_t inserted = 0, taken = 0;
    for (size_t i = 0; i < run->sample_count; i++)
        if (take_back(&b, run->samples[i].module, &run->samples[i].vaddr))
            taken += take_share(&run->samples[i], &inserted);
    for (size_t i = 0; i < run->frame_count; i++)
        take_back(&b, run->frames[i].module, &run->frames[i].vaddr);
    for (size_t i = 0; i < n; i++)
        rewrite_back_free(b.of[i]);
    arena_free(a);
    return taken;
}
