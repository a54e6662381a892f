/* SPDX-License-Identifier: Apache-2.0
 * See naive.h. Slow: every question is a walk over all lines of the level. */
#include "naive.h"

#include <stdlib.h>

enum { CELLS = 16, THREADS = 4, PIECES = 64 };

struct held {
    uint64_t line, used; /* used: when; 0: holds nothing */
    bool is_dirty;
};
struct past { /* a line that was there, or was written around */
    uint64_t line;
    uint32_t by;
    enum { EVICTED, INVALIDATED, AROUND, TAKEN } how;
};
struct stage { /* a level of one thread, or of all */
    struct cache_level k;
    struct held *slots, *ideal; /* ideal: fully associative LRU */
    uint64_t sets, lines, chance;
    bool *side; /* of tree-PLRU, by set and node */
    VEC(struct past) past;
};
struct doubt { /* a miss of which it is not known that it was true sharing */
    int at;
    uint64_t line;
    unsigned kind;
    uint32_t cell;
};
struct lost { /* a block that a thread lost once */
    uint64_t block;
    unsigned thread;
    uint32_t by;
    bool fresh[PIECES];
    VEC(struct doubt) doubts;
};
struct naive {
    struct stage *stages[THREADS][CACHE_LEVELS_MAX];
    struct cache_level k[CACHE_LEVELS_MAX];
    struct cache_counts counts[CACHE_LEVELS_MAX];
    uint64_t evictions[CACHE_LEVELS_MAX][CELLS][CELLS], sharing[CACHE_LEVELS_MAX][CELLS][2];
    VEC(struct lost) lost;
    int count;
    uint64_t now, block_bytes;
};
struct way_down { /* of one reference */
    const struct cache_ref *r;
    bool counted[CACHE_LEVELS_MAX], missed[CACHE_LEVELS_MAX], hand[CACHE_LEVELS_MAX];
};

