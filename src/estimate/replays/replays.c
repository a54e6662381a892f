/* SPDX-License-Identifier: Apache-2.0
 *
 * replays: warm replays of slices of the real stream become cycles that a slice took, and how many instructions of each
 * owner were in it (an owner is a loop or a function, with its own code). What that says of owners is fit.c's; how
 * slices are chosen and replayed is not known here.
 */
#include "estimate/replays/replays.h"

#include "estimate/replays/replay_mispredicts.h"
#include "estimate/replays/tlb.h"
#include "estimate/replays/trained.h"
#include "estimate/replays/training.h"
#include "replay/replay.h"

#include <math.h>
#include <stdlib.h>

static const double TRAINED_MAX = 0.8;             /* of a replay */
static const double REPLAY_MISPREDICTS_MAX = 0.25; /* likewise */
static const double UNTRAINED_MAX = 1.5;           /* times what hardly trained branches cost in the second replay */

struct step {
    uint32_t index, owner;
};
struct slice {
    double cycles;  /* replayed, without what branches still cost */
    double trained; /* what that is, when replayed for the hundredth time: by the model, as far as the replays have room
                       for it */
    double refuted; /* what it would be by the model besides */
    double untrained; /* what branches cost at most that nobody trained */
    double spread;    /* of repeated replays, as a fraction */
    size_t first_step, steps;
    uint32_t window;
    bool is_wide;   /* reaches more pages than the first-level TLB holds */
    bool may_train; /* fit.h */
};
struct replays {
    VEC(struct slice) slices;
    VEC(struct step) steps;
    uint32_t windows;                /* so far */
    VEC(double) widths;              /* of all batches */
    VEC(double) edges[REPLAY_EXITS]; /* of slices that show them */
    struct replay_quiet quiet;
    struct replay_edge edge;
    const struct sim_insn *table;
    uint32_t (*owner_of)(void *ctx, uint64_t place);
    void *ctx;
};

struct replays *replays_new(uint32_t (*owner_of)(void *ctx, uint64_t place), void *ctx)
{
    struct replays *r = xmalloc(sizeof *r);
    r->owner_of = owner_of;
    r->ctx = ctx;
    return r;
}

void replays_free(struct replays *r)
{
    VEC_FREE(&r->slices);
    VEC_FREE(&r->steps);
    VEC_FREE(&r->widths);
    for (int e = 0; e < REPLAY_EXITS; e++)
        VEC_FREE(&r->edges[e]);
    free(r);
}

/* ---- slices ---- */

static void note_step(void *ctx, uint32_t index, const uint64_t regs[16], uint64_t from, uint64_t to)
{
    struct replays *r = ctx;
    struct step s = {index, r->owner_of(r->ctx, from)};
    (void)regs, (void)to;
    VEC_PUSH(&r->steps, s);
}

static void see_slice(struct replays *r, const struct wire_slice *s)
{
    for (uint32_t b = 0; s->state == WIRE_SLICE_DONE && b < s->batch_count && b < WIRE_BATCHES; b++)
        VEC_PUSH(&r->widths, replay_width(&s->batches[b]));
}

/* Batches beside which nobody else was on the core. */
static size_t undisturbed_of(const struct replays *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->widths.len; i++)
        n += replay_is_undisturbed(r->widths.data[i], r->quiet.width);
    return n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double replays_clock(const struct prof_input_window *w, size_t n)
{
    VEC(double) clocks = {0};
    for (size_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < w[i].slice_count; s++)
            for (uint32_t b = 0; b < w[i].slices[s].batch_count && b < WIRE_BATCHES; b++)
                VEC_PUSH(&clocks, replay_clock(&w[i].slices[s].batches[b]));
    if (clocks.len)
        qsort(clocks.data, clocks.len, sizeof *clocks.data, by_value);
    double middle = clocks.len ? clocks.data[clocks.len / 2] : 0;
    VEC_FREE(&clocks);
    return middle;
}

