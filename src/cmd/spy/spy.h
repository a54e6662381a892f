/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found, between the job and its two painters. */
#ifndef MTOOL_CMD_SPY_H
#define MTOOL_CMD_SPY_H

#include "cache/cache.h"
#include "cmd/cmd.h"

/* Of the curve: sizes that are powers of two. */
enum { SPY_CURVE_MIN = 4 << 10, SPY_CURVE_MAX = 256 << 20 };

struct spy_caches {   /* a configuration, simulated */
    const char *name; /* as the user gave it, or "caches of AMD Zen 4" */
    struct cache_config config;
    struct cache *cache;
};

struct spy {
    const char *trace; /* for people */
    struct cache_reader *reader;
    struct spy_caches *caches;
    size_t count;
    uint64_t references[CACHE_KIND_COUNT + 1]; /* by kind as traced, CACHE_MODIFY by itself */
    struct cache_curve *curve;                 /* of data */
    uint32_t curve_line;                       /* bytes */
    size_t top;                                /* instructions of a level that are told */
    struct arena *arena;
};

/* An instruction's misses in one level. */
struct spy_instruction {
    uint32_t cell;
    const struct cache_cell *counts;
    const struct cache_evictor *evictors; /* with most misses first */
    size_t evictor_count;
};
/* spy.c: those with most misses first, spy.top at most. In the arena. */
struct spy_instruction *spy_worst(const struct spy *s, const struct spy_caches *c, unsigned level, size_t *count);
uint64_t spy_level_misses(const struct spy_caches *c, unsigned level);
uint64_t spy_level_references(const struct spy_caches *c, unsigned level);

void spy_put_text(const struct spy *s, struct strbuf *out); /* text.c */
void spy_put_json(const struct spy *s, struct strbuf *out); /* json.c: schema mtool-spy-1 (doc/spy.md) */

#endif
