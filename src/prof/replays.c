/* SPDX-License-Identifier: Apache-2.0
 *
 * replays: what warm replays of slices of the real stream say of the model. The ratio of what a slice took to what the model says
 * of its instructions is told to the loops and functions whose code it is made of, by a ridge regression of the ratios over their
 * shares in the slices, drawn towards the ratio of all slices together where they say little of a home (few slices: towards 1).
 * A home that got enough is replayed: its factor corrects the model, and its error is that of the regression. Knows nothing of how slices are replayed or chosen.
 */
#include "prof/replays.h"

#include "replay/replay.h"

#include <math.h>
#include <stdlib.h>

static const double RIDGE = 0.05;  /* what "no correction" weighs, in slices that are of one home alone */
static const double ENOUGH = 0.25; /* sum of squared shares from which on a home is replayed; */
static const double ENOUGH_OF_MANY = 0.05; /* with many slices, the sum of shares */
static const double REPLAY_ERROR = 0.06; /* of replays themselves: their ends, the code's place, the data that they met */
static const double UNLIKE = 0.15; /* model and replay disagree */
static const double SPREAD_USUAL = 0.05, OFF_USUAL = 0.1;
static const double ALIKE = 1.01; /* widths */
static const double TRAINED_MOST = 0.8; /* of a replay */
static const double FACTOR_LEAST = 0.3, FACTOR_MOST = 4;
enum { ROUNDS = 40, ROBUST_ROUNDS = 5, REPEATS_MOST = 24, MANY = 8 /* slices */, AGREE = 3 /* batches */, TURNS_FORESEEN = 32 /* a predictor knows when such a loop ends */ };

struct step {
    uint32_t index, home;
};
struct branch {
    uint32_t index;
    uint64_t from, to;
};
struct share {
    uint32_t home;
    double cycles; /* simulated; then a fraction of the slice */
};
struct slice {
    double cycles, untrained;  /* replayed, without what branches still cost; what untrained branches add */
    double trained;            /* what branches still cost when replayed for the hundredth time */
    double spread, weight;     /* of repeated replays, as a fraction; in the fit, 0 ... 1 */
    double simulated;
    size_t first_step, steps;
    size_t first, count;       /* in shares */
};
struct replays {
    VEC(struct slice) slices;
    VEC(struct share) shares;
    VEC(struct step) steps;
    VEC(struct branch) branches; /* of the slice that is being added */
    VEC(double) widths; /* of all batches */
    double width;         /* of a core that is not shared */
    const struct sim_insn *table;
    uint32_t (*home_of)(void *ctx, uint64_t place);
    void *ctx;
};

struct replays *replays_new(uint32_t (*home_of)(void *ctx, uint64_t place), void *ctx)
{
    struct replays *r = xmalloc(sizeof *r);
    r->home_of = home_of, r->ctx = ctx;
    return r;
}

void replays_free(struct replays *r)
{
    VEC_FREE(&r->slices);
    VEC_FREE(&r->shares);
    VEC_FREE(&r->steps);
    VEC_FREE(&r->branches);
    VEC_FREE(&r->widths);
    free(r);
}

/* ---- slices ---- */

static void note_step(void *ctx, uint32_t index, uint64_t from, uint64_t to)
{
    struct replays *r = ctx;
    struct step s = {index, r->home_of(r->ctx, from)};
    VEC_PUSH(&r->steps, s);
    if (!sim_insn_is_branch(&r->table[index]))
        return;
    struct branch b = {index, from, to};
    VEC_PUSH(&r->branches, b);
}

static uint32_t mispredicted(const struct replays *r, struct sim_predictor *p)
{
    uint32_t n = 0;
    for (size_t i = 0; i < r->branches.len; i++) {
        const struct branch *b = &r->branches.data[i];
        const struct sim_insn *insn = &r->table[b->index];
        n += sim_predict(p, insn, b->from, b->to != b->from + insn->len, b->to);
    }
    return n;
}

