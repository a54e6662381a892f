/* SPDX-License-Identifier: Apache-2.0
 * Batches of references to several simulators, each in a thread of its own where there are processors for it. */
#ifndef MTOOL_SPY_FEED_H
#define MTOOL_SPY_FEED_H

#include "cache/cache.h"

typedef void (*feed_to)(void *simulator, const struct cache_ref *refs, size_t count);

struct feed; /* opaque */
struct feed *feed_new(void);
void feed_add(struct feed *f, feed_to to, void *simulator); /* before the first reference */
/* Room for more references, [*room]; those that are put there are simulated sooner or later, when it was said how many.
 */
struct cache_ref *feed_room(struct feed *f, size_t *room);
void feed_put(struct feed *f, size_t count);
/* A number for all that was put there so far, and whether all up to such a one is simulated. */
uint64_t feed_mark(const struct feed *f);
bool feed_has_passed(struct feed *f, uint64_t mark);
void feed_wait(struct feed *f); /* returns when all that was put there is simulated */
void feed_end(struct feed *f);  /* returns when all are simulated */
void feed_free(struct feed *f);

#endif
