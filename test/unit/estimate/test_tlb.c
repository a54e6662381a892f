/* SPDX-License-Identifier: Apache-2.0
 * What slices that reach many pages take longer than the same code elsewhere, told to the owners that reach them. */
#include "estimate/replays/tlb.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the three above it */

static void add(struct fit *f, double ratio, double first_part)
{
    struct fit_slice s = {.ratio = ratio, .simulated = 1000, .first = f->shares.len, .count = first_part < 1 ? 2 : 1};
    VEC_PUSH(&f->shares, ((struct fit_share){.owner = 0, .part = first_part}));
    if (first_part < 1)
        VEC_PUSH(&f->shares, ((struct fit_share){.owner = 1, .part = 1 - first_part}));
    VEC_PUSH(&f->slices, s);
}

static void forget(struct fit *f)
{
    VEC_FREE(&f->slices);
    VEC_FREE(&f->shares);
}

/* Home 0 takes 1.2 of what the model says, in many pages 2.2; owner 1 is the model's. */
static void what_pages_cost_is_told_apart_from_the_model(void **state)
{
    (void)state;
    struct fit narrow = {.owner_count = 3}, wide = {.owner_count = 3};
    struct join_replay measured[3] = {{.factor = 1.2}, {.factor = 1}};
    for (int k = 0; k < 4; k++) {
        add(&narrow, 1.2, 1);
        add(&wide, 2.2, 1);
    }
    tlb_of_owners(&narrow, &wide, measured);
    assert_true(measured[0].knows_tlb && fabs(measured[0].tlb - 1) < 1e-9);
    assert_true(measured[1].knows_tlb && measured[1].tlb == 0);  /* no piece of it was wide */
    assert_true(!measured[2].knows_tlb && measured[2].tlb == 0); /* nothing was seen of it */
    assert_true(measured[0].factor == 1.2);
    forget(&narrow);
    forget(&wide);
}

/* A quarter of the pieces that were looked at for many pages had them; half of each is other code. */
static void only_the_wide_part_pays(void **state)
{
    (void)state;
    struct fit narrow = {.owner_count = 2}, wide = {.owner_count = 2};
    struct join_replay measured[2] = {{.factor = 1}, {.factor = 1}};
    for (int k = 0; k < 14; k++)
        add(&narrow, 1, 1);
    for (int k = 0; k < 2; k++)
        add(&wide, 1.5, 1);
    tlb_of_owners(&narrow, &wide, measured);
    assert_true(fabs(measured[0].tlb - 0.5 / 4) < 1e-9);
    forget(&wide);
    for (int k = 0; k < 4; k++)
        add(&wide, 0.9, 0.5);
    tlb_of_owners(&narrow, &wide, measured);
    assert_true(measured[0].knows_tlb && measured[0].tlb == 0); /* faster than expected: nothing is paid for */
    forget(&narrow);
    forget(&wide);
}

/* Of an owner that only wide pieces met, the model alone is what they are beside. */
static void without_narrow_slices_the_model_is_believed(void **state)
{
    (void)state;
    struct fit narrow = {.owner_count = 1}, wide = {.owner_count = 1};
    struct join_replay measured[1] = {{.factor = 0}};
    add(&wide, 3, 1);
    tlb_of_owners(&narrow, &wide, measured);
    assert_true(measured[0].knows_tlb && fabs(measured[0].tlb - 2) < 1e-9);
    forget(&wide);
}

/* Short slices say 1.2 of the model; wide ones, within 2 % (their spread), 0.9. And where there are no short ones. */
static void no_owner_takes_more_than_wide_slices(void **state)
{
    (void)state;
    struct fit narrow = {.owner_count = 2}, wide = {.owner_count = 2};
    struct join_replay measured[2] = {{.factor = 1.2, .error = 0.07}, {.factor = 0}};
    for (int k = 0; k < 4; k++) {
        add(&narrow, 1.2, 1);
        add(&wide, 0.9, 1);
        wide.slices.data[k].spread = 0.02;
    }
    tlb_of_owners(&narrow, &wide, measured);
    assert_true(fabs(measured[0].factor - 0.9 * 1.02) < 1e-9 && measured[0].tlb == 0 && measured[0].error == 0.07);
    measured[0] = (struct join_replay){.factor = 0};
    tlb_of_owners(&narrow, &wide, measured);
    assert_true(fabs(measured[0].factor - 0.9 * 1.02) < 1e-9 && !measured[0].is_replayed);
    measured[0] = (struct join_replay){.factor = 0.91};
    tlb_of_owners(&narrow, &wide, measured);
    assert_true(measured[0].factor == 0.91); /* within what wide slices may be off */
    assert_true(measured[1].factor == 0);
    forget(&narrow);
    forget(&wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_pages_cost_is_told_apart_from_the_model),
        cmocka_unit_test(only_the_wide_part_pays),
        cmocka_unit_test(without_narrow_slices_the_model_is_believed),
        cmocka_unit_test(no_owner_takes_more_than_wide_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
