/* SPDX-License-Identifier: Apache-2.0
 * Bursts between the launcher, the translator and a branch predictor, which three do not know each other. */
#include "cmd/bursts.h"

void bursts_init(struct bursts *s) { *s = (struct bursts){.predictor = sim_predictor_new()}; }

void bursts_fini(struct bursts *s)
{
    trace_free(s->trace);
    sim_predictor_free(s->predictor);
}

void bursts_begin(void *ctx, const struct wire_bursts *file) { ((struct bursts *)ctx)->trace = trace_new(file); }
void bursts_answer(void *ctx, struct wire_bursts *file) { trace_answer(((struct bursts *)ctx)->trace, file); }

void bursts_finish(void *ctx, launch_place_of place, struct spaces *spaces)
{
    struct trace *t = ((struct bursts *)ctx)->trace;
    for (uint32_t b = 0; b < trace_block_count(t); b++)
        trace_block(t, b)->place = place(spaces, trace_block(t, b)->address);
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

struct bursts_branches bursts_predict(struct bursts *s, const void *records, size_t bytes, uint8_t *wrong,
                                      size_t marked)
{
    struct bursts_branches n = {0};
    struct trace_reader r;
    trace_read(&r, s->trace, records, bytes);
    const struct trace_block *b = trace_next_block(&r);
    for (const struct trace_block *next; b && (next = trace_next_block(&r)); b = next) {
        if (!b->branch)
            continue;
        bool is_wrong =
            sim_predict_branch(s->predictor, kind_of(b->branch_kind), b->branch_at, b->behind, next->address);
        if (wrong && (size_t)(r.at - (const uint8_t *)records) <= marked && is_wrong)
            wrong[n.all / 8] |= (uint8_t)(1u << n.all % 8);
        n.all++;
        n.mispredicted += is_wrong;
    }
    return n;
}
