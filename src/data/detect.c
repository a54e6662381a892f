/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions allocate, by calls of all functions of a program, as they came (detect_calls.c): for a program in
 * which no function has a name. Nothing is known of a function but what it was called with and what it returned.
 *
 * An allocator is known by what only allocators do: it returns an address that it returned before only after another
 * function, always the same one, was the last to be called with that address: that one takes memory back. What is
 * given and not taken back never overlaps, if its size is the argument that is looked for; and other blocks often begin
 * right behind it. What is found is tried on all calls: a function is believed if what it gives, with the others that
 * were found, contradicts nothing, and if together they have given nearly all that was taken back. Otherwise none is
 * told.
 */
#include "data/detect.h"

#include <assert.h>
#include <stdlib.h>

enum {
    GIVERS_MAX = 30,    /* candidates, those that return most */
    TAKERS_KEPT = 8,    /* of an address */
    LIVE_MAX = 1 << 17, /* blocks */
    CALLS_LEAST = 20,
    AGAIN_LEAST = 8, /* addresses that were given again */
    MOVERS_MAX = 16, /* candidates, likewise */
    TIGHT = 64,      /* bytes from the end of a block to the next one, if that is right behind it */
    USUAL_PART = 200 /* of which one may contradict: signals, threads, what was under way as it began */
};

struct place {                                           /* an address that candidates returned */
    uint32_t giver[GIVERS_MAX];                          /* when it did last; 0: never */
    uint32_t taker[TAKERS_KEPT], when[TAKERS_KEPT], now; /* functions that were called with it: a ring */
};

/* The last that was called with it between two moments; DETECT_NO_CALL: none. */
static uint32_t last_taker(const struct place *p, uint32_t since, uint32_t until)
{
    uint32_t taker = DETECT_NO_CALL, when = since;
    for (int i = 0; i < TAKERS_KEPT; i++)
        if (p->when[i] > when && p->when[i] < until) {
            when = p->when[i];
            taker = p->taker[i];
        }
    return taker;
}

/* ---- candidates ---- */

struct giver {
    uint32_t function;
    uint32_t returns, again;  /* addresses; of them, that it had returned before */
    struct map takers;        /* function -> how often it was the last to be called with such */
    uint32_t taker, by_taker; /* the one that was so most often, and how often */
};
struct search {
    const struct data_detector *t;
    struct giver givers[GIVERS_MAX];
    uint32_t count;
    uint8_t *number; /* by function: its place among the givers, from 1 */
    struct map at;   /* address -> place */
    VEC(struct place *) places;
};

struct tally {
    uint32_t function, returns, heap, same, other; /* same: returned the first argument; other: another one */
};

static int by_heap(const void *a, const void *b)
{
    const struct tally *x = a, *y = b;
    return x->heap != y->heap ? (x->heap > y->heap ? -1 : 1)
                              : (x->function > y->function) - (x->function < y->function);
}

static void choose_givers(struct search *s)
{
    const struct data_detector *t = s->t;
    struct tally *all = xmalloc((t->functions + 1ull) * sizeof *all);
    for (uint32_t f = 0; f < t->functions; f++)
        all[f].function = f;
    for (size_t i = 0; i < t->calls.len; i++) {
        const struct detect_call *c = &t->calls.data[i];
        struct tally *f = &all[c->function];
        if (!c->left)
            continue;
        f->returns++;
        f->heap += detect_may_be_heap(t, c->value);
        f->same += c->value && c->value == c->a[0];
        f->other += c->value && (c->value == c->a[1] || c->value == c->a[2]);
    }
    qsort(all, t->functions, sizeof *all, by_heap);
    for (uint32_t i = 0; i < t->functions && s->count < GIVERS_MAX; i++) {
        const struct tally *f = &all[i];
        if (f->heap < CALLS_LEAST || f->heap < f->returns - f->returns / 8 || f->same > f->returns / 8 ||
            f->other > f->returns / 2)
            continue;
        s->givers[s->count] = (struct giver){.function = f->function};
        s->number[f->function] = (uint8_t)++s->count;
    }
    free(all);
}

