/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found of a trace, between the job and its two painters; and of a program (program.c). */
#ifndef MTOOL_CMD_SPY_TRACED_H
#define MTOOL_CMD_SPY_TRACED_H

#include "cache/cache.h"
#include "cmd/cmd.h"
#include "machine/machine.h"

/* Of the curve: sizes that are powers of two. */
enum { SPY_CURVE_MIN = 4 << 10, SPY_CURVE_MAX = 256 << 20 };

struct spy_caches {   /* a configuration, simulated */
    const char *name; /* as the user gave it, or "caches of AMD Zen 4" */
    struct cache_config config;
    struct cache *cache;
    bool is_tlb;
    double miss_cycles[CACHE_LEVELS_MAX]; /* what a miss counts for, beyond those of nearer levels */
    uint64_t reach_bytes;                 /* of TLBs of this machine, small pages; else 0 */
    struct machine_huge_pages huge_pages; /* what they gain here; 1 of machines that are described alone */
};
/* caches.c: those that the options ask for, one at least, in the arena. 0, or -1 after one line. */
int spy_choose_caches(const struct cmd_args *a, struct arena *arena, struct spy_caches **out, size_t *count);
/* Of those that are this machine's TLBs. */
void spy_try_huge_pages(struct spy_caches *caches, size_t count);
uint32_t spy_curve_line(const struct cache_config *c); /* bytes of a line of the nearest cache of data */

struct spy_traced {
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
/* trace.c: those with most misses first, spy.top at most. In the arena. */
struct spy_instruction *spy_worst(const struct spy_traced *s, const struct spy_caches *c, unsigned level,
                                  size_t *count);
uint64_t spy_level_misses(const struct spy_caches *c, unsigned level);
uint64_t spy_level_references(const struct spy_caches *c, unsigned level);

int spy_trace(const struct cmd_args *a);   /* trace.c: an exit status */
int spy_program(const struct cmd_args *a); /* program.c: an exit status, or it ends as the program did */

void spy_put_text(const struct spy_traced *s, struct strbuf *out); /* text.c */
void spy_put_json(const struct spy_traced *s, struct strbuf *out); /* json.c: schema mtool-spy-1 (doc/spy.md) */

#endif
