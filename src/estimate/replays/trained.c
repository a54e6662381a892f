/* SPDX-License-Identifier: Apache-2.0
 *
 * trained: a replay repeats what data decide, so a predictor learns it; what it then still gets wrong is in the
 * replay's time, and must not be told once more as the program's mispredicted branches. It is simulated as these are:
 * the slice goes through the core once with every branch predicted and once with those mispredicted that the
 * predictor's model gets wrong when it has seen the slice as often as matters. So where a program mispredicts as its
 * replays do, the two cancel, whatever the model thinks of a misprediction.
 */
#include "estimate/replays/trained.h"

enum { REPEATS_MAX = 24 };

struct pass { /* of the predictor, or of the core */
    const struct window_player *p;
    struct sim_predictor *predictor; /* NULL: the core plays */
    uint64_t step, from;
    size_t branch;      /* the next */
    uint32_t wrong;     /* from `from` on */
    VEC(bool) is_wrong; /* by branch, in the last pass of the predictor */
    bool tells;         /* the core is told */
};

static void predict(struct pass *a, const struct sim_insn *i, uint64_t from, uint64_t to)
{
    bool wrong = sim_predict(a->predictor, i, from, to != from + i->shape->len, to);
    if (a->branch == a->is_wrong.len)
        VEC_PUSH(&a->is_wrong, wrong);
    a->is_wrong.data[a->branch++] = wrong;
    a->wrong += wrong && a->step >= a->from;
}

static void predict_step(void *ctx, uint32_t index, const uint64_t regs[16], uint64_t from, uint64_t to)
{
    struct pass *a = ctx;
    (void)regs;
    if (sim_insn_is_branch(&a->p->table[index]))
        predict(a, &a->p->table[index], from, to);
    a->step++;
}

static void play_step(void *ctx, uint32_t index, const uint64_t regs[16], uint64_t from, uint64_t to)
{
    struct pass *a = ctx;
    const struct sim_insn *i = &a->p->table[index];
    bool is_branch = sim_insn_is_branch(i);
    uint32_t flags = (is_branch && to != from + i->shape->len ? SIM_TAKEN : 0);
    if (is_branch && a->is_wrong.data[a->branch++] && a->tells)
        flags |= SIM_MISPREDICTED;
    sim_core_set_regs(a->p->core_of_slice, regs);
    sim_core_step(a->p->core_of_slice, index, 0, flags);
}

/* false: some of the code is not known, or there are no more branches that the last pass got wrong. */
static bool time_forms(struct pass *a, const struct trained_slice *s)
{
    a->step = s->first;
    a->from = s->from;
    a->branch = 0;
    a->wrong = 0;
    return window_steps(a->p, s->window, s->first, s->last, predict_step, a) && a->wrong;
}

static double play(struct pass *a, const struct trained_slice *s, bool tells)
{
    struct sim_core *c = a->p->core_of_slice;
    double before = sim_core_cycles(c);
    a->branch = 0;
    a->tells = tells;
    sim_core_reset_pipeline(c, (uint32_t)(s->from - s->first));
    window_steps(a->p, s->window, s->first, s->last, play_step, a);
    sim_core_flush(c);
    return sim_core_cycles(c) - before;
}

struct trained trained_of(const struct window_player *p, const struct trained_slice *s)
{
    struct pass a = {.p = p, .predictor = sim_predictor_copy(p->predictor)};
    struct trained out = {0, 0};
    bool is_left = time_forms(&a, s);
    for (int k = 0; k < REPEATS_MAX && is_left; k++)
        is_left = time_forms(&a, s);
    if (is_left) {
        out.without = play(&a, s, false);
        out.cycles = play(&a, s, true) - out.without;
        out.cycles = out.cycles > 0 ? out.cycles : 0;
    }
    sim_predictor_free(a.predictor);
    VEC_FREE(&a.is_wrong);
    return out;
}