static struct place *place_at(struct search *s, uint64_t address, bool is_given)
{
    uint64_t nth;
    if (map_get(&s->at, address, &nth)) {
        assert(s->places.data); /* it is one of these */
        return s->places.data[nth];
    }
    if (!is_given)
        return NULL;
    map_put(&s->at, address, s->places.len);
    VEC_PUSH(&s->places, xmalloc(sizeof(struct place)));
    return s->places.data[s->places.len - 1];
}

static void note_given(struct search *s, const struct detect_call *c)
{
    uint32_t nth = s->number[c->function] - 1u;
    struct giver *g = &s->givers[nth];
    if (!detect_may_be_heap(s->t, c->value))
        return;
    struct place *p = place_at(s, c->value, true);
    g->returns++;
    if (p->giver[nth]) {
        uint32_t taker = last_taker(p, p->giver[nth], c->entered);
        g->again++;
        ++*map_place(&g->takers, taker);
    }
    p->giver[nth] = c->left;
}

static void note_taken(struct search *s, const struct detect_call *c)
{
    struct place *p = detect_may_be_heap(s->t, c->a[0]) ? place_at(s, c->a[0], false) : NULL;
    if (!p)
        return;
    p->taker[p->now % TAKERS_KEPT] = c->function;
    p->when[p->now++ % TAKERS_KEPT] = c->entered;
}

static void note_all(struct search *s)
{
    const struct data_detector *t = s->t;
    for (size_t i = 1; i < t->events.len; i++) {
        const struct detect_call *c = &t->calls.data[t->events.data[i] / 2];
        if (!(t->events.data[i] & 1))
            note_taken(s, c);
        else if (s->number[c->function])
            note_given(s, c);
    }
}

/* ---- who takes back ---- */

static void find_own_taker(const struct search *s, struct giver *g)
{
    for (uint32_t f = 0; f < s->t->functions; f++) {
        uint64_t n = 0;
        if (map_get(&g->takers, f, &n) && n > g->by_taker) {
            g->taker = f;
            g->by_taker = (uint32_t)n;
        }
    }
}

static bool is_sure(const struct giver *g) { return g->again >= AGAIN_LEAST && g->by_taker >= g->again - g->again / 5; }

/* Of most addresses. DETECT_NO_CALL: there is none. */
static uint32_t find_taker(struct search *s)
{
    uint32_t best = DETECT_NO_CALL;
    uint64_t most = 0;
    for (uint32_t i = 0; i < s->count; i++)
        find_own_taker(s, &s->givers[i]);
    for (uint32_t i = 0; i < s->count; i++) {
        uint64_t sum = 0;
        for (uint32_t k = 0; k < s->count; k++)
            if (is_sure(&s->givers[k]) && s->givers[k].taker == s->givers[i].taker)
                sum += s->givers[k].by_taker;
        if (sum > most) {
            most = sum;
            best = s->givers[i].taker;
        }
    }
    return best;
}

/* ---- all calls once more ---- */

enum { SIZES = DETECT_ARGUMENTS + 1, PRODUCT = DETECT_ARGUMENTS, GROUP_MAX = 6 };
struct live { /* a block; calls that returned it, one within the other */
    uint64_t at;
    uint32_t born, count;
    uint32_t call[GROUP_MAX];
};
struct fit { /* of a function's calls, by which argument is the size */
    uint32_t seen, tight[SIZES], beyond[SIZES];
};
struct replay {
    struct search *s;
    uint32_t taker, mover;
    VEC(struct live) live; /* by address */
    VEC(uint32_t) groups;  /* of each block: bits of the givers; 1 << GIVERS_MAX: the mover */
    struct map gone;       /* address -> when it was taken back */
    struct fit *fits;      /* [GIVERS_MAX + 1] */
    uint32_t taken, odd;
    bool is_cut;
};

