/* SPDX-License-Identifier: Apache-2.0
 *
 * report/data.h: what painters say of what mtool spy found, once: names, causes, who evicted what. All texts are safe.
 */
#ifndef MTOOL_REPORT_DATA_H
#define MTOOL_REPORT_DATA_H

#include "report/impl.h"
#include "result/data/data.h"

/* The profile has neither times nor counts, but what mtool spy found. */
bool data_is_all(const struct prof_result *r);

/* "capacity 75%", "cap. 75%": the cause of most of the stall; "?" unknown, "-" without misses. */
const char *data_cause_text(const struct prof_result *r, enum prof_data_owner owner, uint32_t id, bool is_brief,
                            struct arena *a);

/* Misses of a reference; NAN unknown, or if one reference reaches more lines than there are references. */
double data_rate(uint64_t misses, uint64_t references);
/* Misses at a row of a curve, of each reference of the program, so that objects' add up to the program's; NAN. */
double data_curve_ratio(const struct prof_result *r, const struct prof_data_curve *row);
const char *figure_brief(struct arena *a, uint64_t n);     /* "999", "12.3k", "60.0M" */
const char *figure_bytes(struct arena *a, uint64_t bytes); /* "128", "32K", "7.6M" */

/* Brief, another for each object: "make", "make (2)". */
const char *data_name(const struct prof_result *r, uint32_t object, struct arena *a); /* ID_NONE: "others" */
const char *data_function(const char *function, const char *module, struct arena *a);
const char *data_place(const char *file, uint32_t line, struct arena *a); /* "gather.c:12"; "" unknown */
const char *data_level(const struct prof_cache *c, struct arena *a);      /* "L1 32K/64/8" */
/* "make_grid (gather.c:22) < main (gather.c:61)", at most so many frames; NULL: not known. */
const char *data_site(const struct prof_result *r, uint32_t object, size_t frames, struct arena *a);
/* "queue 65%, itself 35%": of the level where evictions cost it most; NULL: nothing is known. */
const char *data_evictors(const struct prof_result *r, uint32_t object, size_t max, struct arena *a);
/* "queue 12.3M": what it evicted, most first, at the level where that costs the other most. */
const char *data_evicted(const struct prof_result *r, uint32_t object, size_t max, struct arena *a);
/* "thread 0 writes hits in gather (gather.c:14)" */
const char *data_site_text(const struct prof_result *r, const struct prof_data_site *s, struct arena *a);
bool data_is_shared(const struct prof_result *r, uint32_t sharing, uint32_t object); /* is that line's, in part */
/* How the references were followed, in a sentence. */
const char *data_how(const struct prof_result *r, struct arena *a);

/* A level that tables have a column for: those of the primary configuration, no TLB. At most `max`, else the nearest
 * ones and the last. How many. */
size_t data_levels(const struct prof_result *r, uint32_t *levels, size_t max);
uint64_t data_misses_at(const struct prof_result *r, enum prof_data_owner owner, uint32_t id, uint32_t cache);

/* ---- text/data_diff.c ---- */

const char *data_misses_text(double misses, struct arena *a);               /* "12.3k" */
const char *data_change_text(const struct diff_figure *f, struct arena *a); /* "+12.3k (-5%)" */
/* Of the new side if it is there. */
const struct prof_data *data_diff_any(const struct diff_data *x);
const char *data_diff_name(const struct prof_diff *d, const struct diff_data *x, struct arena *a);

#endif
