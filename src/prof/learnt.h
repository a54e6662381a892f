/* SPDX-License-Identifier: Apache-2.0
 *
 * prof/learnt.h: which of several slices that do the same are as the program is.
 */
#ifndef MTOOL_PROF_LEARNT_H
#define MTOOL_PROF_LEARNT_H

#include "prof/fit.h"

/* Leaves out slices that may learn and take longer than another of the same work. */
void learnt_only(struct fit *f);

#endif
