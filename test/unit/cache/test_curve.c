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
                                       cmocka_unit_test(test_two_arrays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
