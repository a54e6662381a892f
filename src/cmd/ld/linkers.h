/* SPDX-License-Identifier: Apache-2.0
 * Scripts named like linkers, which a build finds in their place. */
#ifndef MTOOL_CMD_LD_LINKERS_H
#define MTOOL_CMD_LD_LINKERS_H

#include "base/base.h"

#define LINKERS_BUILD "MTOOL_LD_FOLDER" /* in the environment of a build: its folder */

/* For each linker on PATH a script in FOLDER/bin that runs it by the words STEP. *BIN, what is to come first on PATH:
 * where this build's scripts are found. 0, or a command's status after one line. */
int linkers_put(struct arena *arena, const char *folder, const char *step, const char **bin);

#endif
