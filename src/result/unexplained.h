/* SPDX-License-Identifier: Apache-2.0
 *
 * result/unexplained.h: what of the program's overhead no probed object explains.
 */
#ifndef MTOOL_RESULT_UNEXPLAINED_H
#define MTOOL_RESULT_UNEXPLAINED_H

#include "result/stats.h"

struct unexplained {       /* sums; over disjoint objects, but for pairs */
    double pair_s, look_s; /* that a pair of probes takes, and a look at the processor time */
    double pairs, looks;   /* looks: of those that are added up. Those of others are in the time of these, too */
    struct prof_interval probed_s; /* in the run with probes; ends are those of independent errors */
    double ideal_s, uncounted_s, system_s, memory_ops;
    bool lacks_system, lacks_uncounted; /* of one of them it is not known */
    size_t objects;
};

void unexplained_add(struct unexplained *sum, const struct prof_candidate *o, struct prof_interval probed_s,
                     uint64_t looks);
void unexplained_fill(struct prof_result *r, const struct unexplained *sum, const struct prof_probe_terms *terms);

#endif
