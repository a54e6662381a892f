/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: cycles of slices, and how many instructions of each owner are in them, to cycles an instruction of each owner: a
 * ridge regression, robust and weighted. It is made twice: once drawn towards one figure for all owners, with what
 * comes out drawn upon again, so that little of the begin is left and nothing of the model is in it: this counts. And
 * once drawn towards the model (times what slices take against it on the whole): where the two differ, owners always
 * come together, and how they share what was measured is not known. If they differ much, and the model tells single
 * slices well, it knows better than an equal figure for all: such owners are held at the second, and the others fitted
 * anew. (One loop of bzip2 had a third of what the model has, and that beside it 1.25 times, in one job of four.)
 * Owners that are hardly in a slice get the second. Replays that differ among themselves weigh less, and so does a
 * slice that says something else than all others (a machine clear in each of its replays, say). No owner is given more
 * than it took in the program: what came with it in its slices had the rest. Knows nothing of where slices come from.
 */
#include "estimate/replays/fit.h"

#include <math.h>
#include <stdlib.h>

static const double RIDGE = 0.02;          /* what is known beforehand weighs, in slices that are of one owner alone */
static const double ENOUGH = 0.25;         /* sum of squared shares from which on an owner may be replayed; */
static const double ENOUGH_OF_MANY = 0.05; /* with many slices, the sum of shares */
static const double REPLAY_ERROR = 0.08;   /* of replays themselves: the code's place, the data that they met */
static const double SLICES_USUAL = 0.25, USUAL = 2; /* slices of one owner differ by so much, as if so many told it */
static const double MOSTLY = 0.5;
static const double TOLD_WELL = 0.3; /* single slices by the model, off in the root of the mean square */
static const double UNLIKE = 1.5;    /* the two fits of an owner */
static const double SPREAD_USUAL = 0.02, OFF_USUAL = 0.1;
static const double LONG = 1000 /* cycles */, SHORT_WEIGHT = 0.1;
static const double CPI_MIN = 0.05, CPI_MAX = 1000;
enum { ROUNDS = 40, ROBUST_ROUNDS = 5, MANY = 8 /* slices */ };

struct owner {
    double prior, cpi, max;    /* cycles an instruction */
    bool is_held;              /* at its prior */
    double other;              /* cycles an instruction, by the fit that does not count */
    double sum, squares;       /* of its shares in the slices' cycles, by weight */
    double rest;               /* squared, as a fraction of the slice, weighted by squared share */
    double slices, windows;    /* that it is in */
    double untrained, refuted; /* as fractions, likewise; */
    double untrained_max;      /* the most of slices that are mostly of the owner */
};
struct entry { /* a share, as its owner sees it */
    uint32_t owner, slice;
    double instructions;
};
struct solver {
    const struct fit *in;
    struct owner *owners;
    struct entry *entries;    /* by owner; as many as shares */
    double *weights, *fitted; /* by slice: 0 ... 1; cycles */
};

static const struct fit_slice *slice_of(const struct solver *s, const struct entry *e)
{
    return &s->in->slices.data[e->slice];
}
static double limited(double cpi, double max) { return fmax(CPI_MIN, fmin(fmin(CPI_MAX, max), cpi)); }

/* ---- what is known before ---- */

static double instructions_of(const struct fit *f, const struct fit_slice *s)
{
    double sum = 0;
    for (size_t i = s->first; i < s->first + s->count; i++)
        sum += f->shares.data[i].instructions;
    return sum;
}

/* Of all slices together. */
static double common_cpi(const struct fit *f)
{
    double cycles = 0, instructions = 0;
    for (size_t k = 0; k < f->slices.len; k++) {
        cycles += f->slices.data[k].cycles;
        instructions += instructions_of(f, &f->slices.data[k]);
    }
    return instructions > 0 ? cycles / instructions : 1;
}

struct scale { /* of the model */
    double factor, error;
};

static double modelled_cycles(const struct fit *f, const struct fit_slice *s, const double *modelled)
{
    double sum = 0;
    for (size_t i = s->first; i < s->first + s->count; i++)
        sum += f->shares.data[i].instructions * modelled[f->shares.data[i].owner];
    return sum;
}

/* The slices are a sample of the program: what they take against the model, and how far single ones are from that. */
static struct scale scale_of_model(const struct fit *f, const double *modelled, double model_error)
{
    double cycles = 0, model = 0, squares = 0;
    for (size_t k = 0; k < f->slices.len; k++) {
        double m = modelled_cycles(f, &f->slices.data[k], modelled);
        cycles += m > 0 ? f->slices.data[k].cycles : 0;
        model += m;
    }
    if (!(model > 0))
        return (struct scale){1, model_error};
    for (size_t k = 0; k < f->slices.len; k++) {
        double m = modelled_cycles(f, &f->slices.data[k], modelled),
               off = m > 0 ? f->slices.data[k].cycles * model / m / cycles - 1 : 0;
        squares += off * off * m;
    }
    return (struct scale){cycles / model, f->slices.len < MANY ? model_error : sqrt(squares / model)};
}

