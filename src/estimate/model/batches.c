/* SPDX-License-Identifier: Apache-2.0
 *
 * batches: what the core model charged to each loop's and procedure's own code, batch by batch: the spread of batches
 * is the error of drawing. */
#include "estimate/model/walk.h"

#include <math.h>

#define CONVERGED_SHARE 0.01 /* owners above this share of all instructions are known to ... */
#define CONVERGED_ERROR 0.03 /* ... this standard error: far below the model's own */

static void sum_core(struct walks *w, struct sim_feed *of, size_t offset)
{
    const struct sim_cost *costs = sim_core_costs(sim_feed_core(of));
    for (size_t v = 0; v < w->visited.len; v++) {
        uint32_t block = w->visited.data[v];
        struct played *h = (struct played *)((char *)&w->owners[w->visited_owner.data[v]] + offset);
        for (uint32_t i = 0; i < walk_block(w->j, block)->insn_count; i++) {
            h->cycles += costs[w->first[block] + i].cycles;
            h->insns += (double)costs[w->first[block] + i].count;
        }
    }
}

static struct played take_batch(struct played *p)
{
    struct played batch = {.cycles = p->cycles - p->last_cycles, .insns = p->insns - p->last_insns};
    *p = (struct played){.last_cycles = p->cycles, .last_insns = p->insns};
    return batch;
}

static void add_batch(struct spread *s, double cycles, double insns)
{
    s->cycles += cycles;
    s->insns += insns;
    s->cycles2 += cycles * cycles;
    s->insns2 += insns * insns;
    s->cross += cycles * insns;
    s->batches += insns > 0;
}

/* What each owner got since the last batch. The mispredicting core plays less of windows in which its predictor is
 * trained first, and nothing of walks. */
void walk_end_batch(struct walks *w)
{
    sim_feed_reset_pipeline(w->core, 0);
    sum_core(w, w->core, offsetof(struct owner, core));
    if (w->is_branchy) {
        sim_feed_reset_pipeline(w->mispredicting, 0);
        sum_core(w, w->mispredicting, offsetof(struct owner, mispredicting));
    }
    for (size_t k = 0; k < w->owners_met.len; k++) {
        struct owner *h = &w->owners[w->owners_met.data[k]];
        struct played ideal = take_batch(&h->core), branchy = take_batch(&h->mispredicting);
        add_batch(&h->ideal, ideal.cycles, ideal.insns);
        if (branchy.insns > 0 && ideal.insns > 0)
            add_batch(&h->branch, branchy.cycles - ideal.cycles / ideal.insns * branchy.insns, branchy.insns);
    }
    w->batches++;
}

/* Of cycles per instruction, times all instructions: the ratio estimator over batches (Cochran 1977, 6.4). */
static double ratio_error(const struct spread *s, uint32_t batches)
{
    double r = s->cycles / s->insns, squares = s->cycles2 - 2 * r * s->cross + r * r * s->insns2;
    return sqrt(fmax(0, squares) * batches / (batches - 1));
}

double walk_owner_error(const struct walks *w, const struct owner *h)
{
    if (!(h->ideal.cycles > 0) || w->batches < 2)
        return 1;
    return ratio_error(&h->ideal, w->batches) / h->ideal.cycles;
}

double walk_branch_error(const struct owner *h)
{
    if (h->branch.batches < 2)
        return INFINITY;
    return ratio_error(&h->branch, h->branch.batches) / h->branch.insns * student_t(h->branch.batches - 1) / NORMAL_T;
}

double walk_owner_share(const struct walks *w, uint32_t owner)
{
    return (double)walk_owner_self(w, owner)->instructions / (double)w->j->instructions;
}

bool walk_has_converged(const struct walks *w)
{
    for (uint32_t h = 0; h < w->j->loop_count + w->j->func_count; h++)
        if (walk_owner_share(w, h) > CONVERGED_SHARE && walk_owner_error(w, &w->owners[h]) > CONVERGED_ERROR)
            return false;
    return true;
}
