/* SPDX-License-Identifier: Apache-2.0
 *
 * result/data.h: questions to what mtool spy found. The lists are in the order that result.h says; of lists that are in
 * none (a file made by others) fewer rows are found.
 */
#ifndef MTOOL_RESULT_DATA_H
#define MTOOL_RESULT_DATA_H

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
/* Misses of the last TLB of the primary level's configuration, each of which is a page walk; PROF_UNKNOWN: there is
 * none. */
uint64_t data_walks(const struct prof_result *r, enum prof_data_owner owner, uint32_t id);

struct data_procedure { /* a function, whatever it reaches: the sum of its cells */
    const char *function, *module;
    uint64_t references, misses; /* in the primary level */
    double stall_share, memory_s;
    uint32_t first; /* of its cells, by number */
};
/* Those with most of the stall first; in `a`. */
struct data_procedure *data_procedures(const struct prof_result *r, struct arena *a, size_t *count);

#endif