static uint32_t place_of(const struct replay *r, uint32_t function)
{
    return function == r->mover ? GIVERS_MAX : r->s->number[function] - 1u;
}

static bool gives(const struct replay *r, uint32_t function) { return function == r->mover || r->s->number[function]; }

static uint64_t size_by(const struct detect_call *c, int k)
{
    uint64_t product;
    if (k < DETECT_ARGUMENTS)
        return c->a[k];
    return __builtin_mul_overflow(c->a[0], c->a[1], &product) ? UINT64_MAX : product;
}

static void fit(struct replay *r, uint32_t call, uint64_t gap)
{
    const struct detect_call *c = &r->s->t->calls.data[call];
    struct fit *f = &r->fits[place_of(r, c->function)];
    f->seen++;
    for (int k = 0; k < SIZES; k++) {
        uint64_t size = size_by(c, k);
        f->beyond[k] += size > gap;
        f->tight[k] += size <= gap && gap - size <= TIGHT;
    }
}

static size_t live_from(const struct replay *r, uint64_t at)
{
    return PARTITION_POINT(i, 0, r->live.len, r->live.data[i].at < at);
}

static void end_block(struct replay *r, size_t nth)
{
    const struct live *l = &r->live.data[nth];
    uint32_t bits = 0;
    for (uint32_t i = 0; i < l->count; i++)
        bits |= 1u << place_of(r, r->s->t->calls.data[l->call[i]].function);
    VEC_PUSH(&r->groups, bits);
    memmove(&r->live.data[nth], &r->live.data[nth + 1], (--r->live.len - nth) * sizeof *r->live.data);
}

static void take_back(struct replay *r, uint64_t address, uint32_t now)
{
    size_t nth = live_from(r, address);
    if (!r->live.data || nth == r->live.len || r->live.data[nth].at != address) {
        r->odd++;
        return;
    }
    end_block(r, nth);
    map_put(&r->gone, address, now);
    r->taken++;
}

static void add_to(struct replay *r, size_t nth, uint32_t call)
{
    struct live *l = &r->live.data[nth];
    if (l->count < GROUP_MAX)
        l->call[l->count++] = call;
    if (nth + 1 < r->live.len)
        fit(r, call, r->live.data[nth + 1].at - l->at);
}

static void give(struct replay *r, uint32_t call)
{
    const struct detect_call *c = &r->s->t->calls.data[call];
    size_t nth = live_from(r, c->value);
    bool is_there = nth < r->live.len && r->live.data[nth].at == c->value;
    if (is_there && r->live.data[nth].born > c->entered) {
        add_to(r, nth, call);
        return;
    }
    if (is_there) {
        r->odd++;
        end_block(r, nth);
    }
    VEC_PUSH(&r->live, ((struct live){0}));
    memmove(&r->live.data[nth + 1], &r->live.data[nth], (r->live.len - 1 - nth) * sizeof *r->live.data);
    r->live.data[nth] = (struct live){.at = c->value, .born = c->left};
    add_to(r, nth, call);
    for (uint32_t i = 0; nth && i < r->live.data[nth - 1].count; i++)
        fit(r, r->live.data[nth - 1].call[i], c->value - r->live.data[nth - 1].at);
}

/* It may have called the others to do it. */
static void move(struct replay *r, uint32_t call)
{
    const struct detect_call *c = &r->s->t->calls.data[call];
    uint64_t gone = 0;
    size_t nth = live_from(r, c->a[0]);
    bool had = nth < r->live.len && r->live.data[nth].at == c->a[0];
    if (!had && c->a[0] && !(map_get(&r->gone, c->a[0], &gone) && gone > c->entered))
        r->odd++;
    if (had) {
        end_block(r, nth);
        map_put(&r->gone, c->a[0], c->left);
        r->taken++;
    }
    give(r, call);
}

