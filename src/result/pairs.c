/* SPDX-License-Identifier: Apache-2.0
 *
 * pairs: what a pair of an object's probes took where it stands. A calibration knows what it takes with its code and
 * its cell in the caches; an object that uses much memory throws them out each time it runs, and then it takes several
 * times as long. The starts and stops that stamped twice tell by how much.
 */
#include "result/pairs.h"

#include <math.h>

#define PAIR_ERROR                                                                                                     \
    0.25               /* of what probes took: what of it no stamp sees, such as code of sites, may be off by so much */
#define SEEN_MIN 8     /* fewer say nothing of the others */
#define BOTH_ENDS 1.96 /* standard errors, of an interval of 95 % */

struct stamped { /* ticks */
    double mean, error;
};

static struct stamped stamped(const struct observed_stamps *s, double warm)
{
    if (s->seen < SEEN_MIN)
        return (struct stamped){warm, 0};
    double n = (double)s->seen, mean = (double)s->ticks / n;
    double variance = fmax(0, (double)s->squares / n - mean * mean);
    return (struct stamped){mean, BOTH_ENDS * sqrt(variance / (n - 1))};
}

/* Of all that were taken. */
static double looks_s(const struct observed_probe *p, const struct prof_probe_terms *t)
{
    double more = p->look_seen >= SEEN_MIN ? (double)p->look_ticks / (double)p->look_seen - t->look_seen_ticks : 0;
    return (double)p->looks * fmax(0, t->look_ticks + more) / t->ticks_a_second;
}

struct pair_cost pair_cost_of(const struct observed_probe *p, const struct prof_probe_terms *t)
{
    struct stamped begin = stamped(&p->begin, t->begin_ticks), end = stamped(&p->end, t->end_ticks);
    double anew = p->count ? fmin(1, (double)p->restarts / (double)p->count) : 0;
    double inside = fmax(0, t->inside_ticks - t->begin_ticks + (1 - anew) * begin.mean),
           pair = fmax(0, t->pair_ticks + begin.mean - t->begin_ticks + end.mean - t->end_ticks);
    return (struct pair_cost){.inside_s = inside / t->ticks_a_second,
                              .pair_s = pair / t->ticks_a_second,
                              .inside_error_s = (PAIR_ERROR * inside + (1 - anew) * begin.error) / t->ticks_a_second,
                              .pair_error_s = (PAIR_ERROR * pair + hypot(begin.error, end.error)) / t->ticks_a_second,
                              .looks_s = looks_s(p, t)};
}
