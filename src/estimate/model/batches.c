/* SPDX-License-Identifier: Apache-2.0
 *
 * batches: what the core model charged to each loop's and procedure's own code, batch by batch: the spread of batches
 * is the error of drawing. */
#include "estimate/model/walk.h"

#include <math.h>

#define SETTLED_SHARE 0.01 /* homes above this share of all instructions are known to ... */
#define SETTLED_ERROR 0.03 /* ... this standard error: far below the model's own */

/* What each home got since the last batch. */
void walk_end_batch(struct walks *w)
{
    sim_feed_reset_pipeline(w->core, 0);
    const struct sim_cost *costs = sim_core_costs(sim_feed_core(w->core));
    for (size_t k = 0; k < w->homes_met.len; k++)
        w->homes[w->homes_met.data[k]].cycles = w->homes[w->homes_met.data[k]].insns = 0;
    for (size_t v = 0; v < w->visited.len; v++) {
        uint32_t block = w->visited.data[v];
        struct home *h = &w->homes[w->visited_home.data[v]];
        for (uint32_t i = 0; i < walk_block(w->j, block)->insn_count; i++) {
            h->cycles += costs[w->first[block] + i].cycles;
            h->insns += (double)costs[w->first[block] + i].count;
        }
    }
    for (size_t k = 0; k < w->homes_met.len; k++) {
        struct home *h = &w->homes[w->homes_met.data[k]];
        double c = h->cycles - h->last_cycles, n = h->insns - h->last_insns;
        h->cycles2 += c * c;
        h->insns2 += n * n;
        h->cross += c * n;
        h->last_cycles = h->cycles;
        h->last_insns = h->insns;
    }
    w->batches++;
}

/* Standard error of a home's cycles per instruction, as a fraction: the ratio estimator over batches (Cochran
 * 1977, 6.4). */
double walk_home_error(const struct walks *w, const struct home *h)
{
    if (!(h->cycles > 0) || w->batches < 2)
        return 1;
    double r = h->cycles / h->insns, squares = h->cycles2 - 2 * r * h->cross + r * r * h->insns2;
    return sqrt(fmax(0, squares) * w->batches / (w->batches - 1)) / h->cycles;
}

double walk_home_share(const struct walks *w, uint32_t home)
{
    return (double)walk_home_self(w, home)->instructions / (double)w->j->instructions;
}

bool walk_is_settled(const struct walks *w)
{
    for (uint32_t h = 0; h < w->j->loop_count + w->j->func_count; h++)
        if (walk_home_share(w, h) > SETTLED_SHARE && walk_home_error(w, &w->homes[h]) > SETTLED_ERROR)
            return false;
    return true;
}
