/* SPDX-License-Identifier: Apache-2.0
 *
 * prof/fit.h: ratios of slices to factors of the homes that they are made of.
 */
#ifndef MTOOL_PROF_FIT_H
#define MTOOL_PROF_FIT_H

#include "prof/impl.h"

struct fit_share { /* of a home in a slice's simulated cycles */
    uint32_t home;
    double part;
};
struct fit_slice {
    double ratio;        /* replayed over simulated cycles */
    double untrained;    /* what untrained branches add, over simulated cycles */
    double simulated;    /* cycles; above 0 */
    double spread;       /* of repeated replays, as a fraction */
    size_t first, count; /* in shares; their parts add up to 1 */
};
struct fit {
    VEC(struct fit_slice) slices;
    VEC(struct fit_share) shares; /* slice by slice */
    size_t home_count;
};
/* out[home]. model_error: of the model without replays, as a fraction. */
void fit_homes(const struct fit *f, double model_error, struct join_replay *out);

#endif
