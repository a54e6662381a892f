/* SPDX-License-Identifier: Apache-2.0
 * Windows and some sets against the full simulation of the same stream: what is certain, and whether intervals hold the
 * truth. */
#include "cache/cache.h"
#include "cache/windows/ages.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { COUNT = 2000000, CELLS = 6, LEVELS = 3 };
static const char spec[] = "4K/64/4+32K/64/8+256K/64/16";
static struct cache_ref refs[COUNT];
static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

/* Five ways to use memory, in words that straddle no line, by turns of random lengths, among references that always
 * hit; phases favour one or other. */
static void make_stream(uint64_t seed)
{
    uint64_t at[CELLS] = {0}, cell = 0, left = 0, favoured = 0;
    state = seed;
    for (size_t i = 0; i < COUNT; i++) {
        if (chance(COUNT / 20) == 0)
            favoured = chance(CELLS);
        if (!left--) {
            cell = chance(2) ? favoured : chance(CELLS);
            left = chance(400);
        }
        uint64_t size = cell == 1   ? 200 << 10
                        : cell == 2 ? 24 << 10
                        : cell == 3 ? 1 << 20
                        : cell == 4 ? 64 << 10
                                    : 1 << 10;
        at[cell] = cell == 1 || cell == 4 ? (at[cell] + (cell == 1 ? 8 : 256)) % size : chance(size);
        refs[i] = (struct cache_ref){(cell << 24) + (at[cell] & ~3ull), (uint32_t)cell, 4,
                                     chance(4) ? CACHE_READ : CACHE_WRITE, 0};
    }
}

static struct cache *cache_of(void)
{
    struct cache_config k;
    assert_int_equal(cache_parse(spec, &k), 0);
    return cache_new(&k, true);
}

/* A window at a random place of each period. */
static struct cache *run_windows(size_t period, size_t length)
{
    struct cache *c = cache_of();
    for (size_t begin = 0; begin + period <= COUNT; begin += period) {
        size_t offset = period > length ? chance(period - length) : 0;
        cache_window_begin(c);
        cache_run(c, refs + begin + offset, length);
        cache_window_end(c, (double)period / (double)length);
    }
    return c;
}

static uint64_t truth_of(const struct cache *full, unsigned level, uint32_t cell)
{
    size_t count;
    const struct cache_cell *cells = cache_cells(full, level, &count);
    return cell < count ? cells[cell].misses : 0;
}

/* One window over everything: all is certain but the first line of each place. */
static void test_whole(void **unused)
{
    (void)unused;
    make_stream(1);
    struct cache *full = cache_of(), *c = run_windows(COUNT, COUNT);
    cache_run(full, refs, COUNT);
    for (unsigned l = 0; l < LEVELS; l++) {
        const struct cache_counts *n = cache_counts(full, l);
        struct cache_estimate e = cache_estimate(c, l);
        double misses = (double)(n->misses[CACHE_READ] + n->misses[CACHE_WRITE]);
        assert_true(e.known + e.unknown == misses);
        assert_true(e.unknown > 0 && e.unknown <= (double)((4096 << 3 * l) / 64) * (l + 1));
        assert_true(e.low == e.known && e.high == misses && e.error == 0);
        double sum = 0;
        for (uint32_t x = 0; x < CELLS; x++)
            sum += cache_estimate_cell(c, l, x).known;
        assert_true(sum == e.known);
        assert_true(e.mu > 0 && e.mu < 1);
    }
    cache_free(full);
    cache_free(c);
}

