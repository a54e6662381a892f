/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MTOOL_BENCH_ZOO_H
#define MTOOL_BENCH_ZOO_H

#include "sim/sim.h"

/* A machine drawn by a seed; the same one everywhere. The caller's. */
struct machine *zoo_random(uint32_t seed);

/* What the zoo's machines suffer while they are calibrated. */
struct sim_noise zoo_noise(uint32_t seed);

struct zoo_match { /* a machine given and the one found; pairs: given, found */
    double width[2], rob[2], queues[2];
    unsigned forms;
    double latency, interval; /* shares of the forms within 5 % */
    double median, p90;       /* relative errors of the kernels' cycles */
};
bool zoo_near(const double pair[2], double by);
void zoo_compare(const struct machine *given, const struct machine *found, struct zoo_match *out); /* sizes */
void zoo_print_params(const struct machine *given, const struct machine *found); /* those more than a tenth apart */
/* Each form that was timed, simulated on both; verbose: prints those that are off. */
void zoo_compare_forms(const struct machine *given, const struct machine *found, struct zoo_match *out, bool verbose);
/* By the self-test, which fits `found` and writes its error bar into it. */
void zoo_compare_kernels(const struct machine *given, struct machine *found, struct sim_streams *streams,
                         struct zoo_match *out, bool verbose);

#endif
