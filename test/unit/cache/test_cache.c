/* SPDX-License-Identifier: Apache-2.0
 * The simulation against the naive one, to the miss, on random streams through random configurations; closed forms. */
#include "cache/cache.h"
#include "naive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CELLS = 5, STREAM = 1500, THREADS = 4 };
#ifdef __SANITIZE_ADDRESS__
enum { CONFIGURATIONS = 800 }; /* what sanitizers find needs no more of the same */
#else
enum { CONFIGURATIONS = 3000 };
#endif

static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

/* ---- random configurations and streams ---- */

static void random_level(struct cache_level *l, uint32_t min_line)
{
    static const uint32_t ways[] = {1, 2, 3, 4, 6, 8, 16, 32};
    uint64_t sets = 1 + chance(9);
    *l = (struct cache_level){.ways = ways[chance(ARRAY_LEN(ways))], .seed = 1 + chance(1000), .side = CACHE_DATA};
    l->line_bytes = min_line << (chance(4) ? 0 : chance(3));
    if (chance(3))
        sets = 1u << chance(4);
    l->size_bytes = sets * l->ways * l->line_bytes;
    l->policy = chance(2) ? CACHE_LRU : (enum cache_policy)chance(CACHE_POLICY_COUNT);
    l->inclusion = chance(2) ? CACHE_NEITHER : (enum cache_inclusion)chance(CACHE_INCLUSION_COUNT);
    l->write_through = chance(4) == 0;
    l->no_allocate = chance(4) == 0;
    l->whole = chance(5) == 0;
    l->is_shared = chance(4) == 0;
}

static void random_config(struct cache_config *k)
{
    struct strbuf said = {0};
    diag_hold(&said); /* most are none: try again */
    do {
        bool has_code = chance(2);
        *k = (struct cache_config){.count = 0};
        uint32_t line = 4u << chance(4);
        if (has_code) {
            random_level(&k->levels[0], line);
            k->levels[k->count++].side = CACHE_CODE;
        }
        for (unsigned more = 1 + (unsigned)chance(3); more > 0; more--) {
            random_level(&k->levels[k->count], k->count ? k->levels[k->count - 1].line_bytes : line);
            k->levels[k->count].side = has_code && k->count > 1 ? CACHE_BOTH : CACHE_DATA;
            k->levels[k->count].is_shared |= k->count > 0 && k->levels[k->count - 1].is_shared;
            k->count++;
        }
    } while (cache_check("random", k) < 0);
    diag_hold(NULL);
    str_free(&said);
}

/* Some lines near each other, again and again, from a place that moves; sizes that straddle. */
static void random_stream(struct cache_ref *refs, size_t count, const struct cache_config *k, unsigned threads)
{
    size_t alone = threads > 1 && chance(2) ? chance(count) : 0; /* one thread before the others */
    uint64_t largest = 0, base = chance(2) ? 0 : chance(1u << 30);
    for (unsigned i = 0; i < k->count; i++)
        largest = max_u64(largest, k->levels[i].size_bytes);
    uint64_t reach = 1 + largest / (1 + chance(4)) * (1 + chance(3));
    for (size_t i = 0; i < count; i++) {
        if (chance(200) == 0)
            base += chance(reach);
        uint64_t spread = chance(3) ? 1 + reach / 8 : reach;
        refs[i] = (struct cache_ref){base + chance(spread), (uint32_t)chance(CELLS), (uint16_t)(1u << chance(5)),
                                     (uint8_t)chance(CACHE_MODIFY + 1), 0};
        if (i >= alone)
            refs[i].thread = (uint8_t)chance(threads);
    }
}

static const char *text_of(const struct cache_config *k)
{
    static struct strbuf s;
    str_free(&s);
    cache_format(k, &s);
    return s.data;
}

static void same_evictors(const struct cache *c, const struct naive *n, unsigned level)
{
    struct arena *a = arena_new();
    size_t count;
    const struct cache_evictor *e = cache_evictors(c, level, a, &count);
    uint64_t misses = 0, wanted = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(e[i].misses, naive_evictions(n, level, e[i].cell, e[i].by));
        misses += e[i].misses;
    }
    for (uint32_t x = 0; x < CELLS; x++)
        for (uint32_t y = 0; y < CELLS; y++)
            wanted += naive_evictions(n, level, x, y);
    assert_int_equal(misses, wanted);
    arena_free(a);
}

