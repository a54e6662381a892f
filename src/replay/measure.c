/* SPDX-License-Identifier: Apache-2.0
 *
 * From the ticks of a slice's replays to core cycles, by the clock that an add chain showed beside them. What a
 * replay's begin and end take is in both forms of a slice, and not in what one takes longer than the other: that is the
 * measurement. Batches beside which the core's width was shared do not count. */
#include "replay/replay.h"

#include <math.h>
#include <stdlib.h>

enum { CHAIN_CYCLES = 2048, FIRST_WARM = 4, AGREE = 3 /* batches */, MANY = 16 };
static const double CHAIN_TICKS = 1024, LOOK_STEPS = 400; /* of a look once, at least; in which the clock moves */
static const double ALIKE = 1.01;                         /* widths */
static const double SHARED = 1.03;     /* more than what is known of a core that is not shared: it is */
static const double SELDOM = 0.2;      /* batches alone, of all */
static const double SHARED_MAX = 1.35; /* what a neighbour who is always there may take to be borne with */
static const double ROUND_MIN = 8, CYCLES_MIN = 100; /* cycles, of a round, of what does not go round */
/* Cycles, of how a replay begins and ends: where slices tell it that end alike, and where not. */
enum { EXIT = REPLAY_MISPREDICTED, HALF_EXIT = EXIT / 2, EDGE_ERROR = 15, EDGE_GUESS = 40 };
enum { EDGES_FEW = 3 /* slices */, IN_FLIGHT = 256 /* instructions */ };
/* The loads of registers, two fences. */
const struct replay_edge REPLAY_EDGE_USUAL = {{90, 90 + EXIT, 90 + HALF_EXIT}, {EDGE_GUESS, EDGE_GUESS, EDGE_GUESS}};
static const double STUB_CYCLES = 5;   /* at most, an iteration */
static const double STUB_SHARE = 0.12; /* of the slice, from which on it does not count */
static const double SPREAD_MAX = 0.25;
static const double SPREAD_OF_ONE = 0.1; /* batch, that nothing is beside */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* By the ticks of the chain beside it. */
static double cycles_of(double ticks, const struct wire_canary *beside)
{
    return ticks * CHAIN_CYCLES * beside->times / beside->chain;
}

struct iteration {
    double cycles, apart; /* one in five replays of a batch is shorter; from there to the middle one */
};

/* A clock that moves in steps shows one or the other of two values, the nearer one more often: their mean. */
static double mean_near(const uint32_t *sorted, size_t n, uint32_t min, double step)
{
    double sum = 0, count = 0, max = min * ALIKE + step;
    for (size_t i = 0; i < n; i++)
        if (sorted[i] >= min - step && sorted[i] <= max) {
            sum += sorted[i];
            count++;
        }
    return sum / count;
}

/* Of a batch that has enough replays. */
static struct iteration iteration_of(const struct wire_batch *b, double step)
{
    uint32_t t[WIRE_REPLAYS], n = b->replays - FIRST_WARM;
    memcpy(t, b->ticks + FIRST_WARM, n * sizeof *t);
    qsort(t, n, sizeof *t, by_size);
    double near = mean_near(t, n, t[n / 5], step);
    uint32_t middle = t[n / 2];
    return (struct iteration){cycles_of(near, &b->canary), cycles_of(fmax(0, middle - near - step), &b->canary)};
}

/* By how much the clock moves at least, as far as these replays show it: no more than the checkpoint saw, which made
 * its look at the core so long that a step is a four hundredth of it. */
static double clock_step(const struct wire_slice *s, uint32_t batches)
{
    uint32_t t[WIRE_BATCHES * WIRE_REPLAYS], n = 0, min = UINT32_MAX;
    double max = 0;
    for (uint32_t b = 0; b < batches; b++) {
        for (uint32_t k = 0; k < s->batches[b].replays && k < WIRE_REPLAYS; k++)
            t[n++] = s->batches[b].ticks[k];
        max = fmax(max, s->batches[b].canary.times * CHAIN_TICKS / LOOK_STEPS);
    }
    if (!n)
        return 0;
    qsort(t, n, sizeof *t, by_size);
    for (uint32_t k = 1; k < n; k++)
        if (t[k] > t[k - 1] && t[k] - t[k - 1] < min)
            min = t[k] - t[k - 1];
    return min <= max || min < t[0] / 8 ? min : 0;
}

double replay_clock(const struct wire_batch *b) { return b->canary.chain ? cycles_of(1, &b->canary) : 0; }

double replay_width(const struct wire_batch *b)
{
    return b->canary.chain ? (double)b->canary.width / b->canary.chain : INFINITY;
}

/* The densest place among so many neighbours by size: how many lie there, and the middle one of them. */
struct place {
    size_t count;
    double middle;
};

