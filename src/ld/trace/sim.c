/* SPDX-License-Identifier: Apache-2.0
 *
 * One table for each of the nearest levels, of data and of code, or one for both where that is one: by the low bits of
 * a line's number, of which all lines of a set have the same, the last line referred to, and whether it was written to
 * since it is that. So a line that stands there is the last one of its set: a reference to it hits, and leaves the
 * order of use, and what is dirty, as they are. Not where other levels may take a line away, or other threads come
 * between.
 */
#include "ld/trace/sim.h"
#include "spy/feed.h"
#include "wire/trace.h"

#include <stdlib.h>

/* ---- levels ---- */

static unsigned nearest(const struct cache_config *c, enum cache_side side)
{
    unsigned l = 0;
    while (l < c->count && !(c->levels[l].side & side))
        l++;
    return l;
}

/* As many slots as make a part of the number of sets. */
static void filter_init(struct ld_trace_filter *f, const struct cache_config *c, unsigned level)
{
    const struct cache_level *l = &c->levels[level];
    uint64_t sets = l->size_bytes / l->line_bytes / l->ways, slots = sets & -sets;
    f->shift = (uint8_t)__builtin_ctz(l->line_bytes);
    f->mask = min_u64(slots ? slots : 1, LD_TRACE_SLOTS_MAX) - 1;
    f->is_on = true;
    for (unsigned k = 0; k < c->count; k++)
        f->is_on &= c->levels[k].inclusion == CACHE_NEITHER;
    f->marks_writes = !l->write_through;
    f->keeps_writes = !l->no_allocate;
}

static void simulate(void *cache, const struct cache_ref *refs, size_t count) { cache_run(cache, refs, count); }

static struct ld_trace_config *config_new(const struct cache_config *levels)
{
    struct ld_trace_config *c = xmalloc(sizeof *c);
    c->levels = *levels;
    c->cache = cache_new(levels, false);
    c->feed = feed_new();
    feed_add(c->feed, simulate, c->cache);
    c->near_data = nearest(levels, CACHE_DATA);
    c->near_code = nearest(levels, CACHE_CODE);
    if (c->near_data < levels->count)
        filter_init(c->data = &c->own[0], levels, c->near_data);
    if (c->near_code == c->near_data)
        c->code = c->data;
    else if (c->near_code < levels->count)
        filter_init(c->code = &c->own[1], levels, c->near_code);
    return c;
}

struct ld_trace_sim *ld_trace_sim_new(const struct cache_config *configs, size_t count)
{
    struct ld_trace_sim *s = xmalloc(sizeof *s);
    s->all = xmalloc((count + 1) * sizeof *s->all);
    s->count = count;
    for (size_t i = 0; i < count; i++)
        s->all[i] = config_new(&configs[i]);
    return s;
}

void ld_trace_sim_free(struct ld_trace_sim *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        feed_free(s->all[i]->feed);
        cache_free(s->all[i]->cache);
        free(s->all[i]);
    }
    free(s->all);
    free(s);
}

enum ld_trace_fetches ld_trace_sim_fetches(const struct ld_trace_sim *s, unsigned *shift)
{
    enum ld_trace_fetches out = LD_TRACE_FETCHES_NONE;
    for (size_t i = 0; i < s->count; i++) {
        const struct ld_trace_config *c = s->all[i];
        if (!c->code)
            continue;
        bool is_same = out == LD_TRACE_FETCHES_NONE || *shift == c->code->shift;
        if (!c->code->is_on || c->code == c->data || !is_same || c->code->shift > LD_TRACE_PAGE_SHIFT)
            return LD_TRACE_FETCHES_ALL;
        out = LD_TRACE_FETCHES_LINES;
        *shift = c->code->shift;
    }
    return out;
}

unsigned ld_trace_sim_slots(const struct ld_trace_sim *s)
{
    uint64_t mask = LD_TRACE_SLOTS_MAX - 1;
    for (size_t i = 0; i < s->count; i++) {
        const struct ld_trace_filter *f = s->all[i]->data;
        if (s->all[i]->code || !f || !f->is_on || !f->marks_writes || !f->keeps_writes ||
            f->shift != WIRE_TRACE_LINE_SHIFT)
            return 0;
        mask &= f->mask;
    }
    return (unsigned)mask + 1;
}

/* As many as a set has ways, or in a tree as many as it has levels of bits, and one. Chance may take any. */
unsigned ld_trace_sim_lines(const struct ld_trace_sim *s)
{
    unsigned lines = WIRE_TRACE_LINES;
    for (size_t i = 0; i < s->count; i++) {
        const struct cache_level *l = &s->all[i]->levels.levels[s->all[i]->near_data];
        unsigned kept = l->policy == CACHE_LRU    ? l->ways
                        : l->policy == CACHE_PLRU ? 1u + (unsigned)__builtin_ctz(l->ways)
                                                  : 1;
        lines = (unsigned)min_u64(lines, kept);
    }
    return lines;
}