static void replay(struct replay *r)
{
    const struct data_detector *t = r->s->t;
    for (size_t i = 1; i < t->events.len && !r->is_cut; i++) {
        uint32_t nth = t->events.data[i] / 2;
        const struct detect_call *c = &t->calls.data[nth];
        bool is_left = t->events.data[i] & 1;
        if (!is_left && c->function == r->taker && c->a[0])
            take_back(r, c->a[0], c->entered);
        else if (is_left && gives(r, c->function) && c->value)
            (c->function == r->mover ? move : give)(r, nth);
        r->is_cut = r->live.len > LIVE_MAX;
    }
    while (r->live.len)
        end_block(r, r->live.len - 1);
}

static void fini(struct replay *r)
{
    VEC_FREE(&r->live);
    VEC_FREE(&r->groups);
    map_fini(&r->gone);
    free(r->fits);
}

static struct replay start(struct search *s, uint32_t taker, uint32_t mover)
{
    return (struct replay){
        .s = s, .taker = taker, .mover = mover, .fits = xmalloc((GIVERS_MAX + 1) * sizeof(struct fit))};
}

static bool is_within(uint64_t odd, uint64_t all) { return odd * USUAL_PART <= all; }

/* Which argument it is most likely; -1: none. */
static int likely_size_of(const struct fit *f)
{
    int best = -1;
    for (int k = 0; k < SIZES; k++)
        if (f->beyond[k] * 8 <= f->seen && f->tight[k] * 4 >= f->seen && (best < 0 || f->tight[k] >= f->tight[best]))
            best = k;
    return f->seen >= CALLS_LEAST / 2 ? best : -1;
}

static int size_of(const struct fit *f)
{
    int k = likely_size_of(f);
    return k >= 0 && is_within(f->beyond[k], f->seen) ? k : -1;
}

/* Blocks that others began in, by these sizes. */
static uint32_t overlaps(const struct replay *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= GIVERS_MAX; i++) {
        int k = likely_size_of(&r->fits[i]);
        n += k < 0 ? 0 : r->fits[i].beyond[k];
    }
    return n;
}

/* ---- what is told ---- */

static const char *role_of(const struct replay *r, uint32_t nth)
{
    int k = size_of(&r->fits[nth]);
    if (nth == GIVERS_MAX)
        return k == 1 ? "realloc" : NULL;
    return k == 0 ? "malloc" : k == 1 ? "memalign" : k == PRODUCT ? "calloc" : NULL;
}

static bool is_told(const struct data_role *out, size_t n, const char *as)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(out[i].as, as) == 0)
            return true;
    return false;
}

static uint32_t count_of(const struct replay *r, uint32_t nth, uint32_t covered)
{
    uint32_t n = 0;
    for (size_t i = 0; i < r->groups.len; i++)
        n += !(r->groups.data[i] & covered) && r->groups.data[i] >> nth & 1;
    return n;
}

/* Those that together gave nearly all blocks, each one as many as it can; 0: there are none such. */
static size_t cover(const struct replay *r, struct data_role out[DATA_ROLES_MAX])
{
    uint32_t covered = 0, left = (uint32_t)r->groups.len;
    size_t n = 0;
    while (!is_within(left, r->groups.len) && n + 1 < DATA_ROLES_MAX) {
        uint32_t best = 0, most = 0;
        for (uint32_t k = 0; k <= GIVERS_MAX; k++) {
            const char *as = k < r->s->count || (k == GIVERS_MAX && r->mover != DETECT_NO_CALL) ? role_of(r, k) : NULL;
            uint32_t count = as && !is_told(out, n, as) ? count_of(r, k, covered) : 0;
            if (count > most) {
                most = count;
                best = k;
            }
        }
        if (!most)
            return 0;
        out[n++] = (struct data_role){best == GIVERS_MAX ? r->mover : r->s->givers[best].function, role_of(r, best)};
        covered |= 1u << best;
        left -= most;
    }
    return n;
}

