/* SPDX-License-Identifier: Apache-2.0
 *
 * speed: how fast the core goes at this moment, beside what the description says of it: its clock, and whether another
 * hardware thread takes part of its width. Dependent adds tell the clock, for they do not mind a neighbour; nops
 * between them need the whole width. Looks at the processor that it runs on, for a few milliseconds. */
#include "machine/calibrate/calib.h"
#include "machine/lab/lab.h"

#include <math.h>

enum { BRACKETS_MIN = 20, BRACKETS_MAX = 4000 };
static const double LOOK_S = 0.004;

bool machine_is_this(const struct machine *m)
{
    struct arena *a = arena_new();
    bool is = m->name && !strcmp(m->name, str_printable(a, native_cpu_name()));
    arena_free(a);
    return is;
}

/* A neighbour comes and goes, so this is no median; what lasts longest was interrupted. */
static double mean_of_min(double *v, unsigned n)
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
    struct lab_core *core = lab_native();
    if (!core)
        return speed;
    struct lab_bracket b;
    lab_bracket_open(&b, core);
    double end = time_now_s() + LOOK_S, before = lab_chain_ticks(&b), cycles = lab_chain_cycles(&b),
           nops = lab_canary_nops(&b);
    double chains[BRACKETS_MAX], canaries[BRACKETS_MAX];
    unsigned kept = 0, taken = 0;
    do {
        double canary = lab_canary_ticks(&b), after = lab_chain_ticks(&b);
        if (fabs(after - before) < 0.01 * before) { /* else the clock changed, or something ran between */
            chains[kept] = (before + after) / 2;
            canaries[kept++] = canary;
        }
        before = after;
        taken++;
    } while ((time_now_s() < end || taken < BRACKETS_MIN) && kept < BRACKETS_MAX);
    lab_core_free(core);
    if (kept < BRACKETS_MIN / 2)
        return speed;
    speed.core_per_tsc = cycles / lab_quantile(chains, kept, 0.5);
    if (m->nop_cycles > 0)
        speed.share = fmin(1, m->nop_cycles * nops / (mean_of_min(canaries, kept) * speed.core_per_tsc));
    return speed;
}