/* The middle of what slices of two forms show. */
static void find_edge(struct replays *r, const struct prof_input_window *w, size_t n)
{
    struct replay_time t;
    for (size_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < w[i].slice_count; s++)
            if (replay_measure(&w[i].slices[s], r->quiet.width, &REPLAY_EDGE_USUAL, &t) && isfinite(t.edge))
                VEC_PUSH(&r->edges[t.exit], t.edge);
    r->edge = replay_edge_of(r->edges[REPLAY_GOES_ON].data, r->edges[REPLAY_GOES_ON].len, r->edges[REPLAY_LEAVES].data,
                             r->edges[REPLAY_LEAVES].len);
}

/* What the canary takes for a neighbour who is always there may not slow this code, or be something else: slices that
 * were replayed with and without it tell. */
static void find_shared(struct replays *r, const struct prof_input_window *w, size_t n)
{
    enum { ENOUGH = 3 /* slices */ };
    VEC(double) slower = {0};
    for (size_t i = 0; i < n && r->quiet.shared > 1; i++)
        for (uint32_t s = 0; s < w[i].slice_count; s++) {
            double ratio = replay_slower(&w[i].slices[s], &r->quiet);
            if (isfinite(ratio))
                VEC_PUSH(&slower, ratio);
        }
    if (slower.len >= ENOUGH) {
        qsort(slower.data, slower.len, sizeof *slower.data, by_value);
        r->quiet.shared = fmin(r->quiet.shared, fmax(1, slower.data[slower.len / 2]));
    }
    VEC_FREE(&slower);
}

void replays_see(struct replays *r, const struct prof_input_window *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < w[i].slice_count; s++)
            see_slice(r, &w[i].slices[s]);
    r->quiet = replay_width_undisturbed(r->widths.data, r->widths.len);
    find_shared(r, w, n);
    find_edge(r, w, n);
    diag_debug(
        1,
        "replays: %zu of %zu batches undisturbed; the core's width %.4f; edges of %.0f cycles, by %zu slices, %.0f "
        "where a jump leaves, by %zu",
        undisturbed_of(r), r->widths.len, r->quiet.width, r->edge.cycles[REPLAY_GOES_ON], r->edges[REPLAY_GOES_ON].len,
        r->edge.cycles[REPLAY_LEAVES], r->edges[REPLAY_LEAVES].len);
}

double replays_shared(const struct replays *r) { return r->quiet.shared; }

/* false: its replays say nothing. */
static bool measure(const struct replays *r, const struct wire_slice *s, struct replay_time *t)
{
    bool says = replay_measure(s, r->quiet.width, &r->edge, t);
    diag_debug(2,
               "replays: a slice of %llu steps from %#llx to %#llx%s: state %u, %u batches, %u forms%s, %s%s; %.0f "
               "cycles from step %llu, "
               "edge %.0f, within %.3f; differs %x",
               (unsigned long long)(s->last - s->first), (unsigned long long)s->begin_at,
               (unsigned long long)s->form[0].patch_at, says ? "" : " says nothing", s->state, s->batch_count, s->forms,
               s->has_longer ? " and a longer one" : "",
               s->form[0].counts           ? "counted"
               : s->form[0].iterations > 1 ? "bounded"
                                           : "straight",
               s->form[0].rounds > 1 ? " rounds" : "", t->cycles, (unsigned long long)(t->first - s->first), t->edge,
               t->spread, s->differs);
    return says;
}

/* Where replays take no longer than the model with every branch predicted, the processor predicts what the model's
 * predictor does not: that much is not told of the program either. */
static void take_times(const struct window_player *p, const struct trained_slice *of, const struct replay_time *t,
                       struct slice *s)
{
    struct trained still = trained_of(p, of);
    s->trained = fmin(fmin(still.cycles, t->cycles * TRAINED_MAX), fmax(0, t->cycles - still.without));
    s->refuted = still.cycles - s->trained;
    s->cycles = t->cycles - s->trained;
    s->untrained = UNTRAINED_MAX * fmax(0, t->untrained) + s->trained;
    s->spread = t->spread;
}

static bool is_round(const struct wire_slice *s) { return s->form[0].rounds > 1; }

static bool may_train(const struct replays *r, const struct wire_slice *from, const struct slice *s)
{
    uint32_t branches = 0;
    for (size_t i = s->first_step; i < s->first_step + s->steps; i++)
        branches += sim_insn_is_branch(&r->table[r->steps.data[i].index]);
    return is_round(from) && branches > REPLAY_REMEMBERED;
}

