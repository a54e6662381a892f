/* SPDX-License-Identifier: Apache-2.0
 * Plain levels. The order of what happens at a miss is that of hierarchy.c: the further level first, then what has to
 * go. */
#include "cache/plain/plain.h"
#include "cache/plain/window.h"
#include "cache/tables/table.h"

#include <assert.h>
#include <stdlib.h>

enum { LINES_FIRST = 1 << 10, AHEAD = 8, PART = 2048, FAR_SHARE = 24, HOST_LINE = 64, FETCHED = 64, NEAR = 8 };
/* Of what is run with: functions that are told `how` are made once for each. */
enum { SEVERAL = 1, IN_WINDOW = 2 }; /* threads; cache_window_begin */
#define INLINED __attribute__((always_inline)) static inline

struct reference { /* of which a line is looked at */
    uint64_t line;
    uint32_t cell;
    enum cache_kind kind;
    unsigned reached, missed;    /* levels, a bit each: it counts once, however many lines it has */
    unsigned unknown;            /* in a window: levels of which it is not known whether it missed them */
    const struct cache_ref *ref; /* of several threads alone */
    struct plain_bank *bank;     /* of its thread */
    bool is_watched;             /* some thread may have lost the line, or one of its lines */
};

static struct visit visit_of(const struct reference *r)
{
    bool is_modify = r->ref->kind == CACHE_MODIFY;
    return (struct visit){.ref = r->ref,
                          .kind = r->kind,
                          .stores = is_modify || r->kind == CACHE_WRITE,
                          .is_modify = is_modify,
                          .cell = r->cell,
                          .thread = r->ref->thread};
}

/* Whose bank has the level: */
INLINED struct plain_bank *bank_of(const struct plain *p, const struct reference *r, unsigned at, unsigned how)
{
    return how & SEVERAL && at < p->own ? r->bank : p->home;
}

/* ---- ways ---- */

/* Times become places in the order of use of each set, so that the clock begins anew. */
static void turn_back(struct plain_level *l)
{
    assert(!l->stays && "plain_run sees to it that no window comes here");
    for (uint64_t set = 0; set < l->sets; set++) {
        uint32_t *used = &l->used[set * l->row], order[PLAIN_WAYS_MAX] = {0}, way;
        for (way = 0; way < l->row; way++) {
            order[way] = used[way] >> PLAIN_WAY_BITS == PLAIN_CLOCK_MAX || used[way] >> PLAIN_WAY_BITS == 0 ? 0 : 1;
            for (uint32_t k = 0; order[way] && k < l->row; k++)
                order[way] += used[k] < used[way];
        }
        for (way = 0; way < l->row; way++)
            if (used[way] != UINT32_MAX)
                used[way] = order[way] << PLAIN_WAY_BITS | way;
    }
    l->clock = l->row + 1;
}

INLINED void touch(struct plain_level *l, uint64_t line, uint32_t way)
{
    if (++l->clock == PLAIN_CLOCK_MAX)
        turn_back(l);
    l->used[plain_set(l, line) * l->row + way] = l->clock << PLAIN_WAY_BITS | way;
}

/* Four at a time, which this processor compares as numbers with a sign. */
typedef int32_t four __attribute__((vector_size(16)));
#define FOUR_SIGNS ((four){INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN})

INLINED uint32_t oldest_way(const uint32_t *used, uint32_t row)
{
    four least, next;
    memcpy(&least, used, sizeof least);
    least ^= FOUR_SIGNS;
    for (uint32_t way = 4; way < row; way += 4) {
        memcpy(&next, used + way, sizeof next);
        next ^= FOUR_SIGNS;
        four is_less = next < least;
        least = (next & is_less) | (least & ~is_less);
    }
    int32_t a = least[0] < least[1] ? least[0] : least[1], b = least[2] < least[3] ? least[2] : least[3];
    return (uint32_t)(a < b ? a : b) & (PLAIN_WAYS_MAX - 1);
}

/* ---- what leaves, and what comes ---- */

