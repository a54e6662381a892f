/* SPDX-License-Identifier: Apache-2.0
 * The part of mtool run that probes: what the user named, the question before it, and the run. */
#ifndef MTOOL_CMD_RUN_PROBE_H
#define MTOOL_CMD_RUN_PROBE_H

#include "cmd/run/profile.h"

struct probe_plan {
    struct rewrite_probe_cost cost; /* of a pair of probes here, in ticks */
    double pair_s;
    const struct prof_request *requested, *unprobed; /* named by --probe, by --unprobed */
    size_t requested_count, unprobed_count;
};
/* Before anything runs. 0, or an exit status after one line. */
int probe_begin(const struct cmd_args *a, struct arena *ar, struct probe_plan *plan);
void probe_ask(const struct probe_plan *plan, struct prof_input *in); /* for the join */
/* After the join: shows the estimate of the whole, asks, runs the program with probes, puts what they measured to the
 * result. 0, or an exit status. */
int probe_objects(struct profile *p, const struct probe_plan *plan);

#endif
