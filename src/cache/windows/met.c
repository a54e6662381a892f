/* SPDX-License-Identifier: Apache-2.0
 * Lines by the number of windows that met them, and what that says of those that none met (Chao, "Estimating the
 * population size for capture-recapture data with unequal catchability", Biometrics 1987). */
#include "cache/windows/met.h"

enum { TIMES_BITS = 2, WINDOW_BITS = 30, MANY = 3 };
_Static_assert(TIMES_BITS + WINDOW_BITS == 32, "and the cell");

void met_fini(struct met *m)
{
    map_fini(&m->lines);
    VEC_FREE(&m->cells);
}

static struct met_counts *counts_of(struct met *m, uint32_t cell)
{
    size_t len = (size_t)cell + 1;
    if (len > m->cells.len) {
        VEC_RESERVE(&m->cells, len);
        memset(m->cells.data + m->cells.len, 0, (len - m->cells.len) * sizeof *m->cells.data);
        m->cells.len = len;
    }
    return &m->cells.data[cell];
}

static void count_again(struct met_counts *n, unsigned times)
{
    n->once -= times == 1;
    n->twice += times == 1;
    n->twice -= times == 2;
    n->more += times == 2;
}

void met_count(struct met *m, uint64_t line, uint32_t cell, size_t window)
{
    uint64_t *at = map_place(&m->lines, line), now = (uint64_t)window & ((1u << WINDOW_BITS) - 1);
    unsigned times = *at & ((1u << TIMES_BITS) - 1);
    if (!times) {
        m->all.once++;
        counts_of(m, cell)->once++;
    } else {
        cell = (uint32_t)(*at >> 32);
        if ((uint32_t)*at >> TIMES_BITS == now)
            return;
        count_again(&m->all, times);
        count_again(counts_of(m, cell), times);
    }
    *at = (uint64_t)cell << 32 | now << TIMES_BITS | (times < MANY ? times + 1 : MANY);
}

void met_add_cell(struct met_counts *sum, const struct met *m, uint32_t cell)
{
    if (cell >= m->cells.len)
        return;
    sum->once += m->cells.data[cell].once;
    sum->twice += m->cells.data[cell].twice;
    sum->more += m->cells.data[cell].more;
}

double met_lines(const struct met_counts *n, size_t windows)
{
    double once = (double)n->once, seen = once + (double)n->twice + (double)n->more;
    double part = windows ? ((double)windows - 1) / (double)windows : 0;
    return once > 1 ? seen + part * once * (once - 1) / (2 * ((double)n->twice + 1)) : seen;
}
