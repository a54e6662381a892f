/* SPDX-License-Identifier: Apache-2.0
 *
 * objects/cover.h: what is executed in some objects and on their behalf, by the graph of calls: how objects overlap,
 * and what of the program they leave out.
 */
#ifndef MTOOL_OBJECTS_COVER_H
#define MTOOL_OBJECTS_COVER_H

#include "objects/callees.h"
#include "objects/chains.h"

struct cover_part { /* what an object is */
    const struct join_module *m;
    struct region all; /* with inner loops */
    bool whole;        /* it stands for all procedures of its node */
    bool root;         /* all that the program does is done on its behalf */
};

struct cover;
struct cover *cover_open(struct join *j, struct graph *g); /* in j->scratch; nothing is covered yet */

/* Adds an object's own code; what is done on its behalf is known after cover_flow. */
void cover_add(struct cover *c, const struct cover_part *p);
void cover_flow(struct cover *c);
/* Of procedures that have samples enough, these tell on whose behalf they work; of the others, counts of calls. */
void cover_correct(struct cover *c, const struct chained_share *by_node);
void cover_clear(struct cover *c);
/* By number of a block: whether it was added. */
const uint8_t *cover_direct(const struct cover *c);

/* How much of a part's own work is done within what was added, 0 to 1. */
double cover_of_part(const struct cover *c, const struct cover_part *p);
struct work cover_work(const struct cover *c); /* within what was added */
/* By node: memory operations on its behalf that are not within what was added. In j->scratch. */
const double *cover_lacks(struct cover *c);

#endif
