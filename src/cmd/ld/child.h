/* SPDX-License-Identifier: Apache-2.0
 * The command that `mtool ld` and `mtool ld-trace` stand in front of. One at a time. */
#ifndef MTOOL_CMD_LD_CHILD_H
#define MTOOL_CMD_LD_CHILD_H

#include <sys/types.h>

/* Holds the signals that end a command, for what must be taken away again, until the command is started, or released:
 * then they end this one. */
void child_hold_signals(void);
void child_release_signals(void);
/* Starts argv[0], found by PATH. From here on the terminal's signals are left to it, and a pipe whose reader has gone
 * ends nothing; SIGTERM and SIGHUP are passed on to it. -1 after one line, which begins with `whose`, or if
 * a signal is held. */
pid_t child_start(const char *whose, const char *const *argv);
/* It has been waited for: no signal goes to its number any more. */
void child_ended(void);

#endif
