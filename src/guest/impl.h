/* SPDX-License-Identifier: Apache-2.0
 * What the files of this folder share. */
#ifndef MTOOL_GUEST_IMPL_H
#define MTOOL_GUEST_IMPL_H

#include "guest/guest.h"

/* tools.c: another program, run. Its output (NULL: thrown away), and the last line of its messages in `said`, which may
 * be NULL. Its status, or -1: it could not be run. */
int guest_run_tool(const char *const *argv, const char *folder, struct strbuf *out, struct strbuf *said);
bool guest_find_program(const char *name); /* in PATH */

#endif
