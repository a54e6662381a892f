/* SPDX-License-Identifier: Apache-2.0
 * Orders of drawn graphs whose best one is known, with circles and ties; and of random ones: each node once, the same
 * each time, chains no longer than the limit, and heavy arcs nearer than in the order that they came in. */
#include "order/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N = 300, ARCS = 1200 };

static void check(const struct order_node *nodes, size_t n, const struct order_arc *arcs, size_t arc_count,
                  uint64_t limit, const uint32_t *expected)
{
    uint32_t out[N];
    order_nodes(nodes, n, arcs, arc_count, limit, out);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(out[i], expected[i]);
}

/* Closest is best: 0-1 first, then 2-3, then the two chains by 3-0, so that 3 and 0 must meet: 2 3 0 1 or its mirror,
 * of which the one that begins with the chain of the smaller number: 1 0 3 2. */
static void turned(void **state)
{
    (void)state;
    static const struct order_node nodes[4] = {{10, 16}, {10, 16}, {10, 16}, {10, 16}};
    static const struct order_arc arcs[] = {{0, 1, 100}, {3, 2, 90}, {0, 3, 50}, {1, 2, 1}};
    check(nodes, 4, arcs, ARRAY_LEN(arcs), 0, (const uint32_t[]){1, 0, 3, 2});
}

/* Both directions of a pair count together, and arcs of the same ends: 0-2 has 60, more than 0-1 with 50. */
static void summed(void **state)
{
    (void)state;
    static const struct order_node nodes[3] = {{1, 16}, {1, 16}, {1, 16}};
    static const struct order_arc arcs[] = {{0, 1, 50}, {0, 2, 20}, {2, 0, 20}, {2, 0, 20}, {1, 1, 1000}};
    check(nodes, 3, arcs, ARRAY_LEN(arcs), 32, (const uint32_t[]){0, 2, 1});
}

/* When chains join, their arcs to a third add up: 3 is bound to 0 by 40 and to 1 by 40, 4-2 is 70 alone. */
static void added_up(void **state)
{
    (void)state;
    static const struct order_node nodes[5] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    static const struct order_arc arcs[] = {{0, 1, 100}, {0, 3, 40}, {1, 3, 40}, {2, 4, 70}, {3, 2, 75}};
    /* 0 1, then 3 by 80, before 2 by 75 could take it: all in one chain */
    check(nodes, 5, arcs, ARRAY_LEN(arcs), 3, (const uint32_t[]){1, 0, 3, 2, 4});
}

/* A circle of equal arcs: the smallest pair first, and each time the same. */
static void circle(void **state)
{
    (void)state;
    static const struct order_node nodes[4] = {{5, 8}, {5, 8}, {5, 8}, {5, 8}};
    static const struct order_arc arcs[] = {{3, 0, 7}, {2, 3, 7}, {1, 2, 7}, {0, 1, 7}};
    static const struct order_arc turned_round[] = {{0, 1, 7}, {1, 2, 7}, {2, 3, 7}, {3, 0, 7}};
    uint32_t one[4], other[4];
    order_nodes(nodes, 4, arcs, 4, 0, one);
    order_nodes(nodes, 4, turned_round, 4, 0, other);
    assert_memory_equal(one, other, sizeof one);
    for (int i = 0; i < 3; i++) { /* neighbours in the order are neighbours in the circle */
        uint32_t apart = (one[i] + 4 - one[i + 1]) % 4;
        assert_true(apart == 1 || apart == 3);
    }
}

/* Without arcs: what is used most for each byte first, what is used alike by its number, what is unknown at once. */
static void by_heat(void **state)
{
    (void)state;
    static const struct order_node nodes[5] = {{10, 100}, {50, 10}, {0, 10}, {50, 10}, {1000, 100}};
    check(nodes, 5, NULL, 0, 0, (const uint32_t[]){4, 1, 3, 0, 2});
    order_nodes(NULL, 0, NULL, 0, 0, NULL);
}

/* Pairs of which no two fit together stay pairs. */
static void limited(void **state)
{
    (void)state;
    static const struct order_node nodes[4] = {{1, 50}, {9, 50}, {1, 50}, {9, 50}};
    static const struct order_arc arcs[] = {{0, 3, 10}, {1, 2, 20}, {2, 3, 5}};
    check(nodes, 4, arcs, 3, 100, (const uint32_t[]){0, 3, 1, 2});
    check(nodes, 4, arcs, 3, 99, (const uint32_t[]){1, 3, 0, 2});
}

/* ---- random graphs ---- */

static double spread(const struct order_node *nodes, const struct order_arc *arcs, const uint32_t *order)
{
    uint64_t at[N], address = 0;
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        at[order[i]] = address;
        address += nodes[order[i]].bytes;
    }
    for (size_t i = 0; i < ARCS; i++) {
        double apart = (double)at[arcs[i].a] - (double)at[arcs[i].b];
        sum += (double)arcs[i].weight * (apart < 0 ? -apart : apart);
    }
    return sum;
}

static void random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rng chance = {seed};
        struct order_node nodes[N];
        struct order_arc arcs[ARCS];
        uint32_t out[N], again[N], plain[N];
        bool seen[N] = {false};
        for (uint32_t i = 0; i < N; i++) {
            nodes[i] = (struct order_node){rng_below(&chance, 10000), 16 * rng_below(&chance, 100)};
            plain[i] = i;
        }
        for (size_t i = 0; i < ARCS; i++) {
            uint64_t a = rng_below(&chance, N), b = rng_below(&chance, N), w = rng_below(&chance, 30);
            arcs[i] = (struct order_arc){(uint32_t)a, (uint32_t)b, i % 5 ? w : w * w * w};
        }
        order_nodes(nodes, N, arcs, ARCS, seed % 2 ? 0 : 4096, out);
        order_nodes(nodes, N, arcs, ARCS, seed % 2 ? 0 : 4096, again);
        assert_memory_equal(out, again, sizeof out);
        for (size_t i = 0; i < N; i++) {
            assert_false(seen[out[i]]);
            seen[out[i]] = true;
        }
        assert_true(spread(nodes, arcs, out) < 0.75 * spread(nodes, arcs, plain));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turned),  cmocka_unit_test(summed),  cmocka_unit_test(added_up),      cmocka_unit_test(circle),
        cmocka_unit_test(by_heat), cmocka_unit_test(limited), cmocka_unit_test(random_graphs),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
