/* SPDX-License-Identifier: Apache-2.0
 * What the whole job may cost: four times the program's own time and five seconds. */
#ifndef MTOOL_CMD_RUN_BUDGET_H
#define MTOOL_CMD_RUN_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_WINDOWS_MAX_S 4.
#define BUDGET_SNAPSHOTS_SHARE 0.2               /* of the counted run, at most, for windows taken in it */
enum { BUDGET_RUNS_SHORT = 5, BUDGET_RUNS = 2 }; /* plain runs at most, of short programs and of others */
struct budget {
    double first_s, first_user_s; /* of the sampled run: wall clock, user */
    double spent_s;               /* by now, since that run began */
    uint64_t counters;            /* of all copies: how much code there is */
    bool windows, probes;         /* will there be such runs? */
};
/* Is there room for a run that does nothing but take windows? Else they come in the counted one. */
bool budget_has_windows_run(const struct budget *b);
/* How many plain runs there is room for. 0: the sampled run, which is of the untouched program too, tells its time. */
size_t budget_plain_runs(const struct budget *b);

/* How long the program may wait for windows, in seconds: what is left when all but the last run have been made, from
 * 0.7 to BUDGET_WINDOWS_MAX_S. */
double budget_windows_s(const struct budget *b);
/* Windows of the counted run, before it: how long their replays may go on when it has ended. Likewise. */
double budget_after_s(const struct budget *b);

#endif
