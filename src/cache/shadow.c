/* SPDX-License-Identifier: Apache-2.0
 * The log of a shadow: what is not done at each use. */
#include "cache/shadow.h"
#include "cache/tables/table.h"

#include <assert.h>
#include <stdlib.h>

enum { LOG_FIRST = 1 << 10, PLACES_LEFT = 3000 };

static size_t log_bytes(uint64_t room) { return room * sizeof(uint32_t); }
static size_t live_bytes(uint64_t room) { return room / 64 * sizeof(uint64_t); }

static void free_log(struct shadow *s)
{
    table_free(s->log, log_bytes(s->mask + 1ull));
    table_free(s->live, live_bytes(s->mask + 1ull));
}

void shadow_init(struct shadow *s, uint64_t room)
{
    *s = (struct shadow){.room = room, .mask = LOG_FIRST - 1};
    s->log = table_new(log_bytes(LOG_FIRST));
    s->live = table_new(live_bytes(LOG_FIRST));
    s->newest =
        SHADOW_PLACE_MAX - PLACES_LEFT; /* so that they begin anew in each run that is not short, and in tests */
    s->oldest = s->newest + 1;
}

void shadow_empty(struct shadow *s)
{
    memset(s->live, 0, (s->mask + 1ull) / 64 * sizeof *s->live);
    s->held = s->newest = 0;
    s->oldest = 1;
}

void shadow_fini(struct shadow *s) { free_log(s); }

void shadow_place_in(struct shadow *s, uint32_t *of, unsigned spread, uint64_t cap)
{
    s->of = of;
    s->spread = spread;
    s->cap = cap;
}

/* Places begin at 1 again. */
static void forget_places(struct shadow *s)
{
    for (uint64_t x = 0; x < s->cap; x++)
        if (*shadow_place(s, (uint32_t)x) && !shadow_holds(s, (uint32_t)x))
            *shadow_place(s, (uint32_t)x) = 0;
}

/* The lines one behind the other, at the log's end; in a longer log if they are many. */
void shadow_tidy(struct shadow *s)
{
    uint64_t room = s->mask + 1ull, last = s->newest;
    while (room / 4 < s->held)
        room *= 2;
    assert(room <= UINT32_MAX / 4);
    uint32_t mask = (uint32_t)room - 1, *log = table_new(log_bytes(room));
    uint64_t *live = table_new(live_bytes(room));
    bool begins_anew = last + 2 * room >= SHADOW_PLACE_MAX;
    if (begins_anew)
        forget_places(s);
    uint32_t newest = begins_anew ? 0 : s->newest, first = newest + 1, at = s->oldest;
    for (uint64_t n = 0; n < s->held; n++, at++) {
        at = shadow_next_live(s, at);
        uint32_t x = s->log[at & s->mask];
        *shadow_place(s, x) = ++newest;
        log[newest & mask] = x;
        live[(newest & mask) / 64] |= 1ull << newest % 64;
    }
    free_log(s);
    s->log = log;
    s->live = live;
    s->mask = mask;
    s->newest = newest;
    s->oldest = first;
}

bool shadow_drop(struct shadow *s, uint32_t x)
{
    uint32_t place = *shadow_place(s, x);
    if (!shadow_holds(s, x))
        return false;
    *shadow_place(s, x) = 0;
    s->held--;
    shadow_leave(s, place);
    return true;
}

void shadow_lines(const struct shadow *s, uint32_t *out)
{
    uint32_t at = s->oldest;
    for (uint64_t n = 0; n < s->held; n++, at++) {
        at = shadow_next_live(s, at);
        out[n] = s->log[at & s->mask];
    }
}
