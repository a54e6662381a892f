/* SPDX-License-Identifier: Apache-2.0
 *
 * From the ticks of a slice's replays to core cycles: by the clock that an add chain showed beside them, without what a replay
 * of nothing takes, and without the stub. Batches beside which the core's width was shared do not count. */
#include "replay/replay.h"

#include <math.h>
#include <stdlib.h>

enum { CHAIN_CYCLES = 2048, FIRST_WARM = 4, AGREE = 3 /* batches */ };
static const double ALIKE = 1.01; /* widths */
static const double SHARED = 1.03; /* more than that of a core that is not shared */
static const double CYCLES_LEAST = 400, SPREAD_MOST = 0.25, SPREAD_OF_ONE = 0.1 /* batch, that nothing is beside */;

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double cycles_of(const struct wire_batch *b, double ticks) { return ticks * CHAIN_CYCLES / b->chain; }

/* One in five replays is shorter. */
static double batch_cycles(const struct wire_batch *b)
{
    uint32_t t[WIRE_REPLAYS];
    memcpy(t, b->ticks, sizeof t);
    qsort(t + FIRST_WARM, WIRE_REPLAYS - FIRST_WARM, sizeof *t, by_size);
    return cycles_of(b, (double)t[FIRST_WARM + (WIRE_REPLAYS - FIRST_WARM) / 5] - b->empty);
}

double replay_width(const struct wire_batch *b) { return b->chain ? (double)b->width / b->chain : INFINITY; }

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double least_agreed(double *widths, size_t n)
{
    qsort(widths, n, sizeof *widths, by_value);
    for (size_t i = 0; i + AGREE <= n; i++)
        if (widths[i + AGREE - 1] <= widths[i] * ALIKE)
            return widths[i];
    return n < AGREE ? widths[0] : widths[n / 2];
}

double replay_least_width(double *widths, size_t n, double alone)
{
    double least = n ? least_agreed(widths, n) : 0;
    return alone > 0 && least > SHARED * alone ? alone : least;
}

/* A clock that changed between the two canaries shows as too little as well. */
static bool is_undisturbed(const struct wire_batch *b, double width)
{
    double w = replay_width(b);
    return w <= SHARED * width && w >= width / SHARED;
}

struct form {
    double least, most;
    unsigned batches;
};

static void add_batch(struct form *f, double cycles)
{
    f->least = f->batches ? fmin(f->least, cycles) : cycles;
    f->most = f->batches ? fmax(f->most, cycles) : cycles;
    f->batches++;
}

bool replay_measure(const struct wire_slice *s, double width, struct replay_time *out)
{
    struct form forms[2] = {{0, 0, 0}, {0, 0, 0}};
    uint32_t n = (uint32_t)min_u64(s->batch_count, WIRE_BATCHES);
    if (s->state != WIRE_SLICE_DONE || s->forms < 1 || s->forms > 2)
        return false;
    for (uint32_t b = 0; b < n; b++)
        if (s->batches[b].form < 2 && is_undisturbed(&s->batches[b], width))
            add_batch(&forms[s->batches[b].form], batch_cycles(&s->batches[b]));
    for (uint32_t f = 0; f < s->forms; f++)
        if (!forms[f].batches)
            return false;
    double stub = s->forms == 1 ? 0 : fmax(0, forms[1].least - forms[0].least); /* it may hide in what the loop waits for */
    double alone = forms[0].batches == 1 ? SPREAD_OF_ONE * forms[0].least : 0;
    out->cycles = forms[0].least - stub / 2;
    out->spread = hypot(fmax(alone, (forms[0].most - forms[0].least) / 2), stub / 2) / forms[0].least;
    out->untrained = cycles_of(&s->batches[0], (double)s->batches[0].ticks[1] - s->batches[0].empty) - forms[0].least;
    return out->cycles >= CYCLES_LEAST && out->spread <= SPREAD_MOST;
}
