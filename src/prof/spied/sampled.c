/* SPDX-License-Identifier: Apache-2.0
 *
 * Of some sets for all: what one set in N missed, N times, with an interval by how much the groups of these sets
 * differ. Of some samples of the run for all of it: what they are estimated to miss, with an interval that holds also
 * what they do not know of the caches at their begin, and what lies between them (cache_estimate). Where everything was
 * simulated nothing changes, and figures are exact.
 */
#include "prof/spied/spied.h"

#include <math.h>
#include <stdlib.h>

static const struct cache *cache_of(const struct spied *s, const struct spied_level *l)
{
    return spy_cache(s->in->spy, l->config);
}

double spied_scale(const struct spied *s)
{
    if (!s->windows)
        return s->one_in;
    return s->in_windows ? (double)s->references / (double)s->in_windows : 1;
}

/* ---- misses ---- */

static uint64_t times(uint64_t n, double by) { return (uint64_t)llround((double)n * by); }

/* Causes but for cold ones as in what was simulated. What a sample had not met before may be anything but these: cold
 * as far as there are lines, and beyond that it was there before the sample, and had to go. */
static void scale_cell(struct cache_cell *c, const struct cache_estimate *e)
{
    double misses = e->misses, by = c->misses ? misses / (double)c->misses : 0;
    uint64_t others = 0;
    c->references = (uint64_t)llround(e->references);
    c->streamed = times(c->streamed, by);
    for (int k = 0; k < CACHE_CAUSE_COUNT; k++)
        others += k == CACHE_COLD ? 0 : (c->causes[k] = times(c->causes[k], by));
    c->misses = max_u64((uint64_t)llround(misses), others);
    uint64_t unmet = c->misses - others, cold = isnan(e->cold) ? unmet : min_u64(unmet, (uint64_t)llround(e->cold));
    c->causes[CACHE_COLD] = cold;
    c->causes[CACHE_CAPACITY] += unmet - cold;
}

const struct cache_cell *spied_scaled(struct spied *s, const struct spied_level *l)
{
    if (!spied_is_part(s) || !l->cell_count)
        return l->cell;
    struct cache_cell *out = ARENA_ARRAY(s->j->scratch, struct cache_cell, l->cell_count);
    memcpy(out, l->cell, l->cell_count * sizeof *out);
    for (uint32_t i = 0; i < l->cell_count; i++) {
        struct cache_estimate e = cache_estimate_cell(cache_of(s, l), l->level, i);
        scale_cell(&out[i], &e);
    }
    return out;
}

void spied_scale_by(const struct cache_estimate *e, struct prof_data_miss *row)
{
    struct cache_cell c = {.misses = row->misses,
                           .causes = {[CACHE_CAPACITY] = row->capacity,
                                      [CACHE_CONFLICT] = row->conflict,
                                      [CACHE_INCLUSION] = row->inclusion,
                                      [CACHE_AROUND] = row->around,
                                      [CACHE_TRUE_SHARING] = row->true_sharing,
                                      [CACHE_FALSE_SHARING] = row->false_sharing}};
    scale_cell(&c, e);
    row->references = c.references;
    row->misses = c.misses;
    row->cold = row->capacity = row->conflict = row->inclusion = row->around = 0;
    row->true_sharing = row->false_sharing = 0;
    spied_add_causes(row, c.causes);
}

void spied_scale_row(const struct spied *s, struct prof_data_miss *row)
{
    const struct spied_level *l = &s->levels[row->cache];
    if (!spied_is_part(s))
        return;
    struct cache_estimate e = cache_estimate(cache_of(s, l), l->level);
    spied_scale_by(&e, row);
}

void spied_estimate(const struct spied *s, uint32_t level, const uint32_t *cells, size_t count,
                    struct prof_data_miss *row)
{
    const struct spied_level *l = &s->levels[level];
    const struct cache *c = cache_of(s, l);
    row->misses_low = row->misses_high = row->misses;
    if (!spied_is_part(s))
        return;
    struct cache_estimate e = cells ? cache_estimate_cells(c, l->level, cells, count) : cache_estimate(c, l->level);
    row->misses_low = min_u64((uint64_t)ceil(e.low), row->misses);
    row->misses_high = max_u64((uint64_t)floor(e.high), row->misses);
}

/* ---- shares of the stall ---- */

static void add_groups(const struct cache *c, const struct spied_level *l, uint32_t cell, double *to)
{
    unsigned groups;
    const uint64_t *of = cache_cell_groups(c, l->level, cell, &groups);
    for (unsigned i = 0; of && i < groups; i++)
        to[i] += l->miss_cycles * (double)of[i];
}

static void add_cell(const struct spied *s, uint32_t cell, enum cache_reading reading, double *to)
{
    for (uint32_t k = 0; k < s->level_count; k++) {
        const struct spied_level *l = &s->levels[k];
        if (l->config != 0)
            continue;
        if (s->windows)
            cache_windows_add(cache_of(s, l), l->level, cell, reading, l->miss_cycles, to);
        else
            add_groups(cache_of(s, l), l, cell, to);
    }
}