/* With few pairs kept: as many misses as are in all by each cell; a pair that is kept has no more than all of its own,
 * and what evicts most of all still comes first. */
static void test_few_evictors(void **unused)
{
    (void)unused;
    enum { SOME = 300000, MANY = 400, KEPT = 64, LINES = 3000 };
    struct cache_config config;
    struct arena *a = arena_new();
    assert_int_equal(cache_parse("8K/64/2", &config), 0);
    struct cache *all = cache_new(&config, true), *few = cache_new(&config, true);
    cache_keep_evictors(few, KEPT);
    for (int i = 0; i < SOME; i++) {
        uint64_t line = chance(LINES);
        uint32_t cell = i % 2 ? (uint32_t)(line % 3) : (uint32_t)(line % MANY);
        struct cache_ref r = {.address = line * 64, .cell = cell, .bytes = 8, .kind = CACHE_READ};
        cache_run(all, &r, 1);
        cache_run(few, &r, 1);
    }
    size_t count, kept, pairs = 0, at = 0;
    const struct cache_evictor *x = cache_evictors(all, 0, a, &count), *y = cache_evictors(few, 0, a, &kept);
    uint64_t *lacking = ARENA_ARRAY(a, uint64_t, MANY);
    for (size_t i = 0; i < count; i++)
        lacking[x[i].cell] += x[i].misses;
    for (size_t i = 0; i < kept; i++) {
        lacking[y[i].cell] -= y[i].misses;
        assert_true(i == 0 || y[i].cell >= y[i - 1].cell);
        if (y[i].by == CACHE_OTHERS) {
            assert_true(i + 1 == kept || y[i + 1].cell != y[i].cell); /* the last of its cell */
            continue;
        }
        pairs++;
        while (x[at].cell != y[i].cell || x[at].by != y[i].by)
            at = (at + 1) % count;
        assert_true(y[i].misses <= x[at].misses);
    }
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(lacking[i], 0);
    assert_true(count > 10 * KEPT && pairs <= KEPT);
    assert_true(x[0].cell == y[0].cell && x[0].by < 3 && y[0].by < 3 && y[0].misses > x[0].misses / 2);
    cache_free(all);
    cache_free(few);
    arena_free(a);
}

static uint64_t shared_true, shared_false; /* of all compared so far */

static void same_sharing(const struct cache *c, const struct naive *n, unsigned level)
{
    size_t count;
    const struct cache_cell *cells = cache_cells(c, level, &count);
    for (uint32_t i = 0; i < CELLS; i++) {
        struct cache_cell of = i < count ? cells[i] : (struct cache_cell){0};
        assert_int_equal(of.causes[CACHE_TRUE_SHARING], naive_sharing(n, level, i, true));
        assert_int_equal(of.causes[CACHE_FALSE_SHARING], naive_sharing(n, level, i, false));
        shared_true += of.causes[CACHE_TRUE_SHARING];
        shared_false += of.causes[CACHE_FALSE_SHARING];
    }
}

/* Cells add up to the level. */
static void cells_add_up(const struct cache *c, unsigned level)
{
    const struct cache_counts *all = cache_counts(c, level);
    size_t count;
    const struct cache_cell *cells = cache_cells(c, level, &count);
    struct cache_cell sum = {0};
    for (size_t i = 0; i < count; i++) {
        sum.references += cells[i].references;
        sum.misses += cells[i].misses;
        for (unsigned x = 0; x < CACHE_CAUSE_COUNT; x++)
            sum.causes[x] += cells[i].causes[x];
    }
    for (unsigned k = 0; k < CACHE_KIND_COUNT; k++) {
        sum.references -= all->references[k];
        sum.misses -= all->misses[k];
        for (unsigned x = 0; x < CACHE_CAUSE_COUNT; x++)
            sum.causes[x] -= all->causes[k][x];
    }
    static const struct cache_cell nothing;
    assert_memory_equal(&sum, &nothing, sizeof sum);
}

