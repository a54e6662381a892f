/* SPDX-License-Identifier: Apache-2.0
 * bench-cache [TRACE]...: how many references a second the cache simulation takes, of made-up streams and of the first
 * eight million data references of each trace (lackey, din): without causes, with them, and the curve. Best of three.
 */
#include "cache/cache.h"

#include <stdlib.h>
#include <time.h>

enum { COUNT = 8000000, ROUNDS = 3 };
static const char spec[] = "32K/64/8+1M/64/8+32M/64/16";

struct stream {
    const char *name;
    struct cache_ref *refs;
    size_t count;
};

/* Of the processor: the machine may have other work. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(const struct stream *s, const struct cache_config *config, bool with_causes, double *missed)
{
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        struct cache *c = cache_new(config, with_causes);
        double begin = now_s();
        cache_run(c, s->refs, s->count);
        double took = now_s() - begin;
        const struct cache_counts *n = cache_counts(c, 0);
        best = took < best ? took : best;
        *missed = (double)(n->misses[CACHE_READ] + n->misses[CACHE_WRITE]) / (double)s->count;
        cache_free(c);
    }
    return best;
}

static double seconds_of_curve(const struct stream *s)
{
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        struct cache_curve *k = cache_curve_new(64, 4 << 10, 256 << 20);
        double begin = now_s();
        cache_curve_run(k, s->refs, s->count);
        double took = now_s() - begin;
        best = took < best ? took : best;
        cache_curve_free(k);
    }
    return best;
}

static void measure(const struct stream *s)
{
    struct cache_config config;
    double missed = 0, n = 1e-6 * (double)s->count;
    if (!s->count || cache_parse(spec, &config) < 0)
        return;
    double plain = n / seconds_of(s, &config, false, &missed), causes = n / seconds_of(s, &config, true, &missed);
    printf("%-20s %8.1f %9.1f %8.1f %12.2f\n", s->name, plain, causes, n / seconds_of_curve(s), 100 * missed);
}

/* ---- streams ---- */

static uint64_t state = 1;

static uint64_t chance(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static uint64_t in_order(size_t i) { return i * 8 % (100 << 20); }
static uint64_t mostly_near(size_t i)
{
    (void)i;
    return chance(chance(16) ? 24 << 10 : 8 << 20);
}
static uint64_t anywhere(size_t i)
{
    (void)i;
    return chance(64 << 20);
}

static void measure_made_up(struct cache_ref *refs, const char *name, uint64_t (*address)(size_t i))
{
    for (size_t i = 0; i < COUNT; i++)
        refs[i] = (struct cache_ref){address(i), 0, 4, CACHE_READ, 0};
    measure(&(struct stream){name, refs, COUNT});
}

static void measure_trace(struct cache_ref *refs, const char *path)
{
    struct cache_reader *r;
    struct cache_ref batch[1024];
    size_t count = 0;
    if (cache_reader_open(path, &r) < 0)
        return;
    for (ptrdiff_t n; count + ARRAY_LEN(batch) <= COUNT && (n = cache_reader_next(r, batch, ARRAY_LEN(batch))) > 0;)
        for (ptrdiff_t i = 0; i < n; i++)
            if (batch[i].kind != CACHE_FETCH)
                refs[count++] = batch[i];
    cache_reader_close(r);
    measure(&(struct stream){file_base_name(path), refs, count});
}

int main(int argc, char **argv)
{
    struct cache_ref *refs = xmalloc(COUNT * sizeof *refs);
    printf("%s: million references a second of processor time\n%-20s %8s %9s %8s %12s\n", spec, "stream", "plain",
           "causes", "curve", "L1 misses, %");
    measure_made_up(refs, "in order", in_order);
    measure_made_up(refs, "15 of 16 near", mostly_near);
    measure_made_up(refs, "anywhere in 64 MB", anywhere);
    for (int i = 1; i < argc; i++)
        measure_trace(refs, argv[i]);
    free(refs);
    return 0;
}
