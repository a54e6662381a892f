/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/replays/fit.h: cycles of slices to cycles an instruction of the owners that they are made of.
 */
#ifndef MTOOL_ESTIMATE_REPLAYS_FIT_H
#define MTOOL_ESTIMATE_REPLAYS_FIT_H

#include "estimate/estimate.h"

struct fit_share { /* of an owner in a slice */
    uint32_t owner;
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
    bool may_train;      /* goes round by more branches than a processor surely remembers */
    uint32_t window;     /* that it is of, by number; slices are in the order of these */
    size_t first, count; /* in shares; their parts add up to 1 */
};
struct fit {
    VEC(struct fit_slice) slices;
    VEC(struct fit_share) shares; /* slice by slice */
    size_t owner_count;
};
struct fit_known {          /* beforehand */
    const double *modelled; /* by owner: what the model says of an instruction of the owner on average, as it is
                               executed in the whole program, in cycles; 0: nothing */
    const double *max;      /* by owner: the program took no more for it; INFINITY: not known */
    double model_error;     /* of the model without replays, as a fraction */
};
/* out[owner]. */
void fit_owners(const struct fit *f, const struct fit_known *known, struct join_replay *out);

#endif