/* A replay repeats what data decide, so a predictor learns it; what it then still gets wrong is in the replay's time. */
static uint32_t mispredicted_forever(const struct replays *r, const struct sim_predictor *before)
{
    struct sim_predictor *p = sim_predictor_copy(before);
    uint32_t last = mispredicted(r, p);
    for (int k = 0; k < REPEATS_MOST && last; k++)
        last = mispredicted(r, p);
    sim_predictor_free(p);
    return last;
}

/* What a replay has that the slice in its place has not: the front end starts anew before it, the pipeline runs empty behind
 * it, and the jump out of a loop that was given a bound is mispredicted. */
static double edges(const struct window_player *p, const struct wire_slice *s)
{
    return p->mispredict * (s->turns > TURNS_FORESEEN && s->forms == 1 ? 3 : 2);
}

static void see_slice(struct replays *r, const struct wire_slice *s)
{
    for (uint32_t b = 0; s->state == WIRE_SLICE_DONE && b < s->batch_count && b < WIRE_BATCHES; b++)
        VEC_PUSH(&r->widths, replay_width(&s->batches[b]));
}

/* The least that several batches agree on: a single one may be a slip of the clock, and all others may have had a neighbour. */
static double least_width(double *widths, size_t n)
{
    if (n < AGREE)
        return n ? stats_nth(widths, n, 0) : 0;
    stats_nth(widths, n, 0); /* sorts */
    for (size_t i = 0; i + AGREE <= n; i++)
        if (widths[i + AGREE - 1] <= widths[i] * ALIKE)
            return widths[i];
    return widths[n / 2];
}

void replays_see(struct replays *r, const struct prof_input_window *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < w[i].slice_count; s++)
            see_slice(r, &w[i].slices[s]);
    r->width = least_width(r->widths.data, r->widths.len);
}

void replays_add(struct replays *r, const struct window_player *p, const struct prof_input_window *w)
{
    for (uint32_t i = 0; i < w->slice_count; i++) {
        struct replay_time t;
        r->table = p->table;
        struct slice s = {.first_step = r->steps.len};
        r->branches.len = 0;
        if (!replay_measure(&w->slices[i], r->width, &t)) {
            diag_debug(2, "replays: a slice of %llu steps says nothing: state %u, %u batches, forms %u, turns %llu, poke %u, differs %x, patch %llx",
                       (unsigned long long)(w->slices[i].last - w->slices[i].first), w->slices[i].state, w->slices[i].batch_count, w->slices[i].forms, (unsigned long long)w->slices[i].turns, w->slices[i].poke_bytes, w->slices[i].differs, (unsigned long long)w->slices[i].patch_at);
            continue;
        }
        if (!window_steps(p, w, w->slices[i].first, w->slices[i].last, note_step, r)) {
            r->steps.len = s.first_step;
            continue;
        }
        s.steps = r->steps.len - s.first_step;
        s.cycles = fmax(1, t.cycles - edges(p, &w->slices[i]));
        s.trained = fmin(p->mispredict * mispredicted_forever(r, p->predictor), s.cycles * TRAINED_MOST);
        s.cycles -= s.trained;
        s.untrained = fmax(0, t.untrained) + s.trained;
        s.spread = t.spread;
        VEC_PUSH(&r->slices, s);
    }
}

static void add_share(struct replays *r, size_t first, uint32_t home, double cycles)
{
    for (size_t i = first; i < r->shares.len; i++)
        if (r->shares.data[i].home == home) {
            r->shares.data[i].cycles += cycles;
            return;
        }
    struct share s = {home, cycles};
    VEC_PUSH(&r->shares, s);
}

