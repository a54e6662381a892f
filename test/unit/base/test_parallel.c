/* SPDX-License-Identifier: Apache-2.0
 * Lists that ranges make come together in the order of ranges, whoever makes them and however long they are; and what
 * is done meanwhile is done. */
#include "base/base.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h> /* needs the three above it */

enum { ITEMS = 10007 };

struct lists {
    VEC(uint32_t) all;
    size_t expected; /* the range that comes next */
};

struct list {
    uint32_t *data;
    size_t len, cap;
};

/* Item k stands k % 5 times in it. Some ranges take long, so that others come by them. */
static void make(void *ctx, size_t first, size_t end, struct parallel_list *list)
{
    (void)ctx;
    struct list l = {list->data, 0, list->cap};
    assert_int_equal(list->len, 0);
    if (first / 10 % 7 == 0)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    for (size_t k = first; k < end; k++)
        for (size_t n = 0; n < k % 5; n++)
            VEC_PUSH(&l, (uint32_t)k);
    *list = (struct parallel_list){l.data, l.len, l.cap};
}

static void take(void *ctx, size_t first, size_t end, struct parallel_list *list)
{
    struct lists *l = ctx;
    const uint32_t *made = list->data;
    assert_int_equal(first, l->expected);
    l->expected = end;
    for (size_t k = 0; k < list->len; k++)
        VEC_PUSH(&l->all, made[k]);
}

static void check(size_t n, unsigned processors)
{
    struct lists l = {.expected = 0};
    size_t at = 0;
    parallel_max = processors;
    parallel_lists(n, 10, make, take, &l);
    parallel_max = 0;
    assert_int_equal(l.expected, n);
    for (size_t k = 0; k < n; k++)
        for (size_t times = 0; times < k % 5; times++)
            assert_int_equal(l.all.data[at++], k);
    assert_int_equal(at, l.all.len);
    VEC_FREE(&l.all);
}

static void in_order(void **state)
{
    (void)state;
    for (unsigned processors = 1; processors <= 16; processors *= 2)
        check(ITEMS, processors);
}

static void few_and_none(void **state)
{
    (void)state;
    for (size_t n = 0; n < 60; n += 3)
        check(n, 4);
}

struct turns {
    atomic_uint taken;
    bool is_done;
};

/* Waits for the other's third turn. */
static void wait_for_turns(void *ctx)
{
    struct turns *t = ctx;
    while (atomic_load(&t->taken) < 3)
        sched_yield();
    t->is_done = true;
}

static void take_turn(void *ctx)
{
    struct turns *t = ctx;
    atomic_fetch_add(&t->taken, 1);
}

static void meanwhile(void **state)
{
    (void)state;
    struct turns t = {.is_done = false};
    parallel_meanwhile(wait_for_turns, &t, take_turn, &t);
    assert_true(t.is_done);
    assert_true(t.taken >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_order), cmocka_unit_test(few_and_none),
                                       cmocka_unit_test(meanwhile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
