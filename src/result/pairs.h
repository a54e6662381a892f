/* SPDX-License-Identifier: Apache-2.0
 *
 * result/pairs.h: what pairs of probes took in the run with them.
 */
#ifndef MTOOL_RESULT_PAIRS_H
#define MTOOL_RESULT_PAIRS_H

#include "result/stats.h"

#define LOOK_ERROR 0.25 /* of what looks at the processor time took */

struct pair_cost {           /* of a pair of one object's probes, on average, in seconds */
    double inside_s, pair_s; /* in the interval that it measures; all that it adds to the program */
    double inside_error_s, pair_error_s;
    double looks_s; /* that looks at the processor time took in all its pairs */
};

struct pair_cost pair_cost_of(const struct observed_probe *p, const struct prof_probe_terms *t);

#endif
