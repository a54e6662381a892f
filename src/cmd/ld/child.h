/* SPDX-License-Identifier: Apache-2.0
 * The command that `mtool ld` and `mtool ld-trace` stand in front of. One at a time. */
#ifndef MTOOL_CMD_LD_CHILD_H
#define MTOOL_CMD_LD_CHILD_H

#include <sys/types.h>

/* Starts argv[0], found by PATH. From here on the terminal's signals are left to it, and a pipe whose reader has gone
 * ends nothing; SIGTERM and SIGHUP are passed on to it. -1 after one line, which begins with `whose`. */
pid_t child_start(const char *whose, const char *const *argv);
/* It has been waited for: no signal goes to its number any more. */
void child_ended(void);

#endif
