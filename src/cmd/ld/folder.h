/* SPDX-License-Identifier: Apache-2.0
 * Folders of temporary files, of a build or of one link. */
#ifndef MTOOL_CMD_LD_FOLDER_H
#define MTOOL_CMD_LD_FOLDER_H

#include "base/base.h"

const char *folder_temporary(void);                           /* where temporary files are to be */
const char *folder_make(struct arena *arena, const char *in); /* NULL after one line */
void folder_remove(const char *path);                         /* with all that is in it */
/* Those there that are left of a run that was killed. Not those of one that lives, or whose build does. */
void folder_remove_left(struct arena *arena, const char *in);

#endif
