/* SPDX-License-Identifier: Apache-2.0
 * A queue for each area; the entry that is earliest among the heads comes next. When an entry was made is known of
 * calls of watched functions, and around pauses; between two such, and the chunk's begin and end, it is taken for
 * evenly spread. */
#include "cmd/spy/merge.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { HELD_MAX = 1 << 18, LEAST_HELD = 256, GONE_MAX = 1024 }; /* entries that took time, of a chunk so many; chunks */
enum { PACE_ENTRIES = 1024 };                                   /* shorter chunks tell no pace */

struct looked { /* a chunk, for all merges that hold it */
    unsigned uses;
    size_t made; /* entries that took time: what belongs to an event counts as little as it does where times are told */
    VEC(uint32_t) timed;        /* those that may tell a time, by their places */
    struct wire_entry *entries; /* NULL: not copied yet */
};
struct held {
    struct launch_chunk chunk;
    struct looked *of;
    const struct wire_entry *entries;
    size_t weight;         /* of all that is held; copies of stacks, which fill chunks in no time, weigh nothing */
    size_t next;           /* entry */
    size_t next_timed;     /* of of->timed, the first that may be behind `to` */
    size_t from, to;       /* entries of known time around it, of one with more behind it the last of these; `to` may
                              be their number, for the chunk's end */
    uint64_t since, until; /* these times */
    uint64_t resumes;      /* when it goes on behind `until`: later if there is a pause */
    double pace;           /* ticks from entry to entry at most */
    double step;           /* between those two */
};
struct queue { /* of an area */
    VEC(struct held) held;
    size_t first;
    double pace; /* that its chunks usually have; 0: not known yet */
};

struct merge {
    enum merge_order order;
    merge_take take;
    void *ctx;
    VEC(struct queue) queues; /* by area */
    size_t held;
    uint32_t only; /* the area that all came from so far; ID_NONE: of several, or of none */
    bool is_several;
};

struct merge *merge_new(enum merge_order order, merge_take take, void *ctx)
{
    struct merge *m = xmalloc(sizeof *m);
    *m = (struct merge){.order = order, .take = take, .ctx = ctx, .only = ID_NONE};
    return m;
}

static struct held *head_of(struct queue *q) { return q->first < q->held.len ? &q->held.data[q->first] : NULL; }

/* What belongs together stays so. */
static size_t after(const struct held *h, size_t at)
{
    const struct wire_entry *e = &h->entries[at];
    return at + 1 + (wire_is_event(e) ? min_u64(wire_event_entries(e), h->chunk.count - at - 1) : 0);
}

/* Of a call that was watched; 0: the entry has no time of its own. */
static uint64_t stamp_of(const struct held *h, size_t at)
{
    const struct wire_entry *e = &h->entries[at];
    struct wire_call call;
    struct wire_short less;
    struct wire_given given;
    bool is_call =
        wire_is_event(e) && (wire_event_kind(e) == WIRE_EVENT_ENTER || wire_event_kind(e) == WIRE_EVENT_LEAVE);
    size_t entries = after(h, at) - at - 1;
    if (wire_is_event(e) && wire_event_kind(e) == WIRE_EVENT_GIVEN && entries == WIRE_GIVEN_ENTRIES) {
        memcpy(&given, e + 1, sizeof given);
        return given.time;
    }
    if (is_call && entries == WIRE_SHORT_ENTRIES) {
        memcpy(&less, e + 1, sizeof less);
        return less.time;
    }
    if (!is_call || entries < WIRE_CALL_ENTRIES)
        return 0;
    memcpy(&call, e + 1, sizeof call);
    return call.time;
}

static bool is_pause(const struct held *h, size_t at, struct wire_pause *out)
{
    const struct wire_entry *e = &h->entries[at];
    if (!wire_is_event(e) || wire_event_kind(e) != WIRE_EVENT_PAUSE ||
        (after(h, at) - at - 1) * sizeof *e < sizeof *out)
        return false;
    memcpy(out, e + 1, sizeof *out);
    return true;
}

