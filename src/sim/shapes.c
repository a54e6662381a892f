/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of prepared instructions, each kept once: a program of half a million instructions has some twenty thousand.
 */
#include "sim/sim.h"

#include <stdlib.h>

struct sim_shapes {
    struct arena *arena;
    struct map by_hash; /* the first whose hash is the key, or comes after it in a row of taken ones */
};

struct sim_shapes *sim_shapes_new(void)
{
    struct sim_shapes *s = xmalloc(sizeof *s);
    s->arena = arena_new();
    return s;
}

void sim_shapes_free(struct sim_shapes *s)
{
    if (!s)
        return;
    map_fini(&s->by_hash);
    arena_free(s->arena);
    free(s);
}

static uint64_t hash_of(const struct sim_shape *shape)
{
    enum { WORDS = sizeof *shape / sizeof(uint32_t) };
    uint32_t words[WORDS];
    uint64_t hash = 0xcbf29ce484222325u;
    memcpy(words, shape, sizeof words);
    for (int i = 0; i < WORDS; i++)
        hash = (hash ^ words[i]) * 0x100000001b3u;
    return hash;
}

const struct sim_shape *sim_shapes_keep(struct sim_shapes *s, const struct sim_shape *shape)
{
    uint64_t hash = hash_of(shape), found;
    for (; map_get(&s->by_hash, hash, &found); hash++)
        if (memcmp((const void *)(uintptr_t)found, shape, sizeof *shape) == 0)
            return (const void *)(uintptr_t)found;
    struct sim_shape *kept = ARENA_ARRAY(s->arena, struct sim_shape, 1);
    *kept = *shape;
    map_put(&s->by_hash, hash, (uintptr_t)kept);
    return kept;
}
