/* SPDX-License-Identifier: Apache-2.0
 * References through the levels. A line that a level lacks is asked of the next one, brought in, and what had to go for
 * it is handed down. A line that is written back changes no order of use below: so misses are the same whether a cache
 * writes back or through. */
#include "cache/hierarchy.h"
#include "cache/plain/plain.h"

#include <assert.h>
#include <stdlib.h>

enum {
    PART = 4096,    /* references, after each of which it is asked whether they reach far */
    FAR_SHARE = 30, /* one in so many misses the second level */
    EVICTORS_MAX = 1 << 18
};

/* For what is to be made once for each constant that it is called with. */
#define INLINED __attribute__((always_inline)) static inline

static lines_entry reach(struct cache *c, int at, uint64_t address, bool stores, struct visit *v);

static struct bank *bank_of(const struct level *l, const struct visit *v) { return l->banks[v->thread]; }

/* ---- counting ---- */

static void count_reference(struct cache *c, struct level *l, int at, struct visit *v)
{
    if (v->reached >> at & 1)
        return;
    v->reached |= 1u << at;
    l->counts.references[v->kind]++;
    if (c->with_causes)
        tally_count_reference(&l->tally, v->cell);
}

static void count_in_window(struct cache *c, int at, uint64_t line, enum cache_cause cause, struct visit *v)
{
    struct level *l = &c->levels[at];
    const struct bank *b = bank_of(l, v);
    if (cause == CACHE_COLD)
        met_count(&l->sample.met, line, v->cell, c->windows.each.len);
    bool is_taken = cause == CACHE_TRUE_SHARING || cause == CACHE_FALSE_SHARING;
    bool has_room = !is_taken && !lines_set_is_full(&b->lines, line);
    if (!has_room && !v->unknown) {
        sample_count_miss(&l->sample, v->cell);
        return;
    }
    sample_count_unknown(&l->sample, v->cell, has_room, b->causes->clock, v->unknown);
    v->unknown |= 1u << at;
}

/* A hit, before it counts as a use. Where writes go around, misses evict nothing, and hits alone would tell. */
static inline void note_age(struct level *l, const struct bank *b, uint64_t line, uint32_t number)
{
    if (!b->causes->stays || l->config.no_allocate)
        return;
    unsigned age = age_of(b->causes->clock + 1 - b->causes->stays[number].used);
    l->sample.ages.hits[age]++;
    l->sample.ages.full_hits[age] += lines_set_is_full(&b->lines, line);
}

static void count_cause(struct cache *c, int at, uint64_t line, uint32_t number, bool in_shadow, struct visit *v)
{
    struct level *l = &c->levels[at];
    uint32_t by = CACHE_NOBODY;
    enum cache_cause cause = causes_of_miss(bank_of(l, v)->causes, number, in_shadow, &by);
    if (cause == CACHE_FALSE_SHARING)
        cause = coherence_judge(c, at, line, v);
    else if (by != CACHE_NOBODY)
        tally_count_evictor(&l->tally, v->cell, by);
    struct cache_cell *cell = tally_cell(&l->tally, v->cell);
    cell->misses++;
    cell->causes[cause]++;
    l->counts.causes[v->kind][cause]++;
    bool is_streamed = l->config.has_streams && streams_foresee(&bank_of(l, v)->streams, line, v->cell);
    cell->streamed += is_streamed;
    l->counts.streamed[v->kind] += is_streamed;
    if (!c->in_window)
        return;
    count_in_window(c, at, line, cause, v);
}

/* `number`: of the line among the causes, if there are any. */
static void count_miss(struct cache *c, int at, uint64_t line, uint32_t number, bool in_shadow, struct visit *v)
{
    if (v->missed >> at & 1)
        return;
    v->missed |= 1u << at;
    c->levels[at].counts.misses[v->kind]++;
    if (c->sets.groups)
        sets_count_miss(&c->levels[at].sample, v->cell, group_of(c, line << c->levels[at].shift) - 1, c->with_causes);
    if (c->with_causes)
        count_cause(c, at, line, number, in_shadow, v);
}

/* ---- lines that leave ---- */

static void evict(struct cache *c, int at, lines_entry e, uint32_t number, const struct visit *v);

