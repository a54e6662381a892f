/* SPDX-License-Identifier: Apache-2.0
 *
 * result/data/data.h: questions to what mtool spy found. The lists are in the order that result.h says; of lists that
 * are in none (a file made by others) fewer rows are found.
 */
#ifndef MTOOL_RESULT_DATA_DATA_H
#define MTOOL_RESULT_DATA_DATA_H

#include "result/result.h"

struct data_range { /* rows of a list that follow each other */
    size_t first, end;
};
/* Those whose `member`, by which the list is in order, is `id`. */
#define DATA_RANGE(list, count, member, id)                                                                            \
    data_range((list), (count), sizeof *(list), offsetof(__typeof__(*(list)), member), (id))
struct data_range data_range(const void *rows, size_t count, size_t row_bytes, size_t member, uint32_t id);

/* NULL: the figures of this level are not known. */
const struct prof_data_miss *data_miss(const struct prof_result *r, enum prof_data_owner owner, uint32_t id,
                                       uint32_t cache);
/* The level that figures are said of where none is named; ID_NONE: no cache was simulated. */
uint32_t data_primary(const struct prof_result *r);
uint32_t data_nearest(const struct prof_result *r); /* of its configuration the nearest level; ID_NONE likewise */
/* Misses of the last TLB of the primary level's configuration, each of which is a page walk; PROF_UNKNOWN: there is
 * none. */
uint64_t data_walks(const struct prof_result *r, enum prof_data_owner owner, uint32_t id);

enum data_cause { /* of a miss; the last is of stall only */
#define CAUSE(id, member, word, brief) DATA_CAUSE_##id,
#include "result/data/causes.def"
#undef CAUSE
                  DATA_CAUSE_COUNT,
                  DATA_WALKS = DATA_CAUSE_COUNT, /* TLB misses, where they count */
                  DATA_STALL_COUNT
};
struct data_cause_about {
    const char *member, *word, *brief; /* in JSON; "false sharing"; at most five letters */
    size_t offset;                     /* of the count in struct prof_data_miss */
};
extern const struct data_cause_about data_causes[DATA_STALL_COUNT];
/* Of a row of misses; PROF_UNKNOWN if it is NULL. */
uint64_t data_cause_count(const struct prof_data_miss *m, enum data_cause c);
/* What of the stall of an owner is of each cause: misses of all levels of the primary configuration, each by its
 * miss_cycles; without these, of the primary level alone. Fractions, that add up to 1; all NAN where none is known. */
void data_stall_causes(const struct prof_result *r, enum prof_data_owner owner, uint32_t id,
                       double out[DATA_STALL_COUNT]);
/* Cycles: misses of all levels of the primary configuration, each by its miss_cycles; without these misses of the
 * primary level. NAN not known. */
double data_stall_cycles(const struct prof_result *r, enum prof_data_owner owner, uint32_t id);
/* Of the levels in which an object misses what was evicted, the one where that costs most; the primary one if none
 * does. */
uint32_t data_evictor_level(const struct prof_result *r, uint32_t object);

struct data_procedure { /* a function, whatever it reaches: the sum of its cells */
    const char *function, *module;
    uint64_t references, misses; /* in the nearest level */
    double stall_share, memory_s;
    uint32_t first; /* of its cells, by number */
};
/* Those with most of the stall first; in `a`. */
struct data_procedure *data_procedures(const struct prof_result *r, struct arena *a, size_t *count);

#endif