static size_t tell(const struct replay *r, struct data_role out[DATA_ROLES_MAX])
{
    if (r->is_cut || r->taken < CALLS_LEAST || !is_within(r->odd, r->groups.len))
        return 0;
    size_t n = cover(r, out);
    if (n && r->mover != DETECT_NO_CALL && !is_told(out, n, "realloc"))
        return 0;
    if (n)
        out[n++] = (struct data_role){r->taker, "free"};
    return n;
}

/* Functions that got what may be a block and returned such: those that did most often. */
static size_t find_movers(const struct search *s, uint32_t taker, uint32_t out[MOVERS_MAX])
{
    const struct data_detector *t = s->t;
    struct tally *all = xmalloc((t->functions + 1ull) * sizeof *all);
    size_t n = 0;
    for (uint32_t f = 0; f < t->functions; f++)
        all[f].function = f;
    for (size_t i = 0; i < t->calls.len; i++) {
        const struct detect_call *c = &t->calls.data[i];
        struct tally *f = &all[c->function];
        bool has_block = detect_may_be_heap(t, c->a[0]);
        f->returns += c->left && c->a[0];
        f->heap += c->left && has_block && detect_may_be_heap(t, c->value);
    }
    qsort(all, t->functions, sizeof *all, by_heap);
    for (uint32_t i = 0; i < t->functions && n < MOVERS_MAX; i++) {
        const struct tally *f = &all[i];
        if (f->function != taker && f->heap >= AGAIN_LEAST && f->heap + f->returns / 50 >= f->returns)
            out[n++] = f->function;
    }
    free(all);
    return n;
}

struct tried {
    size_t told;
    uint32_t odd;
};

static struct tried try(struct search *s, uint32_t taker, uint32_t mover, struct data_role out[DATA_ROLES_MAX])
{
    struct replay r = start(s, taker, mover);
    replay(&r);
    struct tried tried = {tell(&r, out), r.odd + overlaps(&r)};
    diag_debug(1, "allocators: taken back by %u, moved by %d: %zu blocks, %u taken, %u contradict; %zu functions",
               taker, (int)mover, r.groups.len, r.taken, tried.odd, tried.told);
    fini(&r);
    return tried;
}

static bool is_better(struct tried a, struct tried b) { return a.odd < b.odd || (a.odd == b.odd && a.told > b.told); }

/* First those that are sure; then without each of them, or with each other one, if less contradicts so, or more is
 * told. */
static size_t search(struct search *s, struct data_role out[DATA_ROLES_MAX])
{
    choose_givers(s);
    note_all(s);
    uint32_t taker = find_taker(s), mover = DETECT_NO_CALL;
    if (taker == DETECT_NO_CALL)
        return 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (!is_sure(&s->givers[i]) || s->givers[i].taker != taker)
            s->number[s->givers[i].function] = 0;
    struct tried best = try(s, taker, DETECT_NO_CALL, out), now;
    uint32_t movers[MOVERS_MAX];
    for (size_t i = 0, n = find_movers(s, taker, movers); i < n; i++)
        if (is_better(now = try(s, taker, movers[i], out), best)) {
            mover = movers[i];
            best = now;
        }
    for (uint32_t i = 0; i < s->count; i++) {
        uint8_t *number = &s->number[s->givers[i].function], was = *number;
        *number = was ? 0 : (uint8_t)(i + 1);
        if (s->givers[i].function != mover && is_better(now = try(s, taker, mover, out), best))
            best = now;
        else
            *number = was;
    }
    return try(s, taker, mover, out).told;
}

size_t data_detector_end(const struct data_detector *t, struct data_role out[DATA_ROLES_MAX])
{
    struct search s = {.t = t, .number = xmalloc(t->functions + 1ull)};
    size_t n = search(&s, out);
    for (uint32_t i = 0; i < s.count; i++)
        map_fini(&s.givers[i].takers);
    for (size_t i = 0; i < s.places.len; i++)
        free(s.places.data[i]);
    VEC_FREE(&s.places);
    map_fini(&s.at);
    free(s.number);
    return n;
}