static void compare(const struct cache_config *k, const struct cache_ref *refs, size_t count)
{
    struct cache *with = cache_new(k, true), *without = cache_new(k, false);
    struct naive *n = naive_new(k);
    for (size_t i = 0; i < count; i++)
        naive_reach(n, &refs[i]);
    cache_run(with, refs, count / 2);
    cache_run(with, refs + count / 2, count - count / 2);
    cache_run(without, refs, count / 3);
    cache_run(without, refs + count / 3, count - count / 3);
    for (unsigned l = 0; l < k->count; l++) {
        struct cache_counts bare = *cache_counts(without, l);
        if (memcmp(cache_counts(with, l), naive_counts(n, l), sizeof bare) != 0)
            fail_msg("level %u of %s differs from the naive simulation", l, text_of(k));
        same_evictors(with, n, l);
        same_sharing(with, n, l);
        cells_add_up(with, l);
        memcpy(bare.causes, naive_counts(n, l)->causes, sizeof bare.causes);
        if (memcmp(&bare, naive_counts(n, l), sizeof bare) != 0)
            fail_msg("level %u of %s differs without causes", l, text_of(k));
    }
    naive_free(n);
    cache_free(with);
    cache_free(without);
}

static void test_as_naive(void **unused)
{
    (void)unused;
    static struct cache_ref refs[STREAM];
    unsigned policies = 0, inclusions = 0, whole = 0;
    shared_true = shared_false = 0;
    state = 1;
    for (int i = 0; i < CONFIGURATIONS; i++) {
        struct cache_config k;
        random_config(&k);
        size_t count = 200 + chance(STREAM - 200);
        random_stream(refs, count, &k, i % 2 ? 1 : 1 + (unsigned)chance(THREADS));
        compare(&k, refs, count);
        for (unsigned l = 0; l < k.count; l++) {
            policies |= 1u << k.levels[l].policy;
            inclusions |= 1u << k.levels[l].inclusion;
            whole += k.levels[l].whole;
        }
    }
    assert_int_equal(policies, (1u << CACHE_POLICY_COUNT) - 1);
    assert_int_equal(inclusions, (1u << CACHE_INCLUSION_COUNT) - 1);
    assert_true(whole > 20);
    assert_true(shared_true > 1000 && shared_false > 1000);
}

/* More ways than are kept in order, or searched. */
static void test_many_ways(void **unused)
{
    (void)unused;
    static struct cache_ref refs[STREAM];
    static const char *const specs[] = {"8K/16/full",
                                        "8K/64/64:plru",
                                        "12K/64/96",
                                        "4K/16/64:random=7+16K/16/full:exclusive",
                                        "2K/16/32+8K/16/full:random:exclusive",
                                        "1K/16/16+6K/32/96:inclusive",
                                        "64/4/2+8K/4K/1:inclusive"};
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct cache_config k;
        assert_int_equal(cache_parse(specs[i], &k), 0);
        random_stream(refs, STREAM, &k, 1);
        compare(&k, refs, STREAM);
        random_stream(refs, STREAM, &k, THREADS);
        compare(&k, refs, STREAM);
    }
}

/* References of threads of which some are told as uses alone, of the line that this thread referred to last. */
static void stream_with_uses(struct cache_ref *refs, size_t count, const struct cache_config *k)
{
    uint64_t last[THREADS] = {0};
    random_stream(refs, count, k, THREADS);
    for (size_t i = 0; i < count; i++) {
        struct cache_ref *r = &refs[i];
        r->kind = r->kind == CACHE_FETCH ? CACHE_READ : r->kind;
        if (last[r->thread] && chance(6) == 0)
            *r = (struct cache_ref){last[r->thread], 0, 1, CACHE_USE, r->thread};
        last[r->thread] = r->address + r->bytes - 1;
    }
}