/* Without a branch: what is known of the line is seldom near, and nothing waits for it then. */
INLINED void evict(struct cache *c, struct plain *p, unsigned at, uint32_t number, const struct reference *r,
                   unsigned how)
{
    struct plain_bank *b = bank_of(p, r, at, how);
    struct plain_line *n = &b->of[number];
    unsigned own = 1u << at, here = n->here, dirty = n->dirty;
    unsigned further = here & ~((2u << at) - 1), is_dirty = dirty >> at & 1; /* goes to the nearest one that has it */
    n->left[at] = r->cell << NOTE_HOW_BITS | NOTE_EVICTED;
    n->here = (uint8_t)(here & ~own);
    n->dirty = (uint8_t)((dirty & ~own) | (further & -further & -is_dirty));
    c->levels[p->at[at]].counts.write_backs += is_dirty;
    if (!(how & SEVERAL) || at >= p->own)
        return;
    if (is_dirty && !further && b != p->home)
        plain_soil_shared(p, number);
    if (n->flags & PLAIN_LOST)
        coherence_forget(c, (int)p->at[at], r->ref->thread, numbers_line(&p->numbers, number));
}

struct coming { /* to a level: where, and which line goes for it */
    uint64_t first;
    uint32_t way, gone;
};

/* Known before further levels are asked, so that what is known of that line is near when they have been. */
INLINED struct coming find_room(const struct plain *p, unsigned at, const struct reference *r, unsigned how)
{
    const struct plain_bank *b = bank_of(p, r, at, how);
    const struct plain_level *l = &b->levels[at];
    struct coming x = {.first = plain_set(l, r->line) * l->row};
    x.way = oldest_way(&l->used[x.first], l->row);
    x.gone = l->lines[x.first + x.way];
    __builtin_prefetch(&b->of[x.gone], 1);
    return x;
}

INLINED void bring_in(struct cache *c, struct plain *p, unsigned at, uint32_t number, const struct reference *r,
                      const struct coming *to, unsigned how)
{
    struct plain_bank *b = bank_of(p, r, at, how);
    struct plain_level *l = &b->levels[at];
    if (++l->clock == PLAIN_CLOCK_MAX)
        turn_back(l);
    if (how & IN_WINDOW && to->gone)
        window_evict(&c->levels[p->at[at]].sample, l, to->first + to->way, r->unknown >> at & 1);
    if (how & IN_WINDOW)
        window_bring_in(l, r->line, to->way, to->gone, r->cell);
    l->used[to->first + to->way] = l->clock << PLAIN_WAY_BITS | to->way;
    l->lines[to->first + to->way] = number;
    b->of[number].way[at] = (uint8_t)to->way;
    b->of[number].here = (uint8_t)(b->of[number].here | 1u << at);
    if (to->gone)
        evict(c, p, at, to->gone, r, how);
}

/* `is_full`: the set of its line. */
INLINED void count_miss(struct cache *c, const struct plain *p, unsigned at, uint32_t number, bool in_shadow,
                        bool is_full, struct reference *r, unsigned how)
{
    struct level *l = &c->levels[p->at[at]];
    uint32_t left = bank_of(p, r, at, how)->of[number].left[at];
    if (r->missed >> at & 1)
        return;
    r->missed |= 1u << at;
    l->counts.misses[r->kind]++;
    if (c->sets.groups)
        sets_count_miss(&l->sample, r->cell, group_of(c, r->line << l->shift) - 1, true);
    enum cache_cause cause = !left ? CACHE_COLD : in_shadow ? CACHE_CONFLICT : CACHE_CAPACITY;
    if (how & SEVERAL && (left & ((1u << NOTE_HOW_BITS) - 1)) == NOTE_TAKEN) {
        struct visit v = visit_of(r);
        cause = coherence_judge(c, (int)p->at[at], r->line, &v);
    } else if (left) {
        tally_count_evictor(&l->tally, r->cell, left >> NOTE_HOW_BITS);
    }
    struct cache_cell *cell = tally_cell(&l->tally, r->cell);
    cell->misses++;
    cell->causes[cause]++;
    l->counts.causes[r->kind][cause]++;
    if (!(how & IN_WINDOW))
        return;
    if (cause == CACHE_COLD)
        met_count(&l->sample.met, r->line, r->cell, c->windows.each.len);
    bool has_room = !is_full && cause != CACHE_TRUE_SHARING && cause != CACHE_FALSE_SHARING;
    if (window_miss(&l->sample, &bank_of(p, r, at, how)->levels[at], r->cell, has_room, r->unknown))
        r->unknown |= 1u << at;
}