static struct place densest(const double *sorted, size_t n)
{
    struct place best = {0, 0};
    for (size_t first = 0, end = 0; first < n; first++) {
        while (end < n && sorted[end] <= sorted[first] * ALIKE)
            end++;
        if (end - first > best.count)
            best = (struct place){end - first, sorted[first + (end - first) / 2]};
    }
    return best;
}

static double min_agreed(const double *sorted, size_t n)
{
    for (size_t i = 0; i + AGREE <= n; i++)
        if (sorted[i + AGREE - 1] <= sorted[i] * ALIKE)
            return sorted[i];
    return n < AGREE ? sorted[0] : sorted[n / 2];
}

struct replay_quiet replay_width_undisturbed(double *widths, size_t n)
{
    size_t first = 0, end = 0;
    if (!n)
        return (struct replay_quiet){0, 1, 0};
    qsort(widths, n, sizeof *widths, by_value);
    double min = min_agreed(widths, n);
    while (first < n && widths[first] < min / SHARED)
        first++;
    for (end = first; end < n && widths[end] <= min * SHARED; end++)
        ;
    struct place p = densest(widths + first, end - first), all = densest(widths, n);
    double undisturbed = p.count >= AGREE ? p.middle : min;
    if (n >= MANY && (double)p.count < SELDOM * (double)n && all.count > 2 * p.count &&
        all.middle < SHARED_MAX * undisturbed)
        return (struct replay_quiet){all.middle, all.middle / undisturbed, undisturbed};
    return (struct replay_quiet){undisturbed, 1, undisturbed};
}

bool replay_is_undisturbed(double width, double undisturbed)
{
    return width <= ALIKE * undisturbed && width >= undisturbed / ALIKE;
}

struct form {
    struct iteration iterations[WIRE_BATCHES]; /* of batches that count */
    unsigned batches;
    double min; /* the mean of all that come near the least, since a coarse clock's means differ by chance */
    double max;
    double apart; /* the replays of the least */
};

static int by_cycles(const void *a, const void *b)
{
    return by_value(&((const struct iteration *)a)->cycles, &((const struct iteration *)b)->cycles);
}

static void sum_up(struct form *f, double step)
{
    double sum = 0, n = 0;
    if (!f->batches)
        return;
    qsort(f->iterations, f->batches, sizeof *f->iterations, by_cycles);
    for (unsigned b = 0; b < f->batches && f->iterations[b].cycles <= f->iterations[0].cycles * ALIKE + step / 4; b++) {
        sum += f->iterations[b].cycles;
        n++;
    }
    f->min = sum / n;
    f->max = f->iterations[f->batches - 1].cycles;
    f->apart = f->iterations[0].apart;
}

/* In cycles: of batches among each other, of the replays of one. */
static double spread_of(const struct form *f)
{
    double undisturbed = f->batches == 1 ? SPREAD_OF_ONE * f->min : 0;
    return hypot(fmax(undisturbed, (f->max - f->iterations[0].cycles) / 2), f->apart);
}

static void add_batches(const struct wire_slice *s, double width, struct form forms[WIRE_FORMS_MAX])
{
    uint32_t n = (uint32_t)min_u64(s->batch_count, WIRE_BATCHES);
    double step = clock_step(s, n);
    for (uint32_t b = 0; b < n; b++)
        if (s->batches[b].form < WIRE_FORMS_MAX && s->batches[b].replays > FIRST_WARM &&
            s->batches[b].replays <= WIRE_REPLAYS && replay_is_undisturbed(replay_width(&s->batches[b]), width))
            forms[s->batches[b].form].iterations[forms[s->batches[b].form].batches++] =
                iteration_of(&s->batches[b], step);
    for (int f = 0; f < WIRE_FORMS_MAX; f++)
        sum_up(&forms[f], step);
}

double replay_slower(const struct wire_slice *s, const struct replay_quiet *quiet)
{
    struct form usual[WIRE_FORMS_MAX] = {{.batches = 0}}, quietest[WIRE_FORMS_MAX] = {{.batches = 0}};
    if (s->state != WIRE_SLICE_DONE)
        return NAN;
    add_batches(s, quiet->width, usual);
    add_batches(s, quiet->min, quietest);
    return usual[0].batches && quietest[0].batches ? usual[0].min / quietest[0].min : NAN;
}

static enum replay_exit exit_of(const struct wire_slice *s)
{
    bool goes_on = s->form[0].iterations <= 1 && !s->form[0].counts;
    return s->has_longer ? REPLAY_LEAVES : goes_on ? REPLAY_GOES_ON : REPLAY_MAY_TRAIN;
}

