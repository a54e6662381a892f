/* SPDX-License-Identifier: Apache-2.0
 * A program made up of calls: an allocator with its wrappers, and functions that look like one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the ones above it */

#include "data/data.h"

#define HEAP 0x1000000ull
#define STACK 0x7ffd00100000ull
enum { MALLOC, FREE, CALLOC, REALLOC, XMALLOC, DESTROY, LOOK_UP, MEMSET, FIRST_OF, TOUCH };
enum { BLOCKS = 64, CLASSES = 4, TURNS = 3000 };

struct program {
    struct data_detector *t;
    uint64_t top, stack;
    uint64_t freed[CLASSES][BLOCKS]; /* by bytes: 32, 64, ... with what is in front of them */
    uint32_t freed_count[CLASSES];
    uint64_t block[BLOCKS];
    uint64_t bytes[BLOCKS];
    bool never_frees, lies;
    uint32_t random;
};

static uint32_t chance(struct program *p, uint32_t below)
{
    p->random = p->random * 1103515245 + 12345;
    return (p->random >> 16) % below;
}

static void enters(struct program *p, uint32_t f, uint64_t a, uint64_t b, uint64_t c)
{
    p->stack -= 64;
    data_detector_entered(p->t, 0, f, (uint64_t[]){a, b, c}, p->stack);
}

static uint64_t leaves(struct program *p, uint64_t value)
{
    data_detector_left(p->t, 0, value, p->stack);
    p->stack += 64;
    return value;
}

static unsigned class_of(uint64_t bytes) { return bytes <= 24 ? 0 : bytes <= 56 ? 1 : bytes <= 120 ? 2 : 3; }

static uint64_t get(struct program *p, uint64_t bytes)
{
    unsigned c = class_of(bytes);
    if (p->freed_count[c])
        return p->freed[c][--p->freed_count[c]];
    p->top += 32u << c;
    return p->top - (32u << c) + 16;
}

static uint64_t by_malloc(struct program *p, uint64_t bytes)
{
    enters(p, MALLOC, bytes, chance(p, 1000), 7);
    return leaves(p, get(p, bytes));
}

static void give_back(struct program *p, uint64_t block, uint64_t bytes)
{
    unsigned c = class_of(bytes);
    enters(p, FREE, block, 5, 5);
    if (block && !p->never_frees)
        p->freed[c][p->freed_count[c]++] = block;
    leaves(p, chance(p, 100));
}

static uint64_t allocate(struct program *p, uint64_t bytes)
{
    uint64_t got;
    switch (chance(p, 4)) {
    case 0:
        enters(p, CALLOC, 4, (bytes + 3) / 4, 0);
        got = get(p, (bytes + 3) / 4 * 4);
        enters(p, MEMSET, got, 0, bytes);
        leaves(p, got);
        return leaves(p, got);
    case 1:
        return by_malloc(p, bytes);
    default:
        enters(p, XMALLOC, bytes, 1, 2);
        return leaves(p, by_malloc(p, bytes));
    }
}

static void grow(struct program *p, unsigned i)
{
    uint64_t bytes = 1 + chance(p, 200), was = p->block[i];
    enters(p, REALLOC, was, bytes, 0);
    if (class_of(bytes) != class_of(p->bytes[i])) {
        p->block[i] = by_malloc(p, bytes);
        give_back(p, was, p->bytes[i]);
    }
    p->bytes[i] = bytes;
    leaves(p, p->block[i]);
}

static void drop(struct program *p, unsigned i)
{
    bool is_object = chance(p, 2);
    if (is_object)
        enters(p, DESTROY, p->block[i], 0, 0);
    give_back(p, p->block[i], p->bytes[i]);
    if (is_object)
        leaves(p, 0);
    p->block[i] = 0;
}

static void turn(struct program *p)
{
    unsigned i = chance(p, BLOCKS);
    if (!p->block[i]) {
        p->bytes[i] = 1 + chance(p, 200);
        p->block[i] = allocate(p, p->bytes[i]);
    } else if (chance(p, 5) == 0) {
        grow(p, i);
    } else if (chance(p, 3) == 0) {
        drop(p, i);
    }
    for (int k = 0; k < 3; k++) {
        unsigned j = chance(p, BLOCKS);
        enters(p, k ? LOOK_UP : FIRST_OF, j, 1, 0);
        leaves(p, p->block[k ? j : 0]);
        enters(p, TOUCH, p->block[j], 1, 0);
        leaves(p, 0);
    }
    if (p->lies && p->freed_count[0]) { /* it gives what it has given */
        enters(p, MALLOC, 20, 0, 0);
        leaves(p, p->freed[0][p->freed_count[0] - 1]);
    }
}

static size_t found(struct program *p, uint32_t turns, struct data_role out[DATA_ROLES_MAX])
{
    p->t = data_detector_new(0x400000, 0x500000);
    p->top = HEAP;
    p->stack = STACK;
    for (uint32_t i = 0; i < turns; i++)
        turn(p);
    size_t n = data_detector_end(p->t, out);
    data_detector_free(p->t);
    return n;
}

static const char *as(const struct data_role *roles, size_t n, uint32_t function)
{
    for (size_t i = 0; i < n; i++)
        if (roles[i].function == function)
            return roles[i].as;
    return "";
}

static void allocators_are_known_by_what_they_do(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed < 40; seed++) {
        struct program p = {.random = seed};
        struct data_role roles[DATA_ROLES_MAX];
        size_t n = found(&p, TURNS, roles);
        assert_int_equal(n, 4);
        assert_string_equal(as(roles, n, MALLOC), "malloc");
        assert_string_equal(as(roles, n, CALLOC), "calloc");
        assert_string_equal(as(roles, n, REALLOC), "realloc");
        assert_string_equal(as(roles, n, FREE), "free");
    }
}

static void what_is_not_sure_is_not_told(void **state)
{
    (void)state;
    struct data_role roles[DATA_ROLES_MAX];
    assert_int_equal(found(&(struct program){.random = 1}, 20, roles), 0);                         /* too few */
    assert_int_equal(found(&(struct program){.random = 1, .never_frees = true}, TURNS, roles), 0); /* none again */
    assert_int_equal(found(&(struct program){.random = 1, .lies = true}, TURNS, roles), 0);        /* it overlaps */
    assert_int_equal(found(&(struct program){.random = 1}, 0, roles), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocators_are_known_by_what_they_do),
        cmocka_unit_test(what_is_not_sure_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
