/* SPDX-License-Identifier: Apache-2.0
 * The tables of a large cache and a large program do not stay in the caches of this machine: what a reference will need
 * of them is fetched some references before, in two steps, since the first tells where to look for the second. Changes
 * nothing that is counted. All that fetches is inline: gcc takes a call of it for one without effect. */
#include "cache/coherence.h"
#include "cache/hierarchy.h"

void ahead_look(const struct cache *c, const struct cache_ref *refs, size_t count, struct ahead *out)
{
    uint64_t before = UINT64_MAX;
    out->count = 0;
    for (const struct cache_ref *r = refs; r < refs + count; r++) {
        int at = r->kind == CACHE_FETCH ? c->nearest_code : c->nearest_data;
        const struct bank *b = at == NO_LEVEL ? NULL : c->levels[at].banks[r->thread];
        uint64_t line = b ? r->address >> c->levels[at].shift : 0;
        if (!b || line == before || lines_find(&b->lines, line) != LINES_NONE)
            continue;
        before = line;
        out->misses[out->count++] = r;
    }
}

/* The sets of all levels, and what is kept of the line. */
__attribute__((always_inline)) static inline void fetch_sets(const struct bank *b, uint64_t line)
{
    lines_prefetch(&b->lines, line);
    uint32_t x = b->causes ? numbers_peek(&b->causes->numbers, line) : 0;
    if (x && x < b->causes->cap)
        __builtin_prefetch(&b->causes->of[x], 1);
}

/* What is kept of the line that will go for it. */
__attribute__((always_inline)) static inline void fetch_next_out(const struct bank *b, uint64_t line)
{
    if (b->causes)
        __builtin_prefetch(&b->causes->of[lines_mark_next_out(&b->lines, line)], 1);
}

void ahead_step(const struct cache *c, const struct ahead *a, unsigned step)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct cache_ref *r = a->misses[i];
        if (step == 0 && c->coherence)
            coherence_look(c->coherence, r->address);
        for (int at = r->kind == CACHE_FETCH ? c->nearest_code : c->nearest_data; at != NO_LEVEL;
             at = c->levels[at].next) {
            const struct bank *b = c->levels[at].banks[r->thread];
            uint64_t line = r->address >> c->levels[at].shift;
            if (step == 0)
                fetch_sets(b, line);
            else
                fetch_next_out(b, line);
        }
    }
}
