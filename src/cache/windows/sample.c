/* SPDX-License-Identifier: Apache-2.0
 * Estimates from windows (Martonosi, Gupta and Anderson 1993; Wood, Hill and Kessler 1991). */
#include "cache/windows/sample.h"
#include "cache/hierarchy.h"

#include <assert.h>
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
    VEC_RESERVE(&s->unknown, len);
    memset(s->cells.data + s->cells.len, 0, (len - s->cells.len) * sizeof *s->cells.data);
    memset(s->now.data + s->now.len, 0, (len - s->now.len) * sizeof *s->now.data);
    memset(s->unknown.data + s->unknown.len, 0, (len - s->unknown.len) * sizeof *s->unknown.data);
    s->cells.len = s->now.len = s->unknown.len = len;
}

void sample_count_miss(struct sample *s, uint32_t cell)
{
    grow(s, cell);
    s->now.data[cell].known++;
}

void sample_count_unknown(struct sample *s, uint32_t cell, bool has_room, uint32_t age, bool nearer)
{
    grow(s, cell);
    struct sample_unknown *const both[] = {&s->unknown.data[cell], &s->all_unknown};
    s->now.data[cell].unknown++;
    s->ages.firsts[age_of(age)] += has_room;
    for (int i = 0; i < 2; i++) {
        both[i]->firsts[nearer][age_of(age)] += has_room;
        both[i]->full += !has_room;
    }
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
    VEC_FREE(&s->missed);
    VEC_FREE(&s->groups);
    VEC_FREE(&s->cells);
    VEC_FREE(&s->now);
    VEC_FREE(&s->unknown);
    met_fini(&s->met);
}

/* ---- begin and end ---- */

void cache_window_begin(struct cache *c)
{
    assert(!c->sets.groups && "either windows or sets");
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

static void keep_missed(struct sample *s, uint32_t cell, uint32_t window)
{
    const struct sample_now *n = &s->now.data[cell];
    if (n->known || n->unknown)
        VEC_PUSH(&s->missed, ((struct sample_missed){cell, window, n->known, n->unknown}));
}

/* ---- what is unknown ---- */

static double factor_of(const struct cache_windows *w, uint32_t cell)
{
    return cell < w->factor.len ? w->factor.data[cell] : 1;
}

struct guess { /* of some that are unknown */
    double all, misses;
};

static const struct level *nearer_level(const struct cache *c, const struct level *l)
{
    for (int i = 0; i < c->count; i++)
        if (c->levels[i].next == l - c->levels && c->levels[i].config.side & CACHE_DATA)
            return &c->levels[i];
    return NULL;
}

static double part_of(const struct guess *g) { return g->all > 0 ? g->misses / g->all : 0.5; }

/* Adds them, `factor` times. */
static void add_guess(const struct cache *c, const struct level *l, const struct sample_unknown *u, double factor,
                      struct guess *to)
{
    const struct level *nearer = nearer_level(c, l);
    double comes = nearer ? nearer->sample.unknown_misses : 1; /* what hits there does not come here */
    double all = u->full, misses = comes * u->full;
    for (unsigned age = 0; age < AGES; age++) {
        double part = l->sample.first_misses[age];
        all += (double)u->firsts[0][age] + u->firsts[1][age];
        misses += part * (u->firsts[0][age] + comes * u->firsts[1][age]);
    }
    to->all += factor * all;
    to->misses += factor * misses;
}

static void add_guess_of_cell(const struct cache *c, const struct level *l, uint32_t cell, struct guess *to)
{
    if (cell < l->sample.unknown.len)
        add_guess(c, l, &l->sample.unknown.data[cell], factor_of(&c->windows, cell), to);
}

static double part_of_cell(const struct cache *c, const struct level *l, uint32_t cell)
{
    struct guess g = {0, 0};
    add_guess_of_cell(c, l, cell, &g);
    return part_of(&g);
}

static void end_level(struct level *l, uint32_t window, double all, double weight)
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
        keep_missed(s, (uint32_t)i, window);
        *n = (struct sample_now){0};
    }
    add_window(&s->all, (double)references, (double)known, (double)unknown, all, weight);
}

/* Of the level, before the next one. */
static void guess_level(const struct cache *c, struct sample *s, const struct level *l)
{
    struct guess g = {0, 0};
    ages_solve(&s->ages, s->first_misses);
    add_guess(c, l, &s->all_unknown, 1, &g);
    s->unknown_misses = part_of(&g);
}

void cache_window_end(struct cache *c, double weight) { cache_window_end_of(c, c->windows.references, weight); }

void cache_window_end_of(struct cache *c, uint64_t references, double weight)
{
    struct cache_windows *w = &c->windows;
    double all = (double)references;
    for (int at = 0; at < c->count; at++) {
        end_level(&c->levels[at], (uint32_t)w->each.len, all, weight);
        guess_level(c, &c->levels[at].sample, &c->levels[at]);
    }
    VEC_PUSH(&w->each, ((struct cache_window){all, weight}));
    w->count++;
    w->seen += all;
    w->stands_for += weight * all;
    w->all2 += weight * weight * all * all;
    c->in_window = false;
}

