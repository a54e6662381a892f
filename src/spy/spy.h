/* SPDX-License-Identifier: Apache-2.0
 *
 * spy: what a program references, through simulated caches, told by cell: who references (a site: one access of one
 * instruction) and what (an object of the program's data). It knows neither files nor allocations: sites and objects
 * are numbers of the caller's, who is asked which object an address belongs to.
 *
 *     struct spy *s = spy_new(&options);
 *     spy_add_sites(s, sites, count);
 *     while (...) spy_reference(s, thread, site, address, length);
 *     spy_end(s);
 *     spy_cells(s, &count); cache_cells(spy_cache(s, 0), level, &counts)[cell]...
 */
#ifndef MTOOL_SPY_H
#define MTOOL_SPY_H

#include "base/base.h"
#include "cache/cache.h"

struct spy_site {
    uint64_t address; /* of the instruction, as in its file */
    uint32_t module;  /* a number of the caller's */
    uint16_t bytes;   /* of an access; 0: it makes none that are told */
    uint8_t kind;     /* enum cache_kind, CACHE_MODIFY too */
};

/* What an address belongs to at this moment. */
struct spy_whose {
    uint32_t object; /* below SPY_OBJECTS_MAX, small ones best */
    uint32_t field;  /* of it, below SPY_FIELDS_MAX; 0: of none */
};
enum { SPY_OBJECTS_MAX = 1 << 25, SPY_FIELDS_MAX = 1 << 10 };
struct spy_hint { /* the finder's own: where it found that; 0, 0: nothing */
    uint32_t block, serial;
};
struct spy_access { /* of one piece of memory */
    uint64_t address;
    uint32_t site;
    uint16_t bytes;
    uint8_t thread;
    uint8_t is_piece; /* of a range */
    uint8_t orders;   /* so many of spy_ordered came in front of it */
    struct spy_whose whose;
    struct spy_hint hint;
};
/* Fills in whose they are, which are in order. What stands there is what it found for an earlier reference of the site,
 * of which most are to the same. */
typedef void (*spy_find_whose)(void *ctx, struct spy_access *accesses, size_t count);

struct spy_options {
    const struct cache_config *configs; /* [config_count], each simulated by itself */
    size_t config_count;
    uint32_t curve_line;    /* bytes of a line of the miss-ratio curve; 0: none is wanted */
    uint64_t curve_least;   /* the smallest cache that it tells of, a power of two */
    uint64_t curve_bytes;   /* the largest; of powers of two between */
    struct cache_part part; /* all of them take it; one_in 0 or 1: everything */
    bool has_threads; /* there may be several: what they take from each other is looked at in a second order too */
    struct cache_lost *lost; /* NULL: nobody wants it; cache_tell_lost, of all of them, until spy_free */
    uint8_t filter_shift;    /* not 0: spy_ordered is told; log2 of the filter's lines */
    spy_find_whose find_whose;
    void *ctx;
};

struct spy; /* opaque */
struct spy *spy_new(const struct spy_options *options);
void spy_free(struct spy *s);

/* More sites, numbered on from those before. */
void spy_add_sites(struct spy *s, const struct spy_site *sites, size_t count);
/* Who leaves out references that only change the order of the last lines among those whose numbers end in the same 6
 * bits (their place) says so before the next one that comes there: `order` has in each 4 bits, from the lowest on,
 * which of the last 8 lines as they came (0: the last one) stands there now. Each thread has lines of its own. No such
 * order: nothing changes. */
enum { SPY_FILTER_SLOTS = 64, SPY_LAST_LINES = 8 };
void spy_ordered(struct spy *s, uint32_t thread, uint32_t place, uint32_t order);
/* An access to [address, address + length); length 0: as many bytes as the site says. Whose it is is asked later, for
 * many at a time; who changes what objects are where says so before (spy_settle). Simulated later still, in this order,
 * in threads of its own. Sites that are not known, and addresses that cannot be, are passed over. Of threads beyond
 * CACHE_THREADS_MAX several share their private levels. Lines that are not in the part are passed over, and count
 * nowhere. */
void spy_reference(struct spy *s, uint32_t thread, uint32_t site, uint64_t address, uint64_t length);
void spy_settle(struct spy *s); /* asks whose all are that came so far */
/* The same as spy_reference of one access of a site's own length, for who has many: what is usual of it is done here.
 */