/* A line is evicted for a reference. */
static void count_generation(struct cache *c, int at, uint32_t number, const struct visit *v)
{
    struct level *l = &c->levels[at];
    const struct causes *k = bank_of(l, v)->causes;
    const struct causes_stay *s = &k->stays[number];
    if (!(v->unknown >> at & 1) && !l->config.no_allocate && l->config.inclusion != CACHE_EXCLUSIVE)
        l->sample.ages.misses[age_of(k->clock - s->used)]++;
    if (s->is_known)
        sample_count_generation(&l->sample, k->of[number].left >> NOTE_HOW_BITS, s->used - s->came, k->clock - s->used);
}

static void note_left(struct cache *c, int at, unsigned thread, uint64_t line, uint32_t number, enum note_how how,
                      uint32_t cell)
{
    struct level *l = &c->levels[at];
    if (!c->with_causes)
        return;
    causes_note_left(l->banks[thread]->causes, number, cell, how);
    if (c->coherence && l->is_coherent)
        coherence_forget(c, at, thread, line);
}

/* A line of the level `from` out of a nearer one of a thread. Whether a part of it was dirty. */
static lines_entry invalidate(struct cache *c, int at, unsigned thread, int from, uint64_t line, uint32_t cell)
{
    struct level *l = &c->levels[at];
    unsigned more = c->levels[from].shift - l->shift;
    lines_entry dirty = 0, e;
    uint32_t number;
    while ((e = lines_remove_any(&l->banks[thread]->lines, line << more, 1ull << more, &number))) {
        note_left(c, at, thread, lines_line_of(e), number, NOTE_INVALIDATED, cell);
        l->counts.write_backs += e & LINES_DIRTY;
        dirty |= e & LINES_DIRTY;
    }
    return dirty;
}

/* Out of all levels nearer than an inclusive one, of all threads that it serves. */
static lines_entry invalidate_above(struct cache *c, int from, uint64_t line, const struct visit *v)
{
    lines_entry dirty = 0;
    for (int at = 0; at < from; at++) {
        uint64_t threads = c->levels[from].config.is_shared ? c->threads : 1ull << v->thread;
        if (!(c->levels[at].config.side & c->levels[from].config.side))
            continue;
        if (c->levels[at].config.is_shared)
            threads = 1ull << v->thread;
        for (; threads; threads &= threads - 1)
            dirty |= invalidate(c, at, (unsigned)__builtin_ctzll(threads), from, line, v->cell);
    }
    return dirty;
}

/* In a window it is known of a line that comes to a full set when it came, and for whose miss. */
static void note_stay(struct cache *c, int at, uint64_t line, uint32_t number, const struct visit *v)
{
    const struct bank *b = bank_of(&c->levels[at], v);
    struct causes_stay *s = &b->causes->stays[number];
    s->is_known = lines_set_is_full(&b->lines, line);
    s->came = s->used;
    if (s->is_known && c->levels[at].config.inclusion != CACHE_EXCLUSIVE)
        causes_note_left(b->causes, number, v->cell, NOTE_NEVER);
}

/* Into the level, which lacks it; what has to go for it goes down. */
static void bring_in(struct cache *c, int at, uint64_t line, uint32_t number, lines_entry dirty, const struct visit *v)
{
    struct bank *b = bank_of(&c->levels[at], v);
    if (b->causes && c->in_window)
        note_stay(c, at, line, number, v);
    lines_entry gone = lines_add(&b->lines, line, dirty, &number);
    if (gone)
        evict(c, at, gone, number, v);
}

/* An exclusive level takes what the one above evicted. */
static void move_down(struct cache *c, int at, uint64_t line, lines_entry dirty, const struct visit *v)
{
    struct bank *b = bank_of(&c->levels[at], v);
    uint32_t place = lines_use(&b->lines, line, dirty), number = 0;
    if (b->causes) {
        number = place != LINES_NONE ? b->lines.marks[place] : causes_number(b->causes, line);
        causes_use(b->causes, number, true);
    }
    if (place == LINES_NONE)
        bring_in(c, at, line, number, dirty, v);
}

void hierarchy_write_back(struct cache *c, int at, uint64_t address, unsigned thread)
{
    if (c->plain && at != NO_LEVEL) {
        plain_write_back(c, address >> c->levels[at].shift);
        return;
    }
    for (; at != NO_LEVEL; at = c->levels[at].next) {
        struct level *l = &c->levels[at];
        if (l->config.write_through)
            l->counts.write_throughs++;
        else if (lines_soil(&l->banks[thread]->lines, address >> l->shift))
            return;
    }
}