static void same_counts(const struct cache *a, const struct cache *b, unsigned level)
{
    size_t of_a, of_b;
    const struct cache_cell *x = cache_cells(a, level, &of_a), *y = cache_cells(b, level, &of_b);
    assert_memory_equal(cache_counts(a, level), cache_counts(b, level), sizeof(struct cache_counts));
    for (size_t i = 0; i < max_u64(of_a, of_b); i++) {
        static const struct cache_cell nothing;
        assert_memory_equal(i < of_a ? &x[i] : &nothing, i < of_b ? &y[i] : &nothing, sizeof nothing);
    }
    struct arena *arena = arena_new();
    const struct cache_evictor *e = cache_evictors(a, level, arena, &of_a), *f = cache_evictors(b, level, arena, &of_b);
    assert_int_equal(of_a, of_b);
    for (size_t i = 0; i < of_a; i++)
        assert_true(e[i].cell == f[i].cell && e[i].by == f[i].by && e[i].misses == f[i].misses);
    const struct cache_shared_line *l = cache_shared_lines(a, arena, STREAM, &of_a),
                                   *m = cache_shared_lines(b, arena, STREAM, &of_b);
    assert_int_equal(of_a, of_b);
    for (size_t i = 0; i < of_a; i++) {
        assert_true(l[i].address == m[i].address && l[i].side_count == m[i].side_count);
        assert_true(l[i].true_misses == m[i].true_misses && l[i].false_misses == m[i].false_misses);
        for (size_t n = 0; n < l[i].side_count; n++)
            assert_memory_equal(&l[i].sides[n], &m[i].sides[n], sizeof *l[i].sides);
    }
    arena_free(arena);
}

static void same_curves(const struct cache_curve *a, const struct cache_curve *b)
{
    assert_int_equal(cache_curve_lines(a), cache_curve_lines(b));
    for (uint64_t bytes = 256; bytes <= 1 << 20; bytes *= 2)
        for (uint32_t cell = 0; cell < CELLS; cell++)
            assert_int_equal(cache_curve_cell_misses(a, cell, bytes), cache_curve_cell_misses(b, cell, bytes));
}

/* Levels that are simulated as plain ones, with the curve, for part of the way or all of it; and such as a fetch has
 * kept from that before the first reference. */
static void test_as_not_plain(void **unused)
{
    (void)unused;
    static struct cache_ref refs[STREAM];
    static const char *const specs[] = {"256/64/1:code+1K/64/4:data+4K/64/8:data+16K/64/16:data:shared",
                                        "256/64/1:code+512/64/2:data+1K/64/2:data:shared",
                                        "256/64/1:code+3K/64/3:data+8K/64/16:data", "256/64/1:code+4K/64/8:data"};
    state = 3;
    for (unsigned i = 0; i < 400; i++) {
        struct cache_config k;
        struct cache_ref fetch = {1 << 20, 0, 4, CACHE_FETCH, 0};
        assert_int_equal(cache_parse(specs[i % ARRAY_LEN(specs)], &k), 0);
        size_t count = 200 + chance(STREAM - 200), until = chance(2) ? count : chance(count);
        stream_with_uses(refs, count, &k);
        fetch.thread = refs[0].thread;
        struct cache *a = cache_new(&k, true), *b = cache_new(&k, true);
        struct cache_curve *of_a = cache_curve_new(64, 256, 1 << 20), *of_b = cache_curve_new(64, 256, 1 << 20);
        cache_curve_by_cell(of_a);
        cache_curve_by_cell(of_b);
        assert_true(cache_carry_curve(a, of_a));
        cache_run(b, &fetch, 1);
        cache_run(a, refs, until);
        cache_run(a, &fetch, 1);
        cache_run(a, refs + until, count - until);
        cache_run(b, refs, count);
        cache_curve_run(of_b, refs, count);
        for (unsigned l = 0; l < k.count; l++)
            same_counts(a, b, l);
        same_curves(of_a, of_b);
        cache_free(a);
        cache_free(b);
        cache_curve_free(of_a);
        cache_curve_free(of_b);
    }
}

static void same_estimates(const struct cache *a, const struct cache *b, unsigned level)
{
    struct cache_estimate x = cache_estimate(a, level), y = cache_estimate(b, level);
    assert_memory_equal(&x, &y, sizeof x);
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        x = cache_estimate_cell(a, level, cell);
        y = cache_estimate_cell(b, level, cell);
        assert_memory_equal(&x, &y, sizeof x);
    }
}

/* Windows of plain levels for part of the way or all of it, of one thread or several from some place on; and such as a
 * fetch has kept from that. */