/* By what its instructions cost on average: a slice is too short for the model's own way through it to mean much. */
static void share_out(struct replays *r, struct slice *s, const struct sim_cost *costs)
{
    s->first = r->shares.len;
    for (size_t i = s->first_step; i < s->first_step + s->steps; i++) {
        const struct sim_cost *c = &costs[r->steps.data[i].index];
        double cycles = c->count ? c->cycles / (double)c->count : 0;
        s->simulated += cycles;
        add_share(r, s->first, r->steps.data[i].home, cycles);
    }
    s->count = r->shares.len - s->first;
    for (size_t i = s->first; i < r->shares.len && s->simulated > 0; i++)
        r->shares.data[i].cycles /= s->simulated;
    diag_debug(2, "replays: a slice of %zu instructions, %zu homes: %.0f cycles, %.0f simulated, untrained %+.0f, trained %.0f", s->steps, s->count,
               s->cycles, s->simulated, s->untrained, s->trained);
}

static double ratio_of(const struct slice *s)
{
    return s->simulated > 0 ? fmin(FACTOR_MOST, fmax(FACTOR_LEAST, s->cycles / s->simulated)) : 1;
}

/* ---- homes ---- */

struct home {
    double factor, sum, squares; /* of its shares */
    double rest, untrained; /* sums weighted by squared share: squared residuals; what untrained branches add */
};

struct prior { /* of a home of which nothing is known */
    double factor, error;
    bool of_many;
};

/* The slices are a sample of the program: their common ratio, and how far single ones are from it. */
static struct prior common(const struct replays *r, double model_error)
{
    double cycles = 0, simulated = 0, squares = 0;
    for (size_t k = 0; k < r->slices.len; k++) {
        cycles += ratio_of(&r->slices.data[k]) * r->slices.data[k].simulated;
        simulated += r->slices.data[k].simulated;
    }
    if (r->slices.len < MANY || !(simulated > 0))
        return (struct prior){1, model_error, false};
    double all = cycles / simulated;
    for (size_t k = 0; k < r->slices.len; k++) {
        double off = ratio_of(&r->slices.data[k]) / all - 1;
        squares += off * off * r->slices.data[k].simulated;
    }
    return (struct prior){all, sqrt(squares / simulated), true};
}

struct entry { /* a share, as its home sees it */
    uint32_t home, slice;
    double share, weight;
};

static int by_home(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->home != y->home ? (x->home < y->home ? -1 : 1) : (x->slice > y->slice) - (x->slice < y->slice);
}

static struct entry *list_entries(const struct replays *r)
{
    struct entry *e = xmalloc((r->shares.len + 1) * sizeof *e);
    for (size_t k = 0; k < r->slices.len; k++)
        for (size_t i = r->slices.data[k].first; i < r->slices.data[k].first + r->slices.data[k].count; i++)
            e[i] = (struct entry){r->shares.data[i].home, (uint32_t)k, r->shares.data[i].cycles, r->slices.data[k].weight};
    qsort(e, r->shares.len, sizeof *e, by_home);
    return e;
}

/* One home takes what the others leave of its slices. Returns the end of its entries. */
static size_t fit_home(const struct prior *p, struct home *h, const struct entry *e, size_t first, size_t end, double *rests)
{
    size_t i;
    double sum = -RIDGE * (h->factor - p->factor);
    for (i = first; i < end && e[i].home == e[first].home; i++)
        sum += e[i].weight * e[i].share * rests[e[i].slice];
    double before = h->factor;
    h->factor = fmin(FACTOR_MOST, fmax(FACTOR_LEAST, before + sum / (RIDGE + h->squares)));
    for (size_t k = first; k < i; k++)
        rests[e[k].slice] -= e[k].share * (h->factor - before);
    return i;
}

/* Coordinate descent. rests: by slice, what the fit leaves of its ratio. */
static void fit(const struct replays *r, const struct prior *p, struct home *homes, double *rests)
{
    struct entry *e = list_entries(r);
    for (size_t k = 0; k < r->slices.len; k++)
        rests[k] = ratio_of(&r->slices.data[k]);
    for (size_t i = 0; i < r->shares.len; i++)
        rests[e[i].slice] -= e[i].share * homes[e[i].home].factor;
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < r->shares.len;)
            i = fit_home(p, &homes[e[i].home], e, i, r->shares.len, rests);
    free(e);
}