enum { SPY_PENDING = 512, SPY_ORDERS = 1024 };
struct spy_order {
    uint32_t order;
    uint8_t thread, place;
};
struct spy_pending {
    struct spy_access all[SPY_PENDING];
    size_t count;
    const struct spy_site *sites;
    size_t site_count;
    bool is_whole; /* no part alone is simulated */
    struct spy_order orders[SPY_ORDERS];
    size_t order_count;
    uint8_t waiting; /* the last so many are in front of the next access */
};
struct spy_pending *spy_pending(struct spy *s); /* valid as long as it is */
static inline bool spy_put(struct spy_pending *p, uint32_t thread, uint32_t site, uint64_t address)
{
    if (site >= p->site_count || address >> 47 || !p->sites[site].bytes || !p->is_whole || p->count == SPY_PENDING)
        return false; /* spy_reference takes it */
    struct spy_access *a = &p->all[p->count++];
    a->address = address;
    a->orders = p->waiting;
    p->waiting = 0;
    a->site = site;
    a->bytes = p->sites[site].bytes;
    a->thread = (uint8_t)(thread % CACHE_THREADS_MAX);
    a->is_piece = 0;
    return true;
}
/* A number for all that came so far, and whether all up to such a one is simulated. */
uint64_t spy_mark(struct spy *s);
bool spy_has_passed(struct spy *s, uint64_t mark);
/* All these once more, in another order that could have been. Nothing unless the options say that there are threads. */
void spy_reference_again(struct spy *s, uint32_t thread, uint32_t site, uint64_t address, uint64_t length);
/* Samples: what is referenced between is one window (cache_window_begin) of all configurations. There must be no curve.
 */
void spy_window_begin(struct spy *s);
void spy_window_end(struct spy *s, uint64_t references, double weight);
void spy_end(struct spy *s); /* waits until all are simulated; there are no more */

struct spy_cell { /* its number is that of the caches' cells */
    uint32_t site, object, field;
    uint32_t votes;       /* spy's own, as `last` */
    uint64_t references;  /* that came */
    uint64_t range_bytes; /* of those that were pieces of ranges, beyond the site's bytes for each */
    /* The distance from one to the next that most of them have, if any has the majority, and about how many have it. */
    int64_t stride;
    uint64_t strided, last;
};
/* After spy_end. */
const struct spy_cell *spy_cells(const struct spy *s, size_t *count);
const struct spy_site *spy_site(const struct spy *s, uint32_t site);
uint32_t spy_site_count(const struct spy *s);
const struct cache *spy_cache(const struct spy *s, size_t config);
/* Of windows, after spy_end: as cache_windows_weigh and cache_windows_stand_for; factors of the cells of each site. */
void spy_windows_stand_for(struct spy *s, const double *weights, double references, const double *factor_of_site);
uint64_t spy_window_count(const struct spy *s, uint64_t *references); /* and how many there were in them */
/* Of the line at that address, as cache_shared_lines has them of the first configuration: how often a thread came back
 * to it after another one had written it, in the second order; as often as can be without threads. */
uint64_t spy_second_misses(const struct spy *s, uint64_t address);
/* Of the first configuration, as cache_shared_lines; where others were absorbed the addresses are of no memory. */
const struct cache_shared_line *spy_shared_lines(const struct spy *s, struct arena *a, size_t max, size_t *count);
const struct cache_curve *spy_curve(const struct spy *s); /* NULL: none was wanted */
unsigned spy_one_in(const struct spy *s);                 /* of the part */

/* Which part of an object was reached when: one reference in spy_picture_sample() of those that came is in it. Of
 * objects that had some ten thousand of them, at most 64. The last times may be empty: the run ended before. */
enum { SPY_PICTURE_TIMES = 64, SPY_PICTURE_PARTS = 64 };
struct spy_picture_cell {
    uint32_t count;
    uint32_t cell, votes; /* of spy_cells: the one that has most, if one has more than half; votes 0: none has */
};
struct spy_picture {
    uint32_t object;
    uint64_t begin;                 /* address of part 0 */
    unsigned part_shift;            /* a part has 1 << part_shift bytes */
    struct spy_picture_cell *cells; /* [SPY_PICTURE_TIMES][SPY_PICTURE_PARTS] */
};
const struct spy_picture *spy_pictures(const struct spy *s, size_t *count);
unsigned spy_picture_sample(void);

/* Of programs with threads: who touched the pages first in which an object lies, and who uses them. Pages are taken to
 * stay where they were touched first, though a later block may lie there. */
struct spy_touched {
    uint32_t object;
    uint64_t visits;    /* of a thread to a page, when it has not been there lately */
    uint64_t elsewhere; /* of these, of another thread than the one that touched the page first */
    uint64_t usual;     /* of these, of the thread that visits it most */
    uint32_t cell;      /* whose reference was the first in most of such pages, if votes is not 0 */
    uint64_t votes;
};
const struct spy_touched *spy_touched(const struct spy *s, size_t *count);

uint64_t spy_strays(const struct spy *s); /* references that were passed over */

/* ---- several processes ---- */

struct spy_absorption {
    const uint32_t *sites; /* what its sites and objects are here, by its numbers */
    const uint32_t *objects;
    /* The begin of the block of its object that holds the address; UINT64_MAX: not known. */
    uint64_t (*block_begin)(void *ctx, uint32_t object, uint64_t address);
    void *ctx;
};
/* What the other found is found here too. It has ended, of the same configurations; here no reference comes. */
void spy_absorb(struct spy *s, const struct spy *from, const struct spy_absorption *how);
/* Of a line of spy_shared_lines, where others were absorbed: how far behind the begin of its block; UINT64_MAX. */
uint64_t spy_absorbed_offset(const struct spy *s, uint64_t address);

#endif
