/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plain level tells of a window: as hierarchy.c does, of which this is the counterpart.
 */
#ifndef MTOOL_CACHE_PLAIN_WINDOW_H
#define MTOOL_CACHE_PLAIN_WINDOW_H

#include "cache/plain/plain.h"

/* A hit, before it counts as a use. */
__attribute__((always_inline)) static inline void window_hit(struct sample *s, const struct plain_level *l,
                                                             uint64_t line, uint32_t way)
{
    uint64_t set = plain_set(l, line);
    unsigned age = age_of(l->clock + 1 - (l->used[set * l->row + way] >> PLAIN_WAY_BITS));
    s->ages.hits[age]++;
    s->ages.full_hits[age] += l->held[set] == l->ways;
}

/* Returns whether it is not known to be one. `nearer`: nor of a nearer level. */
static inline bool window_miss(struct sample *s, const struct plain_level *l, uint32_t cell, bool has_room, bool nearer)
{
    if (has_room || nearer)
        sample_count_unknown(s, cell, has_room, l->clock + 1 - l->begin, nearer);
    else
        sample_count_miss(s, cell);
    return has_room || nearer;
}

/* The line of that way goes; the use for which it does is counted. is_unknown: nor is it known to have missed. */
__attribute__((always_inline)) static inline void window_evict(struct sample *s, const struct plain_level *l,
                                                               uint64_t at, bool is_unknown)
{
    uint32_t used = l->used[at] >> PLAIN_WAY_BITS, idle = l->clock - used;
    const struct plain_stay *stay = &l->stays[at];
    s->ages.misses[age_of(idle)] += !is_unknown;
    if (stay->came)
        sample_count_generation(s, stay->cell, used - stay->came, idle);
}

__attribute__((always_inline)) static inline void window_bring_in(struct plain_level *l, uint64_t line, uint32_t way,
                                                                  bool is_full, uint32_t cell)
{
    uint64_t set = plain_set(l, line);
    l->stays[set * l->row + way] = (struct plain_stay){is_full ? l->clock : 0, cell};
    l->held[set] = (uint8_t)(l->held[set] + !is_full);
}

#endif