static int below(const struct naive *n, int at, unsigned side)
{
    while (++at < n->count && !(n->k[at].side & side))
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

/* ---- sharing ---- */

static bool is_coherent(const struct naive *n, int at)
{
    return at >= 0 && !n->k[at].is_shared && n->k[at].line_bytes < CACHE_PAGE_MIN;
}

static struct lost *lost_of(struct naive *n, unsigned thread, uint64_t block)
{
    for (size_t i = 0; i < n->lost.len; i++)
        if (n->lost.data[i].thread == thread && n->lost.data[i].block == block)
            return &n->lost.data[i];
    return NULL;
}

static bool touches(const struct naive *n, const struct cache_ref *r, uint64_t block, unsigned piece)
{
    uint64_t bytes = n->block_bytes > PIECES ? n->block_bytes / PIECES : 1;
    for (uint64_t a = 0; a < r->bytes; a++)
        if ((r->address + a) / n->block_bytes == block && (r->address + a) % n->block_bytes / bytes == piece)
            return true;
    return false;
}

/* It left the level: whether its miss was true sharing, is decided. */
static void decide(struct naive *n, unsigned thread, int at, uint64_t line)
{
    struct lost *x = is_coherent(n, at) ? lost_of(n, thread, line * n->k[at].line_bytes / n->block_bytes) : NULL;
    for (size_t i = x ? x->doubts.len : 0; i > 0; i--)
        if (x->doubts.data[i - 1].at == at && x->doubts.data[i - 1].line == line)
            x->doubts.data[i - 1] = x->doubts.data[--x->doubts.len];
}

static void write_back_at(struct naive *n, unsigned thread, int at, uint64_t address)
{
    for (bool is_dirty = true; is_dirty && at >= 0; at = below(n, at, n->k[at].side)) {
        struct held *x = find(n->stages[thread][at], address / n->k[at].line_bytes);
        if (n->k[at].write_through)
            n->counts[at].write_throughs++;
        else if (x)
            x->is_dirty = true;
        is_dirty = n->k[at].write_through || !x;
    }
}

static void write_back_shared(struct naive *n, unsigned thread, uint64_t block)
{
    int at = below(n, -1, CACHE_DATA);
    while (is_coherent(n, at))
        at = below(n, at, CACHE_DATA);
    write_back_at(n, thread, at, block * n->block_bytes);
}

static bool take_line(struct naive *n, unsigned thread, int at, uint64_t line, uint32_t by, bool is_lost_above,
                      bool *is_dirty)
{
    struct stage *s = n->stages[thread][at];
    struct held *x = find(s, line), *ideal = search(s->ideal, s->lines, line);
    int next = below(n, at, s->k.side);
    n->counts[at].write_backs += x && x->is_dirty;
    *is_dirty |= x && x->is_dirty;
    if (x)
        *x = (struct held){0};
    if (ideal)
        *ideal = (struct held){0};
    if (!x && !ideal && !is_lost_above)
        return false;
    remember(s, line, by, TAKEN);
    if (is_coherent(n, next) && n->k[next].inclusion == CACHE_EXCLUSIVE)
        take_line(n, thread, next, line, by, true, is_dirty);
    return true;
}

static void take(struct naive *n, unsigned thread, uint64_t block, const struct cache_ref *r)
{
    bool is_lost = false, is_dirty = false;
    for (int at = 0; at < n->count; at++) {
        if (!is_coherent(n, at))
            continue;
        uint64_t parts = n->block_bytes / n->k[at].line_bytes;
        for (uint64_t line = block * parts; line < (block + 1) * parts; line++)
            is_lost |= take_line(n, thread, at, line, r->cell, false, &is_dirty);
    }
    if (is_dirty)
        write_back_shared(n, thread, block);
    if (!is_lost)
        return;
    struct lost *x = lost_of(n, thread, block), fresh = {.block = block, .thread = thread};
    if (!x) {
        VEC_PUSH(&n->lost, fresh);
        x = &n->lost.data[n->lost.len - 1];
    }
    x->doubts.len = 0;
}

static void take_all(struct naive *n, const struct cache_ref *r)
{
    uint64_t last = (r->address + r->bytes - 1) / n->block_bytes;
    for (uint64_t block = r->address / n->block_bytes; block <= last; block++) {
        for (unsigned t = 0; t < THREADS; t++)
            if (t != r->thread)
                take(n, t, block, r);
        for (size_t i = 0; i < n->lost.len; i++)
            for (unsigned p = 0; p < PIECES; p++)
                if (n->lost.data[i].block == block && n->lost.data[i].thread != r->thread && touches(n, r, block, p))
                    n->lost.data[i].fresh[p] = true;
    }
}

static bool uses_fresh(const struct naive *n, const struct lost *x, const struct cache_ref *r)
{
    bool uses = false;
    for (unsigned p = 0; p < PIECES; p++)
        uses |= x->fresh[p] && touches(n, r, x->block, p);
    return uses;
}

static void use_fresh(struct naive *n, const struct cache_ref *r)
{
    for (size_t i = 0; i < n->lost.len; i++) {
        struct lost *x = &n->lost.data[i];
        if (x->thread != r->thread || !uses_fresh(n, x, r))
            continue;
        for (size_t d = 0; d < x->doubts.len; d++) {
            const struct doubt *y = &x->doubts.data[d];
            n->counts[y->at].causes[y->kind][CACHE_FALSE_SHARING]--;
            n->counts[y->at].causes[y->kind][CACHE_TRUE_SHARING]++;
            n->sharing[y->at][y->cell][1]--;
            n->sharing[y->at][y->cell][0]++;
        }
        x->doubts.len = 0;
        memset(x->fresh, 0, sizeof x->fresh);
    }
}

/* What no private level has: nobody else's stays dirty. */
static void fetch(struct naive *n, unsigned thread, uint64_t block)
{
    for (unsigned t = 0; t < THREADS; t++) {
        bool is_dirty = false;
        for (int at = 0; at < n->count && t != thread; at++) {
            uint64_t parts = is_coherent(n, at) ? n->block_bytes / n->k[at].line_bytes : 0;
            for (uint64_t line = block * parts; line < (block + 1) * parts; line++) {
                struct held *x = find(n->stages[t][at], line);
                if (!x || !x->is_dirty)
                    continue;
                x->is_dirty = false;
                is_dirty = true;
                n->counts[at].write_backs++;
            }
        }
        if (is_dirty)
            write_back_shared(n, t, block);
    }
    struct lost *x = lost_of(n, thread, block);
    if (x && !x->doubts.len)
        memset(x->fresh, 0, sizeof x->fresh);
}

static enum cache_cause sharing_of(struct naive *n, int at, uint64_t line, unsigned kind, const struct cache_ref *r)
{
    struct lost *x = lost_of(n, r->thread, line * n->k[at].line_bytes / n->block_bytes);
    bool is_true = uses_fresh(n, x, r);
    struct doubt doubt = {at, line, kind, r->cell};
    n->sharing[at][r->cell][!is_true]++;
    if (!is_true)
        VEC_PUSH(&x->doubts, doubt);
    return is_true ? CACHE_TRUE_SHARING : CACHE_FALSE_SHARING;
}

/* ---- levels ---- */

static enum cache_cause cause_of(struct naive *n, int at, uint64_t line, unsigned kind, const struct cache_ref *r,
                                 bool in_ideal)
{
    struct stage *s = n->stages[r->thread][at];
    for (size_t i = 0; i < s->past.len; i++) {
        const struct past *p = &s->past.data[i];
        if (p->line != line)
            continue;
        if (p->how == AROUND)
            return CACHE_AROUND;
        if (p->how == TAKEN)
            return sharing_of(n, at, line, kind, r);
        n->evictions[at][r->cell][p->by]++;
        return !in_ideal ? CACHE_CAPACITY : p->how == INVALIDATED ? CACHE_INCLUSION : CACHE_CONFLICT;
    }
    return CACHE_COLD;
}

static void put(struct naive *n, unsigned t, int at, uint64_t line, bool is_dirty, uint32_t by);

/* Out of a nearer level, with the line of an inclusive one. */
static bool push_out(struct naive *n, unsigned t, int at, int from, uint64_t line, uint32_t by)
{
    struct stage *a = n->stages[t][at];
    bool was_dirty = false;
    for (uint64_t j = 0; j < a->lines; j++) {
        struct held *x = &a->slots[j];
        if (!x->used || x->line * a->k.line_bytes / n->k[from].line_bytes != line)
            continue;
        n->counts[at].write_backs += x->is_dirty;
        was_dirty |= x->is_dirty;
        remember(a, x->line, by, INVALIDATED);
        decide(n, t, at, x->line);
        *x = (struct held){0};
    }
    return was_dirty;
}

static void leave(struct naive *n, unsigned t, int at, struct held h, uint32_t by)
{
    struct stage *s = n->stages[t][at];
    int next = below(n, at, s->k.side);
    remember(s, h.line, by, EVICTED);
    decide(n, t, at, h.line);
    for (int i = 0; i < at && s->k.inclusion == CACHE_INCLUSIVE; i++)
        for (unsigned u = 0; u < THREADS && n->k[i].side & s->k.side; u++)
            if (u == t || s->k.is_shared)
                h.is_dirty |= push_out(n, u, i, at, h.line, by);
    n->counts[at].write_backs += h.is_dirty;
    if (next >= 0 && n->k[next].inclusion == CACHE_EXCLUSIVE) {
        use_ideal(n, n->stages[t][next], h.line, true);
        put(n, t, next, h.line, h.is_dirty, by);
    } else if (h.is_dirty) {
        write_back_at(n, t, next, h.line * s->k.line_bytes);
    }
}

static void put(struct naive *n, unsigned t, int at, uint64_t line, bool is_dirty, uint32_t by)
{
    struct stage *s = n->stages[t][at];
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
        leave(n, t, at, gone, by);
}

/* Returns whether a dirty line came up. */
static bool ask(struct naive *n, int at, uint64_t address, bool stores, struct way_down *w)
{
    if (at < 0)
        return false;
    unsigned t = w->r->thread;
    struct stage *s = n->stages[t][at];
    struct cache_counts *counts = &n->counts[at];
    int next = below(n, at, s->k.side);
    uint64_t line = address / s->k.line_bytes;
    unsigned kind = w->r->kind == CACHE_MODIFY ? CACHE_READ : w->r->kind;
    bool is_exclusive = s->k.inclusion == CACHE_EXCLUSIVE;
    bool enters = !is_exclusive && (!stores || w->r->kind == CACHE_MODIFY || !s->k.no_allocate);
    struct held *h = find(s, line), *ideal = search(s->ideal, s->lines, line);
    bool in_ideal = ideal, down = stores && (s->k.write_through || (!h && !enters));
    counts->references[kind] += !w->counted[at];
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
        counts->write_throughs += down;
        if (down || w->hand[at])
            ask(n, next, address, down, w);
        return false;
    }
    if (!w->missed[at]) {
        w->missed[at] = true;
        counts->misses[kind]++;
        enum cache_cause cause = cause_of(n, at, line, kind, w->r, in_ideal);
        counts->causes[kind][cause]++;
    }
    counts->write_throughs += down;
    if (is_coherent(n, at) && !is_coherent(n, next))
        fetch(n, t, address / n->block_bytes);
    bool came_dirty = ask(n, next, address, down, w);
    if (enters) {
        put(n, t, at, line, came_dirty || (stores && !down), w->r->cell);
    } else if (!is_exclusive) {
        remember(s, line, w->r->cell, AROUND);
        decide(n, t, at, line);
    }
    return is_exclusive && came_dirty;
}

