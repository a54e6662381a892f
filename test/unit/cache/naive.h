/* SPDX-License-Identifier: Apache-2.0
 *
 * The simplest simulator of what doc/spy.md says, to compare the fast one with: every line of a level is a record with
 * the time of its last use, everything is searched for, nothing is shared with src/cache but the description of a
 * cache.
 */
#ifndef NAIVE_H
#define NAIVE_H

#include "cache/cache.h"

struct naive; /* opaque */
struct naive *naive_new(const struct cache_config *config);
void naive_free(struct naive *n);
void naive_reach(struct naive *n, const struct cache_ref *r);
const struct cache_counts *naive_counts(const struct naive *n, unsigned level);
/* Misses of `cell` at a level whose lines references of `by` had evicted. */
uint64_t naive_evictions(const struct naive *n, unsigned level, uint32_t cell, uint32_t by);
/* Misses of `cell` at a level whose lines writes of another thread had taken away. Threads 0 to 3. */
uint64_t naive_sharing(const struct naive *n, unsigned level, uint32_t cell, bool is_true);

#endif