/* ---- references ---- */

static void put(struct ld_trace_config *c)
{
    feed_put(c->feed, c->count);
    c->count = c->room = 0;
}

static void add(struct ld_trace_config *c, uint64_t address, unsigned bytes, unsigned kind, uint8_t thread)
{
    if (c->count == c->room) {
        put(c);
        c->batch = feed_room(c->feed, &c->room);
    }
    c->batch[c->count++] =
        (struct cache_ref){.address = address, .bytes = (uint16_t)bytes, .kind = (uint8_t)kind, .thread = thread};
}

static void send(struct ld_trace_config *c, struct ld_trace_filter *f, uint64_t address, unsigned bytes, unsigned kind,
                 uint8_t thread)
{
    f->sent[kind == CACHE_MODIFY ? CACHE_READ : kind]++;
    add(c, address, bytes, kind, thread);
}

void ld_trace_sim_use(struct ld_trace_sim *s, uint32_t number, uint64_t address)
{
    for (size_t i = 0; i < s->count; i++) {
        struct ld_trace_filter *f = s->all[i]->data;
        uint64_t line = address >> f->shift, *slot = &f->slots[line & f->mask];
        bool is_own = s->has_thread && s->number == number;
        if (is_own && *slot >> 1 == (line << 1 | 1))
            continue;
        if (is_own)
            *slot = line << 2 | 2;
        add(s->all[i], address, 1, CACHE_USE, (uint8_t)(number % CACHE_THREADS_MAX));
    }
}

void ld_trace_sim_reach(struct ld_trace_config *c, struct ld_trace_filter *f, uint64_t address, unsigned bytes,
                        unsigned kind, uint8_t thread)
{
    uint64_t line = address >> f->shift, last = (address + bytes - 1) >> f->shift;
    bool writes = kind == CACHE_WRITE || kind == CACHE_MODIFY;
    send(c, f, address, bytes, kind, thread);
    if (!f->is_on)
        return;
    for (uint64_t l = line; l <= last; l++)
        f->slots[l & f->mask] = 0;
    if (line == last && (kind != CACHE_WRITE || f->keeps_writes))
        f->slots[line & f->mask] = line << 2 | 2 | (writes && f->marks_writes);
}

void ld_trace_sim_thread(struct ld_trace_sim *s, uint32_t number)
{
    if (s->has_thread && s->number == number)
        return;
    for (size_t i = 0; i < s->count && s->has_thread; i++)
        for (int k = 0; k < 2; k++)
            memset(s->all[i]->own[k].slots, 0, (s->all[i]->own[k].mask + 1) * 8);
    s->has_thread = true;
    s->number = number;
    s->thread = (uint8_t)(number % CACHE_THREADS_MAX);
}

void ld_trace_sim_count(struct ld_trace_sim *s, const uint64_t made[CACHE_KIND_COUNT])
{
    for (int k = 0; k < CACHE_KIND_COUNT; k++)
        s->made[k] += made[k];
}

void ld_trace_sim_refs(struct ld_trace_sim *s, const struct ld_trace_thread *who, const struct cache_ref *refs,
                       size_t count)
{
    ld_trace_sim_thread(s, who->number);
    for (size_t i = 0; i < s->count; i++) {
        struct ld_trace_config *c = s->all[i];
        for (size_t k = 0; k < count; k++) {
            struct ld_trace_filter *f = refs[k].kind == CACHE_FETCH ? c->code : c->data;
            if (f)
                ld_trace_sim_one(c, f, refs[k].address, refs[k].bytes, refs[k].kind, s->thread);
        }
    }
    for (size_t k = 0; k < count; k++)
        s->made[refs[k].kind == CACHE_MODIFY ? CACHE_READ : refs[k].kind]++;
}

/* ---- what came of it ---- */

void ld_trace_sim_end(struct ld_trace_sim *s)
{
    for (size_t i = 0; i < s->count; i++) {
        put(s->all[i]);
        feed_wait(s->all[i]->feed);
    }
}

void ld_trace_sim_counts(const struct ld_trace_sim *s, size_t config, unsigned level, struct cache_counts *out)
{
    const struct ld_trace_config *c = s->all[config];
    *out = *cache_counts(c->cache, level);
    if (level == c->near_code)
        out->references[CACHE_FETCH] += s->made[CACHE_FETCH] - c->code->sent[CACHE_FETCH];
    for (int k = CACHE_READ; k <= CACHE_WRITE && level == c->near_data; k++)
        out->references[k] += s->made[k] - c->data->sent[k];
}
