/* SPDX-License-Identifier: Apache-2.0
 *
 * Several threads with caches of their own: a write takes the line from all others (write-invalidate, as MESI does), a
 * read leaves what was another's and dirty clean. What threads take from each other is a block: as long as the longest
 * line of a private level. Not simulated are messages, and caches that supply each other.
 *
 * Misses on that account are told apart as Dubois, Skeppstedt, Ricciulli, Ramamurthy and Stenstrom do (ISCA 1993): one
 * is true sharing if the thread, before it loses the line again, uses a byte that another has written since the thread
 * last used such a byte; else the miss was useless, false sharing. A use is a load or a store. Theirs are caches that
 * never evict: here a miss for another reason, which all private levels have, brings all that was written.
 */
#ifndef MTOOL_CACHE_COHERENCE_H
#define MTOOL_CACHE_COHERENCE_H

#include "cache/cache.h"

#define CACHE_NOBODY UINT32_MAX

enum { COHERENCE_FILTER_BITS = 1 << 20 };

struct coherence_filter { /* of most blocks it tells that nothing is known of them */
    unsigned shift;       /* of an address, to its block */
    uint64_t bits[COHERENCE_FILTER_BITS / 64];
};
struct coherence; /* begins with the filter */
struct visit;

static inline uint64_t coherence_hash(uint64_t block)
{
    return (block * 0x9e3779b97f4a7c15u) >> 40 & (COHERENCE_FILTER_BITS - 1);
}
/* Whether some thread may have lost the block of this address. */
static inline bool coherence_watches(const struct coherence *k, uint64_t address)
{
    const struct coherence_filter *f = (const struct coherence_filter *)k;
    uint64_t h = coherence_hash(address >> f->shift);
    return f->bits[h / 64] >> h % 64 & 1;
}

/* NULL if no level is coherent. Of a cache through which one thread went so far. */
struct coherence *coherence_new(const struct cache *c);
void coherence_free(struct coherence *k);
void coherence_empty(struct coherence *k); /* nothing is in any cache, nothing was lost; what was counted stays */
/* So that what is known of the block is near when it is looked for. */
void coherence_look(const struct coherence *k, uint64_t address);
/* Before a write reaches the first level. Whether its thread is then the only one that may have any of it in a coherent
 * level, and is known to. */
bool coherence_write(struct cache *c, const struct visit *v);
/* A miss leaves the coherent levels. Whether its thread is then the only one that may have the block. */
bool coherence_fetch(struct cache *c, uint64_t address, const struct visit *v);
/* Which sharing it is that the level misses a line which was taken away. */
enum cache_cause coherence_judge(struct cache *c, int at, uint64_t line, const struct visit *v);
void coherence_use(struct cache *c, const struct visit *v);                     /* behind each reference */
void coherence_forget(struct cache *c, int at, unsigned thread, uint64_t line); /* it left the level */

#endif
