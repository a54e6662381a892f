/* SPDX-License-Identifier: Apache-2.0
 *
 * accuracy NAME [SEED] <TRACE: what samples of a trace of references tell, beside a simulation of all of it, as lines
 * of JSON, one for each row of the tables and figures of Martonosi, Gupta and Anderson 1993. Windows are evenly many,
 * each at a random place of its period, one reference in ten. bench/spy-accuracy prints them in the paper's form.
 */
#include "cache/cache.h"

#include <math.h>
#include <stdlib.h>

enum { RATIO = 10, STEP = 10000, SIZES = 3, REGION = 20, LISTED = 12, PIECES = 20 };
#define HALF_MILLION 500000u

static const char *const specs[SIZES] = {"16K/16/1", "128K/32/1", "1M/64/1"};
enum { SMALL, MIDDLE, LARGE };

struct stream {
    const char *name;
    struct cache_ref *refs;
    size_t count;
    uint32_t regions;          /* of data: cells */
    uint64_t *misses[SIZES];   /* by cache: those of the first k * STEP references */
    struct cache *full[SIZES]; /* with cells */
};
struct windows {
    unsigned cache;
    size_t length, count;
    double references, misses; /* truly, in the windows */
    double known, unknown;     /* in them */
    size_t bounded;            /* windows whose misses lie within their bounds */
    struct cache_estimate e;
    struct cache *c;
};

/* ---- the trace ---- */

/* Data are told apart by the megabyte they lie in: the trace has addresses alone. */
static uint32_t region_of(struct map *seen, uint64_t address)
{
    uint64_t n, key = address >> REGION;
    if (map_get(seen, key, &n))
        return (uint32_t)n;
    n = seen->len;
    map_put(seen, key, n);
    return (uint32_t)n;
}

static void read_trace(struct stream *s)
{
    struct cache_reader *r;
    struct cache_ref batch[4096];
    struct map seen = {0};
    size_t room = 0;
    if (cache_reader_open("-", &r) < 0)
        exit(2);
    for (ptrdiff_t n; (n = cache_reader_next(r, batch, ARRAY_LEN(batch))) > 0;) {
        if (s->count + ARRAY_LEN(batch) > room) {
            room = 2 * room + ARRAY_LEN(batch);
            s->refs = xrealloc(s->refs, room * sizeof *s->refs);
        }
        for (ptrdiff_t i = 0; i < n; i++)
            if (batch[i].kind != CACHE_FETCH) {
                batch[i].cell = region_of(&seen, batch[i].address);
                s->refs[s->count++] = batch[i];
            }
    }
    s->regions = (uint32_t)seen.len;
    map_fini(&seen);
    cache_reader_close(r);
}

/* ---- all of it ---- */

static struct cache *new_cache(unsigned size)
{
    struct cache_config config;
    if (cache_parse(specs[size], &config) < 0)
        exit(2);
    return cache_new(&config, true);
}

static uint64_t misses_of(const struct cache *c)
{
    const struct cache_counts *k = cache_counts(c, 0);
    return k->misses[CACHE_READ] + k->misses[CACHE_WRITE];
}

static void simulate_all(struct stream *s, unsigned size)
{
    size_t steps = s->count / STEP;
    s->full[size] = new_cache(size);
    s->misses[size] = xmalloc((steps + 1) * sizeof **s->misses);
    s->misses[size][0] = 0;
    for (size_t k = 0; k < steps; k++) {
        cache_run(s->full[size], s->refs + k * STEP, STEP);
        s->misses[size][k + 1] = misses_of(s->full[size]);
    }
    s->count = steps * STEP;
}

static double rate_of(const struct stream *s, unsigned size, size_t from, size_t to)
{
    return (double)(s->misses[size][to / STEP] - s->misses[size][from / STEP]) / (double)(to - from);
}

/* ---- samples of it ---- */

static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return below ? (state >> 33) % below : 0;
}

static void run_window(const struct stream *s, struct windows *w, size_t at, double weight)
{
    struct cache_estimate before = cache_estimate(w->c, 0);
    cache_window_begin(w->c);
    cache_run(w->c, s->refs + at, w->length);
    cache_window_end(w->c, weight);
    struct cache_estimate after = cache_estimate(w->c, 0);
    double known = (after.known - before.known) / weight, unknown = (after.unknown - before.unknown) / weight;
    double truth = (double)(s->misses[w->cache][(at + w->length) / STEP] - s->misses[w->cache][at / STEP]);
    w->count++;
    w->references += (double)w->length;
    w->misses += truth;
    w->known += known;
    w->unknown += unknown;
    w->bounded += truth >= known - 0.5 && truth <= known + unknown + 0.5;
}

/* One in RATIO of the references; where there are too few for one such period, one window. */
static struct windows sample(const struct stream *s, unsigned cache, size_t length)
{
    struct windows w = {.cache = cache, .length = length / STEP * STEP, .c = new_cache(cache)};
    if (w.length < STEP)
        w.length = STEP;
    if (w.length > s->count)
        w.length = s->count;
    size_t period = w.length * RATIO < s->count ? w.length * RATIO : s->count, periods = s->count / period;
    period = s->count / periods / STEP * STEP;
    for (size_t k = 0; k < periods; k++) {
        size_t place = chance((period - w.length) / STEP + 1) * STEP;
        run_window(s, &w, k * period + place, (double)s->count / (double)(periods * w.length));
    }
    w.e = cache_estimate(w.c, 0);
    return w;
}