void naive_reach(struct naive *n, const struct cache_ref *r)
{
    unsigned side = r->kind == CACHE_FETCH ? CACHE_CODE : CACHE_DATA;
    bool stores = r->kind == CACHE_WRITE || r->kind == CACHE_MODIFY;
    struct way_down w = {.r = r};
    int first = below(n, -1, side);
    if (first < 0)
        return;
    if (stores && n->block_bytes)
        take_all(n, r);
    uint64_t bytes = n->k[first].line_bytes, from = r->address / bytes, to = (r->address + r->bytes - 1) / bytes;
    bool lacks = to > from;
    for (int at = first; at >= 0 && lacks; at = below(n, at, side)) {
        struct stage *s = n->stages[r->thread][at];
        lacks = false;
        for (uint64_t a = from * bytes; a <= to * bytes; a += bytes)
            lacks |= !find(s, a / s->k.line_bytes);
        int next = below(n, at, side);
        lacks &= next >= 0 && n->k[next].whole;
        w.hand[at] = lacks;
    }
    for (uint64_t line = from; line <= to; line++)
        ask(n, first, line * bytes, stores, &w);
    if (n->block_bytes)
        use_fresh(n, r);
}

/* ---- made ---- */

static struct stage *stage_new(const struct cache_level *k)
{
    struct stage *s = xmalloc(sizeof *s);
    s->k = *k;
    s->lines = s->k.size_bytes / s->k.line_bytes;
    s->sets = s->lines / s->k.ways;
    s->slots = xmalloc(s->lines * sizeof *s->slots);
    s->ideal = xmalloc(s->lines * sizeof *s->ideal);
    s->side = s->k.policy == CACHE_PLRU ? xmalloc(s->sets * 64 * 65) : NULL;
    s->chance = s->k.seed;
    return s;
}

