/* SPDX-License-Identifier: Apache-2.0
 *
 * speed: how fast the core goes at this moment, beside what the description says of it: its clock, and whether another
 * hardware thread takes part of its width. Dependent adds tell the clock, for they do not mind a neighbour; nops
 * between them need the whole width. Looks at the processor that it runs on, for a few milliseconds. */
#include "machine/calib.h"

#include <math.h>

enum { BRACKETS_LEAST = 20, BRACKETS_MOST = 4000 };
static const double LOOK_S = 0.004;

bool machine_is_this(const struct machine *m)
{
    struct arena *a = arena_new();
    bool is = m->name && !strcmp(m->name, calib_cpu_name(a));
    arena_free(a);
    return is;
}

/* A neighbour comes and goes, so this is no median; what lasts longest was interrupted. */
static double mean_of_least(double *v, unsigned n)
{
    unsigned kept = n - n / 20;
    double sum = 0;
    lab_quantile(v, n, 0.5);
    for (unsigned i = 0; i < kept; i++)
        sum += v[i];
    return sum / kept;
}

struct machine_speed machine_speed_now(const struct machine *m)
{
    struct machine_speed speed = {NAN, NAN};
    if (!machine_is_this(m) || !(m->core_per_tsc > 0))
        return speed;
    double cost = lab_clock_cost(), end = time_now_s() + LOOK_S, before = lab_chain_ticks() - cost;
    double chains[BRACKETS_MOST], canaries[BRACKETS_MOST];
    unsigned kept = 0, taken = 0;
    do {
        double canary = lab_canary_ticks() - cost, after = lab_chain_ticks() - cost;
        if (fabs(after - before) < 0.01 * before) { /* else the clock changed, or something ran between */
            chains[kept] = (before + after) / 2;
            canaries[kept++] = canary;
        }
        before = after;
        taken++;
    } while ((time_now_s() < end || taken < BRACKETS_LEAST) && kept < BRACKETS_MOST);
    if (kept < BRACKETS_LEAST / 2)
        return speed;
    speed.core_per_tsc = LAB_CHAIN / lab_quantile(chains, kept, 0.5);
    if (m->nop_cycles > 0)
        speed.share = fmin(1, m->nop_cycles * LAB_CANARY / (mean_of_least(canaries, kept) * speed.core_per_tsc));
    return speed;
}
