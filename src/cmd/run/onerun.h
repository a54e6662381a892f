/* SPDX-License-Identifier: Apache-2.0
 * Everything in one run: --one-run, and ranks of parallel jobs. */
#ifndef MTOOL_CMD_RUN_ONERUN_H
#define MTOOL_CMD_RUN_ONERUN_H

#include "cmd/run/profile.h"

/* Do the options go with --one-run, if that is given? 0, or an exit status after one line. */
int one_run_check(const struct cmd_args *a);
/* Says how often the program will be run; with windows? */
void one_run_announce(const struct profile *p, bool windows);
bool one_run_is(const struct profile *p);
/* May snapshots be made in that run, if windows are wanted? In a rank of a parallel job only when asked for: memory
 * that a network card knows may not bear a fork, and all ranks would replay at the same time. */
bool one_run_may_fork(const struct profile *p);
/* After the first of several runs: may there be others? Not where each would leave a server behind. 0, or an exit
 * status after one line. */
int one_run_refuse_others(const struct profile *p, const struct launch_result *first);

/* Makes the run, counted and sampled; windows NULL: none are taken. 0, or an exit status; the caller frees *out. */
int one_run_make(struct profile *p, const struct launch_burst_options *windows, struct launch_result **out);

struct one_run_times {
    double user_s, counting_s;  /* without what counters took; that, NAN not known */
    double system_s, windows_s; /* without what windows took; that, NAN none were taken */
};
/* Once its counts are solved (profile_keep_feedback): samples in copies, which `in` has too, become those of the
 * originals, and what counting and windows took is told. */
struct one_run_times one_run_take_off(struct profile *p, const struct launch_result *run, const struct prof_input *in);
#endif