struct naive *naive_new(const struct cache_config *config)
{
    struct naive *n = xmalloc(sizeof *n);
    n->count = (int)config->count;
    for (int i = 0; i < n->count; i++) {
        n->k[i] = config->levels[i];
        for (unsigned t = 0; t < THREADS; t++)
            n->stages[t][i] = t && n->k[i].is_shared ? n->stages[0][i] : stage_new(&n->k[i]);
        if (is_coherent(n, i))
            n->block_bytes = max_u64(n->block_bytes, n->k[i].line_bytes);
    }
    return n;
}

static void stage_free(struct stage *s)
{
    free(s->slots);
    free(s->ideal);
    free(s->side);
    VEC_FREE(&s->past);
    free(s);
}

void naive_free(struct naive *n)
{
    for (int i = 0; i < n->count; i++)
        for (unsigned t = 0; t < THREADS; t++)
            if (!t || !n->k[i].is_shared)
                stage_free(n->stages[t][i]);
    for (size_t i = 0; i < n->lost.len; i++)
        VEC_FREE(&n->lost.data[i].doubts);
    VEC_FREE(&n->lost);
    free(n);
}

const struct cache_counts *naive_counts(const struct naive *n, unsigned level) { return &n->counts[level]; }

uint64_t naive_evictions(const struct naive *n, unsigned level, uint32_t cell, uint32_t by)
{
    return n->evictions[level][cell][by];
}

uint64_t naive_sharing(const struct naive *n, unsigned level, uint32_t cell, bool is_true)
{
    return n->sharing[level][cell][!is_true];
}