static void evict(struct cache *c, int at, lines_entry e, uint32_t number, const struct visit *v)
{
    struct level *l = &c->levels[at];
    uint64_t line = lines_line_of(e);
    lines_entry dirty = e & LINES_DIRTY;
    if (c->in_window)
        count_generation(c, at, number, v);
    note_left(c, at, v->thread, line, number, NOTE_EVICTED, v->cell);
    if (at == 0)
        c->evicted = line << l->shift | 1;
    if (l->config.inclusion == CACHE_INCLUSIVE)
        dirty |= invalidate_above(c, at, line, v);
    l->counts.write_backs += dirty;
    if (l->next != NO_LEVEL && c->levels[l->next].config.inclusion == CACHE_EXCLUSIVE)
        move_down(c, l->next, line, dirty, v);
    else if (dirty)
        hierarchy_write_back(c, l->next, line << l->shift, v->thread);
}

/* ---- references ---- */

/* The next level is asked for what this one lacks; the first that is not coherent, when no other thread's is dirty. */
static lines_entry fetch_below(struct cache *c, int at, uint64_t address, bool stores, struct visit *v)
{
    struct level *l = &c->levels[at];
    bool leaves = l->is_coherent && (l->next == NO_LEVEL || !c->levels[l->next].is_coherent);
    if (c->coherence && leaves)
        coherence_fetch(c, address, v);
    l->counts.write_throughs += stores;
    return l->next == NO_LEVEL ? 0 : reach(c, l->next, address, stores, v);
}

static void hand_on(struct cache *c, int at, uint64_t address, bool stores, struct visit *v)
{
    struct level *l = &c->levels[at];
    l->counts.write_throughs += stores;
    if (l->next != NO_LEVEL)
        reach(c, l->next, address, stores, v);
}

/* The line moves up, and whether it is dirty with it. */
static lines_entry reach_exclusive(struct cache *c, int at, uint64_t address, struct visit *v)
{
    struct level *l = &c->levels[at];
    struct bank *b = bank_of(l, v);
    uint64_t line = address >> l->shift;
    uint32_t number = 0;
    lines_entry e = lines_remove(&b->lines, line, &number);
    if (b->causes && !e)
        number = causes_number(b->causes, line);
    bool in_shadow = b->causes && shadow_drop(&b->causes->shadow, number);
    if (e)
        return e & LINES_DIRTY;
    count_miss(c, at, line, number, in_shadow, v);
    return fetch_below(c, at, address, false, v);
}

/* A line's part of a reference. Returns LINES_DIRTY if the line came out of an exclusive level and was dirty. */
static lines_entry reach(struct cache *c, int at, uint64_t address, bool stores, struct visit *v)
{
    struct level *l = &c->levels[at];
    struct bank *b = bank_of(l, v);
    uint64_t line = address >> l->shift;
    bool through = stores && l->config.write_through, enters = !stores || v->is_modify || !l->config.no_allocate;
    count_reference(c, l, at, v);
    if (l->config.inclusion == CACHE_EXCLUSIVE)
        return reach_exclusive(c, at, address, v);
    uint32_t place = v->lacks >> at & 1 ? LINES_NONE : lines_use(&b->lines, line, stores && !through);
    if (place != LINES_NONE) {
        if (b->causes) {
            note_age(l, b, line, b->lines.marks[place]);
            causes_use(b->causes, b->lines.marks[place], enters);
        }
        if (through || v->handed >> at & 1)
            hand_on(c, at, address, through, v);
        return 0;
    }
    uint32_t number = b->causes ? causes_number(b->causes, line) : 0;
    bool in_shadow = b->causes && causes_use(b->causes, number, enters);
    count_miss(c, at, line, number, in_shadow, v);
    lines_entry dirty = fetch_below(c, at, address, enters ? through : stores, v);
    if (enters)
        bring_in(c, at, line, number, dirty | (stores && !through), v);
    else
        note_left(c, at, v->thread, line, number, NOTE_AROUND, v->cell);
    return 0;
}

static bool lacks_part(const struct level *l, uint64_t first, uint64_t last, unsigned thread)
{
    for (uint64_t line = first >> l->shift; line <= last >> l->shift; line++)
        if (lines_find(&l->banks[thread]->lines, line) == LINES_NONE)
            return true;
    return false;
}

