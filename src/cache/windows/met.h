/* SPDX-License-Identifier: Apache-2.0
 *
 * Of which lines windows are the first to meet, in how many of them: what tells a line that the run meets for the first
 * time from one that only the window does.
 */
#ifndef MTOOL_CACHE_MET_H
#define MTOOL_CACHE_MET_H

#include "cache/cache.h"

struct met_counts { /* lines, by the number of windows that met them */
    uint64_t once, twice, more;
};

struct met {
    struct map lines; /* line -> who met it first, in how many windows, and in which last */
    struct met_counts all;
    VEC(struct met_counts) cells; /* by the cell that met them first */
};

void met_fini(struct met *m);
/* The window has not met the line before, or another thread of it has. */
void met_count(struct met *m, uint64_t line, uint32_t cell, size_t window);
void met_add_cell(struct met_counts *sum, const struct met *m, uint32_t cell);
/* How many lines there are, those that no window met too (Chao 2, for the counts of `windows` of them: Chao 1987). */
double met_lines(const struct met_counts *n, size_t windows);

#endif