/* Generations by hand: a direct-mapped set whose line is used for 10 references and idle for 30. */
static void test_generations(void **unused)
{
    (void)unused;
    struct cache_config k;
    assert_int_equal(cache_parse("128/64/1", &k), 0);
    struct cache *c = cache_new(&k, true);
    cache_window_begin(c);
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < 10; i++)
            cache_run(c, &(struct cache_ref){round * 128, 7, 4, CACHE_READ, 0}, 1);
        for (unsigned i = 0; i < 30; i++)
            cache_run(c, &(struct cache_ref){64, 8, 4, CACHE_READ, 0}, 1);
    }
    cache_window_end(c, 3);
    struct cache_estimate e = cache_estimate_cell(c, 0, 7);
    assert_true(e.references == 3000 && e.known == 3 * 99 && e.unknown == 3);
    assert_true(fabs(e.mu_own - 31.0 / 40) < 1e-9); /* used at 1 to 10 of 40 */
    assert_true(fabs(e.generations - 98.0 / 2) < 1e-9);
    assert_true(cache_estimate_cell(c, 0, 8).unknown == 3);
    assert_true(isnan(cache_estimate_cell(c, 0, 8).mu_own));
    assert_true(fabs(e.misses - (3 * 99 + 3 * e.part)) < 1e-9);
    cache_free(c);
}

/* Most lines are met again and again, by many windows: what these had not met before is mostly not cold. Of memory that
 * is gone through once each line is met by one window alone, and all of what misses is. */
static void test_cold(void **unused)
{
    (void)unused;
    enum { PERIOD = 50000, LENGTH = 5000 };
    for (unsigned is_once = 0; is_once < 2; is_once++) {
        make_stream(1);
        for (size_t i = 0; is_once && i < COUNT; i++)
            refs[i] = (struct cache_ref){i * 16, 0, 4, CACHE_READ, 0};
        struct cache *full = cache_of(), *c = run_windows(PERIOD, LENGTH);
        cache_run(full, refs, COUNT);
        cache_windows_stand_for(c, COUNT, NULL, 0);
        for (unsigned l = 0; l < LEVELS; l++) {
            const struct cache_counts *n = cache_counts(full, l), *in_windows = cache_counts(c, l);
            struct cache_estimate e = cache_estimate(c, l);
            double cold = (double)(n->causes[CACHE_READ][CACHE_COLD] + n->causes[CACHE_WRITE][CACHE_COLD]);
            double unmet = (double)(in_windows->causes[CACHE_READ][CACHE_COLD] +
                                    in_windows->causes[CACHE_WRITE][CACHE_COLD]) *
                           PERIOD / LENGTH,
                   sum = 0;
            assert_true(is_once ? fabs(unmet - cold) < 0.01 * cold : unmet > 3 * cold);
            assert_true(fabs(e.cold - fmin(cold, e.misses)) < 0.1 * cold);
            for (uint32_t x = 0; x < CELLS; x++)
                sum += cache_estimate_cell(c, l, x).cold;
            assert_true(fabs(sum - fmin(cold, e.misses)) < 0.2 * cold);
        }
        cache_free(full);
        cache_free(c);
    }
}

/* What a line held before the window is not known, and what a nearer level may have hit, a further one may not see. */
static void test_unknown(void **unused)
{
    (void)unused;
    struct cache_config k;
    assert_int_equal(cache_parse("128/64/2+128/64/2", &k), 0);
    struct cache *c = cache_new(&k, true);
    cache_window_begin(c);
    for (uint64_t i = 0; i < 4; i++)
        cache_run(c, &(struct cache_ref){i * 64, 0, 4, CACHE_READ, 0}, 1);
    cache_window_end(c, 1);
    for (unsigned l = 0; l < 2; l++) {
        struct cache_estimate e = cache_estimate(c, l);
        assert_true(e.known == 2 && e.unknown == 2);
    }
    cache_window_begin(c); /* nothing of the first is left */
    cache_run(c, &(struct cache_ref){192, 0, 4, CACHE_READ, 0}, 1);
    cache_window_end(c, 1);
    assert_true(cache_estimate(c, 0).unknown == 3);
    cache_free(c);
}

struct rows {
    unsigned all, held;
};

