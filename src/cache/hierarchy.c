/* SPDX-License-Identifier: Apache-2.0
 * References through the levels. A line that a level lacks is asked of the next one, brought in, and what had to go for
 * it is handed down. A line that is written back changes no order of use below: so misses are the same whether a cache
 * writes back or through. */
#include "cache/causes.h"

#include <assert.h>
#include <stdlib.h>

#define NO_LEVEL (-1)

struct level {
    struct lines lines;
    struct cache_level config;
    struct causes *causes; /* NULL: not wanted */
    unsigned shift;        /* of an address, to its line */
    int next;              /* the level below */
    struct cache_counts counts;
};

struct cache {
    struct level levels[CACHE_LEVELS_MAX];
    int count;
    int nearest_data, nearest_code;
    bool has_whole;
};

struct visit { /* of one reference */
    enum cache_kind kind;
    bool stores, is_modify;
    uint32_t cell;
    unsigned reached, missed; /* levels, a bit each */
    unsigned handed;          /* levels that hand on lines which they have: the next is asked for the whole reference */
};

static lines_entry reach(struct cache *c, int at, uint64_t address, bool stores, struct visit *v);

/* ---- counting ---- */

static void count_reference(struct level *l, int at, struct visit *v)
{
    if (v->reached >> at & 1)
        return;
    v->reached |= 1u << at;
    l->counts.references[v->kind]++;
    if (l->causes)
        causes_count_reference(l->causes, v->cell);
}

static void count_miss(struct level *l, int at, uint64_t line, bool in_shadow, struct visit *v)
{
    if (v->missed >> at & 1)
        return;
    v->missed |= 1u << at;
    l->counts.misses[v->kind]++;
    if (l->causes)
        l->counts.causes[v->kind][causes_count_miss(l->causes, line, v->cell, in_shadow)]++;
}

/* ---- lines that leave ---- */

static void evict(struct cache *c, int at, lines_entry e, const struct visit *v);

/* Out of all levels nearer than an inclusive one. Whether a part of it was dirty. */
static lines_entry invalidate_above(struct cache *c, int at, uint64_t line, const struct visit *v)
{
    const struct level *from = &c->levels[at];
    lines_entry dirty = 0;
    for (int i = 0; i < at; i++) {
        struct level *l = &c->levels[i];
        uint64_t parts = 1ull << (from->shift - l->shift), first = line << (from->shift - l->shift);
        lines_entry e;
        while (l->config.side & from->config.side && (e = lines_remove_any(&l->lines, first, parts))) {
            if (l->causes)
                causes_note_left(l->causes, lines_line_of(e), v->cell, CAUSES_INVALIDATED);
            l->counts.write_backs += e & LINES_DIRTY;
            dirty |= e & LINES_DIRTY;
        }
    }
    return dirty;
}

/* An exclusive level takes what the one above evicted. */
static void move_down(struct cache *c, int at, uint64_t line, lines_entry dirty, const struct visit *v)
{
    struct level *l = &c->levels[at];
    if (l->causes)
        causes_use(l->causes, line, true);
    if (!lines_use(&l->lines, line, dirty))
        evict(c, at, lines_add(&l->lines, line, dirty), v);
}

static void write_back(struct cache *c, int at, uint64_t address)
{
    for (; at != NO_LEVEL; at = c->levels[at].next) {
        struct level *l = &c->levels[at];
        if (l->config.write_through)
            l->counts.write_throughs++;
        else if (lines_soil(&l->lines, address >> l->shift))
            return;
    }
}

static void evict(struct cache *c, int at, lines_entry e, const struct visit *v)
{
    struct level *l = &c->levels[at];
    if (!e)
        return;
    uint64_t line = lines_line_of(e);
    lines_entry dirty = e & LINES_DIRTY;
    if (l->causes)
        causes_note_left(l->causes, line, v->cell, CAUSES_EVICTED);
    if (l->config.inclusion == CACHE_INCLUSIVE)
        dirty |= invalidate_above(c, at, line, v);
    l->counts.write_backs += dirty;
    if (l->next != NO_LEVEL && c->levels[l->next].config.inclusion == CACHE_EXCLUSIVE)
        move_down(c, l->next, line, dirty, v);
    else if (dirty)
        write_back(c, l->next, line << l->shift);
}

/* ---- references ---- */

static lines_entry ask_below(struct cache *c, struct level *l, uint64_t address, bool stores, struct visit *v)
{
    l->counts.write_throughs += stores;
    return l->next == NO_LEVEL ? 0 : reach(c, l->next, address, stores, v);
}

/* The line moves up, and whether it is dirty with it. */
static lines_entry reach_exclusive(struct cache *c, int at, uint64_t address, struct visit *v)
{
    struct level *l = &c->levels[at];
    uint64_t line = address >> l->shift;
    bool in_shadow = l->causes && lines_remove(&l->causes->shadow, line);
    lines_entry e = lines_remove(&l->lines, line);
    if (e)
        return e & LINES_DIRTY;
    count_miss(l, at, line, in_shadow, v);
    return ask_below(c, l, address, false, v);
}

/* A line's part of a reference. Returns LINES_DIRTY if the line came out of an exclusive level and was dirty. */
static lines_entry reach(struct cache *c, int at, uint64_t address, bool stores, struct visit *v)
{
    struct level *l = &c->levels[at];
    uint64_t line = address >> l->shift;
    bool through = stores && l->config.write_through, enters = !stores || v->is_modify || !l->config.no_allocate;
    count_reference(l, at, v);
    if (l->config.inclusion == CACHE_EXCLUSIVE)
        return reach_exclusive(c, at, address, v);
    bool in_shadow = l->causes && causes_use(l->causes, line, enters);
    if (lines_use(&l->lines, line, stores && !through)) {
        if (through || v->handed >> at & 1)
            ask_below(c, l, address, through, v);
        return 0;
    }
    count_miss(l, at, line, in_shadow, v);
    lines_entry dirty = ask_below(c, l, address, enters ? through : stores, v);
    if (enters)
        evict(c, at, lines_add(&l->lines, line, dirty | (stores && !through)), v);
    else if (l->causes)
        causes_note_left(l->causes, line, v->cell, CAUSES_AROUND);
    return 0;
}

