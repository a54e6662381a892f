/* SPDX-License-Identifier: Apache-2.0
 *
 * result/unexplained.h: what of the program's overhead no probed object explains.
 */
#ifndef MTOOL_RESULT_UNEXPLAINED_H
#define MTOOL_RESULT_UNEXPLAINED_H

#include "result/pairs.h"

struct unexplained {               /* sums; over disjoint objects, but for probes */
    double pairs_s, pairs_error_s; /* what pairs of probes took, */
    double looks_s;                /* and looks at the processor time */
    struct prof_interval probed_s; /* in the run with probes; ends are those of independent errors */
    double ideal_s, uncounted_s, system_s, memory_ops;
    bool lacks_system, lacks_uncounted; /* of one of them it is not known */
    size_t objects;
};

/* cost: of its probes. */
void unexplained_add(struct unexplained *sum, const struct prof_candidate *o, struct prof_interval probed_s,
                     const struct pair_cost *cost);
void unexplained_fill(struct prof_result *r, const struct unexplained *sum, const struct prof_probe_terms *terms);

#endif
