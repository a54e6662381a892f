/* SPDX-License-Identifier: Apache-2.0
 * Estimates from windows (Martonosi, Gupta and Anderson 1993; Wood, Hill and Kessler 1991), and from sets. */
#include "cache/sample.h"
#include "cache/hierarchy.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { MANY_WINDOWS = 10, PART_BITS_MAX = 20 };

/* Generations from which on mu is taken. Of four rows of bench/spy-accuracy with 0.3 to 0.7 two were much nearer to the
 * truth by it than by a half (0.99 for 0.99, 0.80 for 0.87), two a little farther (0.56 for 0.17, 0.57 for 0.24); below
 * 0.01 it tells nothing. */
static const double GENERATIONS_MIN = 0.25;

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

void sample_count_group(struct sample *s, uint32_t cell, unsigned group, bool by_cell)
{
    size_t len = (size_t)cell + 1;
    s->all_groups.misses[group]++;
    if (!by_cell)
        return;
    if (len > s->groups.len) {
        VEC_RESERVE(&s->groups, len);
        memset(s->groups.data + s->groups.len, 0, (len - s->groups.len) * sizeof *s->groups.data);
        s->groups.len = len;
    }
    s->groups.data[cell].misses[group]++;
}

void sample_fini(struct sample *s)
{
    VEC_FREE(&s->groups);
    VEC_FREE(&s->cells);
    VEC_FREE(&s->now);
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

/* ---- which sets ---- */

static bool is_behind(const struct cache *c, int at) { return at != c->nearest_data && at != c->nearest_code; }

/* Of the bits of an address those that are part of the number of its set in all levels that are sampled: so a set is
 * taken as a whole, with all sets of the nearer levels that its lines go through. */
static unsigned common_bits(const struct cache *c, unsigned *shift)
{
    unsigned end = 64;
    *shift = 0;
    for (int at = 0; at < c->count; at++) {
        const struct level *l = &c->levels[at];
        uint64_t sets = l->config.size_bytes / l->config.line_bytes / l->config.ways;
        if (!is_behind(c, at))
            continue;
        *shift = l->shift > *shift ? l->shift : *shift;
        end = (unsigned)min_u64(end, l->shift + (unsigned)__builtin_ctzll(sets));
    }
    return end > *shift && end < 64 ? end - *shift : 0;
}

static uint64_t hash_of(uint64_t key, uint64_t seed)
{
    uint64_t h = (key + 1) * 0x9e3779b97f4a7c15u ^ seed * 0xd6e8feb86659fd93u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static int by_hash(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* The keys with the smallest hashes, dealt out to the groups in that order. */
static void choose(struct cache_sets *s, uint64_t keys, uint64_t seed)
{
    uint64_t(*order)[2] = xmalloc(keys * sizeof *order);
    for (uint64_t i = 0; i < keys; i++) {
        order[i][0] = hash_of(i, seed);
        order[i][1] = i;
    }
    qsort(order, keys, sizeof *order, by_hash);
    s->groups = xmalloc(keys);
    for (uint64_t i = 0; i < s->taken; i++)
        s->groups[order[i][1]] = (uint8_t)(1 + i % SAMPLE_GROUPS);
    free(order);
}

/* Can the sets of the further levels be sampled? 0, with how many kinds they have in common and by which bits of an
 * address; or -1 after one line. */
static int check_sampling(const struct cache *c, unsigned one_in, uint64_t *keys, unsigned *shift)
{
    bool has_inclusive = false, is_any = false;
    for (int at = 0; at < c->count; at++) {
        is_any |= is_behind(c, at);
        has_inclusive |= c->levels[at].config.inclusion == CACHE_INCLUSIVE;
    }
    if (has_inclusive)
        return diag_error("one set in %u: an inclusive level takes lines out of nearer ones, so all its sets count",
                          one_in);
    if (!is_any)
        return diag_error("one set in %u: there is no level behind the nearest one", one_in);
    *keys = 1ull << common_bits(c, shift);
    if (!one_in || *keys / one_in < SAMPLE_GROUPS)
        return diag_error("one set in %u: the levels have %llu kinds of sets in common, and 16 must be taken at least",
                          one_in, (unsigned long long)*keys);
    return 0;
}

int cache_sample_sets(struct cache *c, unsigned one_in, uint64_t seed)
{
    uint64_t keys = 0;
    unsigned shift = 0;
    if (check_sampling(c, one_in, &keys, &shift) < 0)
        return -1;
    for (int at = 0; at < c->count; at++)
        c->levels[at].is_sampled = is_behind(c, at);
    c->sets.shift = shift;
    c->sets.mask = keys - 1;
    c->sets.taken = keys / one_in;
    c->sets.group_count = SAMPLE_GROUPS;
    choose(&c->sets, keys, seed);
    return 0;
}

/* ---- a part of all levels ---- */

/* How many bits of a line's number all levels that data reach have among those that choose a set. */
static unsigned part_bits(const struct cache_config *configs, size_t count, unsigned *shift)
{
    unsigned end = 64;
    *shift = 0;
    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < configs[i].count; k++) {
            const struct cache_level *l = &configs[i].levels[k];
            uint64_t sets = l->size_bytes / l->line_bytes / l->ways;
            unsigned line = (unsigned)__builtin_ctz(l->line_bytes);
            if (!(l->side & CACHE_DATA))
                continue;
            *shift = line > *shift ? line : *shift;
            end = (unsigned)min_u64(end, line + (unsigned)__builtin_ctzll(sets));
        }
    return end > *shift ? (unsigned)min_u64(end - *shift, PART_BITS_MAX) : 0;
}

static bool has_streams(const struct cache_config *configs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < configs[i].count; k++)
            if (configs[i].levels[k].has_streams)
                return true;
    return false;
}

int cache_choose_part(const struct cache_config *configs, size_t count, unsigned one_in, unsigned which,
                      struct cache_part *out)
{
    unsigned shift = 0, bits = part_bits(configs, count, &shift), skip = (unsigned)__builtin_ctz(one_in);
    assert(one_in && !(one_in & (one_in - 1)));
    *out = (struct cache_part){.one_in = one_in, .shift = shift, .key_bits = bits};
    if (one_in == 1)
        return 0;
    if (has_streams(configs, count))
        return diag_error("one set in %u: what a prefetcher would foresee shows in the misses of neighbouring lines, "
                          "which are of other sets",
                          one_in);
    if (bits < skip + 1)
        return diag_error("one set in %u: the levels have %llu kinds of sets in common, of which %d must be taken at "
                          "least",
                          one_in, 1ull << bits, CACHE_PART_KEYS_MIN);
    out->mask = (one_in - 1) << (bits - skip);
    out->value = (which % one_in) << (bits - skip);
    return 0;
}

void cache_take_part(struct cache *c, const struct cache_part *part)
{
    struct cache_sets *s = &c->sets;
    uint64_t keys = 1ull << part->key_bits, taken = 0;
    if (part->one_in == 1)
        return;
    *s = (struct cache_sets){.shift = part->shift, .mask = keys - 1, .one_in = part->one_in};
    s->taken = keys / part->one_in;
    s->group_count = (unsigned)min_u64(s->taken, SAMPLE_GROUPS);
    s->groups = xmalloc(keys);
    for (uint64_t key = 0; key < keys; key++)
        s->groups[key] = cache_is_taken(part, key << part->shift) ? (uint8_t)(1 + taken++ % s->group_count) : 0;
    for (int at = 0; at < c->count; at++)
        c->levels[at].is_sampled = true;
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

/* A part of the run that is 3 / n of it is passed by just as often; that much more or less is possible whatever the
 * windows have in common. It is taken to miss between nothing and twice what the rest does. */
static double passed_by(const struct cache_windows *w)
{
    return fmin(3 / (double)w->count, 1) * (1 - w->seen / w->stands_for);
}

/* What windows may have passed by altogether: misses that fall into a share of the time that is 3 / n are not met by n
 * windows once in twenty times, and may be all that the level has there. Of what was met in many the error tells. */
static double unmet(const struct cache_windows *w, const struct level *l, const struct sample_sums *s)
{
    double level = l->sample.all.known + l->sample.all.unknown;
    return s->windows < MANY_WINDOWS ? passed_by(w) * level : 0;
}

static double mu_of(const struct sample_sums *s) { return s->generations ? s->dead / (s->dead + s->live) : NAN; }

static struct cache_estimate estimate(const struct cache *c, const struct level *l, const struct sample_sums *s)
{
    const struct cache_windows *w = &c->windows;
    struct cache_estimate e = {.references = s->references, .known = s->known, .unknown = s->unknown};
    uint64_t lines = l->config.size_bytes / l->config.line_bytes;
    if (!w->count)
        return e;
    double t = w->count > 1 ? student_t((double)w->count - 1) : 0;
    e.mu = mu_of(&l->sample.all);
    e.mu_own = mu_of(s);
    e.generations = (double)l->sample.all.generations / ((double)lines * (double)w->count);
    e.error = error_of(w, s->known + s->unknown, s->most2, s->most_all);
    double less = fmax(t * error_of(w, s->known, s->known2, s->known_all), passed_by(w) * s->known);
    double more = fmax(t * e.error, passed_by(w) * (s->known + s->unknown));
    e.low = fmax(s->known - less, 0);
    e.high = s->known + s->unknown + fmax(more, unmet(w, l, s));
    e.windows = s->windows;
    e.misses = s->known + s->unknown * (e.generations >= GENERATIONS_MIN ? e.mu : 0.5);
    return e;
}

static struct cache_estimate estimate_of_sets(const struct cache *c, const struct level *l,
                                              const struct sample_groups *g, uint64_t references)
{
    double part = (double)c->sets.taken / (double)(c->sets.mask + 1), sum = 0, level = 0;
    double of_groups[SAMPLE_GROUPS] = {0};
    unsigned groups = c->sets.group_count;
    struct cache_estimate e = {.references = (double)references / part, .mu = NAN, .mu_own = NAN};
    for (unsigned i = 0; i < groups; i++) {
        double n = (double)g->misses[i];
        e.windows += n > 0;
        of_groups[i] = n;
        sum += n;
        level += (double)l->sample.all_groups.misses[i];
    }
    double wide = cache_groups_error(c, of_groups, groups);
    bool is_rare = e.windows < min_u64(MANY_WINDOWS, groups);
    double few = is_rare ? fmin(3 / (double)c->sets.taken, 1) * level / part * (1 - part) : 0;
    e.known = e.misses = sum / part;
    e.error = wide / student_t(groups - 1.0);
    e.low = fmax(e.misses - wide, sum);
    e.high = e.misses + fmax(wide, few);
    return e;
}

double cache_groups_error(const struct cache *c, const double *of_groups, unsigned count)
{
    double part = (double)c->sets.taken / (double)(c->sets.mask + 1), sum = 0, squares = 0;
    for (unsigned i = 0; i < count; i++) {
        sum += of_groups[i];
        squares += of_groups[i] * of_groups[i];
    }
    double spread = fmax(squares - sum * sum / count, 0);
    return student_t(count - 1.0) * sqrt(spread * (1 - part) * count / (count - 1.0)) / part;
}

static uint64_t references_of(const struct level *l)
{
    uint64_t sum = 0;
    for (unsigned k = 0; k < CACHE_KIND_COUNT; k++)
        sum += l->counts.references[k];
    return sum;
}

struct cache_estimate cache_estimate(const struct cache *c, unsigned level)
{
    if (c->levels[level].is_sampled)
        return estimate_of_sets(c, &c->levels[level], &c->levels[level].sample.all_groups,
                                references_of(&c->levels[level]));
    return estimate(c, &c->levels[level], &c->levels[level].sample.all);
}

struct cache_estimate cache_estimate_cell(const struct cache *c, unsigned level, uint32_t cell)
{
    static const struct sample_sums none;
    static const struct sample_groups no_groups;
    const struct level *l = &c->levels[level];
    if (l->is_sampled)
        return estimate_of_sets(c, l, cell < l->sample.groups.len ? &l->sample.groups.data[cell] : &no_groups,
                                cell < l->tally.references.len ? l->tally.references.data[cell] : 0);
    return estimate(c, l, cell < l->sample.cells.len ? &l->sample.cells.data[cell] : &none);
}

struct cache_estimate cache_estimate_cells(const struct cache *c, unsigned level, const uint32_t *cells, size_t count)
{
    const struct level *l = &c->levels[level];
    struct sample_groups sum = {{0}};
    uint64_t references = 0;
    assert(l->is_sampled);
    for (size_t i = 0; i < count; i++) {
        references += cells[i] < l->tally.references.len ? l->tally.references.data[cells[i]] : 0;
        for (unsigned g = 0; cells[i] < l->sample.groups.len && g < SAMPLE_GROUPS; g++)
            sum.misses[g] += l->sample.groups.data[cells[i]].misses[g];
    }
    return estimate_of_sets(c, l, &sum, references);
}

const uint64_t *cache_cell_groups(const struct cache *c, unsigned level, uint32_t cell, unsigned *count)
{
    const struct level *l = &c->levels[level];
    *count = c->sets.group_count;
    return l->is_sampled && cell < l->sample.groups.len ? l->sample.groups.data[cell].misses : NULL;
}