/* A further level is asked for the line. Whether its shadow has it. */
INLINED bool reach(struct cache *c, const struct plain *p, unsigned at, uint32_t number, struct reference *r,
                   unsigned how)
{
    struct level *l = &c->levels[p->at[at]];
    bool counts = !(r->reached >> at & 1);
    r->reached |= 1u << at;
    l->counts.references[r->kind] += counts;
    if (counts)
        tally_count_reference(&l->tally, r->cell);
    return shadow_use(&bank_of(p, r, at, how)->levels[at].shadow, number);
}

/* The miss leaves what each thread has of its own. */
static void fetch(struct cache *c, const struct plain *p, uint32_t number, const struct reference *r)
{
    struct visit v = visit_of(r);
    struct plain_line *n = &r->bank->of[number];
    if (!r->is_watched && n->flags & PLAIN_ALONE)
        return;
    if (coherence_fetch(c, r->line << p->shift, &v))
        n->flags |= PLAIN_ALONE;
}

/* How many levels lack the line, the nearest first. */
INLINED unsigned lacking(const struct plain *p, uint32_t number, const struct reference *r, unsigned how)
{
    unsigned here = p->home->of[number].here;
    if (how & SEVERAL && r->bank != p->home)
        here = (here >> p->own << p->own) | r->bank->of[number].here;
    return here ? (unsigned)__builtin_ctz(here) : p->level_count;
}

INLINED void hit(struct cache *c, const struct plain *p, struct plain_bank *b, unsigned at, uint32_t number,
                 uint64_t line, unsigned how)
{
    struct plain_level *l = &b->levels[at];
    if (how & IN_WINDOW)
        window_hit(&c->levels[p->at[at]].sample, l, line, b->of[number].way[at]);
    touch(l, line, b->of[number].way[at]);
}

/* The nearest level lacks the line. */
INLINED void miss(struct cache *c, struct plain *p, uint32_t number, bool in_shadow, struct reference *r, unsigned how)
{
    struct coming to[PLAIN_LEVELS_MAX];
    unsigned lack = lacking(p, number, r, how);
    for (unsigned at = 0; at < lack; at++)
        to[at] = find_room(p, at, r, how);
    for (unsigned at = 0; at < lack; at++) {
        count_miss(c, p, at, number, in_shadow, to[at].gone, r, how);
        if (how & SEVERAL && c->coherence && at + 1 == p->own)
            fetch(c, p, number, r);
        if (at + 1 < p->level_count)
            in_shadow = reach(c, p, at + 1, number, r, how);
    }
    if (lack < p->level_count)
        hit(c, p, bank_of(p, r, lack, how), lack, number, r->line, how);
    while (lack-- > 0)
        bring_in(c, p, lack, number, r, &to[lack], how);
}

static void miss_alone(struct cache *c, struct plain *p, uint32_t number, bool in_shadow, struct reference *r)
{
    miss(c, p, number, in_shadow, r, 0);
}

static void miss_of_several(struct cache *c, struct plain *p, uint32_t number, bool in_shadow, struct reference *r)
{
    miss(c, p, number, in_shadow, r, SEVERAL);
}

static void miss_in_window(struct cache *c, struct plain *p, uint32_t number, bool in_shadow, struct reference *r)
{
    miss(c, p, number, in_shadow, r, IN_WINDOW);
}

static void miss_of_several_in_window(struct cache *c, struct plain *p, uint32_t number, bool in_shadow,
                                      struct reference *r)
{
    miss(c, p, number, in_shadow, r, SEVERAL | IN_WINDOW);
}

INLINED void miss_as(struct cache *c, struct plain *p, uint32_t number, bool in_shadow, struct reference *r,
                     unsigned how)
{
    if (how & IN_WINDOW)
        (how & SEVERAL ? miss_of_several_in_window : miss_in_window)(c, p, number, in_shadow, r);
    else
        (how & SEVERAL ? miss_of_several : miss_alone)(c, p, number, in_shadow, r);
}

/* ---- references ---- */

/* Stacks go where lines have their places. */
static void place_stacks(struct plain *p, struct plain_bank *b)
{
    for (unsigned i = 0; i < p->level_count; i++)
        if (b->levels[i].used)
            shadow_place_in(&b->levels[i].shadow, &b->of->at[i], PLAIN_LINE_SPREAD, b->cap);
    if (b == p->home && !p->is_several)
        stack_place_in(&p->stack, &b->of->at[0], PLAIN_LINE_SPREAD);
}

