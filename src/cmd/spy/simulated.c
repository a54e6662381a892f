/* SPDX-License-Identifier: Apache-2.0
 * How far the simulation has come, said to the threads of the program: what they need not tell any more of lines that
 * one has written after another had referred to them depends on it (wire/stream.h, WIRE_LINES_VADDR). Said too late is
 * told too much, which takes time alone. */
#include "cmd/spy/program.h"

#include <stdlib.h>

enum { EACH = 4096 }; /* entries, after each of which is looked how far it is */
_Static_assert(1u << CACHE_LOST_BITS == WIRE_LINES, "a bit for each word");

struct area {
    struct wire_paths *paths;   /* NULL: nothing came of it */
    uint64_t position, at_mark; /* of what was handed over; the same when the mark was taken */
};
struct simulated {
    struct cache_lost lost;
    VEC(struct area) areas;   /* by number */
    struct wire_paths *first; /* of the process's first thread, behind which lost lines are said; NULL: not known */
    uint64_t changes;         /* of what is lost, that were said */
    uint64_t mark;            /* spy_mark; 0: none is under way */
    size_t since;
};

struct simulated *simulated_new(void) { return xmalloc(sizeof(struct simulated)); }

struct cache_lost *simulated_lost(struct simulated *k) { return &k->lost; }

void simulated_free(struct simulated *k)
{
    if (!k)
        return;
    VEC_FREE(&k->areas);
    free(k);
}

static void copy(uint64_t *to, const uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

static void say_lost(struct simulated *k)
{
    uint64_t *to = (uint64_t *)(void *)(k->first + 1);
    uint64_t changes = __atomic_load_n(&k->lost.changes, __ATOMIC_ACQUIRE);
    if (changes == k->changes)
        return;
    copy(to, k->lost.lost, ARRAY_LEN(k->lost.lost));
    copy(to + WIRE_LINES / 64, k->lost.missed, ARRAY_LEN(k->lost.missed));
    k->changes = changes;
}

/* What is lost is said before. */
static void say(struct simulated *k)
{
    say_lost(k);
    for (size_t i = 0; i < k->areas.len; i++)
        if (k->areas.data[i].paths)
            __atomic_store_n(&k->areas.data[i].paths->simulated, k->areas.data[i].at_mark, __ATOMIC_RELEASE);
}

static void look(struct simulated *k, struct spy *spy)
{
    k->since = 0;
    if (k->mark && !spy_has_passed(spy, k->mark))
        return;
    if (k->mark)
        say(k);
    for (size_t i = 0; i < k->areas.len; i++)
        k->areas.data[i].at_mark = k->areas.data[i].position;
    k->mark = spy_mark(spy);
}

void simulated_see(struct simulated *k, const struct spied_program *s, const struct launch_chunk *c)
{
    if (!c->paths || c->area >= WIRE_AREAS_MAX)
        return;
    if (c->area == c->process)
        k->first = c->paths;
    while (k->areas.len <= c->area)
        VEC_PUSH(&k->areas, ((struct area){.paths = NULL}));
    k->areas.data[c->area].paths = c->paths;
    k->areas.data[c->area].position = c->position + c->count * sizeof *c->entries;
    k->since += c->count;
    if (k->first && k->since >= EACH)
        look(k, s->spy);
}
