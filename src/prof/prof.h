/* SPDX-License-Identifier: Apache-2.0
 *
 * prof: joins counts, times, samples, the cfg and the models into ONE result (result/result.h).
 */
#ifndef MTOOL_PROF_H
#define MTOOL_PROF_H

#include "measured/input.h"

/* Fills r (objects, coverage, times, refused, lines, blocks...) from the inputs; what the caller set (program, command,
 * launch mode...) stays. 0, or -1 after one line. */
int prof_join(struct prof_result *r, const struct prof_input *in);

#endif