/* ---- what they stand for ---- */

static int by_cell(const void *x, const void *y)
{
    const struct sample_missed *a = x, *b = y;
    if (a->cell != b->cell)
        return a->cell > b->cell ? 1 : -1;
    return (a->window > b->window) - (a->window < b->window);
}

/* So that those of a cell are found. */
static void sort_missed(struct cache *c)
{
    for (int at = 0; at < c->count; at++) {
        struct sample *s = &c->levels[at].sample;
        if (s->missed.len)
            qsort(s->missed.data, s->missed.len, sizeof *s->missed.data, by_cell);
    }
}

struct per_window { /* [windows] */
    double *known, *unknown;
};

static void add_missed(const struct cache_windows *w, const struct sample_missed *m, struct per_window *to)
{
    to->known[m->window] += factor_of(w, m->cell) * m->known;
    to->unknown[m->window] += factor_of(w, m->cell) * m->unknown;
}

static struct per_window per_window_new(const struct cache_windows *w)
{
    return (struct per_window){xmalloc((w->each.len + 1) * sizeof(double)),
                               xmalloc((w->each.len + 1) * sizeof(double))};
}

static void per_window_free(struct per_window *p)
{
    free(p->known);
    free(p->unknown);
}

/* Misses alone, by window; references stay. */
static void sum_windows(const struct cache_windows *w, const struct per_window *p, struct sample_sums *out)
{
    for (size_t i = 0; i < w->each.len; i++)
        if (p->known[i] + p->unknown[i] > 0)
            add_window(out, 0, p->known[i], p->unknown[i], w->each.data[i].references, w->each.data[i].weight);
}

static void forget_misses(struct sample_sums *s, double by)
{
    *s = (struct sample_sums){
        .references = s->references * by, .dead = s->dead, .live = s->live, .generations = s->generations};
}

/* Again, with the weights as they are now. */
static void sum_level(struct sample *s, const struct cache_windows *w, double by)
{
    struct per_window all = per_window_new(w);
    forget_misses(&s->all, by);
    for (uint32_t i = 0; i < s->cells.len; i++)
        forget_misses(&s->cells.data[i], by * factor_of(w, i));
    for (size_t i = 0; i < s->missed.len; i++) {
        const struct sample_missed *m = &s->missed.data[i];
        double factor = factor_of(w, m->cell);
        add_missed(w, m, &all);
        add_window(&s->cells.data[m->cell], 0, factor * m->known, factor * m->unknown,
                   w->each.data[m->window].references, w->each.data[m->window].weight);
    }
    sum_windows(w, &all, &s->all);
    per_window_free(&all);
}

void cache_windows_weigh(struct cache *c, const double *weights)
{
    struct cache_windows *w = &c->windows;
    w->stands_for = w->all2 = 0;
    for (size_t i = 0; i < w->each.len; i++) {
        struct cache_window *one = &w->each.data[i];
        one->weight *= weights[i];
        w->stands_for += one->weight * one->references;
        w->all2 += one->weight * one->weight * one->references * one->references;
    }
}

void cache_windows_stand_for(struct cache *c, double references, const double *factor, size_t count)
{
    struct cache_windows *w = &c->windows;
    double by = w->stands_for > 0 ? references / w->stands_for : 1;
    for (size_t i = 0; i < count; i++)
        VEC_PUSH(&w->factor, factor[i]);
    for (size_t i = 0; i < w->each.len; i++)
        w->each.data[i].weight *= by;
    w->stands_for *= by;
    w->all2 *= by * by;
    sort_missed(c);
    for (int at = 0; at < c->count; at++) {
        struct guess g = {0, 0};
        sum_level(&c->levels[at].sample, w, by);
        for (uint32_t i = 0; i < c->levels[at].sample.unknown.len; i++)
            add_guess_of_cell(c, &c->levels[at], i, &g);
        c->levels[at].sample.unknown_misses = part_of(&g);
    }
}

/* ---- estimates ---- */

/* Standard error of a sum over windows, taken in proportion to references: what one has more or less than its share. */
static double error_of(const struct cache_windows *w, double sum, double squares, double products)
{
    double share = w->stands_for > 0 ? sum / w->stands_for : 0, left = 1 - w->seen / w->stands_for;
    double spread = squares - 2 * share * products + share * share * w->all2;
    return w->count > 1 && spread > 0 && left > 0 ? sqrt(spread * left * (double)w->count / (double)(w->count - 1)) : 0;
}

/* A part of the run that is 3 / n of it is passed by just as often; that much more or less is possible whatever the
 * windows have in common. It is taken to miss between nothing and twice what the rest does. */
static double passed_by(const struct cache_windows *w)
{
    return fmin(3 / (double)w->count, 1) * (1 - w->seen / w->stands_for);
}

static double unmet_part(const struct cache_windows *w, uint64_t met) { return met < MANY_WINDOWS ? passed_by(w) : 0; }

/* What windows may have passed by altogether: misses that fall into a share of the time that is 3 / n are not met by n
 * windows once in twenty times, and may be all that the level has there. Of what was met in many the error tells. */
