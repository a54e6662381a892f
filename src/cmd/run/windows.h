/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd/run/windows.h: the part of mtool run that takes windows of the instruction stream. Bursts are as many
 * instructions as the predictor manages while the program runs; the core model gets their begins. Between them shorter
 * windows are taken step by step, slices of which are replayed.
 */
#ifndef MTOOL_CMD_RUN_WINDOWS_H
#define MTOOL_CMD_RUN_WINDOWS_H

#include "cmd/run/bursts.h"
#include "cmd/run/profile.h"
#include "replay/replay.h"

struct taken_windows {
    struct bursts bursts; /* first: see bursts_begin */
    VEC(struct prof_input_burst) kept;
    VEC(struct prof_input_window) windows; /* taken step by step */
    struct arena *arena;
    struct replay_progress *progress;
    double planned; /* so many of them, in a run of their own */
};
/* What replays measure is told of this machine only. */
bool windows_wanted(const struct cmd_args *a, const struct machine *m);

struct windows_room {        /* the time of the program among which windows are spread */
    double user_s, system_s; /* of a run without them */
    double limit_s; /* that the program may wait for windows; in a counted run mtool for replays when that has ended */
};
/* For the counted run. */
struct launch_burst_options windows_counted(const struct profile *p, const struct windows_room *room,
                                            struct taken_windows *to);
/* A run of its own; 0, or an exit status. The caller frees out, and windows_fini what was taken. */
int windows_take(struct profile *p, const struct windows_room *room, struct taken_windows *to,
                 struct launch_result **out);
/* For windows in a run that does something else too: all but when they are taken. */
struct launch_burst_options windows_options(const struct profile *p, struct taken_windows *to);
void windows_note(const struct launch_result *r, struct taken_windows *to); /* says what came of it, after such a run */

void windows_put(struct taken_windows *from, struct prof_input *in); /* which frees it once it has been read */
void windows_fini(struct taken_windows *t);                          /* also twice */

#endif
