/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: a ridge regression of the ratios of slices over the shares of homes in them, drawn towards the ratio of all slices
 * together where they say little of a home (few slices: towards 1). A home that got enough is replayed: its factor corrects the
 * model, and its error is that of the regression. Replays that differ among themselves weigh less, and so does a slice that
 * says something else than all others (a machine clear in each of its replays, say). Knows nothing of where slices come from.
 */
#include "prof/fit.h"

#include <math.h>
#include <stdlib.h>

static const double RIDGE = 0.05;  /* what "no correction" weighs, in slices that are of one home alone */
static const double ENOUGH = 0.25; /* sum of squared shares from which on a home is replayed; */
static const double ENOUGH_OF_MANY = 0.05; /* with many slices, the sum of shares */
static const double REPLAY_ERROR = 0.06; /* of replays themselves: their ends, the code's place, the data that they met */
static const double UNLIKE = 0.15; /* model and replay disagree */
static const double SPREAD_USUAL = 0.05, OFF_USUAL = 0.1;
static const double FACTOR_LEAST = 0.3, FACTOR_MOST = 4;
enum { ROUNDS = 40, ROBUST_ROUNDS = 5, MANY = 8 /* slices */ };

struct home {
    double factor, sum, squares; /* of its shares */
    double rest, untrained; /* sums weighted by squared share: squared residuals; what untrained branches add */
};
struct entry { /* a share, as its home sees it */
    uint32_t home, slice;
    double part;
};
struct prior { /* of a home of which nothing is known */
    double factor, error;
    bool of_many;
};
struct solver {
    const struct fit *in;
    struct prior prior;
    struct home *homes;
    struct entry *entries; /* by home; as many as shares */
    double *weights, *rests; /* by slice: 0 ... 1; what the fit leaves of its ratio */
};

static double limited(double factor) { return fmin(FACTOR_MOST, fmax(FACTOR_LEAST, factor)); }
static double ratio_of(const struct solver *s, size_t slice) { return limited(s->in->slices.data[slice].ratio); }

/* The slices are a sample of the program: their common ratio, and how far single ones are from it. */
static struct prior common(const struct solver *s, double model_error)
{
    const struct fit *f = s->in;
    double cycles = 0, simulated = 0, squares = 0;
    if (f->slices.len < MANY)
        return (struct prior){1, model_error, false};
    for (size_t k = 0; k < f->slices.len; k++) {
        cycles += ratio_of(s, k) * f->slices.data[k].simulated;
        simulated += f->slices.data[k].simulated;
    }
    double all = cycles / simulated;
    for (size_t k = 0; k < f->slices.len; k++) {
        double off = ratio_of(s, k) / all - 1;
        squares += off * off * f->slices.data[k].simulated;
    }
    return (struct prior){all, sqrt(squares / simulated), true};
}

static int by_home(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->home != y->home ? (x->home < y->home ? -1 : 1) : (x->slice > y->slice) - (x->slice < y->slice);
}

static struct entry *list_entries(const struct fit *f)
{
    struct entry *e = xmalloc((f->shares.len + 1) * sizeof *e);
    for (size_t k = 0; k < f->slices.len; k++)
        for (size_t i = f->slices.data[k].first; i < f->slices.data[k].first + f->slices.data[k].count; i++)
            e[i] = (struct entry){f->shares.data[i].home, (uint32_t)k, f->shares.data[i].part};
    qsort(e, f->shares.len, sizeof *e, by_home);
    return e;
}

static void open_solver(struct solver *s, const struct fit *f, double model_error)
{
    *s = (struct solver){.in = f, .entries = list_entries(f)};
    s->prior = common(s, model_error);
    s->homes = xmalloc((f->home_count + 1) * sizeof *s->homes);
    s->weights = xmalloc((f->slices.len + 1) * sizeof *s->weights);
    s->rests = xmalloc((f->slices.len + 1) * sizeof *s->rests);
    for (size_t h = 0; h < f->home_count; h++)
        s->homes[h].factor = s->prior.factor;
    for (size_t k = 0; k < f->slices.len; k++)
        s->rests[k] = ratio_of(s, k) - s->prior.factor;
}

static void close_solver(struct solver *s)
{
    free(s->entries);
    free(s->homes);
    free(s->weights);
    free(s->rests);
}

/* is_fitted: the rests are those of a fit, and say which slices are unlike the others. */
static void weigh(struct solver *s, bool is_fitted)
{
    for (size_t k = 0; k < s->in->slices.len; k++) {
        double apart = s->in->slices.data[k].spread / SPREAD_USUAL;
        double off = is_fitted ? fabs(s->rests[k]) / fmax(FACTOR_LEAST, ratio_of(s, k) - s->rests[k]) : 0;
        s->weights[k] = OFF_USUAL / fmax(off, OFF_USUAL) / (1 + apart * apart);
    }
}

static void sum_shares(struct solver *s)
{
    for (size_t i = 0; i < s->in->shares.len; i++)
        s->homes[s->entries[i].home].sum = s->homes[s->entries[i].home].squares = 0;
    for (size_t i = 0; i < s->in->shares.len; i++) {
        const struct entry *e = &s->entries[i];
        s->homes[e->home].sum += s->weights[e->slice] * e->part;
        s->homes[e->home].squares += s->weights[e->slice] * e->part * e->part;
    }
}

/* One home takes what the others leave of its slices. Returns the end of its entries. */
static size_t fit_home(struct solver *s, size_t first)
{
    const struct entry *e = s->entries;
    struct home *h = &s->homes[e[first].home];
    double before = h->factor, sum = -RIDGE * (before - s->prior.factor);
    size_t end;
    for (end = first; end < s->in->shares.len && e[end].home == e[first].home; end++)
        sum += s->weights[e[end].slice] * e[end].part * s->rests[e[end].slice];
    h->factor = limited(before + sum / (RIDGE + h->squares));
    for (size_t i = first; i < end; i++)
        s->rests[e[i].slice] -= e[i].part * (h->factor - before);
    return end;
}

/* Coordinate descent, with weights by the rests of the fit before. */
static void fit(struct solver *s)
{
    for (int robust = 0; robust < ROBUST_ROUNDS; robust++) {
        weigh(s, robust > 0);
        sum_shares(s);
        for (int round = 0; round < ROUNDS; round++)
            for (size_t i = 0; i < s->in->shares.len;)
                i = fit_home(s, i);
    }
}

static void sum_rests(struct solver *s)
{
    for (size_t i = 0; i < s->in->shares.len; i++) {
        const struct entry *e = &s->entries[i];
        double weight = s->weights[e->slice] * e->part * e->part;
        s->homes[e->home].rest += weight * s->rests[e->slice] * s->rests[e->slice];
        s->homes[e->home].untrained += weight * s->in->slices.data[e->slice].untrained;
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

void fit_homes(const struct fit *f, double model_error, struct join_replay *out)
{
    struct solver s;
    open_solver(&s, f, model_error);
    fit(&s);
    sum_rests(&s);
    for (size_t k = 0; k < f->home_count; k++) {
        const struct home *h = &s.homes[k];
        out[k] = (struct join_replay){.untrained_most = INFINITY};
        if (h->squares >= ENOUGH || (s.prior.of_many && h->sum >= ENOUGH_OF_MANY))
            out[k] = (struct join_replay){.factor = h->factor, .error = error_of(h, &s.prior), .untrained_most = h->untrained / h->squares};
    }
    close_solver(&s);
}
