/* SPDX-License-Identifier: Apache-2.0
 *
 * objects: loops, procedures and pieces of code as m-objects, and which of them are worth a probe.
 */
#ifndef MTOOL_OBJECTS_H
#define MTOOL_OBJECTS_H

#include "estimate/estimate.h"

/* ---- objects.c ---- */
/* The object that a block of this function and innermost loop (ID_NONE: none) belongs to; ID_NONE if to none. */
uint32_t objects_owner(const struct join *j, const struct join_module *m, uint32_t func, uint32_t loop);
void objects_build(
    struct join *j); /* needs all sums; fills objects, in order of memory seconds, and what is measured */

/* ---- requested.c ---- */
struct requested_set {
    const struct prof_request *list;
    size_t count;
    const char *option; /* that the user named them with */
    bool regions;       /* may be meant too */
};
/* By object: did the user name it? In j->scratch. Marks what is asked of the regions. Warns of what names nothing. */
bool *requested_objects(struct join *j, const struct requested_set *want);

/* ---- select.c ---- */
void select_build(struct join *j); /* needs the objects; fills candidates */

#endif