/* ---- the fit ---- */

static int by_owner(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->owner != y->owner ? (x->owner < y->owner ? -1 : 1) : (x->slice > y->slice) - (x->slice < y->slice);
}

static struct entry *list_entries(const struct fit *f)
{
    struct entry *e = xmalloc((f->shares.len + 1) * sizeof *e);
    for (size_t k = 0; k < f->slices.len; k++)
        for (size_t i = f->slices.data[k].first; i < f->slices.data[k].first + f->slices.data[k].count; i++)
            e[i] = (struct entry){f->shares.data[i].owner, (uint32_t)k, f->shares.data[i].instructions};
    qsort(e, f->shares.len, sizeof *e, by_owner);
    return e;
}

static void open_solver(struct solver *s, const struct fit *f)
{
    *s = (struct solver){.in = f, .entries = list_entries(f)};
    s->owners = xmalloc((f->owner_count + 1) * sizeof *s->owners);
    s->weights = xmalloc((f->slices.len + 1) * sizeof *s->weights);
    s->fitted = xmalloc((f->slices.len + 1) * sizeof *s->fitted);
}

static void close_solver(struct solver *s)
{
    free(s->entries);
    free(s->owners);
    free(s->weights);
    free(s->fitted);
}

static void sum_fitted(struct solver *s)
{
    for (size_t k = 0; k < s->in->slices.len; k++)
        s->fitted[k] = 0;
    for (size_t i = 0; i < s->in->shares.len; i++)
        s->fitted[s->entries[i].slice] += s->entries[i].instructions * s->owners[s->entries[i].owner].cpi;
}

/* is_fitted: what the fit leaves says which slices are unlike the others. Longer slices are more of the program. On
 * average a slice weighs one: little that is known of all is as good as much that is. */
static void weigh(struct solver *s, bool is_fitted)
{
    double sum = 0;
    for (size_t k = 0; k < s->in->slices.len; k++) {
        const struct fit_slice *f = &s->in->slices.data[k];
        double apart = f->spread / SPREAD_USUAL, off = is_fitted ? fabs(f->cycles / s->fitted[k] - 1) : 0;
        double length = fmax(SHORT_WEIGHT, fmin(1, f->cycles / LONG));
        s->weights[k] = length * OFF_USUAL / fmax(off, OFF_USUAL) / (1 + apart * apart);
        sum += s->weights[k];
    }
    for (size_t k = 0; k < s->in->slices.len; k++)
        s->weights[k] *= (double)s->in->slices.len / sum;
}

/* One owner takes what the others leave of its slices. scale: by slice, cycles that count as one. Returns the end of
 * its entries. */
static size_t fit_owner(struct solver *s, size_t first, const double *scale)
{
    const struct entry *e = s->entries;
    struct owner *h = &s->owners[e[first].owner];
    double before = h->cpi, stiff = RIDGE / (h->prior * h->prior), pull = -stiff * (before - h->prior);
    size_t end;
    for (end = first; end < s->in->shares.len && e[end].owner == e[first].owner; end++) {
        if (h->is_held)
            continue;
        double n = e[end].instructions / scale[e[end].slice], w = s->weights[e[end].slice];
        pull += w * n * (slice_of(s, &e[end])->cycles - s->fitted[e[end].slice]) / scale[e[end].slice];
        stiff += w * n * n;
    }
    h->cpi = limited(before + pull / stiff, h->max);
    for (size_t i = first; i < end; i++)
        s->fitted[e[i].slice] += e[i].instructions * (h->cpi - before);
    return end;
}

/* Coordinate descent; a slice counts by the cycles that the round before found for it, the first time by those of the
 * priors. */
static void fit_round(struct solver *s, bool is_fitted)
{
    double *scale = xmalloc((s->in->slices.len + 1) * sizeof *scale);
    for (size_t k = 0; k < s->in->slices.len; k++)
        scale[k] = s->fitted[k];
    weigh(s, is_fitted);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < s->in->shares.len;)
            i = fit_owner(s, i, scale);
    free(scale);
}

static void forget_priors(struct solver *s)
{
    for (size_t h = 0; h < s->in->owner_count; h++)
        s->owners[h].prior = s->owners[h].cpi;
}

static bool is_unlike(const struct owner *h) { return h->cpi > UNLIKE * h->other || h->other > UNLIKE * h->cpi; }

static void note_other(struct solver *s, const struct solver *other)
{
    for (size_t h = 0; h < s->in->owner_count; h++)
        s->owners[h].other = other->owners[h].cpi;
}

/* Owners have their prior. */
static void fit(struct solver *s, bool forget)
{
    for (size_t h = 0; h < s->in->owner_count; h++)
        s->owners[h].cpi = s->owners[h].prior;
    sum_fitted(s);
    for (int robust = 0; robust < ROBUST_ROUNDS; robust++) {
        fit_round(s, robust > 0);
        if (forget)
            forget_priors(s);
    }
}