static double middle_of(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

struct replay_edge replay_edge_of(double *goes_on, size_t n, double *leaves, size_t m)
{
    struct replay_edge e = REPLAY_EDGE_USUAL;
    bool knows_on = n >= EDGES_FEW, knows_leaving = m >= EDGES_FEW;
    if (knows_on) {
        e.cycles[REPLAY_GOES_ON] = middle_of(goes_on, n);
        e.error[REPLAY_GOES_ON] = EDGE_ERROR;
    }
    if (knows_leaving) {
        e.cycles[REPLAY_LEAVES] = middle_of(leaves, m);
        e.error[REPLAY_LEAVES] = EDGE_ERROR;
    }
    if (knows_on && !knows_leaving)
        e.cycles[REPLAY_LEAVES] = e.cycles[REPLAY_GOES_ON] + EXIT;
    if (knows_leaving && !knows_on)
        e.cycles[REPLAY_GOES_ON] = fmax(0, e.cycles[REPLAY_LEAVES] - EXIT);
    e.cycles[REPLAY_MAY_TRAIN] = (e.cycles[REPLAY_GOES_ON] + e.cycles[REPLAY_LEAVES]) / 2;
    return e;
}

/* The second form is the beginning of the first. Where one may have learnt its end and the other not, it may be off by
 * that. */
static void take_difference(const struct wire_slice *s, const struct form forms[WIRE_FORMS_MAX],
                            struct replay_time *out)
{
    double whole = (double)(s->last - s->first), more = (double)(s->last - s->form[1].last);
    double unlike = out->exit == REPLAY_MAY_TRAIN ? EXIT / 2 : 0;
    out->first = s->form[1].last;
    out->iterations = s->form[0].iterations - s->form[1].iterations;
    out->cycles = forms[0].min - forms[1].min;
    out->spread = hypot(unlike, hypot(spread_of(&forms[0]), spread_of(&forms[1])));
    out->edge = forms[0].min - out->cycles * whole / more;
}

/* What was not learnt in one batch may have been in others, and that is the time: two that agree validate it. */
static double spread_of_rounds(const struct form *f)
{
    return f->batches == 1 ? spread_of(f) : hypot(f->iterations[1].cycles - f->iterations[0].cycles, f->apart);
}

/* What the stub takes at each round is for without_stub. */
static void take_rounds(const struct wire_slice *s, const struct form forms[WIRE_FORMS_MAX], struct replay_time *out)
{
    double more = (double)(s->form[0].rounds - s->form[1].rounds);
    out->first = s->first;
    out->iterations = s->form[0].iterations;
    out->cycles = (forms[0].min - forms[1].min) / more;
    out->spread = hypot(spread_of_rounds(&forms[0]), spread_of_rounds(&forms[1])) / more;
    out->edge = NAN;
}

/* Of a form that has no other to be compared with, of one round or more. What follows it in the program may begin while
 * what is in flight at its end is still waiting; here it is waited for. */
static void take_whole(const struct wire_slice *s, const struct form *form, const struct replay_edge *edge,
                       struct replay_time *out)
{
    double rounds = s->form[0].rounds > 1 ? (double)s->form[0].rounds : 1;
    out->first = s->first;
    out->iterations = s->form[0].iterations;
    out->cycles = (form->min - edge->cycles[out->exit]) / rounds;
    double in_flight = fmin(1, IN_FLIGHT / (double)(s->last - s->first)) * out->cycles;
    out->spread = hypot(in_flight, hypot(spread_of(form), edge->error[out->exit])) / rounds;
    out->edge = NAN;
}

/* What the stub takes is not known: between nothing and so much, which may be seen in nothing else. Rounds have one
 * each. */
static bool without_stub(const struct wire_slice *s, struct replay_time *out)
{
    double stub = s->form[0].rounds > 1 ? STUB_CYCLES : s->form[0].counts ? STUB_CYCLES * (double)out->iterations : 0;
    if (stub > STUB_SHARE * out->cycles)
        return false;
    out->cycles -= stub / 2;
    out->spread = hypot(out->spread, stub / 2);
    return true;
}

bool replay_measure(const struct wire_slice *s, double width, const struct replay_edge *edge, struct replay_time *out)
{
    struct form forms[WIRE_FORMS_MAX] = {{.batches = 0}};
    *out = (struct replay_time){.cycles = NAN, .spread = NAN, .exit = exit_of(s)};
    if (s->state != WIRE_SLICE_DONE || s->forms < 1 || s->forms > WIRE_FORMS_MAX || !s->second.canary.chain)
        return false;
    add_batches(s, width, forms);
    if (!forms[0].batches)
        return false;
    bool is_round = s->form[0].rounds > 1;
    if (is_round && forms[1].batches && s->form[0].rounds > s->form[1].rounds)
        take_rounds(s, forms, out);
    else if (!is_round && forms[1].batches)
        take_difference(s, forms, out);
    else
        take_whole(s, &forms[0], edge, out);
    out->untrained = cycles_of((double)s->second.ticks, &s->second.canary) -
                     (is_round ? out->cycles + edge->cycles[out->exit] : forms[0].min);
    if (!without_stub(s, out))
        return false;
    out->spread /= out->cycles;
    return out->cycles >= (is_round ? ROUND_MIN : CYCLES_MIN) && out->spread <= SPREAD_MAX;
}
