/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c: the profiles of the ranks of a parallel job to one profile.
 */
#ifndef MTOOL_RESULT_MERGE_H
#define MTOOL_RESULT_MERGE_H

#include "result/result.h"

struct merge_input {
    const char *path; /* of the profile, for people */
    const struct prof_result *result;
};
/* Fills `out`, which is new; in order of `in`. Warns of ranks that are missing. 0, or -1 after one line: not of one
 * program, a rank twice, or none. */
int prof_merge(struct prof_result *out, const struct merge_input *in, size_t count);

#endif
