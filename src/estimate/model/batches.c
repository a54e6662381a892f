/* SPDX-License-Identifier: Apache-2.0
 *
 * batches: what the core model charged to each loop's and procedure's own code, batch by batch: the spread of batches
 * is the error of drawing. */
#include "estimate/model/walk.h"

#include <math.h>

#define CONVERGED_SHARE 0.01 /* owners above this share of all instructions are known to ... */
#define CONVERGED_ERROR 0.03 /* ... this standard error: far below the model's own */

/* What each owner got since the last batch. */
void walk_end_batch(struct walks *w)
{
    sim_feed_reset_pipeline(w->core, 0);
    const struct sim_cost *costs = sim_core_costs(sim_feed_core(w->core));
    for (size_t k = 0; k < w->owners_met.len; k++)
        w->owners[w->owners_met.data[k]].cycles = w->owners[w->owners_met.data[k]].insns = 0;
    for (size_t v = 0; v < w->visited.len; v++) {
        uint32_t block = w->visited.data[v];
        struct owner *h = &w->owners[w->visited_owner.data[v]];
        for (uint32_t i = 0; i < walk_block(w->j, block)->insn_count; i++) {
            h->cycles += costs[w->first[block] + i].cycles;
            h->insns += (double)costs[w->first[block] + i].count;
        }
    }
    for (size_t k = 0; k < w->owners_met.len; k++) {
        struct owner *h = &w->owners[w->owners_met.data[k]];
        double c = h->cycles - h->last_cycles, n = h->insns - h->last_insns;
        h->cycles2 += c * c;
        h->insns2 += n * n;
        h->cross += c * n;
        h->last_cycles = h->cycles;
        h->last_insns = h->insns;
    }
    w->batches++;
}

/* Standard error of an owner's cycles per instruction, as a fraction: the ratio estimator over batches (Cochran
 * 1977, 6.4). */
double walk_owner_error(const struct walks *w, const struct owner *h)
{
    if (!(h->cycles > 0) || w->batches < 2)
        return 1;
    double r = h->cycles / h->insns, squares = h->cycles2 - 2 * r * h->cross + r * r * h->insns2;
    return sqrt(fmax(0, squares) * w->batches / (w->batches - 1)) / h->cycles;
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