static void count_row(struct rows *r, double truth, struct cache_estimate e, double enough)
{
    if (truth < enough)
        return;
    r->all++;
    r->held += e.low <= truth && truth <= e.high;
}

static void test_intervals(void **unused)
{
    (void)unused;
    struct rows r = {0};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        make_stream(seed);
        struct cache *full = cache_of();
        cache_run(full, refs, COUNT);
        for (size_t length = 2000; length <= 20000; length *= 10) {
            struct cache *c = run_windows(10 * length, length);
            for (unsigned l = 0; l < LEVELS; l++) {
                const struct cache_counts *n = cache_counts(full, l);
                double all = (double)(n->misses[CACHE_READ] + n->misses[CACHE_WRITE]);
                count_row(&r, all, cache_estimate(c, l), 1);
                for (uint32_t x = 0; x < CELLS; x++)
                    count_row(&r, (double)truth_of(full, l, x), cache_estimate_cell(c, l, x), all / 100);
            }
            cache_free(c);
        }
        cache_free(full);
    }
    print_message("# %u of %u intervals hold the truth\n", r.held, r.all);
    assert_true(r.all > 100 && r.held * 10 >= r.all * 9);
}

/* Windows that are all alike, of a run whose first tenth, which none of them meets, misses more or less. */
static void test_passed_by(void **unused)
{
    (void)unused;
    enum { LENGTH = COUNT / 200, WINDOWS = 18 };
    for (unsigned often = 4; often <= 16; often += 12) { /* one in so many of the first tenth misses; else one in 8 */
        for (size_t i = 0; i < COUNT; i++)
            refs[i] = (struct cache_ref){i % (i < COUNT / 10 ? often : 8) ? 64 : i * 64, 0, 4, CACHE_READ, 0};
        struct cache *full = cache_of(), *c = cache_of();
        cache_run(full, refs, COUNT);
        for (size_t k = 0; k < WINDOWS; k++) {
            cache_window_begin(c);
            cache_run(c, refs + COUNT / 10 + k * (COUNT / 20), LENGTH);
            cache_window_end(c, COUNT / (double)(WINDOWS * LENGTH));
        }
        struct cache_estimate e = cache_estimate(c, 0);
        double truth = (double)cache_counts(full, 0)->misses[CACHE_READ];
        assert_true(e.low <= truth && truth <= e.high);
        assert_true(e.high < 1.4 * e.low);
        cache_free(full);
        cache_free(c);
    }
}

/* ---- a part of all levels ---- */

static struct cache *run_part(const struct cache_config *k, const struct cache_part *part, size_t count)
{
    struct cache *c = cache_new(k, true);
    cache_take_part(c, part);
    for (size_t i = 0; i < count; i++)
        if (cache_is_taken(part, refs[i].address))
            cache_run(c, &refs[i], 1);
    return c;
}

static void add_counts(struct cache_counts *to, const struct cache_counts *from)
{
    for (int k = 0; k < CACHE_KIND_COUNT; k++) {
        to->references[k] += from->references[k];
        to->misses[k] += from->misses[k];
        to->causes[k][CACHE_COLD] += from->causes[k][CACHE_COLD];
    }
    to->write_backs += from->write_backs;
}

