/* SPDX-License-Identifier: Apache-2.0
 * See naive.h. Slow: every question is a walk over all lines of the level. */
#include "naive.h"

#include <stdlib.h>

enum { CELLS = 16 };

struct held {
    uint64_t line, used; /* used: when; 0: holds nothing */
    bool is_dirty;
};
struct past { /* a line that was there, or was written around */
    uint64_t line;
    uint32_t by;
    enum { EVICTED, INVALIDATED, AROUND } how;
};
struct stage {
    struct cache_level k;
    struct held *slots, *ideal; /* ideal: fully associative LRU */
    uint64_t sets, lines, chance, evictions[CELLS][CELLS];
    bool *side; /* of tree-PLRU, by set and node */
    VEC(struct past) past;
    struct cache_counts counts;
};
struct naive {
    struct stage stages[CACHE_LEVELS_MAX];
    int count;
    uint64_t now;
};
struct way_down { /* of one reference */
    const struct cache_ref *r;
    bool counted[CACHE_LEVELS_MAX], missed[CACHE_LEVELS_MAX], hand[CACHE_LEVELS_MAX];
};

static int below(const struct naive *n, int at, unsigned side)
{
    while (++at < n->count && !(n->stages[at].k.side & side))
        ;
    return at < n->count ? at : -1;
}

static struct held *search(struct held *of, uint64_t count, uint64_t line)
{
    for (uint64_t i = 0; i < count; i++)
        if (of[i].used && of[i].line == line)
            return &of[i];
    return NULL;
}

static struct held *find(struct stage *s, uint64_t line) { return search(s->slots, s->lines, line); }

static struct held *oldest_of(struct held *of, uint64_t count)
{
    struct held *oldest = of;
    for (uint64_t i = 0; i < count; i++)
        if (of[i].used < oldest->used)
            oldest = &of[i];
    return oldest;
}

/* The half that was used last is the one to keep: nodes are named by their first and last way. */
static bool *node(struct stage *s, uint64_t set, unsigned from, unsigned to)
{
    return &s->side[(set * 64 + from) * 65 + to];
}

static void keep(struct stage *s, uint64_t line)
{
    unsigned from = 0, to = s->k.ways, way = (unsigned)((find(s, line) - s->slots) % s->k.ways);
    while (s->k.policy == CACHE_PLRU && to - from > 1) {
        unsigned middle = (from + to) / 2;
        *node(s, line % s->sets, from, to) = way < middle;
        way < middle ? (to = middle) : (from = middle);
    }
}

static struct held *to_go(struct stage *s, uint64_t set)
{
    struct held *first = &s->slots[set * s->k.ways];
    struct held *oldest = oldest_of(first, s->k.ways);
    if (!oldest->used || s->k.policy == CACHE_LRU)
        return oldest;
    if (s->k.policy == CACHE_RANDOM) {
        s->chance ^= s->chance >> 12;
        s->chance ^= s->chance << 25;
        s->chance ^= s->chance >> 27;
        return first + ((s->chance * 0x2545f4914f6cdd1du) >> 32) % s->k.ways;
    }
    unsigned from = 0, to = s->k.ways;
    while (to - from > 1) {
        unsigned middle = (from + to) / 2;
        *node(s, set, from, to) ? (from = middle) : (to = middle);
    }
    return first + from;
}

static bool use_ideal(struct naive *n, struct stage *s, uint64_t line, bool enters)
{
    struct held *h = search(s->ideal, s->lines, line);
    bool was_there = h;
    if (!h && enters)
        h = oldest_of(s->ideal, s->lines);
    if (h)
        *h = (struct held){.line = line, .used = ++n->now};
    return was_there;
}

static void remember(struct stage *s, uint64_t line, uint32_t by, int how)
{
    for (size_t i = 0; i < s->past.len; i++)
        if (s->past.data[i].line == line) {
            s->past.data[i] = (struct past){line, by, how};
            return;
        }
    struct past p = {line, by, how};
    VEC_PUSH(&s->past, p);
}

static enum cache_cause cause_of(struct stage *s, uint64_t line, uint32_t cell, bool in_ideal)
{
    for (size_t i = 0; i < s->past.len; i++) {
        const struct past *p = &s->past.data[i];
        if (p->line != line)
            continue;
        if (p->how == AROUND)
            return CACHE_AROUND;
        s->evictions[cell][p->by]++;
        return !in_ideal ? CACHE_CAPACITY : p->how == INVALIDATED ? CACHE_INCLUSION : CACHE_CONFLICT;
    }
    return CACHE_COLD;
}

static void put(struct naive *n, int at, uint64_t line, bool is_dirty, uint32_t by);

static void leave(struct naive *n, int at, struct held h, uint32_t by)
{
    struct stage *s = &n->stages[at];
    int next = below(n, at, s->k.side);
    remember(s, h.line, by, EVICTED);
    for (int i = 0; i < at && s->k.inclusion == CACHE_INCLUSIVE; i++) {
        struct stage *a = &n->stages[i];
        for (uint64_t j = 0; j < a->lines && a->k.side & s->k.side; j++) {
            struct held *x = &a->slots[j];
            if (!x->used || x->line * a->k.line_bytes / s->k.line_bytes != h.line)
                continue;
            a->counts.write_backs += x->is_dirty;
            h.is_dirty |= x->is_dirty;
            remember(a, x->line, by, INVALIDATED);
            *x = (struct held){0};
        }
    }
    s->counts.write_backs += h.is_dirty;
    if (next >= 0 && n->stages[next].k.inclusion == CACHE_EXCLUSIVE) {
        use_ideal(n, &n->stages[next], h.line, true);
        put(n, next, h.line, h.is_dirty, by);
        return;
    }
    for (; h.is_dirty && next >= 0; next = below(n, next, n->stages[next].k.side)) {
        struct stage *b = &n->stages[next];
        struct held *x = find(b, h.line * s->k.line_bytes / b->k.line_bytes);
        if (b->k.write_through)
            b->counts.write_throughs++;
        else if (x)
            x->is_dirty = true;
        h.is_dirty = b->k.write_through || !x;
    }
}

