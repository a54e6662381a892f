/* SPDX-License-Identifier: Apache-2.0
 *
 * windows: stretches of the real instruction stream, with the registers that are known and so real addresses, through
 * the core model twice: once as if every branch were predicted, once with those mispredicted that a predictor gets
 * wrong, either the one that looked on while the window was recorded or one that is trained by the windows so far. The
 * difference is the branch part. Where the stream is interrupted (code that is not known, a signal, a system call) the
 * pipelines begin anew. Knows nothing of blocks: the caller gives each place its instruction. */
#include "estimate/model/windows.h"

static void begin_anew(struct window_player *p)
{
    sim_feed_reset_pipeline(p->core, p->warm);
    sim_feed_reset_pipeline(p->mispredicting, p->warm > p->training ? p->warm : p->training);
}

/* Windows that were recorded share their translated code, and its numbers. */
static void forget_indices(struct window_known *known, const struct trace_window *w)
{
    const void *of = w->trace ? (const void *)w->trace : w->steps;
    if (of != known->of)
        known->index_of.len = 0;
    known->of = of;
}

static uint32_t index_of(const struct window_player *p, const struct trace_insn *i)
{
    while (p->known->index_of.len <= i->id)
        VEC_PUSH(&p->known->index_of, 0);
    uint32_t *index = &p->known->index_of.data[i->id];
    if (!*index && i->place != OBSERVED_PLACE_UNKNOWN)
        *index = p->index_of(p->ctx, i->place) + 1;
    return *index - 1;
}

static bool is_marked(const uint8_t *bits, uint64_t k) { return bits[k / 8] >> k % 8 & 1; }

struct playing {
    struct window_player *p;
    const struct trace_window *w;
    const uint8_t *wrong; /* as in window_play */
    uint64_t branches;    /* that were looked up there */
};

/* By the predictor that looked on, or else by the player's, which learns. */
static bool is_mispredicted(struct playing *g, const struct trace_step *s, const struct sim_insn *i, bool taken)
{
    if (!g->wrong)
        return sim_predict(g->p->predictor, i, s->insn->place, taken, s->next_place);
    return trace_is_branch(s->insn) && is_marked(g->wrong, g->branches++);
}

static void step_core(const struct playing *g, struct sim_feed *c, const struct trace_step *s, uint32_t index,
                      uint32_t flags)
{
    if (g->w->has_registers)
        sim_feed_set_regs(c, s->regs);
    for (uint32_t known = g->w->has_registers ? 0 : s->known; known; known &= known - 1) {
        unsigned r = (unsigned)__builtin_ctz(known);
        sim_feed_set_reg(c, r, s->regs[r]);
    }
    sim_feed_step(c, index, flags);
}

static void play(struct playing *g, const struct trace_step *s, uint32_t index)
{
    struct window_player *p = g->p;
    const struct sim_insn *i = &p->table[index];
    bool taken = sim_insn_is_branch(i) && s->next_place != s->insn->place + i->shape->len;
    uint32_t repeats = (uint32_t)min_u64(s->repeats, UINT32_MAX >> SIM_REPEAT_SHIFT),
             flags = (taken ? SIM_TAKEN : 0) | repeats << SIM_REPEAT_SHIFT;
    bool wrong = is_mispredicted(g, s, i, taken);
    if (p->went && (s->insn->x.kind == X86_CALL_IND || s->insn->x.kind == X86_JMP_IND))
        p->went(p->ctx, s->insn->place, s->next_place);
    step_core(g, p->core, s, index, flags);
    if (p->branches_known)
        return;
    step_core(g, p->mispredicting, s, index, flags | (wrong ? SIM_MISPREDICTED : 0));
    p->training -= p->training > 0;
}

static bool is_interrupted(const struct trace_step *s, const struct sim_insn *i)
{
    return !sim_insn_is_branch(i) && s->next_place != s->insn->place + i->shape->len;
}

uint64_t window_play(struct window_player *p, const struct trace_window *w, const uint8_t *wrong)
{
    struct playing g = {.p = p, .w = w, .wrong = wrong};
    struct trace_stream stream;
    struct trace_step s;
    uint64_t played = 0;
    bool lost = true;
    p->training = wrong ? 0 : (uint32_t)(w->instructions / 2);
    forget_indices(p->known, w);
    trace_begin(&stream, w);
    while (trace_next(&stream, &s) && !s.is_last) {
        uint32_t index = index_of(p, s.insn);
        if (index == ID_NONE) {
            g.branches += trace_is_branch(s.insn);
            lost = true;
            continue;
        }
        if (lost)
            begin_anew(p);
        play(&g, &s, index);
        played++;
        lost = is_interrupted(&s, &p->table[index]);
    }
    return played;
}

bool window_steps(const struct window_player *p, const struct trace_window *w, uint64_t first, uint64_t last,
                  void (*each)(void *ctx, uint32_t index, const uint64_t regs[16], uint64_t from, uint64_t to),
                  void *ctx)
{
    struct trace_stream stream;
    struct trace_step s;
    bool more = first < w->instructions && last <= w->instructions;
    forget_indices(p->known, w);
    trace_begin_part(&stream, w, first, last);
    while (more && trace_next(&stream, &s)) {
        uint32_t index = index_of(p, s.insn);
        if (index != ID_NONE)
            each(ctx, index, s.regs, s.insn->place, s.next_place);
        more = index != ID_NONE && !s.is_last;
    }
    return more;
}
