/* SPDX-License-Identifier: Apache-2.0
 *
 * result/unexplained.h: what of the program's overhead no probed object explains.
 */
#ifndef MTOOL_RESULT_UNEXPLAINED_H
#define MTOOL_RESULT_UNEXPLAINED_H

#include "result/stats.h"

struct unexplained { /* sums; over disjoint objects, but for pairs */
    double pair_s;   /* that a pair of probes takes */
    double pairs;
    struct prof_interval probed_s; /* in the run with probes; ends are those of independent errors */
    double ideal_s, uncounted_s, memory_ops;
    struct prof_interval system_share;  /* of the program's time in the kernel: in them */
    bool lacks_system, lacks_uncounted; /* of one of them it is not known */
    size_t objects;
};

void unexplained_add(const struct prof_result *r, struct unexplained *sum, const struct prof_candidate *o,
                     struct prof_interval probed_s);
void unexplained_fill(struct prof_result *r, const struct unexplained *sum, const struct prof_probe_terms *terms);

#endif