/* Bytes of which most may be zeros, in memory that takes only the pages used. */
static void copy_sparse(char *to, const char *from, size_t bytes)
{
    static const char zeros[PLAIN_SPARSE_BYTES];
    for (size_t at = 0; at < bytes; at += sizeof zeros)
        if (memcmp(from + at, zeros, sizeof zeros) != 0)
            memcpy(to + at, from + at, sizeof zeros);
}

void plain_free_lines(struct plain_bank *b)
{
    if (b->is_sparse)
        xfree_sparse(b->memory);
    else
        table_free(b->memory, b->memory_bytes);
}

static void grow(const struct plain *p, struct plain_bank *b, uint32_t number)
{
    bool is_sparse = b != p->home;
    uint32_t cap = (uint32_t)max_u64(b->cap, LINES_FIRST);
    while (cap <= number)
        cap *= 2;
    size_t bytes = cap * sizeof *b->of + HOST_LINE;
    void *memory = (is_sparse ? xmalloc_sparse : table_new)(bytes);
    struct plain_line *of = (struct plain_line *)ALIGN_UP((uintptr_t)memory, (uintptr_t)HOST_LINE);
    if (b->cap && is_sparse)
        copy_sparse((char *)of, (const char *)b->of, b->cap * sizeof *of);
    else if (b->cap)
        memcpy(of, b->of, b->cap * sizeof *of);
    plain_free_lines(b);
    b->memory = memory;
    b->memory_bytes = bytes;
    b->is_sparse = is_sparse;
    b->of = of;
    b->cap = cap;
}

void plain_make_room(struct plain *p, struct plain_bank *b, uint32_t number)
{
    if (number >= b->cap || (b->is_sparse && b == p->home))
        grow(p, b, number);
    place_stacks(p, b);
}

INLINED uint32_t number_of(struct plain *p, struct plain_bank *b, uint64_t line, unsigned how)
{
    uint32_t number = numbers_of(&p->numbers, line);
    if (number >= p->home->cap)
        plain_make_room(p, p->home, number);
    if (how & SEVERAL && number >= b->cap)
        plain_make_room(p, b, number);
    return number;
}

/* A line of a reference. Returns the place of its last use among the stack's sizes, or of several threads the curve's.
 */
INLINED unsigned use(struct cache *c, struct plain *p, uint32_t x, struct reference *r, bool stores, unsigned how)
{
    struct plain_bank *b = bank_of(p, r, 0, how);
    struct plain_line *n = &b->of[x];
    unsigned size = how & SEVERAL ? 0 : stack_use(&p->stack, x);
    bool in_shadow = how & SEVERAL ? shadow_use(&b->levels[0].shadow, x) : size <= p->shadow_size;
    if (n->here & 1)
        hit(c, p, b, 0, x, r->line, how);
    else
        miss_as(c, p, x, in_shadow, r, how);
    n->dirty = (uint8_t)(n->dirty | stores);
    return how & SEVERAL && p->curve ? stack_use(&p->curve->stack, x) : size;
}

/* CACHE_USE: of a line that is not there its place in the order of use would be one more than the levels have. */
INLINED void use_only(struct plain *p, struct plain_bank *of_thread, uint32_t x, uint64_t line, unsigned how)
{
    struct plain_bank *b = how & SEVERAL ? of_thread : p->home;
    if (how & SEVERAL && p->curve)
        stack_use(&p->curve->stack, x);
    if (!(b->of[x].here & 1))
        return;
    if (how & SEVERAL)
        shadow_use(&b->levels[0].shadow, x);
    else
        stack_use(&p->stack, x);
    touch(&b->levels[0], line, b->of[x].way[0]);
}

/* What other threads have of its lines is taken from them. What was lost counts byte by byte (watched). */
INLINED void write_to_others(struct cache *c, uint32_t number, const struct reference *r, bool is_one)
{
    struct plain_line *n = &r->bank->of[number];
    if (!r->is_watched && n->flags & PLAIN_ALONE)
        return;
    struct visit v = visit_of(r);
    if (coherence_write(c, &v) && is_one)
        n->flags |= PLAIN_ALONE;
}

/* Whether some thread may have lost the line. What was lost in windows before is known of all. */
INLINED bool is_watched(const struct cache *c, const struct plain *p, uint32_t number, uint64_t address, unsigned how)
{
    return how & IN_WINDOW ? coherence_watches(c->coherence, address) : p->home->of[number].flags & PLAIN_WATCHED;
}

