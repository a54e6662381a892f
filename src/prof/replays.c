/* SPDX-License-Identifier: Apache-2.0
 *
 * replays: warm replays of slices of the real stream become ratios of what a slice took to what the model says of its
 * instructions, and each home's share in it (a home is a loop or a function, with its own code). What the ratios say of homes
 * is fit.c's; how slices are chosen and replayed is not known here.
 */
#include "prof/replays.h"

#include "prof/tlb.h"
#include "replay/replay.h"

#include <math.h>
#include <stdlib.h>

static const double TRAINED_MOST = 0.8; /* of a replay */
enum { REPEATS_MOST = 24, TURNS_FORESEEN = 32 /* a predictor knows when such a loop ends */ };

struct step {
    uint32_t index, home;
};
struct branch {
    uint32_t index;
    uint64_t from, to;
};
struct slice {
    double cycles, untrained; /* replayed, without what branches still cost; what untrained branches add */
    double trained;           /* what branches still cost when replayed for the hundredth time */
    double spread;            /* of repeated replays, as a fraction */
    size_t first_step, steps;
    bool is_wide;             /* reaches more pages than the first-level TLB holds */
};
struct replays {
    VEC(struct slice) slices;
    VEC(struct step) steps;
    VEC(struct branch) branches; /* of the slice that is being added */
    VEC(double) widths; /* of all batches */
    double width; /* of a core that is not shared */
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

/* A batch's width is the ticks of 4096 nops beside those of 2048 dependent additions. */
double prof_width_alone(const struct machine *m)
{
    return m && machine_is_this(m) && m->nop_cycles > 0 ? 2 * m->nop_cycles : 0;
}

/* Batches beside which nobody else was on the core. */
static size_t alone_of(const struct replays *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->widths.len; i++)
        n += replay_is_alone(r->widths.data[i], r->width);
    return n;
}

void replays_see(struct replays *r, double alone, const struct prof_input_window *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < w[i].slice_count; s++)
            see_slice(r, &w[i].slices[s]);
    r->width = replay_width_alone(r->widths.data, r->widths.len, alone);
    diag_debug(1, "replays: %zu of %zu batches alone; the core's width %.3f, known %.3f", alone_of(r), r->widths.len, r->width, alone);
}

/* false: its replays say nothing. */
static bool measure(const struct replays *r, const struct wire_slice *s, struct replay_time *t)
{
    if (replay_measure(s, r->width, t))
        return true;
    diag_debug(2, "replays: a slice of %llu steps says nothing: state %u, %u batches, forms %u, turns %llu, poke %u, differs %x",
               (unsigned long long)(s->last - s->first), s->state, s->batch_count, s->forms, (unsigned long long)s->turns,
               s->poke_bytes, s->differs);
    return false;
}

/* Its steps and branches are noted. */
static void take_times(const struct replays *r, const struct window_player *p, const struct wire_slice *from,
                       const struct replay_time *t, struct slice *s)
{
    double cycles = fmax(1, t->cycles - edges(p, from));
    s->trained = fmin(p->mispredict * mispredicted_forever(r, p->predictor), cycles * TRAINED_MOST);
    s->cycles = cycles - s->trained;
    s->untrained = fmax(0, t->untrained) + s->trained;
    s->spread = t->spread;
}

void replays_add(struct replays *r, const struct window_player *p, const struct prof_input_window *w)
{
    r->table = p->table;
    for (uint32_t i = 0; i < w->slice_count; i++) {
        const struct wire_slice *from = &w->slices[i];
        struct replay_time t;
        struct slice s = {.first_step = r->steps.len, .is_wide = from->is_wide};
        r->branches.len = 0;
        if (!measure(r, from, &t))
            continue;
        if (!window_steps(p, w, from->first, from->last, note_step, r)) {
            r->steps.len = s.first_step;
            continue;
        }
        s.steps = r->steps.len - s.first_step;
        take_times(r, p, from, &t, &s);
        VEC_PUSH(&r->slices, s);
    }
}

/* ---- to shares of homes ---- */

static void add_share(struct fit *f, size_t first, uint32_t home, double cycles)
{
    for (size_t i = first; i < f->shares.len; i++)
        if (f->shares.data[i].home == home) {
            f->shares.data[i].part += cycles;
            return;
        }
    VEC_PUSH(&f->shares, ((struct fit_share){home, cycles}));
}

/* By what its instructions cost on average: a slice is too short for the model's own way through it to mean much. */
static void share_out(const struct replays *r, const struct slice *s, const struct sim_cost *costs, struct fit *f)
{
    struct fit_slice to = {.first = f->shares.len, .spread = s->spread};
    for (size_t i = s->first_step; i < s->first_step + s->steps; i++) {
        const struct sim_cost *c = &costs[r->steps.data[i].index];
        double cycles = c->count ? c->cycles / (double)c->count : 0;
        to.simulated += cycles;
        add_share(f, to.first, r->steps.data[i].home, cycles);
    }
    diag_debug(2, "replays: a slice of %zu instructions: %.0f cycles within %.1f %%, %.0f simulated, untrained %+.0f, trained %.0f",
               s->steps, s->cycles, 100 * s->spread, to.simulated, s->untrained, s->trained);
    if (!(to.simulated > 0)) {
        f->shares.len = to.first;
        return;
    }
    to.count = f->shares.len - to.first;
    for (size_t i = to.first; i < f->shares.len; i++)
        f->shares.data[i].part /= to.simulated;
    to.ratio = s->cycles / to.simulated;
    to.untrained = s->untrained / to.simulated;
    VEC_PUSH(&f->slices, to);
}

static void fit_free(struct fit *f)
{
    VEC_FREE(&f->slices);
    VEC_FREE(&f->shares);
}

void replays_tell(struct replays *r, const struct sim_core *core, double model_error, size_t home_count, struct join_replay *out)
{
    struct fit narrow = {.home_count = home_count}, wide = {.home_count = home_count};
    for (size_t k = 0; k < r->slices.len; k++)
        share_out(r, &r->slices.data[k], sim_core_costs(core), r->slices.data[k].is_wide ? &wide : &narrow);
    fit_homes(&narrow, model_error, out);
    tlb_of_homes(&narrow, &wide, out);
    fit_free(&narrow);
    fit_free(&wide);
}
