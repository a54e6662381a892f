/* SPDX-License-Identifier: Apache-2.0
 *
 * windows: stretches of the real instruction stream, with the real registers and so the real addresses, through the
 * core model twice: once as if every branch were predicted, once with those mispredicted that a predictor, trained by
 * the windows so far, gets wrong. The difference is the branch part. Where the stream is interrupted (code that is not
 * known, a signal, a system call) the pipelines begin anew. Bursts bring the predictor's verdicts along. Knows nothing
 * of blocks: the caller gives each address its instruction. */
#include "prof/windows.h"

#include "trace/trace.h"
#include "wire/wire.h"

#define STEP_UNKNOWN WIRE_STEP_ADDRESS

struct reader { /* of the words of a window; turns of a repeated string instruction are one step */
    const uint64_t *at;
    uint32_t left;
    uint64_t address, regs[16]; /* of the step that is read, not yet played */
};

static bool read_step(struct reader *r)
{
    if (!r->left)
        return false;
    r->left--;
    r->address = wire_step_next(&r->at, r->regs, NULL);
    return true;
}

static void begin_anew(struct window_player *p)
{
    sim_core_reset_pipeline(p->core, p->warm);
    sim_core_reset_pipeline(p->branchy, p->warm > p->learning ? p->warm : p->learning);
}

/* One instruction, and what came after it. */
static void play(struct window_player *p, uint32_t index, const uint64_t regs[16], uint32_t repeats, uint64_t from,
                 uint64_t to)
{
    const struct sim_insn *i = &p->table[index];
    bool branch = sim_insn_is_branch(i), taken = branch && to != from + i->len;
    uint32_t flags = (taken ? SIM_TAKEN : 0) | (repeats > 1 ? repeats << SIM_REPEAT_SHIFT : 0);
    bool wrong = sim_predict(p->predictor, i, from, taken, to);
    if (branch && p->went)
        p->went(p->ctx, from, to);
    sim_core_set_regs(p->core, regs);
    sim_core_step(p->core, index, 0, flags);
    if (p->branches_told)
        return;
    sim_core_set_regs(p->branchy, regs);
    sim_core_step(p->branchy, index, 0, flags | (wrong ? SIM_MISPREDICTED : 0));
    p->learning -= p->learning > 0;
}

uint64_t window_play(struct window_player *p, const uint64_t *words, uint32_t steps)
{
    struct reader r = {.at = words, .left = steps};
    bool lost = true;
    uint64_t played = 0;
    p->learning = steps / 2;
    for (bool more = read_step(&r); more;) {
        uint64_t from = r.address, regs[16];
        memcpy(regs, r.regs, sizeof regs);
        uint32_t index = from == STEP_UNKNOWN ? ID_NONE : p->index_of(p->ctx, from), repeats = 1;
        while ((more = read_step(&r)) && r.address == from && index != ID_NONE && sim_insn_is_rep(&p->table[index]))
            repeats++;
        if (index == ID_NONE || !more) { /* what follows the last one is not known */
            lost = true;
            continue;
        }
        if (lost)
            begin_anew(p);
        play(p, index, regs, repeats, from, r.address);
        played++;
        lost = !sim_insn_is_branch(&p->table[index]) && r.address != from + p->table[index].len;
    }
    return played;
}

/* ---- bursts ---- */

static void step_known(struct sim_core *c, const struct trace_step *s, uint32_t index, uint32_t flags)
{
    for (uint32_t known = s->known; known; known &= known - 1) {
        unsigned r = (unsigned)__builtin_ctz(known);
        sim_core_set_reg(c, r, s->regs[r]);
    }
    sim_core_step(c, index, 0, flags);
}

static bool is_marked(const uint8_t *bits, uint64_t k) { return bits[k / 8] >> k % 8 & 1; }

uint64_t window_play_burst(struct window_player *p, const struct prof_input_burst *w)
{
    struct trace_stream stream;
    struct trace_step s;
    uint64_t played = 0, branches = 0;
    bool lost = true;
    p->learning = 0;
    trace_begin(&stream, w->window);
    while (trace_next(&stream, &s) && !s.is_last) {
        const struct trace_insn *i = s.insn;
        bool branch = trace_is_branch(i), taken = branch && s.to != i->x.addr + i->x.len;
        bool wrong = branch && is_marked(w->wrong, branches++);
        uint32_t repeats = (uint32_t)min_u64(s.repeats, UINT32_MAX >> SIM_REPEAT_SHIFT),
                 index = i->place == STEP_UNKNOWN ? ID_NONE : p->index_of(p->ctx, i->place),
                 flags = (taken || i->x.kind == X86_JMP ? SIM_TAKEN : 0) | repeats << SIM_REPEAT_SHIFT;
        if (index == ID_NONE) {
            lost = true;
            continue;
        }
        if (lost)
            begin_anew(p);
        lost = false;
        if (p->went && (i->x.kind == X86_CALL_IND || i->x.kind == X86_JMP_IND))
            p->went(p->ctx, i->place, s.to_place);
        step_known(p->core, &s, index, flags);
        step_known(p->branchy, &s, index, flags | (wrong ? SIM_MISPREDICTED : 0));
        played++;
    }
    return played;
}

bool window_steps(const struct window_player *p, const struct prof_input_window *w, uint64_t first, uint64_t last,
                  void (*each)(void *ctx, uint32_t index, const uint64_t regs[16], uint64_t from, uint64_t to),
                  void *ctx)
{
    struct reader r = {.at = w->words, .left = w->steps};
    bool more = read_step(&r);
    for (uint64_t k = 0; more && k < first; k++)
        more = read_step(&r);
    for (uint64_t k = first; more && k < last;) {
        uint64_t from = r.address, regs[16];
        memcpy(regs, r.regs, sizeof regs);
        uint32_t index = from == STEP_UNKNOWN ? ID_NONE : p->index_of(p->ctx, from);
        if (index == ID_NONE)
            return false;
        do
            k++;
        while ((more = read_step(&r)) && r.address == from && sim_insn_is_rep(&p->table[index]) && k < last);
        each(ctx, index, regs, from, r.address);
    }
    return more;
}
