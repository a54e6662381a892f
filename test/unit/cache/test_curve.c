/* SPDX-License-Identifier: Apache-2.0
 * The curve of one pass against a simulation of each size, and closed forms. */
#include "cache/cache.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STREAM = 300000, MAX = 1 << 24 };

static uint64_t state = 1;

static uint64_t chance(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static uint64_t simulated(uint64_t bytes, uint32_t line, const struct cache_ref *refs, size_t count)
{
    struct cache_config k = {.count = 1};
    k.levels[0] = (struct cache_level){.size_bytes = bytes, .line_bytes = line, .side = CACHE_DATA};
    k.levels[0].ways = (uint32_t)(bytes / line);
    struct cache *c = cache_new(&k, false);
    cache_run(c, refs, count);
    const struct cache_counts *n = cache_counts(c, 0);
    uint64_t misses = n->misses[CACHE_READ] + n->misses[CACHE_WRITE];
    cache_free(c);
    return misses;
}

/* Some places near and many far, and rounds through more than what fits. */
static void make(struct cache_ref *refs, size_t count)
{
    uint64_t round = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t way = chance(8);
        uint64_t at = way < 4 ? chance(6000) : way < 6 ? chance(1 << 22) : (round += 48) % 700000;
        refs[i] = (struct cache_ref){at, 0, (uint16_t)(1 + chance(80)), (uint8_t)chance(CACHE_MODIFY + 1), 0};
    }
}

static void test_as_simulated(void **unused)
{
    (void)unused;
    static struct cache_ref refs[STREAM];
    make(refs, STREAM);
    for (uint32_t line = 16; line <= 256; line *= 4) {
        uint64_t least = max_u64(line, MAX >> (CACHE_CURVE_SIZES_MAX - 1));
        struct cache_curve *k = cache_curve_new(line, least, MAX);
        cache_curve_run(k, refs, STREAM / 2);
        cache_curve_run(k, refs + STREAM / 2, STREAM - STREAM / 2);
        for (uint64_t bytes = least; bytes <= MAX; bytes *= 2)
            assert_int_equal(cache_curve_misses(k, bytes), simulated(bytes, line, refs, STREAM));
        cache_curve_free(k);
    }
}

/* Round and round through n lines: all or nothing. */
static void test_rounds(void **unused)
{
    (void)unused;
    static const uint64_t lines[] = {1, 63, 64, 65, 66, 1000, 70000, 131072, 131073};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        uint64_t least = 1 << 10, enough = least;
        struct cache_curve *k = cache_curve_new(64, least, 1 << 28);
        for (unsigned round = 0; round < 5; round++)
            for (uint64_t l = 0; l < lines[i]; l++)
                cache_curve_run(k, &(struct cache_ref){l * 64, 0, 8, CACHE_READ, 0}, 1);
        assert_int_equal(cache_curve_references(k), 5 * lines[i]);
        assert_int_equal(cache_curve_lines(k), lines[i]);
        for (; enough < 64 * lines[i]; enough *= 2)
            assert_int_equal(cache_curve_misses(k, enough), 5 * lines[i]);
        assert_int_equal(cache_curve_misses(k, enough), lines[i]);
        cache_curve_free(k);
    }
}

/* Cells' misses are the program's, and each cell's by itself what a simulation of the size says of it. */
static void test_by_cell(void **unused)
{
    (void)unused;
    enum { CELLS = 7, LEAST = 1024 };
    static struct cache_ref refs[STREAM];
    make(refs, STREAM);
    for (size_t i = 0; i < STREAM; i++)
        refs[i].cell = (uint32_t)(refs[i].address >> 8) % CELLS;
    for (uint32_t line = 16; line <= 4096; line *= 4) {
        struct cache_curve *k = cache_curve_new(line, LEAST, MAX);
        cache_curve_by_cell(k);
        cache_curve_run(k, refs, STREAM);
        for (uint64_t bytes = LEAST; bytes <= MAX; bytes *= 2) {
            uint64_t sum = 0;
            for (uint32_t cell = 0; cell < CELLS; cell++)
                sum += cache_curve_cell_misses(k, cell, bytes);
            assert_int_equal(sum, cache_curve_misses(k, bytes));
            if (bytes >= line)
                assert_int_equal(sum, simulated(bytes, line, refs, STREAM));
        }
        assert_int_equal(cache_curve_cell_misses(k, CELLS, LEAST), 0);
        cache_curve_free(k);
    }
}

/* Carried by a cache it is what it is by itself: of levels that are simulated in one pass with it, also when another
 * thread comes midway. */