static void sum_shares(const struct replays *r, struct home *homes)
{
    for (size_t i = 0; i < r->shares.len; i++)
        homes[r->shares.data[i].home].sum = homes[r->shares.data[i].home].squares = 0;
    for (size_t k = 0; k < r->slices.len; k++) {
        const struct slice *s = &r->slices.data[k];
        for (size_t i = s->first; i < s->first + s->count; i++) {
            struct home *h = &homes[r->shares.data[i].home];
            h->sum += s->weight * r->shares.data[i].cycles;
            h->squares += s->weight * r->shares.data[i].cycles * r->shares.data[i].cycles;
        }
    }
}

/* Replays that differ among themselves say less, and so does one that says something else than all others (a machine clear
 * in each of its replays, say). */
static void weigh(struct replays *r, const double *rests)
{
    for (size_t k = 0; k < r->slices.len; k++) {
        struct slice *s = &r->slices.data[k];
        double apart = s->spread / SPREAD_USUAL, off = rests ? fabs(rests[k]) / fmax(FACTOR_LEAST, ratio_of(s) - rests[k]) : 0;
        s->weight = fmin(1, OFF_USUAL / fmax(off, OFF_USUAL)) / (1 + apart * apart);
    }
}

static void fit_robustly(struct replays *r, const struct prior *p, struct home *homes, double *rests)
{
    weigh(r, NULL);
    for (int round = 0; round < ROBUST_ROUNDS; round++) {
        sum_shares(r, homes);
        fit(r, p, homes, rests);
        weigh(r, rests);
    }
}

static void sum_rests(const struct replays *r, const double *rests, struct home *homes)
{
    for (size_t k = 0; k < r->slices.len; k++) {
        const struct slice *s = &r->slices.data[k];
        double rest = rests[k];
        for (size_t i = s->first; i < s->first + s->count; i++) {
            double share = r->shares.data[i].cycles, weight = s->weight * share * share;
            homes[r->shares.data[i].home].rest += weight * rest * rest;
            homes[r->shares.data[i].home].untrained += weight * (s->simulated > 0 ? s->untrained / s->simulated : 0);
        }
    }
}

/* A single slice says nothing of how much slices differ: there is one more that is off by the prior's error. */
static double error_of(const struct home *h, const struct prior *p)
{
    double ratios = sqrt((h->rest + RIDGE * p->error * p->error) / (h->squares + RIDGE)) / h->factor;
    double pulled = RIDGE / (RIDGE + h->squares) * p->error, unlike = fabs(h->factor - 1);
    double doubt = unlike > UNLIKE ? unlike / 4 : 0;
    return sqrt(REPLAY_ERROR * REPLAY_ERROR + ratios * ratios + pulled * pulled + doubt * doubt);
}

void replays_tell(struct replays *r, const struct sim_core *core, double model_error, size_t home_count, struct join_replay *out)
{
    r->shares.len = 0;
    for (size_t k = 0; k < r->slices.len; k++)
        share_out(r, &r->slices.data[k], sim_core_costs(core));
    struct prior prior = common(r, model_error);
    struct home *homes = xmalloc((home_count + 1) * sizeof *homes);
    double *rests = xmalloc((r->slices.len + 1) * sizeof *rests);
    for (size_t h = 0; h < home_count; h++)
        homes[h].factor = prior.factor;
    fit_robustly(r, &prior, homes, rests);
    sum_rests(r, rests, homes);
    for (size_t h = 0; h < home_count; h++) {
        out[h] = (struct join_replay){0, 0, INFINITY};
        if (homes[h].squares >= ENOUGH || (prior.of_many && homes[h].sum >= ENOUGH_OF_MANY))
            out[h] = (struct join_replay){homes[h].factor, error_of(&homes[h], &prior), homes[h].untrained / homes[h].squares};
    }
    free(homes);
    free(rests);
}
