/* SPDX-License-Identifier: Apache-2.0
 * Arcs of clocks.c: what their timed calls took, and which calls are not timed. Where short calls are sampled, those of
 * an arc that take less than some SHORT times what it takes to look at the clock are timed one in EVERY, at random. The
 * others are counted, and what they take of their own is taken to be the mean of those that were timed. So much of all
 * up to the next one that is timed is given the arc, and taken off the frame that is under way when that many are
 * decided on, so that sums stay what they are: which frame that is, is as random as how many. Of a function that
 * calls itself nobody knows whether it is under way in a call that is not timed: it is said to have been seen to.
 *
 * The clock is looked at when all that stands in front has been done, and the function begins when the look has been:
 * else what it does goes on beside the look, and is taken off with it. So a call is timed as if it were alone. Where
 * calls overlap with each other that is too much, so none that is not timed is taken to take more than a run of them
 * took, each with what its caller did. A sampled call that took some ODD times as long as a short one may was mostly
 * interrupted. It is told, but not taken for others; where those were interrupted, that is in their callers' time.
 *
 * `left` goes down in each call, in the one instruction that reads it, for a handler of a signal may come in between
 * and decide: the call that finds none left decides how it goes on, those of handlers meanwhile are timed.
 */
#ifndef MTOOL_LDRT_CLOCKS_SAMPLING_H
#define MTOOL_LDRT_CLOCKS_SAMPLING_H

#include "wire/link.h"

/* In `left`, of calls that are timed; and of more than there will be. */
#define TIMED (1ll << 62)
#define MANY (1ll << 60)
enum { PARTS = WIRE_CLOCKS_PARTS }; /* of a tick */
enum { EVERY = 128, SHORT = 16, ODD = 8, AT_FIRST = 64, LATER = 1024, ENOUGH = 32 };

struct func {
    uint64_t site, depth;
    uint64_t recurs; /* it was seen to begin while it was under way */
};
struct sums { /* of timed calls, in ticks */
    struct func *func;
    uint64_t calls, self, all, outer;
    uint64_t squares; /* of self: of sampled calls; does not overflow */
    uint64_t is_sampled;
};
struct arc_sums {
    struct sums timed, sampled;    /* of calls of which all are timed, and some */
    uint64_t untimed;              /* calls that may be, those `left` too */
    uint64_t untimed_self;         /* what they are taken to take; as all that follow, it may be below nothing */
    uint64_t each, skip;           /* of them, each of `left`; and what it takes not to time one of those */
    uint64_t run_began, run_calls; /* the last ones were decided on; how many, and the one that is timed */
    uint64_t runs, runs_calls;     /* ticks that such runs took, and calls in them */
    volatile uint64_t *words;      /* of the function's, in line; NULL none */
    uint64_t seen_calls, seen_self, seen_all; /* of the sums in use, when it was last decided by them */
};
struct arc {
    uint64_t site, caller;
    int64_t left;   /* calls until one decides: that are not timed, or TIMED more; 0 if `words` says it */
    uint64_t skips; /* 1: they are not timed, as far as who decided knows */
    struct sums *sums;
    struct arc_sums *of;
    volatile uint64_t *words; /* they are this one's: NULL, or those of `of` */
    uint64_t is_taken;        /* it is being filled, or is */
};
enum next { IS_SKIPPED, DECIDES, IS_TIMED };
struct sampled {
    uint64_t untimed, self, recurs;
};
struct sampler { /* of a thread */
    uint64_t random;
    volatile uint64_t is_busy; /* a handler of a signal, which comes meanwhile, changes nothing */
};

static uint64_t sampling_limit;                /* ticks; 0: calls are not sampled */
static uint64_t sampling_most;                 /* ticks: what took longer stands for itself alone */
static uint64_t sampling_all, sampling_inside; /* parts of a tick, as all of calls that are not timed */
static uint64_t sampling_skip[2];              /* [1]: in line */

/* In parts of a tick: what looking at the clock takes of a call, what of it is in its time, and what a call takes that
 * is not timed, and if it goes past the runtime. */
static void sampling_begin(uint64_t pair, uint64_t inside, uint64_t skip, uint64_t skip_in_line)
{
    sampling_limit = SHORT * pair / PARTS;
    sampling_all = pair;
    sampling_most = ODD * sampling_limit;
    sampling_inside = inside;
    sampling_skip[0] = skip;
    sampling_skip[1] = skip_in_line;
}

