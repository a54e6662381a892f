/* SPDX-License-Identifier: Apache-2.0
 * Of slices that do the same, those count that learnt how their loops end. */
#include "estimate/replays/training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h> /* needs the three above it */

static void add(struct fit *f, double cycles, bool may_train, double one, double two)
{
    struct fit_slice s = {
        .cycles = cycles, .spread = 0.005, .may_train = may_train, .first = f->shares.len, .count = 2};
    VEC_PUSH(&f->shares, ((struct fit_share){1, one, 0.5}));
    VEC_PUSH(&f->shares, ((struct fit_share){2, two, 0.5}));
    VEC_PUSH(&f->slices, s);
}

static void finish(struct fit *f)
{
    VEC_FREE(&f->slices);
    VEC_FREE(&f->shares);
}

static void the_fastest_of_the_same_work_count(void **state)
{
    (void)state;
    struct fit f = {.owner_count = 3};
    add(&f, 370, true, 1700, 104);
    add(&f, 295, true, 1701, 104);
    add(&f, 297, true, 1700, 103);
    training_drop_unfinished(&f);
    assert_int_equal(f.slices.len, 2);
    assert_int_equal(f.shares.len, 4);
    assert_true(f.slices.data[0].cycles == 295 && f.slices.data[1].cycles == 297);
    for (size_t k = 0; k < 2; k++)
        assert_true(f.slices.data[k].first == 2 * k && f.shares.data[2 * k].instructions > 1699);
    finish(&f);
}

static void other_work_is_not_compared(void **state)
{
    (void)state;
    struct fit f = {.owner_count = 3};
    add(&f, 370, true, 1700, 104);
    add(&f, 295, true, 1600, 204);  /* as long, of other owners */
    add(&f, 200, false, 1700, 104); /* what ends by itself may have ended too soon */
    add(&f, 150, true, 850, 52);    /* half of it */
    training_drop_unfinished(&f);
    assert_int_equal(f.slices.len, 4);
    finish(&f);
}

static void a_slip_leaves_nothing_out(void **state)
{
    (void)state;
    struct fit f = {.owner_count = 3};
    add(&f, 295, true, 1700, 104);
    add(&f, 230, true, 1700, 104);
    f.slices.data[1].spread = 0.2;
    training_drop_unfinished(&f);
    assert_int_equal(f.slices.len, 2);
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_of_the_same_work_count),
        cmocka_unit_test(other_work_is_not_compared),
        cmocka_unit_test(a_slip_leaves_nothing_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
