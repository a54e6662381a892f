/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate: the time that code takes if every access hits the first-level cache: by replays of slices of the real
 * stream, and by the core model where they do not reach.
 *
 *   model/  windows and drawn paths through the core model     replays/  what replays measured, and what they cannot
 */
#ifndef MTOOL_ESTIMATE_H
#define MTOOL_ESTIMATE_H

#include "measured/measured.h"

/* ---- forms.c ---- */
void forms_request(struct join *j); /* asks in->time_forms for the forms that the machine lacks */

/* ---- ideal.c ---- */
void ideal_prepare(struct join *j); /* clock and error bar of the machine description */
struct prof_interval ideal_of(const struct join *j, const struct tally *t); /* seconds of one object */
struct prof_interval ideal_of_whole(const struct join *j);                  /* of all counted code */
/* Seconds more for mispredicted branches; unknown without windows. */
struct prof_interval branch_of(const struct join *j, const struct tally *t);
struct prof_interval branch_of_whole(const struct join *j);

#endif
