/* SPDX-License-Identifier: Apache-2.0
 *
 * attempts: a calibration whose self-test failed is not taken as it is: another, then the description shipped for the
 * processor with what can be relied on put over it. How to measure and to test is the caller's, so that it can be tried
 * without a processor.
 */
#ifndef MTOOL_CMD_MACHINE_ATTEMPTS_H
#define MTOOL_CMD_MACHINE_ATTEMPTS_H

#include "machine/machine.h"

struct attempts {
    int (*measure)(void *ctx, struct machine **out); /* 0, or -1 after one line */
    int (*test)(void *ctx, struct machine *m);       /* gives it its error bar; 0, or -1 after one line */
    struct machine *(*shipped)(void *ctx);           /* NULL: there is none */
    void (*keep)(void *ctx); /* what was measured last is the best up to now; NULL: nobody asks */
    void *ctx;
    unsigned max; /* calibrations */
};
/* The first that passes, else the best of all. 0, or -1 if nothing could be measured and tested: said in one line. */
int attempts_make(const struct attempts *a, struct machine **out);

#endif