/* What all parts miss together is what all sets miss. */
static void test_parts_are_exact(void **unused)
{
    (void)unused;
    static const char *const specs[] = {"4K/64/4+64K/64/2+1M/64/4", "4K/32/2+64K/64/2:inclusive",
                                        "4K/64/4+64K/64/2:exclusive:plru"};
    enum { PARTS = 8 };
    make_stream(5);
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct cache_config k;
        struct cache_part part;
        struct cache_counts sum[3] = {{.write_backs = 0}};
        assert_int_equal(cache_parse(specs[i], &k), 0);
        for (unsigned which = 0; which < PARTS; which++) {
            assert_int_equal(cache_choose_part(&k, 1, PARTS, which, &part), 0);
            struct cache *c = run_part(&k, &part, COUNT / 2);
            for (unsigned l = 0; l < k.count; l++)
                add_counts(&sum[l], cache_counts(c, l));
            cache_free(c);
        }
        assert_int_equal(cache_choose_part(&k, 1, 1, 0, &part), 0);
        struct cache *full = run_part(&k, &part, COUNT / 2);
        for (unsigned l = 0; l < k.count; l++) {
            const struct cache_counts *n = cache_counts(full, l);
            assert_true(n->misses[CACHE_READ] > 1000);
            assert_memory_equal(sum[l].references, n->references, sizeof n->references);
            assert_memory_equal(sum[l].misses, n->misses, sizeof n->misses);
            assert_int_equal(sum[l].causes[CACHE_READ][CACHE_COLD], n->causes[CACHE_READ][CACHE_COLD]);
            assert_int_equal(sum[l].write_backs, n->write_backs);
        }
        cache_free(full);
    }
}

static double conflicts_of(const struct cache *c, unsigned level)
{
    const struct cache_counts *n = cache_counts(c, level);
    return (double)(n->causes[CACHE_READ][CACHE_CONFLICT] + n->causes[CACHE_WRITE][CACHE_CONFLICT]);
}

/* Conflicts are told from capacity by a shadow that is as much smaller. */
static void test_intervals_of_parts(void **unused)
{
    (void)unused;
    enum { PARTS = 4 };
    struct rows r = {0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cache_config k;
        struct cache_part part;
        make_stream(seed);
        assert_int_equal(cache_parse("8K/64/1+64K/64/2+512K/64/4", &k), 0);
        assert_int_equal(cache_choose_part(&k, 1, 1, 0, &part), 0);
        struct cache *full = run_part(&k, &part, COUNT / 2);
        assert_int_equal(cache_choose_part(&k, 1, PARTS, (unsigned)seed, &part), 0);
        struct cache *c = run_part(&k, &part, COUNT / 2);
        assert_true(fabs(PARTS * conflicts_of(c, 0) - conflicts_of(full, 0)) < conflicts_of(full, 0) / 5);
        for (unsigned l = 0; l < k.count; l++) {
            const struct cache_counts *n = cache_counts(full, l);
            double all = (double)(n->misses[CACHE_READ] + n->misses[CACHE_WRITE]);
            count_row(&r, all, cache_estimate(c, l), 1);
            for (uint32_t x = 0; x < CELLS; x++) {
                struct cache_estimate one = cache_estimate_cell(c, l, x), same = cache_estimate_cells(c, l, &x, 1);
                assert_true(one.misses == same.misses && one.low == same.low && one.high == same.high);
                count_row(&r, (double)truth_of(full, l, x), one, all / 100);
            }
        }
        cache_free(full);
        cache_free(c);
    }
    print_message("# %u of %u intervals of parts hold the truth\n", r.held, r.all);
    assert_true(r.all > 100 && r.held * 10 >= r.all * 9);
}

static void test_parts_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *spec;
        unsigned one_in;
        const char *said;
    } cases[] = {
        {"4K/64/4", 16, "one set in 16: the levels have 16 kinds of sets in common, of which 2 must be taken at least"},
        {"4K/64/4+1M/64/full", 2,
         "one set in 2: the levels have 1 kinds of sets in common, of which 2 must be taken at least"},
        {"4K/64/4:streams", 2,
         "one set in 2: what a prefetcher would foresee shows in the misses of neighbouring lines, which are of other "
         "sets"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cache_config k;
        struct cache_part part;
        struct strbuf said = {0};
        assert_int_equal(cache_parse(cases[i].spec, &k), 0);
        diag_hold(&said);
        assert_int_equal(cache_choose_part(&k, 1, cases[i].one_in, 0, &part), -1);
        diag_hold(NULL);
        assert_string_equal(said.data, cases[i].said);
        str_free(&said);
    }
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-9 * (1 + fabs(a)); }