static void test_windows_as_not_plain(void **unused)
{
    (void)unused;
    static struct cache_ref refs[STREAM];
    static const char *const specs[] = {"256/64/1:code+1K/64/4:data+4K/64/8:data+16K/64/16:data:shared",
                                        "256/64/1:code+512/64/2:data+1K/64/2:data:shared",
                                        "256/64/1:code+3K/64/3:data+8K/64/16:data", "256/64/1:code+4K/64/8:data"};
    double unknown = 0, generations = 0;
    state = 5;
    for (unsigned i = 0; i < 300; i++) {
        struct cache_config k;
        assert_int_equal(cache_parse(specs[i % ARRAY_LEN(specs)], &k), 0);
        struct cache *a = cache_new(&k, true), *b = cache_new(&k, true);
        for (unsigned window = 0; window < 1 + i % 4; window++) {
            size_t count = 200 + chance(STREAM - 200), until = chance(2) ? count : chance(count);
            size_t alone = chance(3) ? chance(count) : chance(2) ? count : 0; /* the first thread */
            stream_with_uses(refs, count, &k);
            for (size_t n = 0; n < alone; n++)
                refs[n].thread = refs[0].thread;
            struct cache_ref fetch = {1 << 20, 0, 4, CACHE_FETCH, refs[0].thread};
            cache_window_begin(a);
            cache_window_begin(b);
            cache_run(b, &fetch, 1);
            cache_run(a, refs, until);
            cache_run(b, refs, until);
            if (until < count)
                cache_run(a, &fetch, 1);
            cache_run(a, refs + until, count - until);
            cache_run(b, refs + until, count - until);
            cache_window_end_of(a, count, 1 + window);
            cache_window_end_of(b, count, 1 + window);
        }
        for (unsigned l = 1; l < k.count; l++) {
            same_counts(a, b, l);
            same_estimates(a, b, l);
            unknown += cache_estimate(a, l).unknown;
            generations += cache_estimate(a, l).generations;
        }
        cache_free(a);
        cache_free(b);
    }
    assert_true(unknown > 1000 && generations > 100);
}

/* One of more uses than plain levels tell the times of. */
static void test_long_window(void **unused)
{
    enum { PARTS = 5000, USES = 4000 };
    static struct cache_ref refs[USES];
    struct cache_config k;
    (void)unused;
    assert_int_equal(cache_parse("256/64/1:code+1K/64/4:data+4K/64/8:data", &k), 0);
    struct cache *a = cache_new(&k, true), *b = cache_new(&k, true);
    state = 6;
    cache_window_begin(a);
    cache_window_begin(b);
    cache_run(b, &(struct cache_ref){1 << 20, 0, 4, CACHE_FETCH, 0}, 1);
    for (unsigned part = 0; part < PARTS; part++) {
        for (unsigned i = 0; i < USES; i++)
            refs[i] = (struct cache_ref){i % 4 ? i % 4 * 64 : chance(6 << 10), i % CELLS, 1, CACHE_READ, 0};
        cache_run(a, refs, USES);
        cache_run(b, refs, USES);
    }
    cache_window_end_of(a, PARTS * USES, 1);
    cache_window_end_of(b, PARTS * USES, 1);
    for (unsigned l = 1; l < k.count; l++) {
        same_counts(a, b, l);
        same_estimates(a, b, l);
    }
    cache_free(a);
    cache_free(b);
}

/* ---- closed forms ---- */

static struct cache *run_strides(const char *spec, uint64_t stride, unsigned count, unsigned rounds)
{
    struct cache_config k;
    assert_int_equal(cache_parse(spec, &k), 0);
    struct cache *c = cache_new(&k, true);
    for (unsigned r = 0; r < rounds; r++)
        for (unsigned i = 0; i < count; i++)
            cache_run(c, &(struct cache_ref){4096 + i * stride, 0, 4, CACHE_READ, 0}, 1);
    return c;
}

static void expect(struct cache *c, unsigned level, uint64_t misses, uint64_t cold, uint64_t capacity,
                   uint64_t conflict)
{
    const struct cache_counts *n = cache_counts(c, level);
    assert_int_equal(n->misses[CACHE_READ], misses);
    assert_int_equal(n->causes[CACHE_READ][CACHE_COLD], cold);
    assert_int_equal(n->causes[CACHE_READ][CACHE_CAPACITY], capacity);
    assert_int_equal(n->causes[CACHE_READ][CACHE_CONFLICT], conflict);
    cache_free(c);
}

