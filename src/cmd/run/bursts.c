/* SPDX-License-Identifier: Apache-2.0
 * Bursts between the launcher, the translator and a branch predictor, which three do not know each other. */
#include "cmd/run/bursts.h"

void bursts_init(struct bursts *s) { *s = (struct bursts){.predictor = sim_predictor_new()}; }

void bursts_fini(struct bursts *s)
{
    trace_free(s->trace);
    sim_predictor_free(s->predictor);
}

void bursts_begin(void *ctx, const struct wire_bursts *file) { ((struct bursts *)ctx)->trace = trace_new(file); }
void bursts_answer(void *ctx, struct wire_bursts *file) { trace_answer(((struct bursts *)ctx)->trace, file); }

struct trace_window bursts_window(const struct bursts *s, const struct launch_burst *w, uint64_t references)
{
    struct trace_window to = trace_records(s->trace, w->records, w->bytes, w->is_torn, references);
    to.fs = w->fs;
    to.gs = w->gs;
    return to;
}

uint64_t bursts_place(void *ctx, uint64_t address)
{
    const struct bursts_places *of = ctx;
    return of->place(of->spaces, address);
}

void bursts_finish(void *ctx, launch_place_of place, struct spaces *spaces)
{
    trace_place_blocks(((struct bursts *)ctx)->trace, bursts_place, &(struct bursts_places){place, spaces});
}

static enum sim_branch kind_of(uint8_t kind)
{
    switch ((enum x86_kind)kind) {
    case X86_CALL:
        return SIM_BRANCH_CALL;
    case X86_CALL_IND:
        return SIM_BRANCH_CALL_INDIRECT;
    case X86_JMP_IND:
        return SIM_BRANCH_INDIRECT;
    case X86_RET:
        return SIM_BRANCH_RETURN;
    default:
        return SIM_BRANCH_CONDITIONAL;
    }
}

struct bursts_branches bursts_predict(struct bursts *s, const struct trace_window *w, uint8_t *wrong, uint64_t marked)
{
    struct bursts_branches n = {0};
    struct trace_stream stream;
    struct trace_branch b;
    for (trace_begin(&stream, w); trace_next_branch(&stream, &b); n.all++) {
        bool is_wrong = sim_predict_branch(s->predictor, kind_of(b.kind), b.address, b.fallthrough, b.target);
        if (wrong && b.number + 1 < marked && is_wrong)
            wrong[n.all / 8] |= (uint8_t)(1u << n.all % 8);
        n.mispredicted += is_wrong;
    }
    return n;
}