/* Windows of weight 1 that are told afterwards what they stand for are as windows of that weight; all cells together
 * are the level. */
static void test_stand_for(void **unused)
{
    (void)unused;
    enum { PERIOD = 20000, LENGTH = 2000 };
    static const uint32_t all[CELLS] = {0, 1, 2, 3, 4, 5};
    make_stream(5);
    uint64_t here = state;
    struct cache *weighted = run_windows(PERIOD, LENGTH), *c = cache_of();
    state = here;
    for (size_t begin = 0; begin + PERIOD <= COUNT; begin += PERIOD) {
        size_t offset = chance(PERIOD - LENGTH);
        cache_window_begin(c);
        cache_run(c, refs + begin + offset, LENGTH);
        cache_window_end_of(c, LENGTH, 1);
    }
    cache_windows_stand_for(c, COUNT, NULL, 0);
    assert_int_equal(cache_window_count(c), COUNT / PERIOD);
    for (unsigned l = 0; l < LEVELS; l++) {
        struct cache_estimate a = cache_estimate(weighted, l), b = cache_estimate(c, l);
        struct cache_estimate together = cache_estimate_cells(c, l, all, CELLS);
        assert_true(is_near(a.misses, b.misses) && is_near(a.low, b.low) && is_near(a.high, b.high));
        assert_true(is_near(together.misses, b.misses) && is_near(together.low, b.low) &&
                    is_near(together.high, b.high));
        for (uint32_t x = 0; x < CELLS; x++) {
            a = cache_estimate_cell(weighted, l, x);
            b = cache_estimate_cell(c, l, x);
            together = cache_estimate_cells(c, l, &x, 1);
            assert_true(is_near(a.misses, b.misses) && is_near(a.high, b.high) && a.windows == b.windows);
            assert_true(is_near(together.misses, b.misses) && is_near(together.low, b.low));
        }
    }
    cache_free(weighted);
    cache_free(c);
}

/* By hand. Of age 3 (8 to 15) are there 6 hits, 2 misses and half of 5 firsts; of age 2 all of them and 4 misses. */
static void test_ages(void **unused)
{
    (void)unused;
    struct ages a = {.hits = {[3] = 6}, .misses = {[3] = 2, [2] = 4}, .firsts = {[3] = 5, [1] = 2}};
    double p[AGES], there = 6 + 2 + 2.5, two = 13 + 4, full = 1 / 7.0,
                    tail = full * (5 + 6) / (10 + 6.0) + (1 - full) * 0.5, part;
    ages_solve(&a, p);
    assert_true(fabs(p[AGES - 1] - tail) < 1e-12 && p[4] == p[AGES - 1]);
    assert_true(fabs(p[3] - (1 / there + (1 - 4 / there) * tail)) < 1e-12);
    part = 2 / there + (1 - 8 / there) * tail;
    assert_true(fabs(p[2] - (2 / two + (1 - 2 / two) * part)) < 1e-12);
    part = 4 / two + (1 - 4 / two) * part;
    assert_true(fabs(p[1] - part) < 1e-12 && p[0] == p[1]);
    assert_true(age_of(0) == 0 && age_of(1) == 0 && age_of(8) == 3 && age_of(15) == 3 && age_of(UINT32_MAX) == 31);
    /* Hits that nearly all others outlive say little of these; the oldest in full sets do. */
    ages_solve(&(struct ages){.hits = {[5] = 10}, .firsts = {[5] = 1000, [6] = 100}}, p);
    assert_true(fabs(p[6] - 0.5) < 1e-12 && p[5] > 0.49 && p[5] < 0.5);
    ages_solve(&(struct ages){.hits = {[7] = 30, [2] = 9}, .full_hits = {[7] = 30, [2] = 9}, .misses = {[7] = 90}}, p);
    assert_true(fabs(p[9] - (5 + 90) / (10 + 120.0)) < 1e-12);
}

