/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the model share: model.c makes it of a description, fetches.c, accesses.c and tlb.c ask it. What is
 * on the way of most references is in line.
 */
#ifndef MTOOL_PLUGIN_MODEL_H
#define MTOOL_PLUGIN_MODEL_H

#include "plugin/filter.h"
#include "plugin/plugin.h"

#define NO_PAGE UINT64_MAX
enum { MEMO_PAGES = 4096, BUFFER_MAX = 256, TLB_PLACES = 1024 };

struct memo {           /* a page of the guest's addresses */
    uint64_t page;      /* and 1, so that 0 is none */
    uint64_t distance;  /* physical - virtual */
    uint64_t to_cached; /* what of that the caches' addresses have */
    uint64_t tlb_age;   /* it is in the TLB while that is the age of the TLB; 0: unknown */
};

struct model {
    struct cache_config config, tlb_config;
    struct cache *cache, *tlb;
    struct filter code, data;
    struct memo memo[MEMO_PAGES];
    bool is_inclusive;
    uint32_t penalty[2][1 << WIRE_LEVELS_MAX]; /* data, code: by the levels that missed */
    int8_t column[2][CACHE_LEVELS_MAX];        /* which of the WIRE_*_MISSES a level is */
    uint32_t uncached, tlb_penalty, tlb_far_penalty;
    bool tlb_is_random, tlb_is_known; /* is_known: of a page it is told when it goes */
    uint64_t tlb_age, code_page, data_page, kernel_page;
    uint64_t tlb_has[TLB_PLACES]; /* of a page that is in the TLB for sure its address there, and 1 */
    double per_operation;         /* cycles */
    double stalls;
    double done[BUFFER_MAX], last_done; /* write buffer: when each entry has been written */
    uint64_t last_written;              /* its page */
    uint64_t missed_lines;              /* of the last segment, a bit each */
    unsigned entries, next;
    bool is_buffered; /* what a store misses does not keep it in the buffer */
    double drain, drain_page;
};
extern struct model model;

static inline double later(double a, double b) { return a > b ? a : b; }

/* Cycles since the begin. */
static inline double model_now(void)
{
    return (double)(int64_t)(totals[0].operations + totals[1].operations) * model.per_operation + model.stalls;
}

/* As model_stall, of the first instruction or the last, without fractions. */
static inline void model_stall_whole(struct segment *s, enum wire_column cause, unsigned at, uint64_t cycles)
{
    s->stalls[at][cause - WIRE_STALL_FETCH] += cycles;
    totals[s->is_kernel].stalls[cause - WIRE_STALL_FETCH] += cycles;
    model.stalls += (double)cycles;
}

/* ---- model.c ---- */

/* The levels that missed. */
unsigned model_reach(uint64_t address, uint64_t bytes, enum cache_kind kind, struct filter *f);
/* Counts them. `side`: 0 data, 1 code. */
void model_count_misses(struct row *row, unsigned missed, unsigned side, enum wire_column first);

/* ---- tlb.c ---- */

void tlb_make(void);                                                                   /* of model_machine */
struct memo *tlb_ask_page(qemu_plugin_meminfo_t info, uint64_t vaddr, struct memo *m); /* NULL: a device */
void tlb_pass(const struct site *s, uint64_t vaddr, bool stores, struct memo *m);
void tlb_pass_code(struct segment *s);

#endif
