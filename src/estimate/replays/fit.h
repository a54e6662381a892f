/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/replays/fit.h: cycles of slices to cycles an instruction of the homes that they are made of.
 */
#ifndef MTOOL_ESTIMATE_REPLAYS_FIT_H
#define MTOOL_ESTIMATE_REPLAYS_FIT_H

#include "estimate/estimate.h"

struct fit_share { /* of a home in a slice */
    uint32_t home;
    double instructions;
    double part; /* of the slice's simulated cycles */
};
struct fit_slice {
    double cycles;       /* replayed; above 0 */
    double simulated;    /* cycles; above 0 */
    double ratio;        /* replayed over simulated cycles */
    double spread;       /* of repeated replays, as a fraction */
    double untrained;    /* what branches cost at most, in cycles */
    double refuted;      /* what the model's predictor gets wrong and the processor's not, likewise */
    bool may_learn;      /* goes round by more branches than a processor surely remembers */
    size_t first, count; /* in shares; their parts add up to 1 */
};
struct fit {
    VEC(struct fit_slice) slices;
    VEC(struct fit_share) shares; /* slice by slice */
    size_t home_count;
};
struct fit_known {          /* beforehand */
    const double *modelled; /* by home: what the model says of an instruction of the home on average, as it is executed
                               in the whole program, in cycles; 0: nothing */
    const double *most;     /* by home: the program took no more for it; INFINITY: not known */
    double model_error;     /* of the model without replays, as a fraction */
};
/* out[home]. */
void fit_homes(const struct fit *f, const struct fit_known *known, struct join_replay *out);

#endif