static size_t count_parts(const struct spied *s)
{
    unsigned groups = 0;
    if (s->windows)
        return cache_window_count(spy_cache(s->in->spy, 0));
    cache_cell_groups(spy_cache(s->in->spy, 0), s->levels[0].level, 0, &groups);
    return s->one_in > 1 ? groups : 0;
}

void spied_sum_parts(struct spied *s)
{
    s->part_count = s->level_count ? count_parts(s) : 0;
    for (int r = 0; r < (s->windows ? CACHE_READINGS : 1); r++) {
        s->stall_parts[r] = ARENA_ARRAY(s->j->scratch, double, s->part_count + 1);
        for (uint32_t i = 0; s->part_count && i < s->cell_count; i++)
            add_cell(s, i, (enum cache_reading)r, s->stall_parts[r]);
    }
}

static double sum_of(const double *parts, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += parts[i];
    return sum;
}

/* Half the interval of a share: of what each part has more or less than that share of its own stall. *met: parts that
 * have any. */
static double error_of(const struct spied *s, const struct spied_group *g, double share, size_t *met)
{
    const struct cache *c = spy_cache(s->in->spy, 0);
    double *parts = xmalloc((s->part_count + 1) * sizeof *parts);
    for (size_t i = 0; i < g->count; i++)
        add_cell(s, g->cells[i], CACHE_LIKELY, parts);
    for (size_t i = 0; i < s->part_count; i++) {
        *met += parts[i] > 0;
        parts[i] -= share * s->stall_parts[CACHE_LIKELY][i];
    }
    double error = s->windows ? cache_windows_error(c, parts) : cache_groups_error(c, parts, (unsigned)s->part_count);
    free(parts);
    return error / s->stall_all;
}

/* The share if the unknown misses of all data alike are none, or are all misses. NAN: there is no stall then. */
static double share_read(const struct spied *s, const struct spied_group *g, enum cache_reading reading)
{
    double *parts = xmalloc((s->part_count + 1) * sizeof *parts);
    for (size_t i = 0; i < g->count; i++)
        add_cell(s, g->cells[i], reading, parts);
    double share = sum_of(parts, s->part_count) / sum_of(s->stall_parts[reading], s->part_count);
    free(parts);
    return share;
}

/* What may be more or less of a group's stall since samples do not know what caches held before. */
static struct prof_interval unknown_of(const struct spied *s, const struct spied_group *g)
{
    struct prof_interval sum = {0, 0, 0};
    for (uint32_t k = 0; k < s->level_count; k++) {
        const struct spied_level *l = &s->levels[k];
        for (size_t i = 0; l->config == 0 && i < g->count; i++) {
            struct cache_estimate e = cache_estimate_cell(cache_of(s, l), l->level, g->cells[i]);
            sum.low += l->miss_cycles * (e.misses - e.known);
            sum.high += l->miss_cycles * (e.known + e.unknown - e.misses);
        }
    }
    return sum;
}

/* Either its own unknown misses alone are fewer or more than is estimated, or those of all data together. */
static struct prof_interval read_otherwise(const struct spied *s, const struct spied_group *g, double share)
{
    struct prof_interval unknown = unknown_of(s, g), out = {share, share, share};
    double low = fmax(g->stall - unknown.low, 0), high = g->stall + unknown.high, others = s->stall_all - g->stall;
    double least = share_read(s, g, CACHE_LEAST), most = share_read(s, g, CACHE_MOST);
    out.low = fmin(low + others > 0 ? low / (low + others) : 0, isnan(least) ? 0 : fmin(least, most));
    out.high = fmax(high + others > 0 ? high / (high + others) : 0, isnan(least) ? 1 : fmax(least, most));
    return out;
}

/* What was met in few samples may have more between them than the error of those tells. */
static struct prof_interval widen(const struct spied *s, const struct spied_group *g, double share, double error,
                                  size_t met)
{
    const struct cache *c = spy_cache(s->in->spy, 0);
    struct prof_interval read = read_otherwise(s, g, share);
    double wide = fmax(error, share * cache_windows_passed_by(c)), above = fmax(wide, cache_windows_unmet(c, met));
    return (struct prof_interval){share, fmax(read.low - wide, 0), fmin(read.high + above, 1)};
}

struct prof_interval spied_share(const struct spied *s, const struct spied_group *g)
{
    double share = s->stall_all > 0 ? g->stall / s->stall_all : NAN;
    size_t met = 0;
    double error = s->part_count && s->stall_all > 0 ? error_of(s, g, share, &met) : 0;
    if (s->windows && s->stall_all > 0)
        return widen(s, g, share, error, met);
    return (struct prof_interval){share, fmax(share - error, 0), fmin(share + error, 1)};
}

/* As uncertain as its measured seconds, and as its share of them. */
struct prof_interval spied_memory(const struct spied *s, const struct spied_group *g)
{
    struct prof_interval share = spied_share(s, g);
    if (!(g->stall > 0) || !s->part_count)
        return g->memory_s;
    return (struct prof_interval){g->memory_s.value, g->memory_s.low * share.low / share.value,
                                  g->memory_s.high * share.high / share.value};
}
