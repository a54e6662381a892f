/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/replays/trained.h: what branches still cost in a slice that is replayed again and again.
 */
#ifndef MTOOL_ESTIMATE_REPLAYS_TRAINED_H
#define MTOOL_ESTIMATE_REPLAYS_TRAINED_H

#include "estimate/model/windows.h"

struct trained_slice { /* steps of a window */
    const struct trace_window *window;
    uint64_t first, from, last; /* it is executed from `first` on; cycles count from `from` to before `last` */
};
struct trained {   /* core cycles, by the model, of p->aside and a copy of p->predictor; 0: none, or not all of its code
                      is known */
    double cycles; /* what branches still cost */
    double without; /* of the slice with every branch predicted, if some still cost something */
};
struct trained trained_of(const struct window_player *p, const struct trained_slice *s);

#endif