static bool lacks_part(const struct level *l, uint64_t first, uint64_t last)
{
    for (uint64_t line = first >> l->shift; line <= last >> l->shift; line++)
        if (!lines_has(&l->lines, line))
            return true;
    return false;
}

static unsigned handing(const struct cache *c, int at, uint64_t first, uint64_t last)
{
    unsigned handed = 0;
    for (int next; (next = c->levels[at].next) != NO_LEVEL && c->levels[next].config.whole; at = next) {
        if (!lacks_part(&c->levels[at], first, last))
            break;
        handed |= 1u << at;
    }
    return handed;
}

static void reach_all(struct cache *c, int at, const struct cache_ref *r, struct visit *v)
{
    unsigned shift = c->levels[at].shift;
    uint64_t last = r->address + r->bytes - 1;
    if (c->has_whole && r->address >> shift != last >> shift)
        v->handed = handing(c, at, r->address, last);
    for (uint64_t line = r->address >> shift; line <= last >> shift; line++)
        reach(c, at, line << shift, v->stores, v);
}

/* Most references go to the line of their set that was used last: nothing changes but that it may become dirty. */
static bool is_repeated(struct level *l, const struct cache_ref *r, bool stores)
{
    uint64_t line = r->address >> l->shift;
    if (!l->lines.is_ordered || l->causes || (r->address + r->bytes - 1) >> l->shift != line ||
        (stores && l->config.write_through))
        return false;
    lines_entry *e = lines_recent(&l->lines, line);
    if (!lines_is(*e, lines_entry_of(line)))
        return false;
    *e |= stores;
    return true;
}

void cache_run(struct cache *c, const struct cache_ref *refs, size_t count)
{
    for (const struct cache_ref *r = refs; r < refs + count; r++) {
        int at = r->kind == CACHE_FETCH ? c->nearest_code : c->nearest_data;
        bool is_modify = r->kind == CACHE_MODIFY, stores = r->kind == CACHE_WRITE || is_modify;
        enum cache_kind kind = is_modify ? CACHE_READ : (enum cache_kind)r->kind;
        if (at == NO_LEVEL)
            continue;
        if (is_repeated(&c->levels[at], r, stores)) {
            c->levels[at].counts.references[kind]++;
            continue;
        }
        struct visit v = {.kind = kind, .stores = stores, .is_modify = is_modify, .cell = r->cell};
        reach_all(c, at, r, &v);
    }
}

/* ---- made and read ---- */

static int next_of(const struct cache_config *k, int at, unsigned side)
{
    for (int i = at + 1; i < (int)k->count; i++)
        if (k->levels[i].side & side)
            return i;
    return NO_LEVEL;
}

struct cache *cache_new(const struct cache_config *config, bool with_causes)
{
    struct cache *c = xmalloc(sizeof *c);
    c->count = (int)config->count;
    c->nearest_data = next_of(config, -1, CACHE_DATA);
    c->nearest_code = next_of(config, -1, CACHE_CODE);
    for (int i = 0; i < c->count; i++) {
        const struct cache_level *k = &config->levels[i];
        uint64_t lines = k->size_bytes / k->line_bytes;
        assert(lines && lines % k->ways == 0 && "cache_check was asked");
        c->levels[i] = (struct level){.config = *k, .shift = (unsigned)__builtin_ctz(k->line_bytes)};
        c->levels[i].next = next_of(config, i, k->side);
        lines_init(&c->levels[i].lines, lines / k->ways, k->ways, k->policy, k->seed);
        if (with_causes)
            c->levels[i].causes = causes_new(lines);
        c->has_whole |= k->whole;
    }
    return c;
}

void cache_free(struct cache *c)
{
    for (int i = 0; c && i < c->count; i++) {
        lines_fini(&c->levels[i].lines);
        causes_free(c->levels[i].causes);
    }
    free(c);
}

const struct cache_counts *cache_counts(const struct cache *c, unsigned level) { return &c->levels[level].counts; }

const struct cache_cell *cache_cells(const struct cache *c, unsigned level, size_t *count)
{
    const struct causes *k = c->levels[level].causes;
    *count = k ? k->cells.len : 0;
    return k ? k->cells.data : NULL;
}

static int by_cell_and_misses(const void *a, const void *b)
{
    const struct cache_evictor *x = a, *y = b;
    if (x->cell != y->cell)
        return x->cell < y->cell ? -1 : 1;
    if (x->misses != y->misses)
        return x->misses > y->misses ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by);
}

const struct cache_evictor *cache_evictors(const struct cache *c, unsigned level, struct arena *a, size_t *count)
{
    const struct causes *k = c->levels[level].causes;
    *count = 0;
    if (!k)
        return NULL;
    struct cache_evictor *out = ARENA_ARRAY(a, struct cache_evictor, k->pairs.len + 1);
    for (size_t i = 0; i < k->pairs.cap; i++)
        if (k->pairs.used[i])
            out[(*count)++] = (struct cache_evictor){(uint32_t)(k->pairs.keys[i] >> 32), (uint32_t)k->pairs.keys[i],
                                                     k->pairs.vals[i]};
    qsort(out, *count, sizeof *out, by_cell_and_misses);
    return out;
}