static void put(struct naive *n, int at, uint64_t line, bool is_dirty, uint32_t by)
{
    struct stage *s = &n->stages[at];
    struct held *h = find(s, line), gone = {0};
    if (!h) {
        h = to_go(s, line % s->sets);
        gone = *h;
        *h = (struct held){.line = line};
    }
    h->used = ++n->now;
    h->is_dirty |= is_dirty;
    keep(s, line);
    if (gone.used)
        leave(n, at, gone, by);
}

/* Returns whether a dirty line came up. */
static bool ask(struct naive *n, int at, uint64_t address, bool stores, struct way_down *w)
{
    if (at < 0)
        return false;
    struct stage *s = &n->stages[at];
    uint64_t line = address / s->k.line_bytes;
    unsigned kind = w->r->kind == CACHE_MODIFY ? CACHE_READ : w->r->kind;
    bool is_exclusive = s->k.inclusion == CACHE_EXCLUSIVE;
    bool enters = !is_exclusive && (!stores || w->r->kind == CACHE_MODIFY || !s->k.no_allocate);
    struct held *h = find(s, line), *ideal = search(s->ideal, s->lines, line);
    bool in_ideal = ideal, down = stores && (s->k.write_through || (!h && !enters));
    s->counts.references[kind] += !w->counted[at];
    w->counted[at] = true;
    if (is_exclusive && ideal)
        ideal->used = 0;
    if (!is_exclusive)
        use_ideal(n, s, line, enters);
    if (h && is_exclusive) {
        h->used = 0;
        return h->is_dirty;
    }
    if (h) {
        h->used = ++n->now;
        h->is_dirty |= stores && !down;
        keep(s, line);
        s->counts.write_throughs += down;
        if (down || w->hand[at])
            ask(n, below(n, at, s->k.side), address, down, w);
        return false;
    }
    if (!w->missed[at]) {
        w->missed[at] = true;
        s->counts.misses[kind]++;
        s->counts.causes[kind][cause_of(s, line, w->r->cell, in_ideal)]++;
    }
    s->counts.write_throughs += down;
    bool came_dirty = ask(n, below(n, at, s->k.side), address, down, w);
    if (enters)
        put(n, at, line, came_dirty || (stores && !down), w->r->cell);
    else if (!is_exclusive)
        remember(s, line, w->r->cell, AROUND);
    return is_exclusive && came_dirty;
}

void naive_reach(struct naive *n, const struct cache_ref *r)
{
    unsigned side = r->kind == CACHE_FETCH ? CACHE_CODE : CACHE_DATA;
    struct way_down w = {.r = r};
    int first = below(n, -1, side);
    if (first < 0)
        return;
    uint64_t bytes = n->stages[first].k.line_bytes, from = r->address / bytes, to = (r->address + r->bytes - 1) / bytes;
    bool lacks = to > from;
    for (int at = first; at >= 0 && lacks; at = below(n, at, side)) {
        struct stage *s = &n->stages[at];
        lacks = false;
        for (uint64_t a = from * bytes; a <= to * bytes; a += bytes)
            lacks |= !find(s, a / s->k.line_bytes);
        int next = below(n, at, side);
        lacks &= next >= 0 && n->stages[next].k.whole;
        w.hand[at] = lacks;
    }
    for (uint64_t line = from; line <= to; line++)
        ask(n, first, line * bytes, r->kind == CACHE_WRITE || r->kind == CACHE_MODIFY, &w);
}

struct naive *naive_new(const struct cache_config *config)
{
    struct naive *n = xmalloc(sizeof *n);
    n->count = (int)config->count;
    for (int i = 0; i < n->count; i++) {
        struct stage *s = &n->stages[i];
        s->k = config->levels[i];
        s->lines = s->k.size_bytes / s->k.line_bytes;
        s->sets = s->lines / s->k.ways;
        s->slots = xmalloc(s->lines * sizeof *s->slots);
        s->ideal = xmalloc(s->lines * sizeof *s->ideal);
        s->side = s->k.policy == CACHE_PLRU ? xmalloc(s->sets * 64 * 65) : NULL;
        s->chance = s->k.seed;
    }
    return n;
}

void naive_free(struct naive *n)
{
    for (int i = 0; i < n->count; i++) {
        free(n->stages[i].slots);
        free(n->stages[i].ideal);
        free(n->stages[i].side);
        VEC_FREE(&n->stages[i].past);
    }
    free(n);
}

const struct cache_counts *naive_counts(const struct naive *n, unsigned level) { return &n->stages[level].counts; }

uint64_t naive_evictions(const struct naive *n, unsigned level, uint32_t cell, uint32_t by)
{
    return n->stages[level].evictions[cell][by];
}