/* Where a function looks for its callers, in front of `site`; NULL: it asks the runtime always. */
static volatile uint64_t *words_at(uint64_t site)
{
    const uint8_t *code = (const uint8_t *)site - WIRE_CLOCKS_ENTER_BYTES;
    static const uint8_t begins[] = {0x50, 0x48, 0x8b, 0x44, 0x24, 0x08, 0x48, 0x39, 0x05};
    int32_t distance = 0;
    for (unsigned k = 0; k < sizeof begins; k++)
        if (code[k] != begins[k])
            return 0;
    for (unsigned k = 0; k < sizeof distance; k++)
        distance |= (int32_t)((uint32_t)code[sizeof begins + k] << 8 * k);
    return (volatile uint64_t *)(code + WIRE_CLOCKS_CMP_END + distance);
}

/* One instruction each: a handler of a signal may add to the same. */
static void add_to(uint64_t *to, uint64_t what) { __asm__ volatile("addq %1,%0" : "+m"(*to) : "r"(what) : "cc"); }
static int is_last(uint64_t *count)
{
    int is_zero;
    __asm__ volatile("decq %0" : "+m"(*count), "=@ccz"(is_zero));
    return is_zero;
}

/* A call begins. As the assembly of mtool_enter has it. */
static enum next arc_next(struct arc *a)
{
    int64_t left = -1;
    __asm__ volatile("xaddq %0,%1" : "+r"(left), "+m"(a->left) : : "cc");
    left = (left - 1) >> 61;
    return left == 0 ? IS_SKIPPED : left == 2 ? IS_TIMED : DECIDES;
}

static int64_t arc_left(const struct arc *a) { return a->words ? (int64_t)a->words[WIRE_CLOCKS_LEFT] : a->left; }

static void arc_give_words(struct arc *a)
{
    if (!a->words)
        return;
    a->words[WIRE_CLOCKS_CALLER] = 0;
    a->left = (int64_t)a->words[WIRE_CLOCKS_LEFT];
    a->words[WIRE_CLOCKS_OWN] = 0;
    a->words = 0;
}

/* From here on so many. Returns how many more were not to be timed before; handlers had theirs until now. */
static uint64_t arc_set_left(struct arc *a, int64_t left)
{
    arc_give_words(a);
    int64_t old = __atomic_exchange_n(&a->left, left, __ATOMIC_RELAXED);
    return old > 0 && old < TIMED / 2 ? (uint64_t)old : 0;
}

/* So many calls are not timed, in line; none are left otherwise. */
static void arc_take_words(struct arc *a, uint64_t calls)
{
    volatile uint64_t *words = a->of->words;
    if (words[WIRE_CLOCKS_OWN])
        arc_give_words((struct arc *)words[WIRE_CLOCKS_OWN]);
    words[WIRE_CLOCKS_OWN] = (uint64_t)a;
    words[WIRE_CLOCKS_LEFT] = calls;
    a->words = words;
    words[WIRE_CLOCKS_CALLER] = a->caller;
}

static void sums_clear(struct arc_sums *of) /* word by word: no compiler may call memset for it */
{
    for (volatile uint64_t *w = (volatile uint64_t *)of; w < (volatile uint64_t *)(of + 1); w++)
        *w = 0;
}

/* site 0: of all that there is no room for */
static void arc_begin(struct arc *a, uint64_t site, uint64_t caller, struct arc_sums *of, struct func *func)
{
    of->timed.func = of->sampled.func = func;
    of->sampled.is_sampled = 1;
    a->of = of;
    a->sums = &of->timed;
    a->left = TIMED + (sampling_limit && site ? AT_FIRST : MANY);
    a->caller = caller;
    of->words = sampling_limit && site ? words_at(site) : 0;
    a->is_taken = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    a->site = site;
}

/* Nothing is counted yet, in the child of a fork. */
static void arc_begin_again(struct arc *a)
{
    struct func *func = a->sums->func;
    arc_give_words(a);
    sums_clear(a->of);
    a->skips = 0;
    arc_begin(a, a->site, a->caller, a->of, func);
}

static void arc_forget(struct arc *a)
{
    a->sums->func->site = a->sums->func->recurs = 0;
    sums_clear(a->of);
    *a = (struct arc){0};
}

static void sums_add(struct sums *s, uint64_t all, uint64_t self)
{
    uint64_t square;
    if (s->is_sampled && all > sampling_most)
        s--; /* among those of which all are timed: an interrupt, or the processor was another's */
    add_to(&s->calls, 1);
    add_to(&s->all, all);
    add_to(&s->self, self);
    if (s->is_sampled) {
        int64_t signed_self = (int64_t)self;
        uint64_t length = signed_self < 0 ? -self : self;
        if (__builtin_mul_overflow(length, length, &square) || __builtin_add_overflow(s->squares, square, &s->squares))
            s->squares = UINT64_MAX;
    }
    if (is_last(&s->func->depth))
        add_to(&s->outer, all);
    else
        s->func->recurs = 1;
}