/* What hits, or misses, all the time is told so, where half of what is unknown would be far off. */
static void test_unknown_are_told(void **unused)
{
    (void)unused;
    enum { LENGTH = 20000 };
    static const char *const specs[] = {"64K/64/1", "64K/64/8", "8K/64/8+64K/64/8", "64K/64/8:plru"};
    static const struct {
        uint64_t bytes; /* that are gone through, in order or in none */
        bool in_order;
        double least, most; /* of the unknown ones that miss */
    } streams[] = {
        {32 << 10, true, 0, 0.05}, {32 << 10, false, 0, 0.05}, {1 << 20, true, 0.9, 1}, {1 << 20, false, 0.8, 1}};
    for (size_t k = 0; k < ARRAY_LEN(specs) * ARRAY_LEN(streams); k++) {
        struct cache_config config;
        size_t nth = k % ARRAY_LEN(streams);
        assert_int_equal(cache_parse(specs[k / ARRAY_LEN(streams)], &config), 0);
        state = 3;
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t at = streams[nth].in_order ? i * 32 : chance(streams[nth].bytes / 32) * 32;
            refs[i] = (struct cache_ref){i % 4 ? 1 << 24 : at % streams[nth].bytes, i % 4 ? 0 : 1, 4, CACHE_READ, 0};
        }
        struct cache *c = cache_new(&config, true);
        for (size_t begin = 0; begin + LENGTH <= COUNT; begin += 10 * LENGTH) {
            cache_window_begin(c);
            cache_run(c, refs + begin, LENGTH);
            cache_window_end(c, 10);
        }
        struct cache_estimate e = cache_estimate(c, config.count - 1),
                              cell = cache_estimate_cell(c, config.count - 1, 1);
        assert_true(e.unknown > 0 && e.part >= streams[nth].least && e.part <= streams[nth].most);
        assert_true(fabs(e.misses - e.known - e.part * e.unknown) < 1e-6 * e.unknown);
        assert_true(cell.part >= streams[nth].least && cell.part <= streams[nth].most);
        cache_free(c);
    }
}

/* A cell of whose code windows have half as much as they should counts twice, in its level too. */
static void test_factors(void **unused)
{
    (void)unused;
    static const double factor[3] = {1, 2, 1};
    struct cache_config k;
    assert_int_equal(cache_parse("128/64/1", &k), 0);
    struct cache *c = cache_new(&k, true);
    for (unsigned window = 0; window < 2; window++) {
        cache_window_begin(c);
        for (uint64_t i = 0; i < 101; i++) {
            cache_run(c, &(struct cache_ref){i * 128, 1, 4, CACHE_READ, 0}, 1);
            cache_run(c, &(struct cache_ref){i * 128 + 64, 2, 4, CACHE_READ, 0}, 1);
        }
        cache_window_end_of(c, 1000, 1); /* the others hit, and were left out */
    }
    cache_windows_stand_for(c, 20000, factor, 3);
    assert_true(cache_estimate_cell(c, 0, 1).known == 4000 && cache_estimate_cell(c, 0, 2).known == 2000);
    assert_true(cache_estimate_cell(c, 0, 1).unknown == 40 && cache_estimate_cell(c, 0, 2).unknown == 20);
    assert_true(cache_estimate(c, 0).known == 6000 && cache_estimate(c, 0).unknown == 60);
    double of_windows[2] = {0, 0}, least[2] = {0, 0}, most[2] = {0, 0};
    cache_windows_add(c, 0, 1, CACHE_LIKELY, 3, of_windows);
    cache_windows_add(c, 0, 1, CACHE_LEAST, 3, least);
    cache_windows_add(c, 0, 1, CACHE_MOST, 3, most);
    assert_true(is_near(least[0] + least[1], 3 * 4000) && is_near(most[0] + most[1], 3 * 4040));
    assert_true(is_near(of_windows[0] + of_windows[1], 3 * cache_estimate_cell(c, 0, 1).misses));
    assert_true(is_near(of_windows[0], of_windows[1]) && cache_windows_passed_by(c) == 0.9);
    cache_free(c);
}