/* When the entry before it was made at the latest, and when it was. */
static struct wire_pause times_of(const struct held *h, size_t at)
{
    struct wire_pause pause;
    if (is_pause(h, at, &pause))
        return pause;
    uint64_t stamp = stamp_of(h, at);
    return (struct wire_pause){stamp, stamp};
}

static void set_step(struct held *h)
{
    h->step = fmin(h->pace, (double)(h->until - h->since) / (double)(h->to - h->from));
}

/* Up to the next entry of known time behind `from`; times that cannot be are passed over. */
static void look_ahead(struct held *h)
{
    size_t least = after(h, h->to);
    h->from = least - 1;
    h->since = h->resumes;
    while (h->next_timed < h->of->timed.len) {
        h->to = h->of->timed.data[h->next_timed++];
        if (h->to < least)
            continue;
        struct wire_pause times = times_of(h, h->to);
        h->until = times.from;
        h->resumes = times.to;
        if (times.from && times.from >= h->since && times.to >= times.from && times.to <= h->chunk.end) {
            set_step(h);
            return;
        }
    }
    h->to = h->chunk.count;
    h->until = h->resumes = max_u64(h->chunk.end, h->since);
    set_step(h);
}

static uint64_t time_of(const struct held *h, size_t at)
{
    return h->since + (at > h->from ? (uint64_t)((double)(at - h->from) * h->step) : 0);
}

static uint64_t time_at(const struct held *h) { return time_of(h, h->next); }

/* The first entry behind `next`, up to `to`, that was made at that moment or later; `to` if there is none. */
static size_t first_since(const struct held *h, uint64_t moment)
{
    double ahead = moment > h->since && h->step > 0 ? (double)(moment - h->since) / h->step : (double)h->to;
    size_t at = ahead < (double)(h->to - h->from) ? h->from + (size_t)ahead : h->to;
    while (at > h->next + 1 && time_of(h, at - 1) >= moment)
        at--;
    while (at < h->to && time_of(h, at) < moment)
        at++;
    return at;
}

/* To the next entry, and on to the first from `least` on. */
static void advance(struct held *h, size_t least)
{
    do
        h->next = after(h, h->next);
    while (h->next < least);
    if (h->next >= h->to && h->next < h->chunk.count)
        look_ahead(h);
}

static void let_go(struct looked *l)
{
    if (--l->uses)
        return;
    VEC_FREE(&l->timed);
    free(l->entries);
    free(l);
}

static void drop_head(struct merge *m, struct queue *q)
{
    m->held -= q->held.data[q->first].weight;
    let_go(q->held.data[q->first++].of);
    if (q->first < q->held.len && q->first < GONE_MAX)
        return;
    q->held.len -= q->first;
    memmove(q->held.data, q->held.data + q->first, q->held.len * sizeof *q->held.data);
    q->first = 0;
}

/* Its entries up to that moment, one at least. */
static void hand_over(struct merge *m, struct queue *q, uint64_t until)
{
    struct held *h = head_of(q);
    size_t from = h->next;
    advance(h, 0);
    while (h->next < h->chunk.count && time_at(h) < until)
        advance(h, first_since(h, until));
    struct launch_chunk piece = h->chunk;
    piece.entries = h->entries + from;
    piece.position += from * sizeof *h->entries;
    piece.count = h->next - from;
    m->take(m->ctx, &piece);
    if (h->next >= h->chunk.count)
        drop_head(m, q);
}

/* The queue with the earliest head, and when the next one's is. */
static struct queue *earliest(struct merge *m, uint64_t *other)
{
    struct queue *best = NULL;
    uint64_t at = UINT64_MAX;
    *other = UINT64_MAX;
    for (size_t i = 0; i < m->queues.len; i++) {
        struct held *h = head_of(&m->queues.data[i]);
        uint64_t t = h ? time_at(h) : UINT64_MAX;
        if (!h || (best && t >= at)) {
            *other = min_u64(*other, t);
            continue;
        }
        *other = min_u64(*other, best ? at : UINT64_MAX);
        best = &m->queues.data[i];
        at = t;
    }
    return best;
}