static uint64_t sampling_random(uint64_t *state)
{
    *state = *state * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
    return *state >> 33;
}

/* What is decided next is decided by what is timed from here on. */
static void arc_look(struct arc *a, struct sums *sums)
{
    a->sums = sums;
    a->of->seen_calls = sums->calls;
    a->of->seen_self = sums->self;
    a->of->seen_all = sums->all;
}

static void arc_time_all(struct arc *a, int64_t calls)
{
    struct arc_sums *s = a->of;
    uint64_t old = arc_set_left(a, TIMED + calls); /* a handler has been here meanwhile */
    arc_look(a, &s->timed);
    a->skips = 0;
    s->untimed -= old;
    s->untimed_self -= old * s->each;
}

/* From here on some calls that are not timed, as each of so many ticks of its own. Returns what they take in all, with
 * what it takes not to time them; those that were taken back less. */
static uint64_t arc_skip(struct arc *a, uint64_t *random, uint64_t each)
{
    struct arc_sums *s = a->of;
    uint64_t calls = sampling_random(random) % (2 * EVERY - 1);
    uint64_t old = arc_set_left(a, s->words ? 0 : (int64_t)calls); /* a handler has been here meanwhile */
    uint64_t self = calls * each - old * s->each, skips = calls * sampling_skip[s->words != 0] - old * s->skip;
    s->untimed += calls - old;
    s->untimed_self += self;
    s->each = each;
    s->skip = sampling_skip[s->words != 0];
    a->skips = 1;
    if (s->words)
        arc_take_words(a, calls);
    s->run_began = __builtin_ia32_rdtsc();
    s->run_calls = calls + 1;
    return (uint64_t)((int64_t)(self + skips) / PARTS);
}

/* A run of calls that were not timed is over: what each took, with what their caller did between them, is the most that
 * they take of its time, where a call that is timed as if it were alone takes more: they overlap. Returns the mean of
 * all runs that nothing interrupted. */
static uint64_t arc_run(struct arc_sums *s)
{
    uint64_t ticks = __builtin_ia32_rdtsc() - s->run_began, looks = sampling_all + s->run_calls * s->skip;
    if (s->run_calls && ticks / s->run_calls < sampling_limit && ticks > looks / PARTS) {
        s->runs += ticks - looks / PARTS;
        s->runs_calls += s->run_calls;
    }
    s->run_calls = 0;
    return s->runs_calls ? s->runs * PARTS / s->runs_calls : INT64_MAX;
}

static uint64_t arc_go_on(struct arc *a, uint64_t *random)
{
    struct arc_sums *s = a->of;
    uint64_t calls = a->sums->calls - s->seen_calls, all = a->sums->all - s->seen_all;
    uint64_t limit = (a->skips ? 2 : 1) * sampling_limit + sampling_inside / PARTS, most = arc_run(s);
    if (a->skips && calls < ENOUGH) {
        return arc_skip(a, random, s->each);
    } else if (calls < ENOUGH || all / calls > limit) {
        arc_time_all(a, a->skips || calls < ENOUGH ? AT_FIRST : LATER);
        return 0;
    } else {
        uint64_t self = a->skips ? s->sampled.self : s->timed.self - s->seen_self;
        int64_t of = (int64_t)(a->skips ? s->sampled.calls : calls);
        int64_t mean = (int64_t)self * PARTS / of - (int64_t)sampling_inside;
        mean = mean < (int64_t)most ? mean : (int64_t)most;
        arc_look(a, &s->sampled);
        return arc_skip(a, random, (uint64_t)mean); /* below nothing too: no guess may err to one side */
    }
}

/* left is below nothing: what of the calls from here on? This one is timed. Returns what is to be taken off the time of
 * the frame that is under way. */
static uint64_t arc_decide(struct arc *a, struct sampler *s)
{
    uint64_t taken = 0;
    if (s->is_busy)
        return 0;
    s->is_busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    taken = arc_go_on(a, &s->random);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    s->is_busy = 0;
    return taken;
}

/* Of the calls that were not timed. */
static struct sampled arc_sampled(const struct arc *a)
{
    uint64_t left = a->skips && arc_left(a) > 0 ? (uint64_t)arc_left(a) : 0;
    int64_t self = (int64_t)(a->of->untimed_self - left * a->of->each) / PARTS;
    return (struct sampled){a->of->untimed - left, (uint64_t)self, a->sums->func->recurs};
}

#endif
