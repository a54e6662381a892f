/* SPDX-License-Identifier: Apache-2.0
 * Estimates from windows (Martonosi, Gupta and Anderson 1993; Wood, Hill and Kessler 1991). */
#include "cache/sample.h"
#include "cache/hierarchy.h"

#include <math.h>
#include <stdlib.h>

enum { MANY_WINDOWS = 10 };

/* ---- while a window runs ---- */

static void grow(struct sample *s, uint32_t cell)
{
    size_t len = (size_t)cell + 1;
    if (len <= s->now.len)
        return;
    VEC_RESERVE(&s->cells, len);
    VEC_RESERVE(&s->now, len);
    memset(s->cells.data + s->cells.len, 0, (len - s->cells.len) * sizeof *s->cells.data);
    memset(s->now.data + s->now.len, 0, (len - s->now.len) * sizeof *s->now.data);
    s->cells.len = s->now.len = len;
}

void sample_count_miss(struct sample *s, uint32_t cell, bool is_known)
{
    grow(s, cell);
    s->now.data[cell].known += is_known;
    s->now.data[cell].unknown += !is_known;
}

static void add_generation(struct sample_sums *s, uint32_t live, uint32_t dead)
{
    s->live += live;
    s->dead += dead;
    s->generations++;
}

void sample_count_generation(struct sample *s, uint32_t cell, uint32_t live, uint32_t dead)
{
    grow(s, cell);
    add_generation(&s->all, live, dead);
    add_generation(&s->cells.data[cell], live, dead);
}

void sample_fini(struct sample *s)
{
    VEC_FREE(&s->cells);
    VEC_FREE(&s->now);
}

/* ---- begin and end ---- */

void cache_window_begin(struct cache *c)
{
    hierarchy_empty(c);
    for (int at = 0; at < c->count; at++) {
        struct level *l = &c->levels[at];
        if (l->tally.references.len)
            grow(&l->sample, (uint32_t)l->tally.references.len - 1);
        for (size_t i = 0; i < l->tally.references.len; i++)
            l->sample.now.data[i].references_before = l->tally.references.data[i];
    }
    c->windows.references = 0;
    c->in_window = true;
}

static void add_window(struct sample_sums *s, double references, double known, double unknown, double all,
                       double weight)
{
    double most = known + unknown, square = weight * weight;
    s->references += weight * references;
    s->known += weight * known;
    s->unknown += weight * unknown;
    s->known2 += square * known * known;
    s->known_all += square * known * all;
    s->most2 += square * most * most;
    s->most_all += square * most * all;
    s->windows += most > 0;
}

static void end_level(struct level *l, double all, double weight)
{
    struct sample *s = &l->sample;
    uint64_t references = 0, known = 0, unknown = 0;
    if (l->tally.references.len)
        grow(s, (uint32_t)l->tally.references.len - 1);
    for (size_t i = 0; i < l->tally.references.len; i++) {
        struct sample_now *n = &s->now.data[i];
        uint64_t own = l->tally.references.data[i] - n->references_before;
        add_window(&s->cells.data[i], (double)own, n->known, n->unknown, all, weight);
        references += own;
        known += n->known;
        unknown += n->unknown;
        *n = (struct sample_now){0};
    }
    add_window(&s->all, (double)references, (double)known, (double)unknown, all, weight);
}

void cache_window_end(struct cache *c, double weight)
{
    struct cache_windows *w = &c->windows;
    double all = (double)w->references;
    for (int at = 0; at < c->count; at++)
        end_level(&c->levels[at], all, weight);
    w->count++;
    w->seen += all;
    w->stands_for += weight * all;
    w->all2 += weight * weight * all * all;
    c->in_window = false;
}

/* ---- estimates ---- */

/* Student's t, both sides 95 %, within 4 % of the tables from two degrees of freedom on. */
static double student_t(double freedom)
{
    return 1.96 + 2.4 / freedom + 3.5 / (freedom * freedom) + 4.9 / (freedom * freedom * freedom);
}

/* Standard error of a sum over windows, taken in proportion to references: what one has more or less than its share. */
static double error_of(const struct cache_windows *w, double sum, double squares, double products)
{
    double share = w->stands_for > 0 ? sum / w->stands_for : 0, left = 1 - w->seen / w->stands_for;
    double spread = squares - 2 * share * products + share * share * w->all2;
    return w->count > 1 && spread > 0 && left > 0 ? sqrt(spread * left * (double)w->count / (double)(w->count - 1)) : 0;
}

/* What windows may have passed by altogether: misses that fall into a share of the time that is 3 / n are not met by n
 * windows once in twenty times, and may be all that the level has there. Of what was met in many the error tells. */
static double unmet(const struct cache_windows *w, const struct level *l, const struct sample_sums *s)
{
    double level = l->sample.all.known + l->sample.all.unknown;
    return s->windows < MANY_WINDOWS ? fmin(3 / (double)w->count, 1) * level * (1 - w->seen / w->stands_for) : 0;
}

static double mu_of(const struct sample_sums *s) { return s->generations ? s->dead / (s->dead + s->live) : NAN; }

static struct cache_estimate estimate(const struct cache *c, const struct level *l, const struct sample_sums *s)
{
    const struct cache_windows *w = &c->windows;
    struct cache_estimate e = {.references = s->references, .known = s->known, .unknown = s->unknown};
    double lines = (double)(l->config.size_bytes / l->config.line_bytes);
    if (!w->count)
        return e;
    double t = w->count > 1 ? student_t((double)w->count - 1) : 0;
    e.mu = mu_of(&l->sample.all);
    e.mu_own = mu_of(s);
    e.generations = (double)l->sample.all.generations / (lines * (double)w->count);
    e.error = error_of(w, s->known + s->unknown, s->most2, s->most_all);
    e.low = fmax(s->known - t * error_of(w, s->known, s->known2, s->known_all), 0);
    e.high = s->known + s->unknown + fmax(t * e.error, unmet(w, l, s));
    e.windows = s->windows;
    e.misses = s->known + s->unknown * (e.generations >= 1 ? e.mu : 0.5);
    return e;
}

struct cache_estimate cache_estimate(const struct cache *c, unsigned level)
{
    return estimate(c, &c->levels[level], &c->levels[level].sample.all);
}

struct cache_estimate cache_estimate_cell(const struct cache *c, unsigned level, uint32_t cell)
{
    static const struct sample_sums none;
    const struct level *l = &c->levels[level];
    return estimate(c, l, cell < l->sample.cells.len ? &l->sample.cells.data[cell] : &none);
}