static double mid_rate(const struct windows *w) { return (w->known + 0.5 * w->unknown) / w->references; }
static double own_rate(const struct windows *w, const struct stream *s) { return w->e.misses / (double)s->count; }
static double true_rate(const struct windows *w) { return w->misses / w->references; }

/* ---- rows ---- */

static void put_number(const char *name, double x)
{
    if (isfinite(x))
        printf(", \"%s\": %.9g", name, x);
    else
        printf(", \"%s\": null", name);
}

static void put_windows(const struct stream *s, const char *table, struct windows *w)
{
    double all = rate_of(s, w->cache, 0, s->count), n = (double)s->count;
    printf("{\"table\": \"%s\", \"name\": \"%s\", \"cache\": \"%s\", \"length\": %zu, \"samples\": %zu", table, s->name,
           specs[w->cache], w->length, w->count);
    put_number("all", all);
    put_number("in_samples", true_rate(w));
    put_number("mid", mid_rate(w));
    put_number("own", own_rate(w, s));
    put_number("low", w->e.low / n);
    put_number("high", w->e.high / n);
    put_number("known", w->known / w->references);
    put_number("unknown", w->unknown / w->references);
    put_number("mu_actual", w->unknown > 0 ? (w->misses - w->known) / w->unknown : NAN);
    put_number("part", w->e.part);
    put_number("mu", w->e.mu);
    put_number("generations", w->e.generations);
    put_number("bounded", (double)w->bounded);
    printf(", \"holds\": %s}\n", w->e.low <= all * n && all * n <= w->e.high ? "true" : "false");
}

static void put_sample(const struct stream *s, const char *table, unsigned cache, size_t length)
{
    struct windows w = sample(s, cache, length);
    put_windows(s, table, &w);
    cache_free(w.c);
}

/* Figure 8: the bounds of each sample by itself. */
static void put_bounds(const struct stream *s)
{
    size_t length = HALF_MILLION, period = length * RATIO;
    for (size_t k = 0; k * period + period <= s->count && k < LISTED; k++) {
        struct windows w = {.cache = MIDDLE, .length = length, .c = new_cache(MIDDLE)};
        run_window(s, &w, k * period + chance((period - length) / STEP) * STEP, 1);
        printf("{\"table\": \"figure8\", \"name\": \"%s\", \"nth\": %zu", s->name, k + 1);
        put_number("low", w.known / w.references);
        put_number("high", (w.known + w.unknown) / w.references);
        put_number("truth", true_rate(&w));
        printf("}\n");
        cache_free(w.c);
    }
}

/* Figure 6: over time. */
static void put_over_time(const struct stream *s)
{
    size_t piece = s->count / PIECES / STEP * STEP;
    printf("{\"table\": \"figure6\", \"name\": \"%s\", \"rates\": [", s->name);
    for (size_t k = 0; piece && k < PIECES; k++)
        printf("%s%.9g", k ? ", " : "", rate_of(s, MIDDLE, k * piece, (k + 1) * piece));
    printf("]}\n");
}

/* Table 4's third column: by the generations of the whole trace. */
static void put_mu_of_all(const struct stream *s)
{
    struct cache *c = new_cache(LARGE);
    cache_window_begin(c);
    cache_run(c, s->refs, s->count);
    cache_window_end(c, 1);
    printf("{\"table\": \"mu_all\", \"name\": \"%s\"", s->name);
    put_number("mu", cache_estimate(c, 0).mu);
    printf("}\n");
    cache_free(c);
}

/* ---- all ---- */

static void put_paper(const struct stream *s)
{
    static const size_t numbers[] = {5, 10, 20, 50, 100};
    printf("{\"table\": \"table2\", \"name\": \"%s\", \"references\": %zu, \"mb\": %u", s->name, s->count, s->regions);
    put_number("rate", rate_of(s, MIDDLE, 0, s->count));
    printf("}\n");
    put_sample(s, "table3", MIDDLE, HALF_MILLION);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        put_sample(s, "figure5", MIDDLE, s->count / RATIO / numbers[i]);
    put_over_time(s);
    for (unsigned c = 0; c < SIZES; c++)
        put_sample(s, "figure7", c, HALF_MILLION);
    put_bounds(s);
    for (size_t length = HALF_MILLION; length <= 16 * HALF_MILLION; length *= 2)
        put_sample(s, "figure9", LARGE, length);
    put_mu_of_all(s);
}

int main(int argc, char **argv)
{
    struct stream s = {.name = argc > 1 ? argv[1] : "-"};
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    read_trace(&s);
    if (s.count < 2 * HALF_MILLION) {
        fprintf(stderr, "accuracy: %s: too few references\n", s.name);
        return 2;
    }
    for (unsigned c = 0; c < SIZES; c++)
        simulate_all(&s, c);
    put_paper(&s);
    for (unsigned c = 0; c < SIZES; c++)
        cache_free(s.full[c]);
    for (unsigned c = 0; c < SIZES; c++)
        free(s.misses[c]);
    free(s.refs);
    return 0;
}
