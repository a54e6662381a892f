/* SPDX-License-Identifier: Apache-2.0
 *
 * report/source.h: a source file as lines, for painters that show it.
 */
#ifndef MTOOL_REPORT_SOURCE_H
#define MTOOL_REPORT_SOURCE_H

#include "base/base.h"

struct source {
    const char *name;   /* as the profile has it */
    const char *path;   /* where it was found, NULL: nowhere */
    const char *looked; /* where it was looked for, ", " between */
    bool is_newer;      /* changed after the run began */
    const char **lines; /* of line_count + 1: where each begins; the last is the end */
    uint32_t line_count;
};

/* Looks for `name` itself, then for each tail of it below `folder` (NULL: nowhere else). `started`: when the program
 * ran, as in struct prof_result. Never NULL; all in `a`. */
struct source *source_read(struct arena *a, const char *name, const char *folder, const char *started);
/* Line 1 to line_count, without its end, safe for terminals. In `a`. */
const char *source_line(struct arena *a, const struct source *s, uint32_t line);

#endif