/* Holds what the other fit says much unlike, and fits the rest anew, beside which this one is now the other. Nothing if
 * none is unlike. */
static void hold_unlike(struct solver *s)
{
    bool any = false;
    for (size_t h = 0; h < s->in->owner_count; h++)
        any |= s->owners[h].is_held = is_unlike(&s->owners[h]);
    for (size_t h = 0; any && h < s->in->owner_count; h++) {
        struct owner *m = &s->owners[h];
        double mine = m->cpi;
        m->prior = m->is_held ? m->other : m->prior;
        m->other = mine;
    }
    if (any)
        fit(s, true);
}

/* ---- what it says ---- */

static void sum_shares(struct solver *s)
{
    for (size_t i = 0; i < s->in->shares.len; i++) {
        const struct entry *e = &s->entries[i];
        const struct fit_slice *k = slice_of(s, e);
        struct owner *h = &s->owners[e->owner];
        double share = e->instructions * h->cpi / s->fitted[e->slice], weight = s->weights[e->slice],
               off = k->cycles / s->fitted[e->slice] - 1;
        h->sum += weight * share;
        h->squares += weight * share * share;
        h->rest += weight * share * share * off * off;
        h->untrained += weight * share * share * k->untrained / k->cycles;
        h->refuted += weight * share * share * k->refuted / k->cycles;
        if (share >= MOSTLY)
            h->untrained_max = fmax(h->untrained_max, k->untrained / k->cycles);
    }
}

/* Slices of one window have met the same data: windows are the sample, and few of them tell little of the program. */
static void count_windows(struct solver *s)
{
    for (size_t i = 0; i < s->in->shares.len; i++) {
        const struct entry *e = &s->entries[i];
        struct owner *h = &s->owners[e->owner];
        bool is_first = i == 0 || e[-1].owner != e->owner || slice_of(s, &e[-1])->window != slice_of(s, e)->window;
        h->slices++;
        h->windows += is_first;
    }
}

/* rest: squared, by which slices are off. */
static double sampling_error_of(const struct owner *h, double rest)
{
    double spread = sqrt((h->slices * rest + USUAL * SLICES_USUAL * SLICES_USUAL) / (h->slices + USUAL));
    return NORMAL_T * spread / sqrt(fmax(1, h->windows));
}

/* A single slice says nothing of how much slices differ: there is one more that is off by the model's error. */
static double error_of(const struct owner *h, double model_error)
{
    double rest = (h->rest + RIDGE * model_error * model_error) / (h->squares + RIDGE);
    return hypot(hypot(REPLAY_ERROR, sqrt(rest)), sampling_error_of(h, rest));
}

/* error: of single slices by the model; beyond: so much more than of kernels. */
static struct join_replay measured_of(const struct solver *s, const struct owner *drawn, const struct owner *h,
                                      double modelled, double error, double beyond)
{
    bool is_enough = h->squares >= ENOUGH || (s->in->slices.len >= MANY && h->sum >= ENOUGH_OF_MANY);
    if (!is_enough)
        return (struct join_replay){.factor = drawn->cpi / modelled, .error = beyond, .untrained_max = NAN};
    return (struct join_replay){.factor = h->cpi / modelled,
                                .is_replayed = true,
                                .error = error_of(h, error),
                                .apart = h->other / h->cpi - 1,
                                .untrained_max = fmax(h->untrained_max, h->untrained / h->squares),
                                .windows = h->windows,
                                .refuted = h->refuted / h->squares};
}

void fit_owners(const struct fit *f, const struct fit_known *known, struct join_replay *out)
{
    struct solver drawn, free_of_it;
    const double *modelled = known->modelled;
    struct scale scale = scale_of_model(f, modelled, known->model_error);
    double cpi = common_cpi(f);
    open_solver(&drawn, f);
    open_solver(&free_of_it, f);
    for (size_t h = 0; h < f->owner_count; h++) {
        double max = drawn.owners[h].max = free_of_it.owners[h].max = known->max[h];
        free_of_it.owners[h].prior = limited(cpi, max);
        drawn.owners[h].prior = limited(modelled[h] > 0 ? modelled[h] * scale.factor : cpi, max);
    }
    fit(&drawn, false);
    fit(&free_of_it, true);
    note_other(&free_of_it, &drawn);
    if (scale.error <= TOLD_WELL)
        hold_unlike(&free_of_it);
    sum_shares(&free_of_it);
    count_windows(&free_of_it);
    double beyond = fmax(0, scale.error - known->model_error);
    for (size_t h = 0; h < f->owner_count; h++)
        out[h] = modelled[h] > 0 && f->slices.len ? measured_of(&free_of_it, &drawn.owners[h], &free_of_it.owners[h],
                                                                modelled[h], scale.error, beyond)
                                                  : (struct join_replay){.untrained_max = NAN};
    close_solver(&drawn);
    close_solver(&free_of_it);
}