static void test_strides(void **unused)
{
    (void)unused;
    /* words in order: a miss a line, then all fit */
    expect(run_strides("16K/64/4", 4, 1024, 10), 0, 64, 64, 0, 0);
    /* one line more than fit goes round: LRU keeps nothing, of each set that has one too many */
    expect(run_strides("16K/64/full", 64, 257, 10), 0, 2570, 257, 2313, 0);
    expect(run_strides("16K/64/4", 64, 257, 10), 0, 257 + 9 * 5, 257, 9 * 5, 0);
    /* five lines in a set of four: conflicts, since so few fit anywhere else */
    expect(run_strides("16K/64/4", 4096, 5, 10), 0, 50, 5, 0, 45);
    expect(run_strides("16K/64/4", 4096, 4, 10), 0, 4, 4, 0, 0);
    expect(run_strides("16K/64/full", 4096, 5, 10), 0, 5, 5, 0, 0);
    /* the paper's caches: a matrix of 256 by 256 doubles, down the columns; 2 KB apart, so 8 lines of 16 KB
     * direct-mapped */
    expect(run_strides("16K/16/1", 2048, 256, 4), 0, 1024, 256, 0, 768);
    /* two levels: the second sees what the first misses */
    expect(run_strides("1K/64/1+16K/64/4", 64, 32, 10), 1, 32, 32, 0, 0);
}

static uint64_t streamed(struct cache *c)
{
    uint64_t n = cache_counts(c, 0)->streamed[CACHE_READ];
    cache_free(c);
    return n;
}

/* From the third line of a run on, either way; at any stride; and of chances nearly none. */
static void test_streams(void **unused)
{
    (void)unused;
    struct cache_config k;
    assert_int_equal(streamed(run_strides("16K/64/4:streams", 64, 100, 1)), 98);
    assert_int_equal(streamed(run_strides("16K/64/4:streams", (uint64_t)-64, 64, 1)), 62);
    assert_int_equal(streamed(run_strides("16K/64/4:streams", 4096, 100, 1)), 98);
    assert_int_equal(streamed(run_strides("16K/64/4", 64, 100, 1)), 0);
    assert_int_equal(cache_parse("16K/64/4:streams", &k), 0);
    struct cache *c = cache_new(&k, true);
    for (uint64_t i = 0; i < 300; i++) /* three runs of one cell, in turn */
        cache_run(c, &(struct cache_ref){(i % 3 << 30) + i / 3 * 64, 0, 4, CACHE_READ, 0}, 1);
    assert_int_equal(streamed(c), 296); /* the third run begins where the first two point */
    c = cache_new(&k, true);
    state = 1;
    for (uint64_t i = 0; i < 1000; i++)
        cache_run(c, &(struct cache_ref){chance(1 << 30), 0, 4, CACHE_READ, 0}, 1);
    assert_true(streamed(c) < 3);
}

/* Direct-mapped ones are the same whatever chooses, but not the code that simulates them. In a long run of which most
 * references miss. */
static void test_long(void **unused)
{
    enum { LONG = 200000 };
    struct cache_config plain, other;
    (void)unused;
    assert_int_equal(cache_parse("4K/64/1", &plain), 0);
    assert_int_equal(cache_parse("4K/64/1:plru", &other), 0);
    struct cache *a = cache_new(&plain, true), *b = cache_new(&other, true);
    for (unsigned i = 0; i < LONG; i++) {
        struct cache_ref r = {chance(chance(2) ? 8192 : 300000), 0, 1, CACHE_READ, 0};
        cache_run(a, &r, 1);
        cache_run(b, &r, 1);
    }
    assert_memory_equal(cache_counts(a, 0), cache_counts(b, 0), sizeof *cache_counts(a, 0));
    assert_true(cache_counts(a, 0)->causes[CACHE_READ][CACHE_CAPACITY] > LONG / 2);
    cache_free(a);
    cache_free(b);
}

