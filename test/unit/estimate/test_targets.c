/* SPDX-License-Identifier: Apache-2.0
 * Calls through pointers, shared out as they were seen to lead: in proportion, with what leads to unknown code left
 * out, bounded by what arrives, and not by a handful. */
#include "estimate/model/targets.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SITE, OTHER, RARE, FIRST, SECOND, BLOCKS };

static void see(struct targets *t, uint32_t site, uint32_t to, int times)
{
    for (int k = 0; k < times; k++)
        targets_see(t, site, to);
}

static double calls(const struct targets *t, uint32_t site, uint32_t to)
{
    uint32_t count;
    const struct target *of = targets_of(t, site, &count);
    for (uint32_t i = 0; i < count; i++)
        if (of[i].to == to)
            return of[i].calls;
    return NAN;
}

static void share(struct targets *t, struct join *j, const uint64_t outside[BLOCKS])
{
    static uint64_t counts[BLOCKS] = {1000, 500, 80, 2000, 2000};
    *j = (struct join){.scratch = arena_new(), .block_count = BLOCKS, .counts = counts};
    targets_share(j, outside, t);
}

static void test_proportion(void **unused)
{
    (void)unused;
    struct targets t = {0};
    struct join j;
    see(&t, OTHER, SECOND, 40);
    see(&t, SITE, SECOND, 20);
    see(&t, SITE, FIRST, 70);
    see(&t, SITE, ID_NONE, 10);
    see(&t, RARE, FIRST, 5);
    share(&t, &j, (const uint64_t[BLOCKS]){0, 0, 0, 5000, 5000});
    assert_int_equal((int)calls(&t, SITE, FIRST), 700);
    assert_int_equal((int)calls(&t, SITE, SECOND), 200);
    assert_int_equal((int)calls(&t, SITE, ID_NONE), 0);
    assert_int_equal((int)calls(&t, OTHER, SECOND), 500);
    assert_int_equal((int)calls(&t, RARE, FIRST), 0);
    assert_true(isnan(calls(&t, FIRST, SITE)));
    arena_free(j.scratch);
}

/* 700 calls of SITE and 500 of OTHER cannot be, if 600 arrive; nor can the rest of SITE go to SECOND, where 300 do. */
static void test_bound(void **unused)
{
    (void)unused;
    struct targets t = {0};
    struct join j;
    see(&t, SITE, FIRST, 70);
    see(&t, SITE, SECOND, 30);
    see(&t, OTHER, FIRST, 100);
    share(&t, &j, (const uint64_t[BLOCKS]){0, 0, 0, 600, 300});
    assert_int_equal((int)(calls(&t, SITE, FIRST) + calls(&t, OTHER, FIRST) + 0.5), 600);
    assert_int_equal((int)(calls(&t, SITE, SECOND) + 0.5), 300);
    arena_free(j.scratch);
}

/* 735 were seen to lead to FIRST where 700 did: the exact counts mend it. */
static void test_mended(void **unused)
{
    (void)unused;
    struct targets t = {0};
    struct join j;
    see(&t, SITE, FIRST, 735);
    see(&t, SITE, SECOND, 265);
    share(&t, &j, (const uint64_t[BLOCKS]){0, 0, 0, 700, 300});
    assert_int_equal((int)(calls(&t, SITE, FIRST) + 0.5), 700);
    assert_int_equal((int)(calls(&t, SITE, SECOND) + 0.5), 300);
    arena_free(j.scratch);
}

static void test_none(void **unused)
{
    (void)unused;
    uint32_t count = 1;
    assert_null(targets_of(NULL, SITE, &count));
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proportion),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_mended),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