/* What a replay may mispredict where the program does not costs between nothing and a misprediction each. false: too
 * much of the slice. */
static bool without_replay_mispredicts(const struct window_player *p, const struct wire_slice *from,
                                       const struct trained_slice *of, struct slice *s)
{
    double max = is_round(from) ? 0 : REPLAY_MISPREDICTED * replay_mispredicts_in(p, of);
    s->cycles -= max / 2;
    s->spread = hypot(s->spread, max / 2 / s->cycles);
    return max < REPLAY_MISPREDICTS_MAX * s->cycles;
}

/* Steps before the first that counts are in both forms. */
void replays_add(struct replays *r, const struct window_player *p, const struct prof_input_window *w)
{
    r->table = p->table;
    r->windows++;
    for (uint32_t i = 0; i < w->slice_count; i++) {
        const struct wire_slice *from = &w->slices[i];
        struct replay_time t;
        struct slice s = {.first_step = r->steps.len, .is_wide = from->is_wide, .window = r->windows};
        if (!measure(r, from, &t))
            continue;
        if (!window_steps(p, w->window, t.first, from->last, note_step, r)) {
            r->steps.len = s.first_step;
            continue;
        }
        s.steps = r->steps.len - s.first_step;
        struct trained_slice of = {w->window, from->first, t.first, from->last};
        take_times(p, &of, &t, &s);
        s.may_train = may_train(r, from, &s);
        if (without_replay_mispredicts(p, from, &of, &s))
            VEC_PUSH(&r->slices, s);
        else
            r->steps.len = s.first_step;
    }
}

/* ---- to shares of owners ---- */

static void add_share(struct fit *f, size_t first, uint32_t owner, double cycles)
{
    for (size_t i = first; i < f->shares.len; i++)
        if (f->shares.data[i].owner == owner) {
            f->shares.data[i].part += cycles;
            f->shares.data[i].instructions++;
            return;
        }
    VEC_PUSH(&f->shares, ((struct fit_share){owner, 1, cycles}));
}

static void share_out(const struct replays *r, const struct slice *s, const struct sim_cost *costs, struct fit *f)
{
    struct fit_slice to = {.first = f->shares.len,
                           .cycles = s->cycles,
                           .spread = s->spread,
                           .untrained = s->untrained,
                           .refuted = s->refuted,
                           .may_train = s->may_train,
                           .window = s->window};
    for (size_t i = s->first_step; i < s->first_step + s->steps; i++) {
        const struct sim_cost *c = &costs[r->steps.data[i].index];
        double cycles = c->count ? c->cycles / (double)c->count : 0;
        to.simulated += cycles;
        add_share(f, to.first, r->steps.data[i].owner, cycles);
    }
    diag_debug(2,
               "replays: %zu instructions: %.0f cycles within %.1f %%, %.0f simulated, untrained %+.0f, trained %.0f, "
               "not %.0f",
               s->steps, s->cycles, 100 * s->spread, to.simulated, s->untrained, s->trained, s->refuted);
    if (!(to.simulated > 0)) {
        f->shares.len = to.first;
        return;
    }
    to.count = f->shares.len - to.first;
    for (size_t i = to.first; i < f->shares.len; i++)
        f->shares.data[i].part /= to.simulated;
    to.ratio = s->cycles / to.simulated;
    VEC_PUSH(&f->slices, to);
}

static void fit_free(struct fit *f)
{
    VEC_FREE(&f->slices);
    VEC_FREE(&f->shares);
}

void replays_tell(struct replays *r, const struct sim_core *core, const struct fit_known *known, size_t owner_count,
                  struct join_replay *out)
{
    struct fit narrow = {.owner_count = owner_count}, wide = {.owner_count = owner_count};
    for (size_t k = 0; k < r->slices.len; k++)
        share_out(r, &r->slices.data[k], sim_core_costs(core), r->slices.data[k].is_wide ? &wide : &narrow);
    training_drop_unfinished(&narrow);
    training_drop_unfinished(&wide);
    fit_owners(&narrow, known, out);
    for (size_t h = 0; h < owner_count; h++)
        out[h].error += out[h].is_replayed ? r->quiet.shared - 1 : 0;
    tlb_of_owners(&narrow, &wide, out);
    fit_free(&narrow);
    fit_free(&wide);
}
