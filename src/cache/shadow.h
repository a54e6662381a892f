/* SPDX-License-Identifier: Apache-2.0
 *
 * A fully associative LRU cache of lines that the caller has numbered: a log of uses, in a ring, in which a bit says of
 * each place whether its line was used again since, or taken out. A use touches nothing of other lines. Where a line's
 * last use stands the caller keeps, beside what else he knows of it.
 */
#ifndef MTOOL_CACHE_SHADOW_H
#define MTOOL_CACHE_SHADOW_H

#include "base/base.h"

#define SHADOW_PLACE_MAX (UINT32_MAX - 1)

struct shadow {
    uint32_t *of; /* [x << spread], x below cap: the place of its last use; before `oldest`: it is not here */
    unsigned spread;
    uint64_t cap;
    uint64_t held, room;     /* lines: now, at most */
    uint32_t newest, oldest; /* places in the log of the last use, and of the line that goes next */
    uint32_t *log;           /* [mask + 1] lines, by the low bits of places */
    uint64_t *live;          /* a bit each, of those from `oldest` to `newest`: its line's last use, and it is here */
    uint32_t mask;
};

void shadow_init(struct shadow *s, uint64_t room);
void shadow_fini(struct shadow *s);
void shadow_empty(struct shadow *s); /* places that stand anywhere are 0 now */
/* Before the first use, and when they move or are more: where places stand. Of lines that are new they are 0. */
void shadow_place_in(struct shadow *s, uint32_t *of, unsigned spread, uint64_t cap);
void shadow_tidy(struct shadow *s); /* room in the log; places change */
/* The line is taken out. Whether it was there. */
bool shadow_drop(struct shadow *s, uint32_t x);
void shadow_lines(const struct shadow *s, uint32_t *out); /* [held], the one that goes next first */

static inline uint32_t *shadow_place(const struct shadow *s, uint32_t x) { return &s->of[(uint64_t)x << s->spread]; }

static inline bool shadow_holds(const struct shadow *s, uint32_t x) { return *shadow_place(s, x) >= s->oldest; }

/* What a use of the line will change, some time before; where its place stands is near. */
__attribute__((always_inline)) static inline void shadow_fetch(const struct shadow *s, uint32_t x)
{
    __builtin_prefetch(&s->live[(*shadow_place(s, x) & s->mask) / 64], 1);
}

/* The first place from there on that lives; there is one. */
static inline uint32_t shadow_next_live(const struct shadow *s, uint32_t place)
{
    uint32_t bit = place & s->mask, word = bit / 64;
    uint64_t bits = s->live[word] >> bit % 64;
    if (bits)
        return place + (uint32_t)__builtin_ctzll(bits);
    place += 64 - bit % 64;
    for (;;) {
        word = (place & s->mask) / 64;
        if (s->live[word])
            return place + (uint32_t)__builtin_ctzll(s->live[word]);
        place += 64;
    }
}

static inline void shadow_leave(struct shadow *s, uint32_t place)
{
    s->live[(place & s->mask) / 64] &= ~(1ull << place % 64);
    if (place == s->oldest)
        s->oldest = s->held ? shadow_next_live(s, place + 1) : s->newest + 1;
}

/* A use of a line, which is taken in if it was not there. Whether it was. */
static inline bool shadow_use(struct shadow *s, uint32_t x)
{
    bool was_there = shadow_holds(s, x);
    if (was_there && *shadow_place(s, x) == s->newest)
        return true;
    if (s->newest - s->oldest == s->mask || s->newest == SHADOW_PLACE_MAX)
        shadow_tidy(s);
    uint32_t was = *shadow_place(s, x), place = ++s->newest;
    *shadow_place(s, x) = place;
    s->log[place & s->mask] = x;
    s->live[(place & s->mask) / 64] |= 1ull << place % 64;
    if (was_there)
        shadow_leave(s, was);
    else if (++s->held > s->room)
        s->held--, shadow_leave(s, s->oldest);
    return was_there;
}

#endif