/* Nine windows of one phase and one of another, of which the run has as much: what both do (kind 1) is more in the
 * second. Kind 3 no window has; the last window has nothing. */
static void test_weights(void **unused)
{
    (void)unused;
    enum { WINDOWS = 11 };
    struct cache_work work[WINDOWS * 3];
    size_t n = 0;
    for (uint32_t w = 0; w < WINDOWS - 1; w++) {
        bool is_second = w == 4;
        work[n++] = (struct cache_work){w, is_second ? 2 : 0, 60};
        work[n++] = (struct cache_work){w, 1, is_second ? 20 : 5}; /* in two pieces */
        work[n++] = (struct cache_work){w, 1, is_second ? 20 : 5};
    }
    const double whole[] = {9 * 60 * 100, 9 * 10 * 100 + 9 * 40 * 100, 9 * 60 * 100, 12345};
    double weights[WINDOWS];
    cache_work_weights(work, n, whole, 4, weights, WINDOWS);
    assert_true(weights[10] == 1);
    for (int w = 0; w < 10; w++) {
        double relative = weights[w] / weights[0];
        assert_true(relative > (w == 4 ? 8.9 : 0.999) && relative < (w == 4 ? 9.1 : 1.001));
    }
    cache_work_weights(NULL, 0, whole, 4, weights, WINDOWS);
    assert_true(weights[0] == 1 && weights[4] == 1);
}

/* Weights count as if the windows had been told with them. */
static void test_weighed(void **unused)
{
    (void)unused;
    const double weights[] = {3, 0.5};
    struct cache_config k;
    struct cache *c[2];
    assert_int_equal(cache_parse("128/64/1", &k), 0);
    for (int which = 0; which < 2; which++) {
        c[which] = cache_new(&k, true);
        for (unsigned window = 0; window < 2; window++) {
            cache_window_begin(c[which]);
            for (uint64_t i = 0; i < 100 + 300 * window; i++)
                cache_run(c[which], &(struct cache_ref){i * (64 << window), 1 + (uint32_t)i % 2, 4, CACHE_READ, 0}, 1);
            cache_window_end_of(c[which], 1000 + 500 * window, which ? weights[window] : 1);
        }
        if (!which)
            cache_windows_weigh(c[which], weights);
        cache_windows_stand_for(c[which], 20000, (const double[]){1, 1, 1}, 3);
    }
    for (uint32_t cell = 1; cell <= 2; cell++) {
        struct cache_estimate a = cache_estimate_cell(c[0], 0, cell), b = cache_estimate_cell(c[1], 0, cell);
        assert_true(is_near(a.known, b.known) && is_near(a.unknown, b.unknown) && is_near(a.misses, b.misses));
        assert_true(is_near(a.low, b.low) && is_near(a.high, b.high) && a.known > 0);
    }
    cache_free(c[0]);
    cache_free(c[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ages),
                                       cmocka_unit_test(test_weights),
                                       cmocka_unit_test(test_weighed),
                                       cmocka_unit_test(test_unknown_are_told),
                                       cmocka_unit_test(test_whole),
                                       cmocka_unit_test(test_generations),
                                       cmocka_unit_test(test_cold),
                                       cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_intervals),
                                       cmocka_unit_test(test_parts_are_exact),
                                       cmocka_unit_test(test_intervals_of_parts),
                                       cmocka_unit_test(test_parts_refused),
                                       cmocka_unit_test(test_passed_by),
                                       cmocka_unit_test(test_stand_for),
                                       cmocka_unit_test(test_factors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