static void release(struct merge *m, size_t max)
{
    while (m->held > max) {
        uint64_t other;
        struct queue *q = earliest(m, &other);
        hand_over(m, q, other);
    }
}

static struct looked *look(const struct launch_chunk *c)
{
    enum { TIMED = 1 << WIRE_EVENT_ENTER | 1 << WIRE_EVENT_LEAVE | 1 << WIRE_EVENT_GIVEN | 1 << WIRE_EVENT_PAUSE };
    struct looked *l = xmalloc(sizeof *l);
    l->uses = 1;
    for (size_t at = 0; at < c->count; at++) {
        const struct wire_entry *e = &c->entries[at];
        l->made++;
        if (!wire_is_event(e))
            continue;
        if (wire_event_kind(e) < 32 && 1u << wire_event_kind(e) & TIMED)
            VEC_PUSH(&l->timed, (uint32_t)at);
        at += wire_event_entries(e);
    }
    return l;
}

/* What is usual; chunks far from that change it a little, so that one which waits does not set it. */
static double pace_of(const struct merge *m, struct queue *q, const struct launch_chunk *c, size_t count)
{
    double own = c->end > c->begin ? (double)(c->end - c->begin) / (double)count : 0, usual = q->pace;
    if (own > 0 && count >= PACE_ENTRIES)
        q->pace = usual == 0 ? own : usual + (fmin(own, 2 * usual) - usual) / 4;
    return m->order == MERGE_EARLY && usual > 0 ? usual : INFINITY;
}

static void hold(struct merge *m, const struct launch_chunk *c, struct looked *of, double pace)
{
    size_t bytes = c->count * sizeof *c->entries;
    if (!of->entries)
        of->entries = memcpy(xrealloc(NULL, bytes), c->entries, bytes); /* xmalloc would fill it */
    struct held h = {.chunk = *c,
                     .of = of,
                     .entries = of->entries,
                     .weight = max_u64(of->made, LEAST_HELD),
                     .resumes = c->begin,
                     .pace = pace};
    of->uses++;
    look_ahead(&h);
    VEC_PUSH(&m->queues.data[c->area].held, h);
    m->held += h.weight;
}

/* *of is made if it is needed. */
static void add(struct merge *m, const struct launch_chunk *c, struct looked **of)
{
    while (m->queues.len <= c->area)
        VEC_PUSH(&m->queues, ((struct queue){.first = 0}));
    m->is_several |= c->has_others || (m->only != ID_NONE && m->only != c->area);
    if (!*of && (m->is_several || m->order == MERGE_EARLY))
        *of = look(c);
    double pace = pace_of(m, &m->queues.data[c->area], c, *of ? (*of)->made : 1);
    m->only = c->area;
    if (!m->is_several) {
        m->take(m->ctx, c);
        return;
    }
    assert(*of && "it was looked at, since there are several");
    hold(m, c, *of, pace);
    release(m, HELD_MAX);
}

void merge_add_both(struct merge *m, struct merge *second, const struct launch_chunk *c)
{
    struct looked *of = NULL;
    if (!c->count || c->area >= WIRE_AREAS_MAX)
        return;
    add(m, c, &of);
    if (second)
        add(second, c, &of);
    if (of)
        let_go(of);
}

void merge_add(struct merge *m, const struct launch_chunk *c) { merge_add_both(m, NULL, c); }

void merge_until(struct merge *m, uint64_t time)
{
    uint64_t other;
    for (struct queue *q; (q = earliest(m, &other)) && time_at(head_of(q)) < time;)
        hand_over(m, q, min_u64(other, time));
}

void merge_end(struct merge *m) { release(m, 0); }

void merge_free(struct merge *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->queues.len; i++) {
        struct queue *q = &m->queues.data[i];
        for (size_t k = q->first; k < q->held.len; k++)
            let_go(q->held.data[k].of);
        VEC_FREE(&q->held);
    }
    VEC_FREE(&m->queues);
    free(m);
}
