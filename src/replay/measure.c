/* SPDX-License-Identifier: Apache-2.0
 *
 * From the ticks of a slice's replays to core cycles: by the clock that an add chain showed beside them, without what a replay
 * of nothing takes, and without the stub. Batches beside which the core's width was shared do not count. */
#include "replay/replay.h"

#include <math.h>
#include <stdlib.h>

enum { CHAIN_CYCLES = 2048, FIRST_WARM = 4, AGREE = 3 /* batches */ };
static const double ALIKE = 1.01; /* widths */
static const double SHARED = 1.03; /* more than what is known of a core that is not shared: it is */
static const double CYCLES_LEAST = 150, EDGE_ERROR = 15; /* cycles; of how a replay begins and ends */
static const double SPREAD_MOST = 0.25, SPREAD_OF_ONE = 0.1 /* batch, that nothing is beside */;

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* By the ticks of the chain beside it. */
static double cycles_of(double ticks, uint32_t chain) { return ticks * CHAIN_CYCLES / chain; }

struct turn {
    double cycles, apart; /* one in five replays of a batch is shorter; from there to the middle one */
};

static struct turn turn_of(const struct wire_batch *b)
{
    enum { WARM = WIRE_REPLAYS - FIRST_WARM };
    uint32_t t[WARM];
    memcpy(t, b->ticks + FIRST_WARM, sizeof t);
    qsort(t, WARM, sizeof *t, by_size);
    double fifth = t[WARM / 5];
    return (struct turn){cycles_of(fifth - b->empty, b->chain), cycles_of(t[WARM / 2] - fifth, b->chain)};
}

double replay_width(const struct wire_batch *b) { return b->chain ? (double)b->width / b->chain : INFINITY; }

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
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

static double least_agreed(const double *sorted, size_t n)
{
    for (size_t i = 0; i + AGREE <= n; i++)
        if (sorted[i + AGREE - 1] <= sorted[i] * ALIKE)
            return sorted[i];
    return n < AGREE ? sorted[0] : sorted[n / 2];
}

double replay_width_alone(double *widths, size_t n, double known)
{
    size_t first = 0, end = 0;
    if (!n)
        return known;
    qsort(widths, n, sizeof *widths, by_value);
    if (!(known > 0))
        known = least_agreed(widths, n);
    while (first < n && widths[first] < known / SHARED)
        first++;
    for (end = first; end < n && widths[end] <= known * SHARED; end++)
        ;
    struct place p = densest(widths + first, end - first);
    return p.count >= AGREE ? p.middle : known;
}

bool replay_is_alone(double width, double alone) { return width <= ALIKE * alone && width >= alone / ALIKE; }

struct form {
    double least, most;
    double apart; /* the replays of its least batch */
    unsigned batches;
};

static void add_batch(struct form *f, struct turn t)
{
    if (!f->batches || t.cycles < f->least)
        f->least = t.cycles, f->apart = t.apart;
    f->most = f->batches ? fmax(f->most, t.cycles) : t.cycles;
    f->batches++;
}

/* As a fraction: of batches among each other, of the replays of one, of what is not known of the stub and the ends. */
static double spread_of(const struct form *f, double stub)
{
    double alone = f->batches == 1 ? SPREAD_OF_ONE * f->least : 0;
    return hypot(hypot(fmax(alone, (f->most - f->least) / 2), f->apart), hypot(stub / 2, EDGE_ERROR)) / f->least;
}

bool replay_measure(const struct wire_slice *s, double width, struct replay_time *out)
{
    struct form forms[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    uint32_t n = (uint32_t)min_u64(s->batch_count, WIRE_BATCHES);
    if (s->state != WIRE_SLICE_DONE || s->forms < 1 || s->forms > 2 || !s->second.chain)
        return false;
    for (uint32_t b = 0; b < n; b++)
        if (s->batches[b].form < 2 && replay_is_alone(replay_width(&s->batches[b]), width))
            add_batch(&forms[s->batches[b].form], turn_of(&s->batches[b]));
    for (uint32_t f = 0; f < s->forms; f++)
        if (!forms[f].batches)
            return false;
    double stub = s->forms == 1 ? 0 : fmax(0, forms[1].least - forms[0].least); /* it may hide in what the loop waits for */
    out->cycles = forms[0].least - stub / 2;
    out->spread = spread_of(&forms[0], stub);
    out->untrained = cycles_of((double)s->second.ticks - s->second.empty, s->second.chain) - forms[0].least;
    return out->cycles >= CYCLES_LEAST && out->spread <= SPREAD_MOST;
}