INLINED void run_one(struct cache *c, struct plain *p, struct plain_bank *b, uint32_t number, const struct cache_ref *r,
                     unsigned how)
{
    struct level *l = &c->levels[p->at[0]];
    if (__builtin_expect(r->kind == CACHE_USE, 0)) {
        use_only(p, b, number, r->address >> p->shift, how);
        return;
    }
    bool is_modify = r->kind == CACHE_MODIFY, stores = r->kind == CACHE_WRITE || is_modify;
    struct reference x = {.line = r->address >> p->shift,
                          .cell = r->cell,
                          .kind = is_modify ? CACHE_READ : (enum cache_kind)r->kind,
                          .ref = r,
                          .bank = b};
    uint64_t last = (r->address + r->bytes - 1) >> p->shift;
    bool is_one = x.line == last, is_shared = how & SEVERAL && c->coherence;
    x.is_watched = is_shared && (!is_one || is_watched(c, p, number, r->address, how));
    if (is_shared && stores)
        write_to_others(c, number, &x, is_one);
    unsigned farthest = use(c, p, number, &x, stores, how);
    while (x.line < last) {
        x.line++;
        unsigned size = use(c, p, number_of(p, b, x.line, how), &x, stores, how);
        farthest = size > farthest ? size : farthest;
    }
    l->counts.references[x.kind]++;
    tally_count_reference(&l->tally, r->cell);
    if (x.is_watched) {
        struct visit v = visit_of(&x);
        coherence_use(c, &v);
    }
    if (p->curve)
        curve_count(p->curve, how & SEVERAL ? farthest : p->curve_size[farthest], r->cell);
}

/* The sets of further levels that it will be looked for in, and what says that it was used before. */
INLINED void fetch_further(const struct cache *c, const struct plain *p, const struct plain_bank *b, uint32_t number,
                           uint64_t line, unsigned how)
{
    unsigned here = b->of[number].here;
    if (how & SEVERAL && p->curve)
        stack_fetch(&p->curve->stack, number);
    if (!(how & SEVERAL))
        stack_fetch(&p->stack, number);
    if (here & 1)
        return;
    for (unsigned at = 1; !(here & 1) && at < p->level_count; at++, here >>= 1) {
        const struct plain_level *l = &(how & SEVERAL && at < p->own ? b : p->home)->levels[at];
        uint64_t first = plain_set(l, line) * l->row;
        __builtin_prefetch(&l->used[first], 1);
        __builtin_prefetch(&l->lines[first], 1);
        shadow_fetch(&l->shadow, number);
    }
    if (how & SEVERAL && c->coherence && !(b->of[number].flags & PLAIN_ALONE))
        coherence_look(c->coherence, line << p->shift);
}

INLINED void fetch_line(const struct plain *p, const struct plain_bank *b, uint32_t number, unsigned how)
{
    __builtin_prefetch(&b->of[number], 1);
    if (!(how & SEVERAL))
        return;
    if (b != p->home)
        __builtin_prefetch(&p->home->of[number], 1);
    if (p->curve && number < p->curve->stack.cap)
        __builtin_prefetch(&p->curve->stack.of[number], 1);
}

/* What is known of the lines that will most likely go for it. */
INLINED void fetch_gone(const struct plain *p, const struct plain_bank *b, uint32_t number, uint64_t line, unsigned how)
{
    unsigned here = b->of[number].here;
    for (unsigned at = 0; !(here & 1) && at < p->level_count; at++, here >>= 1) {
        const struct plain_bank *of = how & SEVERAL && at < p->own ? b : p->home;
        const struct plain_level *l = &of->levels[at];
        uint64_t first = plain_set(l, line) * l->row;
        __builtin_prefetch(&of->of[l->lines[first + oldest_way(&l->used[first], l->row)]], 1);
    }
}