static void test_tree(void **unused)
{
    (void)unused;
    /* 0 1 2 3 fill; after 0 again the tree points to the other half, and there to 2 */
    static const uint64_t order[] = {0, 1, 2, 3, 0, 4, 2, 1};
    struct cache_config k;
    assert_int_equal(cache_parse("256/64/full:plru", &k), 0);
    struct cache *c = cache_new(&k, false);
    uint64_t missed = 0;
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        uint64_t before = cache_counts(c, 0)->misses[CACHE_READ];
        cache_run(c, &(struct cache_ref){order[i] * 64, 0, 1, CACHE_READ, 0}, 1);
        missed |= (cache_counts(c, 0)->misses[CACHE_READ] - before) << i;
    }
    assert_int_equal(missed, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7);
    cache_free(c);
}

static void test_random_repeats(void **unused)
{
    (void)unused;
    static struct cache_ref refs[STREAM];
    uint64_t misses[3];
    static const char *const specs[] = {"2K/16/full:random", "2K/16/full:random=1", "2K/16/full:random=2"};
    state = 5;
    for (size_t i = 0; i < STREAM; i++)
        refs[i] = (struct cache_ref){chance(4096), 0, 1, CACHE_READ, 0};
    for (size_t i = 0; i < 3; i++) {
        struct cache_config k;
        assert_int_equal(cache_parse(specs[i], &k), 0);
        struct cache *c = cache_new(&k, false);
        cache_run(c, refs, STREAM);
        misses[i] = cache_counts(c, 0)->misses[CACHE_READ];
        cache_free(c);
    }
    assert_int_equal(misses[0], misses[1]);
    assert_int_not_equal(misses[0], misses[2]);
    /* half of the lines are there at any time */
    assert_in_range(misses[2], STREAM / 2 - 250, STREAM / 2 + 250);
}

/* Addresses at the upper end, and the largest line. */
static void test_ends(void **unused)
{
    (void)unused;
    struct cache_config k;
    const struct cache_ref refs[] = {
        {UINT64_MAX - 3, 0, 4, CACHE_WRITE, 0}, {UINT64_MAX, 0, 1, CACHE_READ, 0}, {0, 0, 8, CACHE_READ, 0}};
    assert_int_equal(cache_parse("64/4/2+2G/1G/full", &k), 0);
    compare(&k, refs, ARRAY_LEN(refs));
}

/* ---- threads ---- */

static struct cache *cache_of(const char *spec)
{
    struct cache_config k;
    assert_int_equal(cache_parse(spec, &k), 0);
    return cache_new(&k, true);
}

static void touch(struct cache *c, unsigned thread, enum cache_kind kind, uint64_t address)
{
    cache_run(c, &(struct cache_ref){address, 10 + thread, 8, (uint8_t)kind, (uint8_t)thread}, 1);
}

static uint64_t sharing(const struct cache *c, unsigned level, bool is_true)
{
    const struct cache_counts *n = cache_counts(c, level);
    uint64_t sum = 0;
    for (unsigned k = 0; k < CACHE_KIND_COUNT; k++)
        sum += n->causes[k][is_true ? CACHE_TRUE_SHARING : CACHE_FALSE_SHARING];
    return sum;
}

static void expect_sharing(const struct cache *c, unsigned level, uint64_t wanted_true, uint64_t wanted_false)
{
    assert_int_equal(sharing(c, level, true), wanted_true);
    assert_int_equal(sharing(c, level, false), wanted_false);
}

/* Each adds to its own half of a line, and takes it from the other each time. */
static void test_false_sharing(void **unused)
{
    (void)unused;
    enum { ROUNDS = 100 };
    struct cache *c = cache_of("32K/64/8+1M/64/8+32M/64/16");
    struct arena *a = arena_new();
    size_t count;
    for (int i = 0; i < ROUNDS; i++)
        for (unsigned t = 0; t < 2; t++)
            touch(c, t, CACHE_MODIFY, 0x10008 + 32 * t);
    for (unsigned l = 0; l < 2; l++) {
        expect_sharing(c, l, 0, 2 * ROUNDS - 2);
        assert_int_equal(cache_counts(c, l)->causes[CACHE_READ][CACHE_COLD], 2);
        const struct cache_cell *cells = cache_cells(c, l, &count);
        assert_int_equal(cells[10].causes[CACHE_FALSE_SHARING], ROUNDS - 1);
        assert_int_equal(cells[11].causes[CACHE_FALSE_SHARING], ROUNDS - 1);
    }
    assert_int_equal(cache_counts(c, 2)->misses[CACHE_READ], 1);
    const struct cache_shared_line *line = cache_shared_lines(c, a, 10, &count);
    assert_int_equal(count, 1);
    assert_int_equal(line->address, 0x10000);
    assert_int_equal(line->false_misses, 2 * ROUNDS - 2);
    assert_int_equal(line->true_misses, 0);
    assert_int_equal(line->side_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct cache_party *p = &line->sides[i];
        assert_int_equal(p->cell, 10 + p->thread);
        assert_int_equal(p->written, p->thread ? 0xff0000000000 : 0xff00);
        assert_int_equal(p->misses, ROUNDS - 1);
        assert_int_equal(p->taken_away, ROUNDS - 1);
    }
    arena_free(a);
    cache_free(c);
}

