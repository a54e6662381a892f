/* SPDX-License-Identifier: Apache-2.0
 *
 * gate: may what a description predicts be taken for more than a guess? Its self-test decides, or what it is taken to
 * be off by where none was run. */
#include "machine/machine.h"

#include <math.h>

double machine_error_excess(double median, double p90)
{
    return fmax(median / MACHINE_MEDIAN_MAX, p90 / MACHINE_P90_MAX);
}

/* Figures are kept to a thousandth. */
bool machine_error_passes(double median, double p90) { return !(machine_error_excess(median, p90) > 1 + 1e-9); }

bool machine_passes(const struct machine *m)
{
    const struct machine_error *e = machine_error_of(m, "all");
    return !e || machine_error_passes(e->median, e->p90);
}

bool machine_is_outdated(const struct machine *m) { return !machine_passes(m) && m->experiments < MACHINE_EXPERIMENTS; }

bool machine_is_better(const struct machine *a, const struct machine *b)
{
    const struct machine_error *x = machine_error_of(a, "all"), *y = machine_error_of(b, "all");
    if (!x || !y)
        return x && !y;
    return machine_error_excess(x->median, x->p90) < machine_error_excess(y->median, y->p90);
}