static void test_carried(void **unused)
{
    (void)unused;
    enum { CELLS = 5, LEAST = 512 };
    static struct cache_ref refs[STREAM];
    static const char *const specs[] = {"8K/64/8+64K/64/16", "12K/64/3", "512/64/1+2K/64/4+1M/64/16"};
    make(refs, STREAM);
    for (size_t i = 0; i < STREAM; i++) {
        refs[i].cell = (uint32_t)(refs[i].address >> 9) % CELLS;
        refs[i].kind = refs[i].kind == CACHE_FETCH ? CACHE_READ : refs[i].kind;
    }
    for (int threads = 1; threads <= 2; threads++) {
        for (size_t i = STREAM / 2; i < STREAM; i++)
            refs[i].thread = (uint8_t)(i % (size_t)threads);
        for (size_t s = 0; s < ARRAY_LEN(specs); s++) {
            struct cache_config config;
            assert_int_equal(cache_parse(specs[s], &config), 0);
            struct cache *c = cache_new(&config, true);
            struct cache_curve *k = cache_curve_new(64, LEAST, MAX), *alone = cache_curve_new(64, LEAST, MAX);
            cache_curve_by_cell(k);
            cache_curve_by_cell(alone);
            assert_true(cache_carry_curve(c, k));
            cache_run(c, refs, STREAM / 3);
            cache_run(c, refs + STREAM / 3, STREAM - STREAM / 3);
            cache_curve_run(alone, refs, STREAM);
            assert_int_equal(cache_curve_lines(k), cache_curve_lines(alone));
            for (uint64_t bytes = LEAST; bytes <= MAX; bytes *= 2) {
                assert_int_equal(cache_curve_misses(k, bytes), cache_curve_misses(alone, bytes));
                for (uint32_t cell = 0; cell < CELLS; cell++)
                    assert_int_equal(cache_curve_cell_misses(k, cell, bytes),
                                     cache_curve_cell_misses(alone, cell, bytes));
            }
            cache_free(c);
            cache_curve_free(k);
            cache_curve_free(alone);
        }
    }
}

/* What cannot carry it says so: other lines, a random policy, a curve that has begun. */
static void test_not_carried(void **unused)
{
    (void)unused;
    static const char *const specs[] = {"8K/32/8", "8K/64/8:random", "2K/64/4+8K/64/8:inclusive", "8K/64/8"};
    for (size_t s = 0; s < ARRAY_LEN(specs); s++) {
        struct cache_config config;
        assert_int_equal(cache_parse(specs[s], &config), 0);
        struct cache *c = cache_new(&config, true);
        struct cache_curve *k = cache_curve_new(64, 512, MAX);
        cache_curve_run(k, &(struct cache_ref){4096, 0, 8, CACHE_READ, 0}, 1);
        assert_false(cache_carry_curve(c, k));
        cache_free(c);
        cache_curve_free(k);
    }
}

/* An array of 64 KB, walked again and again, misses wholly in less and never again in as much; a larger one beside it,
 * walked after it, is another matter: it takes what both have. */
static void test_two_arrays(void **unused)
{
    (void)unused;
    enum { ROUNDS = 9, FIRST = 64 << 10, SECOND = 192 << 10, FAR = 1 << 28, LINE = 64 };
    for (int both = 0; both < 2; both++) {
        struct cache_curve *k = cache_curve_new(LINE, 4096, 1 << 20);
        cache_curve_by_cell(k);
        for (unsigned round = 0; round < ROUNDS; round++) {
            for (uint64_t at = 0; at < FIRST; at += 8)
                cache_curve_run(k, &(struct cache_ref){at, 0, 8, CACHE_READ, 0}, 1);
            for (uint64_t at = 0; both && at < SECOND; at += 8)
                cache_curve_run(k, &(struct cache_ref){FAR + at, 1, 8, CACHE_WRITE, 0}, 1);
        }
        for (uint64_t bytes = 4096, need = both ? FIRST + SECOND : FIRST; bytes <= 1 << 20; bytes *= 2) {
            uint64_t rounds = bytes < need ? ROUNDS : 1;
            assert_int_equal(cache_curve_cell_misses(k, 0, bytes), rounds * FIRST / LINE);
            assert_int_equal(cache_curve_cell_misses(k, 1, bytes), both ? rounds * SECOND / LINE : 0);
        }
        cache_curve_free(k);
    }
}

/* What is farther than the curve is long misses in all of it. */
static void test_end_of_curve(void **unused)
{
    (void)unused;
    struct cache_curve *k = cache_curve_new(64, 64, 4096);
    for (unsigned round = 0; round < 3; round++)
        for (uint64_t l = 0; l < 200; l++)
            cache_curve_run(k, &(struct cache_ref){l * 64, 0, 8, CACHE_WRITE, 0}, 1);
    assert_int_equal(cache_curve_misses(k, 4096), 600);
    cache_curve_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_simulated), cmocka_unit_test(test_rounds),
                                       cmocka_unit_test(test_end_of_curve), cmocka_unit_test(test_by_cell),
                                       cmocka_unit_test(test_two_arrays),   cmocka_unit_test(test_carried),
                                       cmocka_unit_test(test_not_carried)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