/* Where many miss not all that is known of lines is near: it is fetched in three steps, some references before. */
INLINED void run_far(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count, unsigned how)
{
    uint32_t numbers[PART];
    for (size_t i = 0; i < count + 3 * AHEAD; i++) {
        size_t next = i - AHEAD, last = next - AHEAD, now = last - AHEAD;
        if (i < count) {
            struct plain_bank *b = how & SEVERAL ? p->banks[refs[i].thread] : p->home;
            numbers[i] = refs[i].kind == CACHE_FETCH ? 0 : number_of(p, b, refs[i].address >> p->shift, how);
            fetch_line(p, b, numbers[i], how);
        }
        if (next < count)
            fetch_further(c, p, how & SEVERAL ? p->banks[refs[next].thread] : p->home, numbers[next],
                          refs[next].address >> p->shift, how);
        if (last < count)
            fetch_gone(p, how & SEVERAL ? p->banks[refs[last].thread] : p->home, numbers[last],
                       refs[last].address >> p->shift, how);
        if (now < count && numbers[now])
            run_one(c, p, how & SEVERAL ? p->banks[refs[now].thread] : p->home, numbers[now], &refs[now], how);
    }
}

INLINED void run_near(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count, unsigned how)
{
    uint32_t numbers[NEAR];
    for (size_t i = 0; i < count + NEAR - 1; i++) {
        size_t now = i - (NEAR - 1);
        if (i < count) {
            struct plain_bank *b = how & SEVERAL ? p->banks[refs[i].thread] : p->home;
            numbers[i % NEAR] = refs[i].kind == CACHE_FETCH ? 0 : number_of(p, b, refs[i].address >> p->shift, how);
            __builtin_prefetch(&b->of[numbers[i % NEAR]], 1);
        }
        if (now < count && numbers[now % NEAR])
            run_one(c, p, how & SEVERAL ? p->banks[refs[now].thread] : p->home, numbers[now % NEAR], &refs[now], how);
    }
}

/* ---- all that came ---- */

/* Of the second level, if there is one. */
static uint64_t misses_of(const struct cache *c, const struct plain *p)
{
    const struct cache_counts *n = &c->levels[p->at[p->level_count > 1]].counts;
    return n->misses[CACHE_READ] + n->misses[CACHE_WRITE];
}

INLINED void run_as(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count, unsigned how)
{
    if (p->is_far)
        run_far(c, p, refs, count, how);
    else
        run_near(c, p, refs, count, how);
}

static void run_alone(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count)
{
    run_as(c, p, refs, count, 0);
}

static void run_several(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count)
{
    run_as(c, p, refs, count, SEVERAL);
}

static void run_in_window(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count)
{
    run_as(c, p, refs, count, IN_WINDOW);
}

static void run_several_in_window(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count)
{
    run_as(c, p, refs, count, SEVERAL | IN_WINDOW);
}

static void run_some(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count)
{
    if (c->in_window)
        (p->is_several ? run_several_in_window : run_in_window)(c, p, refs, count);
    else
        (p->is_several ? run_several : run_alone)(c, p, refs, count);
}

/* How many of them come before one that is not plain, or of a thread that is not known. */
static size_t run_known(const struct cache *c, const struct plain *p, const struct cache_ref *refs, size_t count)
{
    size_t n = 0;
    while (n < count && p->banks[refs[n].thread] && (refs[n].kind != CACHE_FETCH || c->nearest_code == NO_LEVEL)) {
        __builtin_prefetch(&refs[n + FETCHED]);
        n++;
    }
    return n;
}

/* Whether references of the thread are plain: its bank is there now. */
static bool add_thread(struct cache *c, struct plain *p, unsigned thread)
{
    if (p->banks[thread])
        return false; /* it is something else */
    if ((p->has_begun || c->coherence) && !plain_takes_threads(c, p))
        return false;
    if (p->has_begun && !p->is_several)
        plain_begin_several(c, p);
    plain_add_bank(c, p, thread);
    if (c->coherence && !p->is_several) /* there were several in a window before: what they took is known of all */
        plain_begin_several(c, p);
    return true;
}

size_t plain_run(struct cache *c, struct plain *p, const struct cache_ref *refs, size_t count)
{
    size_t n = 0, now;
    while (n < count && p->in_window == c->in_window && !(c->in_window && plain_is_late(p))) {
        uint64_t before = misses_of(c, p);
        now = run_known(c, p, refs + n, min_u64(count - n, PART));
        if (!now && !add_thread(c, p, refs[n].thread))
            break;
        if (p->is_several && now)
            plain_vote(p, refs[n].thread);
        run_some(c, p, refs + n, now);
        p->is_far = now ? (misses_of(c, p) - before) * FAR_SHARE > now : p->is_far;
        n += now;
    }
    if (p->curve)
        p->curve->lines = (uint32_t)(p->is_several ? p->curve->stack.held : p->stack.held);
    return n;
}
