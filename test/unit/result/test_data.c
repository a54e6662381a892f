/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found, by what it belongs to. */
#include "result/data/data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct prof_data_miss misses[] = {
    {.owner = PROF_OWNER_PROGRAM, .owner_id = 0, .cache = 0, .misses = 1},
    {.owner = PROF_OWNER_OBJECT, .owner_id = 0, .cache = 1, .misses = 2},
    {.owner = PROF_OWNER_OBJECT, .owner_id = 0, .cache = 2, .misses = 3},
    {.owner = PROF_OWNER_OBJECT, .owner_id = 7, .cache = 3, .misses = 4},
    {.owner = PROF_OWNER_LINE, .owner_id = 0, .cache = 1, .misses = 5},
};
static struct prof_cache caches[] = {{.configuration = 0},
                                     {.configuration = 1, .is_primary = true},
                                     {.configuration = 1, .is_tlb = true},
                                     {.configuration = 0, .is_tlb = true}};
static const struct prof_result spied = {
    .data_misses = misses, .data_miss_count = ARRAY_LEN(misses), .caches = caches, .cache_count = ARRAY_LEN(caches)};

static void test_misses(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(misses); i++)
        assert_ptr_equal(data_miss(&spied, misses[i].owner, misses[i].owner_id, misses[i].cache), &misses[i]);
    assert_null(data_miss(&spied, PROF_OWNER_OBJECT, 0, 0));
    assert_null(data_miss(&spied, PROF_OWNER_OBJECT, 7, 4));
    assert_null(data_miss(&spied, PROF_OWNER_CELL, 0, 1));
    assert_null(data_miss(&spied, PROF_OWNER_FIELD, 0, 0));
    assert_null(data_miss(&(const struct prof_result){0}, PROF_OWNER_PROGRAM, 0, 0));
}

/* Of the TLBs those of the configuration that is spoken of. */
static void test_levels(void **state)
{
    (void)state;
    assert_int_equal(data_primary(&spied), 1);
    assert_int_equal(data_walks(&spied, PROF_OWNER_OBJECT, 0), 3);
    assert_int_equal(data_walks(&spied, PROF_OWNER_OBJECT, 7), PROF_UNKNOWN);
    assert_int_equal(data_primary(&(const struct prof_result){0}), ID_NONE);
    assert_int_equal(data_walks(&(const struct prof_result){0}, PROF_OWNER_OBJECT, 0), PROF_UNKNOWN);
}

static void check_range(const struct prof_data_curve *rows, size_t count, uint32_t id, size_t first, size_t end)
{
    struct data_range range = DATA_RANGE(rows, count, object, id);
    assert_int_equal(range.end - range.first, end - first);
    if (first < end)
        assert_int_equal(range.first, first);
}

/* The whole program, which has no id, stands first. */
static void test_ranges(void **state)
{
    (void)state;
    static const struct prof_data_curve rows[] = {{.object = ID_NONE}, {.object = ID_NONE}, {.object = 0},
                                                  {.object = 3},       {.object = 3},       {.object = 3}};
    check_range(rows, ARRAY_LEN(rows), ID_NONE, 0, 2);
    check_range(rows, ARRAY_LEN(rows), 0, 2, 3);
    check_range(rows, ARRAY_LEN(rows), 2, 0, 0);
    check_range(rows, ARRAY_LEN(rows), 3, 3, 6);
    check_range(rows, ARRAY_LEN(rows), 4, 0, 0);
    check_range(NULL, 0, 0, 0, 0);
}

/* By what a miss of each level costs; other configurations do not count. Without costs the primary level decides. */
static void test_stall(void **state)
{
    (void)state;
    struct prof_cache levels[] = {{.miss_cycles = 10},
                                  {.miss_cycles = 50, .is_primary = true},
                                  {.miss_cycles = 20, .is_tlb = true},
                                  {.miss_cycles = 1000, .configuration = 1}};
    struct prof_data_miss rows[] = {{.owner = PROF_OWNER_OBJECT, .cache = 0, .misses = 30, .cold = 10, .conflict = 20},
                                    {.owner = PROF_OWNER_OBJECT, .cache = 1, .misses = 4, .cold = 4},
                                    {.owner = PROF_OWNER_OBJECT, .cache = 2, .misses = 5},
                                    {.owner = PROF_OWNER_OBJECT, .cache = 3, .misses = 9, .capacity = 9}};
    struct prof_result r = {
        .caches = levels, .cache_count = ARRAY_LEN(levels), .data_misses = rows, .data_miss_count = ARRAY_LEN(rows)};
    double shares[DATA_STALL_COUNT];
    data_stall_causes(&r, PROF_OWNER_OBJECT, 0, shares);
    assert_true(fabs(shares[DATA_CAUSE_COLD] - 0.5) < 1e-12 && fabs(shares[DATA_CAUSE_CONFLICT] - 1.0 / 3) < 1e-12);
    assert_true(fabs(shares[DATA_WALKS] - 1.0 / 6) < 1e-12 && shares[DATA_CAUSE_CAPACITY] == 0);
    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        levels[i].miss_cycles = NAN;
    data_stall_causes(&r, PROF_OWNER_OBJECT, 0, shares);
    assert_true(shares[DATA_CAUSE_COLD] == 1 && shares[DATA_WALKS] == 0);
    data_stall_causes(&r, PROF_OWNER_LINE, 0, shares);
    assert_true(isnan(shares[DATA_CAUSE_COLD]));
    data_stall_causes(&(const struct prof_result){0}, PROF_OWNER_OBJECT, 0, shares);
    assert_true(isnan(shares[DATA_CAUSE_COLD]));
}

static void test_evictor_level(void **state)
{
    (void)state;
    struct prof_cache levels[] = {{.miss_cycles = 10}, {.miss_cycles = 50}, {.miss_cycles = 500, .is_primary = true}};
    struct prof_data_evictor rows[] = {{.object = 1, .cache = 0, .misses = 20},
                                       {.object = 1, .cache = 0, .misses = 5},
                                       {.object = 1, .cache = 1, .misses = 4},
                                       {.object = 1, .cache = 1, .misses = 2},
                                       {.object = 2, .cache = 0, .misses = 1}};
    struct prof_result r = {.caches = levels,
                            .cache_count = ARRAY_LEN(levels),
                            .data_evictors = rows,
                            .data_evictor_count = ARRAY_LEN(rows)};
    assert_int_equal(data_evictor_level(&r, 1), 1);
    assert_int_equal(data_evictor_level(&r, 2), 0);
    assert_int_equal(data_evictor_level(&r, 0), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misses), cmocka_unit_test(test_levels),        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_stall),  cmocka_unit_test(test_evictor_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