static unsigned handing(const struct cache *c, int at, uint64_t first, uint64_t last, unsigned thread)
{
    unsigned handed = 0;
    for (int next; (next = c->levels[at].next) != NO_LEVEL && c->levels[next].config.whole; at = next) {
        if (!lacks_part(&c->levels[at], first, last, thread))
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
        v->handed = handing(c, at, r->address, last, v->thread);
    for (uint64_t line = r->address >> shift; line <= last >> shift; line++)
        reach(c, at, line << shift, v->stores, v);
}

static struct visit visit_of(const struct cache_ref *r, enum cache_kind kind, bool stores)
{
    return (struct visit){.ref = r,
                          .kind = kind,
                          .stores = stores,
                          .is_modify = r->kind == CACHE_MODIFY,
                          .cell = r->cell,
                          .thread = r->thread};
}

/* A hit of a line that some thread has lost: nothing else of it concerns others. A dirty line is no other's. */
static void use_watched(struct cache *c, const struct cache_ref *r, bool stores)
{
    struct visit v = visit_of(r, stores && r->kind != CACHE_MODIFY ? CACHE_WRITE : CACHE_READ, stores);
    if (stores)
        coherence_write(c, &v);
    coherence_use(c, &v);
}

/* Most references hit the first level, and most of those the line of their set that was used last. *lacks: it was
 * looked for, and is not there. */
INLINED bool is_hit(struct cache *c, struct level *l, const struct cache_ref *r, bool stores, bool causes, bool threads,
                    bool *lacks)
{
    uint64_t line = r->address >> l->shift;
    struct bank *b = l->banks[r->thread];
    struct lines *lines = &b->lines;
    if (!l->is_quick[stores] || (r->address + r->bytes - 1) >> l->shift != line)
        return false;
    uint64_t first = lines_set(lines, line) * lines->ways;
    lines_entry *set = &lines->entries[first], key = lines_entry_of(line);
    uint32_t way = lines_is(set[0], key) ? 0 : lines_way(lines, set, key);
    *lacks = way == LINES_NONE;
    if (*lacks || (threads && c->coherence && (!l->is_coherent || (stores && !(set[way] & LINES_DIRTY)))))
        return false;
    if (way)
        lines_bring_forward(lines, first, way, set[way], causes ? lines->marks[first + way] : 0);
    set[0] |= stores;
    if (causes) {
        note_age(l, b, line, lines->marks[first]);
        causes_use(b->causes, lines->marks[first], true);
        tally_count_reference(&l->tally, r->cell);
    }
    if (threads && c->coherence && causes && coherence_watches(c->coherence, r->address))
        use_watched(c, r, stores);
    return true;
}

/* lacks: the level has not the only line that it reaches. */
static unsigned run_one(struct cache *c, int at, const struct cache_ref *r, enum cache_kind kind, bool stores,
                        bool lacks)
{
    struct visit v = visit_of(r, kind, stores);
    v.lacks = (unsigned)lacks << at;
    if (c->coherence && stores)
        coherence_write(c, &v);
    reach_all(c, at, r, &v);
    if (c->coherence)
        coherence_use(c, &v);
    return v.missed;
}

static void add_thread(struct cache *c, unsigned thread);

/* CACHE_USE. */
static void use_only(const struct cache *c, const struct cache_ref *r)
{
    const struct level *l = &c->levels[c->nearest_data];
    struct bank *b = l->banks[r->thread];
    uint32_t at = lines_use(&b->lines, r->address >> l->shift, 0);
    if (at != LINES_NONE && c->with_causes)
        causes_use(b->causes, b->lines.marks[at], true);
}

/* What the references are run with is told once, so that the loop over most does not ask it of each. Returns the levels
 * that missed, a bit each. */
INLINED unsigned run_ref(struct cache *c, const struct cache_ref *r, bool causes, bool threads)
{
    int at = r->kind == CACHE_FETCH ? c->nearest_code : c->nearest_data;
    bool is_modify = r->kind == CACHE_MODIFY, stores = r->kind == CACHE_WRITE || is_modify, lacks = false;
    enum cache_kind kind = is_modify ? CACHE_READ : (enum cache_kind)r->kind;
    if (at == NO_LEVEL)
        return 0;
    if (__builtin_expect(r->kind == CACHE_USE, 0))
        return use_only(c, r), 0;
    if (!is_hit(c, &c->levels[at], r, stores, causes, threads, &lacks)) {
        if (!causes && !threads && lacks && c->is_bare && !c->sets.groups && r->kind != CACHE_FETCH)
            return bare_miss(c, r, kind, stores), 0;
        return run_one(c, at, r, kind, stores, lacks);
    }
    c->levels[at].counts.references[kind]++;
    return 0;
}

/* How many there are before the first of a new thread. */
static size_t run_known(struct cache *c, const struct cache_ref *refs, size_t count)
{
    size_t known = 0;
    while (known < count && c->threads >> refs[known].thread & 1)
        known++;
    return known;
}

static void run_near(struct cache *c, const struct cache_ref *refs, size_t count)
{
    bool threads = c->coherence;
    if (threads)
        for (size_t i = 0; i < count; i++)
            run_ref(c, &refs[i], c->with_causes, true);
    else if (c->with_causes)
        for (size_t i = 0; i < count; i++)
            run_ref(c, &refs[i], true, false);
    else
        for (size_t i = 0; i < count; i++)
            run_ref(c, &refs[i], false, false);
}

/* Blocks of references, of which one runs while for the next two is fetched what they need. */
static void run_far(struct cache *c, const struct cache_ref *refs, size_t count)
{
    struct ahead ring[AHEAD_STEPS + 1] = {{.count = 0}};
    size_t blocks = (count + AHEAD_BLOCK - 1) / AHEAD_BLOCK;
    for (size_t block = 0; block < blocks + AHEAD_STEPS; block++) {
        const struct cache_ref *r = refs + block * AHEAD_BLOCK, *old = r - AHEAD_STEPS * AHEAD_BLOCK;
        ring[block % ARRAY_LEN(ring)].count = 0;
        if (block < blocks)
            ahead_look(c, r, min_u64(count - block * AHEAD_BLOCK, AHEAD_BLOCK), &ring[block % ARRAY_LEN(ring)]);
        for (unsigned step = 0; step < AHEAD_STEPS && step <= block; step++)
            ahead_step(c, &ring[(block - step) % ARRAY_LEN(ring)], step);
        for (size_t i = 0; block >= AHEAD_STEPS && i < AHEAD_BLOCK && old + i < refs + count; i++)
            run_ref(c, old + i, c->with_causes, true);
    }
}

static uint64_t data_misses(const struct cache *c)
{
    int first = c->nearest_data,
        at = first == NO_LEVEL || c->levels[first].next == NO_LEVEL ? first : c->levels[first].next;
    return at == NO_LEVEL ? 0 : c->levels[at].counts.misses[CACHE_READ] + c->levels[at].counts.misses[CACHE_WRITE];
}

/* Something comes that plain levels do not know. */
static void leave_plain(struct cache *c)
{
    for (unsigned thread = 0; thread < CACHE_THREADS_MAX; thread++)
        if (c->plain->banks[thread])
            add_thread(c, thread);
    if (c->plain->has_begun)
        plain_hand_over(c, c->plain);
    plain_free(c->plain);
    c->plain = NULL;
}

void cache_run(struct cache *c, const struct cache_ref *refs, size_t count)
{
    c->windows.references += count;
    if (c->plain && count) {
        size_t plain = plain_run(c, c->plain, refs, count);
        refs += plain;
        count -= plain;
        if (count)
            leave_plain(c);
        else
            return;
    }
    if (c->curve)
        cache_curve_run(c->curve, refs, count);
    while (count) {
        size_t now = run_known(c, refs, min_u64(count, PART));
        uint64_t before = data_misses(c);
        if (!now) {
            add_thread(c, refs->thread);
            continue;
        }
        if (c->is_far)
            run_far(c, refs, now);
        else
            run_near(c, refs, now);
        c->is_far = c->with_causes && (data_misses(c) - before) * FAR_SHARE > now;
        refs += now;
        count -= now;
    }
}

unsigned cache_reach(struct cache *c, const struct cache_ref *ref)
{
    c->windows.references++;
    c->evicted = 0;
    if (c->plain)
        leave_plain(c);
    if (!(c->threads >> ref->thread & 1))
        add_thread(c, ref->thread);
    return run_ref(c, ref, c->with_causes, true);
}

bool cache_evicted(const struct cache *c, uint64_t *address)
{
    *address = c->evicted & ~1ull;
    return c->evicted;
}

/* ---- made ---- */

static int next_of(const struct cache_config *k, int at, unsigned side)
{
    for (int i = at + 1; i < (int)k->count; i++)
        if (k->levels[i].side & side)
            return i;
    return NO_LEVEL;
}

/* part: one line in so many comes. */
static struct bank *bank_new(const struct cache *c, const struct cache_level *k, unsigned part)
{
    struct bank *b = xmalloc(sizeof *b);
    uint64_t lines = k->size_bytes / k->line_bytes;
    assert(lines && lines % k->ways == 0 && "cache_check was asked");
    lines_init(&b->lines, lines / k->ways, k->ways, k->policy, k->seed, c->with_causes);
    if (c->with_causes)
        b->causes = causes_new(max_u64(lines / part, 1), c->in_window);
    return b;
}

static void bank_free(struct bank *b)
{
    if (!b)
        return;
    lines_fini(&b->lines);
    causes_free(b->causes);
    streams_fini(&b->streams);
    free(b);
}

static void add_thread(struct cache *c, unsigned thread)
{
    assert(thread < CACHE_THREADS_MAX);
    for (int i = 0; i < c->count; i++) {
        struct level *l = &c->levels[i];
        struct bank *shared = l->config.is_shared && c->threads ? l->banks[__builtin_ctzll(c->threads)] : NULL;
        l->banks[thread] = shared ? shared : bank_new(c, &l->config, c->sets.one_in ? c->sets.one_in : 1);
    }
    bool is_second = c->threads && !(c->threads & (c->threads - 1));
    if (is_second && !c->coherence)
        c->coherence = coherence_new(c);
    c->threads |= 1ull << thread;
}

struct cache *cache_new(const struct cache_config *config, bool with_causes)
{
    struct cache *c = xmalloc(sizeof *c);
    c->count = (int)config->count;
    c->with_causes = with_causes;
    c->nearest_data = next_of(config, -1, CACHE_DATA);
    c->nearest_code = next_of(config, -1, CACHE_CODE);
    for (int i = 0; i < c->count; i++) {
        const struct cache_level *k = &config->levels[i];
        c->levels[i] = (struct level){.config = *k, .shift = (unsigned)__builtin_ctz(k->line_bytes)};
        c->levels[i].next = next_of(config, i, k->side);
        c->levels[i].is_quick[0] = lines_are_ordered(k->policy, k->ways);
        c->levels[i].is_quick[1] = c->levels[i].is_quick[0] && !k->write_through && !k->no_allocate;
        c->levels[i].is_coherent = !k->is_shared && k->line_bytes < CACHE_PAGE_MIN;
        c->has_whole |= k->whole;
        tally_init(&c->levels[i].tally, EVICTORS_MAX);
    }
    c->plain = plain_new(c);
    c->is_bare = bare_takes(c);
    return c;
}

void cache_keep_evictors(struct cache *c, size_t max)
{
    for (int i = 0; i < c->count; i++)
        c->levels[i].tally.pairs->evictors_max = max_u64(max, 1);
}

static void free_banks(struct cache *c)
{
    for (int i = 0; i < c->count; i++) {
        struct level *l = &c->levels[i];
        for (unsigned t = 0; t < CACHE_THREADS_MAX; t++)
            if (!l->config.is_shared || t == (unsigned)__builtin_ctzll(c->threads | 1ull << 63))
                bank_free(l->banks[t]);
        memset(l->banks, 0, sizeof l->banks);
    }
}

bool cache_carry_curve(struct cache *c, struct cache_curve *k)
{
    if (!c->plain || !plain_carry(c->plain, c, k))
        return false;
    c->curve = k;
    return true;
}

void hierarchy_empty(struct cache *c)
{
    struct plain *carrying = c->plain && c->plain->curve ? c->plain : NULL;
    plain_free(carrying);
    if (carrying)
        c->plain = NULL;
    else if (c->plain || (c->plain = plain_new(c)))
        plain_begin_window(c, c->plain);
    free_banks(c);
    c->threads = 0;
    if (c->coherence)
        coherence_empty(c->coherence);
}

void cache_free(struct cache *c)
{
    if (!c)
        return;
    free_banks(c);
    plain_free(c->plain);
    for (int i = 0; i < c->count; i++) {
        tally_fini(&c->levels[i].tally);
        sample_fini(&c->levels[i].sample);
    }
    coherence_free(c->coherence);
    VEC_FREE(&c->windows.each);
    VEC_FREE(&c->windows.factor);
    free(c->sets.groups);
    free(c);
}