static double unmet(const struct cache_windows *w, const struct level *l, const struct sample_sums *s)
{
    double level = l->sample.all.known + l->sample.all.unknown;
    return unmet_part(w, s->windows) * level;
}

static double mu_of(const struct sample_sums *s) { return s->generations ? s->dead / (s->dead + s->live) : NAN; }

/* part: of an unknown miss how much counts. */
static struct cache_estimate estimate(const struct cache *c, const struct level *l, const struct sample_sums *s,
                                      double part, const struct met_counts *met)
{
    const struct cache_windows *w = &c->windows;
    struct cache_estimate e = {.references = s->references, .known = s->known, .unknown = s->unknown, .part = part};
    uint64_t lines = l->config.size_bytes / l->config.line_bytes;
    if (!w->count)
        return e;
    double t = w->count > 1 ? student_t(w->count - 1) : 0;
    e.mu = mu_of(&l->sample.all);
    e.mu_own = mu_of(s);
    e.generations = (double)l->sample.all.generations / ((double)lines * (double)w->count);
    e.error = error_of(w, s->known + s->unknown, s->most2, s->most_all);
    double less = fmax(t * error_of(w, s->known, s->known2, s->known_all), passed_by(w) * s->known);
    double more = fmax(t * e.error, passed_by(w) * (s->known + s->unknown));
    e.low = fmax(s->known - less, 0);
    e.high = s->known + s->unknown + fmax(more, unmet(w, l, s));
    e.windows = s->windows;
    e.misses = s->known + s->unknown * part;
    e.cold = fmin(met_lines(met, w->count), e.misses);
    return e;
}

struct cache_estimate cache_estimate(const struct cache *c, unsigned level)
{
    const struct level *l = &c->levels[level];
    return c->sets.groups ? sets_estimate(c, level)
                          : estimate(c, l, &l->sample.all, l->sample.unknown_misses, &l->sample.met.all);
}

struct cache_estimate cache_estimate_cell(const struct cache *c, unsigned level, uint32_t cell)
{
    static const struct sample_sums none;
    const struct level *l = &c->levels[level];
    if (c->sets.groups)
        return cache_estimate_cells(c, level, &cell, 1);
    struct met_counts met = {0};
    met_add_cell(&met, &l->sample.met, cell);
    return estimate(c, l, cell < l->sample.cells.len ? &l->sample.cells.data[cell] : &none, part_of_cell(c, l, cell),
                    &met);
}

/* ---- several cells, window by window ---- */

static size_t first_missed(const struct sample *s, uint32_t cell)
{
    return PARTITION_POINT(i, 0, s->missed.len, s->missed.data[i].cell < cell);
}

struct cache_estimate sample_estimate_cells(const struct cache *c, unsigned level, const uint32_t *cells, size_t count)
{
    const struct level *l = &c->levels[level];
    const struct sample *s = &l->sample;
    struct sample_sums sums = {0};
    struct per_window all = per_window_new(&c->windows);
    struct guess g = {0, 0};
    struct met_counts met = {0};
    for (size_t k = 0; k < count; k++) {
        add_guess_of_cell(c, l, cells[k], &g);
        met_add_cell(&met, &s->met, cells[k]);
        sums.references += cells[k] < s->cells.len ? s->cells.data[cells[k]].references : 0;
        for (size_t i = first_missed(s, cells[k]); i < s->missed.len && s->missed.data[i].cell == cells[k]; i++)
            add_missed(&c->windows, &s->missed.data[i], &all);
    }
    sum_windows(&c->windows, &all, &sums);
    per_window_free(&all);
    return estimate(c, l, &sums, part_of(&g), &met);
}

void cache_windows_add(const struct cache *c, unsigned level, uint32_t cell, enum cache_reading reading, double factor,
                       double *of_windows)
{
    const struct level *l = &c->levels[level];
    const struct sample *s = &l->sample;
    double part = reading == CACHE_LIKELY ? part_of_cell(c, l, cell) : reading == CACHE_MOST;
    factor *= factor_of(&c->windows, cell);
    for (size_t i = first_missed(s, cell); i < s->missed.len && s->missed.data[i].cell == cell; i++) {
        const struct sample_missed *m = &s->missed.data[i];
        of_windows[m->window] += factor * c->windows.each.data[m->window].weight * (m->known + part * m->unknown);
    }
}

size_t cache_window_count(const struct cache *c) { return c->windows.each.len; }

double cache_windows_passed_by(const struct cache *c) { return c->windows.count ? passed_by(&c->windows) : 1; }
double cache_windows_unmet(const struct cache *c, size_t met)
{
    return c->windows.count ? unmet_part(&c->windows, met) : 1;
}

double cache_windows_error(const struct cache *c, const double *of_windows)
{
    const struct cache_windows *w = &c->windows;
    double n = (double)w->count, left = fmax(1 - w->seen / w->stands_for, 0), squares = 0;
    for (size_t i = 0; i < w->each.len; i++)
        squares += of_windows[i] * of_windows[i];
    return w->count > 1 ? student_t(w->count - 1) * sqrt(squares * left * n / (n - 1)) : 0;
}