/* One writes what the other reads; and pages are no lines, and a level that both share has nothing to lose. */
static void test_true_sharing(void **unused)
{
    (void)unused;
    static const char *const specs[] = {"32K/64/8", "256K/4K/full", "32K/64/8:shared"};
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct cache *c = cache_of(specs[i]);
        for (int n = 0; n < 10; n++) {
            touch(c, 0, CACHE_WRITE, 0x10000);
            touch(c, 1, CACHE_READ, 0x10000);
            touch(c, 2, CACHE_READ, 0x20000); /* another line */
        }
        expect_sharing(c, 0, i ? 0 : 9, 0);
        assert_int_equal(cache_counts(c, 0)->misses[CACHE_READ] + cache_counts(c, 0)->misses[CACHE_WRITE], i == 0 ? 12
                                                                                                           : i == 1
                                                                                                               ? 3
                                                                                                               : 2);
        cache_free(c);
    }
}

/* What is missed was not written, but what is used later, before the line goes again, was: the miss was of use. */
static void test_use_before_it_leaves(void **unused)
{
    (void)unused;
    struct cache *c = cache_of("1K/64/full");
    touch(c, 1, CACHE_READ, 0x10020);
    touch(c, 0, CACHE_WRITE, 0x10000);
    touch(c, 1, CACHE_READ, 0x10020);
    expect_sharing(c, 0, 0, 1);
    touch(c, 1, CACHE_READ, 0x10000);
    expect_sharing(c, 0, 1, 0);
    touch(c, 0, CACHE_WRITE, 0x10000); /* the same, but the line is evicted before it is used */
    touch(c, 1, CACHE_READ, 0x10020);
    for (uint64_t i = 1; i <= 16; i++)
        touch(c, 1, CACHE_READ, 0x10000 + 64 * i);
    touch(c, 1, CACHE_READ, 0x10000);
    expect_sharing(c, 0, 1, 1);
    assert_int_equal(cache_counts(c, 0)->causes[CACHE_READ][CACHE_CAPACITY], 1);
    cache_free(c);
}

/* Two sets of two ways: what goes from the first level is told, of the last reference alone. */
static void test_evicted(void **unused)
{
    (void)unused;
    struct cache_config k;
    uint64_t address;
    assert_int_equal(cache_parse("64/16/2+1K/64/4", &k), 0);
    struct cache *c = cache_new(&k, false);
    static const struct {
        uint64_t address, gone;
    } steps[] = {{0x104, 0}, {0x140, 0}, {0x180, 0x100}, {0x140, 0}, {0x1c0, 0x180}, {0x110, 0}};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct cache_ref ref = {.address = steps[i].address, .bytes = 1, .kind = CACHE_READ};
        cache_reach(c, &ref);
        assert_int_equal(cache_evicted(c, &address), steps[i].gone != 0);
        assert_int_equal(address, steps[i].gone);
    }
    cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_naive),
        cmocka_unit_test(test_as_not_plain),
        cmocka_unit_test(test_windows_as_not_plain),
        cmocka_unit_test(test_long_window),
        cmocka_unit_test(test_many_ways),
        cmocka_unit_test(test_few_evictors),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_random_repeats),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_evicted),
        cmocka_unit_test(test_false_sharing),
        cmocka_unit_test(test_true_sharing),
        cmocka_unit_test(test_use_before_it_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
