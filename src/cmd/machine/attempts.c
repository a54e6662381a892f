/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/machine/attempts.h"

static void say(const char *what, const struct machine *m)
{
    const struct machine_error *e = machine_error_of(m, "all");
    if (e)
        diag_debug(1, "calibrate: %s is off by %.1f %% in the median, %.1f %% for nine in ten kernels: %s", what,
                   100 * e->median, 100 * e->p90, machine_passes(m) ? "passes" : "fails");
}

/* Keeps the better one. Is it the new one? */
static bool take(struct machine **best, struct machine *m)
{
    struct machine *worse = *best && !machine_is_better(m, *best) ? m : *best;
    *best = worse == m ? *best : m;
    machine_free(worse);
    return *best == m;
}

static int calibrate_once(const struct attempts *a, struct machine **best)
{
    struct machine *m = NULL;
    if (a->measure(a->ctx, &m) < 0)
        return -1;
    if (a->test(a->ctx, m) < 0) {
        machine_free(m);
        return -1;
    }
    say("this calibration", m);
    if (take(best, m) && a->keep)
        a->keep(a->ctx);
    return 0;
}

static void try_shipped(const struct attempts *a, struct machine **best)
{
    struct machine *shipped = a->shipped(a->ctx), *m = shipped ? machine_overlay(shipped, *best) : NULL;
    machine_free(shipped);
    if (!m)
        return;
    if (a->test(a->ctx, m) == 0) {
        say("the description shipped for this processor, with what could be measured,", m);
        take(best, m);
    } else {
        machine_free(m);
    }
}

int attempts_make(const struct attempts *a, struct machine **out)
{
    struct machine *best = NULL;
    for (unsigned i = 0; i < a->max && !(best && machine_passes(best)); i++)
        if (calibrate_once(a, &best) < 0)
            break; /* what disturbed it is still there */
    if (!best)
        return -1;
    if (!machine_passes(best))
        try_shipped(a, &best);
    *out = best;
    return 0;
}
