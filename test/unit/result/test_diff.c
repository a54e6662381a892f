/* SPDX-License-Identifier: Apache-2.0
 * Which object of one build is which of another, and what of their change is more than noise. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "result/diff.h"

enum { MAX = 4000 };

static struct prof_interval around(double value, double half)
{
    return (struct prof_interval){value, value - half, value + half};
}

static struct prof_result *result(void)
{
    static struct prof_module module = {.path = "/b/prog", .build_id = "old"};
    struct prof_result *r = prof_result_new();
    r->program = "/b/prog";
    r->modules = &module;
    r->module_count = 1;
    r->objects = ARENA_ARRAY(r->arena, struct prof_object, MAX);
    r->predicted_user_s = around(1, 0.05);
    r->actual_user_s = around(1.5, 0.05);
    r->overhead = around(0.5, 0.07);
    return r;
}

/* The other build of it. */
static struct prof_result *rebuilt(void)
{
    static struct prof_module module = {.path = "/b/prog", .build_id = "new"};
    struct prof_result *r = result();
    r->modules = &module;
    return r;
}

static struct prof_object *add(struct prof_result *r, enum prof_kind kind, const char *function, uint32_t parent,
                               uint32_t first, uint32_t last)
{
    uint32_t id = (uint32_t)r->object_count++;
    struct prof_object *o = &r->objects[id];
    *o = (struct prof_object){.id = id,
                              .kind = kind,
                              .module = "/b/prog",
                              .function = function,
                              .file = first ? "/s/a.c" : NULL,
                              .address = 0x1000 + 0x10 * id,
                              .line_first = first,
                              .line_last = last,
                              .parent = parent,
                              .depth = kind == PROF_LOOP,
                              .entries = 10,
                              .iterations = kind == PROF_LOOP ? 100000 : PROF_UNKNOWN,
                              .instructions = 500000 + 1000 * (uint64_t)id,
                              .memory_ops = 100000,
                              .ideal_s = around(0.1, 0.01),
                              .actual_s = around(0.2, 0.01),
                              .memory_s = around(0.1, 0.015)};
    return o;
}

/* The index of what old[i] became, ID_NONE if it is gone. */
static uint32_t partner(const struct prof_diff *d, uint32_t i)
{
    for (size_t k = 0; k < d->object_count; k++)
        if (d->objects[k].old == &d->old->objects[i])
            return d->objects[k].now ? d->objects[k].now->id : ID_NONE;
    fail_msg("object %u is in no pair", i);
    return ID_NONE;
}

static void done(struct prof_diff *d)
{
    struct prof_result *old = (struct prof_result *)(uintptr_t)d->old, *now = (struct prof_result *)(uintptr_t)d->now;
    prof_diff_free(d);
    prof_result_free(old);
    prof_result_free(now);
}

static struct prof_result *three_loops(struct prof_result *r, uint32_t line)
{
    uint32_t f = add(r, PROF_PROCEDURE, "f", ID_NONE, line, line + 40)->id;
    add(r, PROF_LOOP, "f", f, line + 2, line + 5);
    add(r, PROF_LOOP, "f", f, line + 6, line + 9);
    add(r, PROF_LOOP, "f", f, line + 10, line + 13);
    return r;
}

static void test_nothing_changed(void **state)
{
    (void)state;
    struct prof_diff *d = prof_diff_new(three_loops(result(), 10), three_loops(rebuilt(), 10));
    assert_int_equal(d->object_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(partner(d, i), i);
        assert_false(diff_is_change(&d->objects[i].memory_s));
        assert_true(d->objects[i].memory_s.change.value == 0);
    }
    assert_false(diff_is_change(&d->whole[DIFF_MEMORY]));
    /* Each side's is of what another job would say: together that is one too many. */
    assert_true(fabs(d->whole[DIFF_OVERHEAD].change.high - 0.07) < 1e-12);
    assert_true(fabs(d->whole[DIFF_MEMORY].change.high - hypot(0.05, 0.05 * M_SQRT2)) < 1e-12);
    assert_true(fabs(d->whole[DIFF_IDEAL].change.high - hypot(0.05, 0.05)) < 1e-12);
    done(d);
}

/* Four lines more above the function: each loop now stands where the one before it stood. */
static void test_lines_moved(void **state)
{
    (void)state;
    struct prof_diff *d = prof_diff_new(three_loops(result(), 10), three_loops(rebuilt(), 14));
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(partner(d, i), i);
    done(d);
}

static struct prof_result *first_and_third_loop(struct prof_result *r)
{
    uint32_t f = add(r, PROF_PROCEDURE, "f", ID_NONE, 10, 46)->id;
    add(r, PROF_LOOP, "f", f, 12, 15);
    add(r, PROF_LOOP, "f", f, 17, 20)->instructions = 503000;
    return r;
}

/* The second loop, which does 90 instructions a turn where the others do 5, was taken out; then put in. */
static void test_loop_gone_and_come(void **state)
{
    (void)state;
    struct prof_result *two = first_and_third_loop(rebuilt()), *three = three_loops(result(), 10);
    three->objects[2].instructions = 9000000;
    struct prof_diff *d = prof_diff_new(three, two);
    assert_int_equal(partner(d, 1), 1);
    assert_int_equal(partner(d, 2), ID_NONE);
    assert_int_equal(partner(d, 3), 2);
    done(d);
    two = first_and_third_loop(result()), three = three_loops(rebuilt(), 10);
    three->objects[2].instructions = 9000000;
    d = prof_diff_new(two, three);
    assert_int_equal(partner(d, 1), 1);
    assert_int_equal(partner(d, 2), 3);
    assert_int_equal(d->object_count, 4);
    done(d);
}

/* Without names: what was executed just as often; and what lies in such a pair. */
static void test_nameless(void **state)
{
    (void)state;
    struct prof_result *old = result(), *now = rebuilt();
    add(old, PROF_PROCEDURE, "0x1000", ID_NONE, 0, 0)->instructions = 5000;
    add(old, PROF_PROCEDURE, "0x1010", ID_NONE, 0, 0)->instructions = 7000;
    add(old, PROF_LOOP, "0x1010", 1, 0, 0)->instructions = 100;
    add(now, PROF_PROCEDURE, "0x1010", ID_NONE, 0, 0)->instructions = 7000; /* the addresses are others' now */
    add(now, PROF_LOOP, "0x1010", 0, 0, 0)->instructions = 130;
    add(now, PROF_PROCEDURE, "0x1000", ID_NONE, 0, 0)->instructions = 5000;
    struct prof_diff *d = prof_diff_new(old, now);
    assert_int_equal(partner(d, 0), 2);
    assert_int_equal(partner(d, 1), 0);
    assert_int_equal(partner(d, 2), 1);
    done(d);
}

/* One file twice: addresses decide, whatever the counts. */
static void test_same_build(void **state)
{
    (void)state;
    struct prof_result *old = result(), *now = result();
    add(old, PROF_PROCEDURE, "0x1000", ID_NONE, 0, 0)->instructions = 5000;
    add(old, PROF_PROCEDURE, "0x1010", ID_NONE, 0, 0)->instructions = 7000;
    add(now, PROF_PROCEDURE, "0x1000", ID_NONE, 0, 0)->instructions = 7000;
    add(now, PROF_PROCEDURE, "0x1010", ID_NONE, 0, 0)->instructions = 5000;
    struct prof_diff *d = prof_diff_new(old, now);
    assert_int_equal(partner(d, 0), 0);
    assert_int_equal(partner(d, 1), 1);
    done(d);
}

static void test_renamed_program_and_clone(void **state)
{
    (void)state;
    struct prof_result *old = result(), *now = rebuilt();
    add(old, PROF_PROCEDURE, "f", ID_NONE, 10, 20);
    add(old, PROF_PROCEDURE, "g", ID_NONE, 30, 40);
    now->program = "/b/prog2";
    add(now, PROF_PROCEDURE, "g.constprop.0", ID_NONE, 30, 40)->module = "/b/prog2";
    add(now, PROF_PROCEDURE, "f", ID_NONE, 10, 20)->module = "/b/prog2";
    struct prof_diff *d = prof_diff_new(old, now);
    assert_int_equal(partner(d, 0), 1);
    assert_int_equal(partner(d, 1), 0);
    done(d);
}

static void test_noise(void **state)
{
    (void)state;
    struct prof_result *old = three_loops(result(), 10), *now = three_loops(rebuilt(), 10);
    now->objects[1].memory_s = around(0.11, 0.015);
    now->objects[2].memory_s = around(0.05, 0.015);
    now->objects[3].memory_s = (struct prof_interval){NAN, NAN, NAN};
    struct prof_diff *d = prof_diff_new(old, now);
    assert_ptr_equal(d->objects[0].now, &now->objects[2]); /* what changed comes first */
    assert_true(diff_is_change(&d->objects[0].memory_s));
    assert_true(fabs(d->objects[0].memory_s.change.low - (-0.05 - 0.015)) < 1e-12);
    for (size_t i = 1; i < d->object_count; i++)
        assert_false(diff_is_change(&d->objects[i].memory_s));
    done(d);
}

/* Gone: it takes no time now. Left alone: nobody knows. */
static void test_gone_or_not_counted(void **state)
{
    (void)state;
    static struct prof_refused refused = {.module = "/b/prog", .function = "g", .reason = "-"};
    struct prof_result *old = result(), *now = rebuilt();
    add(old, PROF_PROCEDURE, "f", ID_NONE, 10, 20);
    add(old, PROF_PROCEDURE, "g", ID_NONE, 30, 40);
    now->refused = &refused;
    now->refused_count = 1;
    struct prof_diff *d = prof_diff_new(old, now);
    assert_int_equal(d->object_count, 2);
    assert_string_equal(d->objects[0].old->function, "f");
    assert_true(d->objects[0].memory_s.change.value == -0.1 && diff_is_change(&d->objects[0].memory_s));
    assert_true(d->objects[1].is_refused && isnan(d->objects[1].memory_s.change.value));
    done(d);
}

static void test_conditions(void **state)
{
    (void)state;
    static const struct {
        struct diff_condition c;
        double actual, half;
        bool holds;
    } cases[] = {{{DIFF_ACTUAL, true, 5, ""}, 1.65, 0.01, true},
                 {{DIFF_ACTUAL, true, 11, ""}, 1.65, 0.01, false},
                 {{DIFF_ACTUAL, true, 5, ""}, 1.65, 0.3, false}, /* noise */
                 {{DIFF_ACTUAL, false, 0.1, ""}, 1.65, 0.01, true},
                 {{DIFF_ACTUAL, false, 0.2, ""}, 1.65, 0.01, false},
                 {{DIFF_ACTUAL, true, 5, ""}, 1.2, 0.01, false},
                 {{DIFF_ACTUAL, true, 5, ""}, 1.65, NAN, true}}; /* no interval: the figure decides */
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct prof_result *old = result(), *now = rebuilt();
        now->actual_user_s = around(cases[i].actual, cases[i].half);
        struct prof_diff *d = prof_diff_new(old, now);
        if (diff_holds(d, &cases[i].c) != cases[i].holds)
            fail_msg("case %zu: rose by %g", i, diff_rise(d, &cases[i].c));
        done(d);
    }
}

/* Every object is in one pair, whatever is in the two; pairs are of one kind. */
static void test_every_object_once(void **state)
{
    (void)state;
    static const char *const names[] = {"f", "g", "h", "0x12", NULL, "g.cold", "k (inlined in f)"};
    srand(1);
    for (int round = 0; round < 60; round++) {
        struct prof_result *r[2] = {result(), rebuilt()};
        size_t seen = 0;
        for (int k = 0; k < 2; k++)
            for (int i = rand() % 120; i-- > 0;) {
                struct prof_object *o =
                    add(r[k], (enum prof_kind)(rand() % PROF_KIND_COUNT), names[rand() % 7],
                        rand() % 3 ? ID_NONE : (uint32_t)(rand() % 120), (uint32_t)(rand() % 20), 30);
                o->depth = (uint32_t)(rand() % 3);
                o->instructions = rand() % 5 ? (uint64_t)(rand() % 4) * 1000 : PROF_UNKNOWN;
            }
        struct prof_diff *d = prof_diff_new(r[0], r[1]);
        for (size_t i = 0; i < d->object_count; i++) {
            const struct diff_object *x = &d->objects[i];
            seen += (x->old != NULL) + (x->now != NULL);
            assert_true(x->old || x->now);
            assert_true(!x->old || !x->now || x->old->kind == x->now->kind);
            assert_int_equal(x->how != NULL, x->old && x->now);
        }
        assert_int_equal(seen, r[0]->object_count + r[1]->object_count);
        for (uint32_t i = 0; i < r[0]->object_count; i++)
            partner(d, i);
        done(d);
    }
}

/* ---- data objects ---- */

struct place {
    const char *function; /* NULL: nobody allocated it */
    uint32_t line;
    const char *caller;
};

/* Named as mtool spy names them. */
static void add_data(struct prof_result *r, const struct place *places, size_t count)
{
    static struct prof_spy spy;
    r->spy = &spy;
    r->spy_count = 1;
    r->data = ARENA_ARRAY(r->arena, struct prof_data, count);
    r->data_frames = ARENA_ARRAY(r->arena, struct prof_data_frame, 2 * count);
    for (uint32_t i = 0; i < count; i++) {
        const struct place *p = &places[i];
        struct prof_data *d = &r->data[r->data_count++];
        *d = (struct prof_data){.kind = p->function ? PROF_DATA_HEAP : PROF_DATA_GLOBAL, .name = p->caller};
        if (!p->function)
            continue;
        d->name = arena_printf(r->arena, "%s (a.c:%u) <- %s", p->function, p->line, p->caller);
        r->data_frames[r->data_frame_count++] =
            (struct prof_data_frame){.object = i, .function = p->function, .file = "/s/a.c", .line = p->line};
        r->data_frames[r->data_frame_count++] =
            (struct prof_data_frame){.object = i, .depth = 1, .function = p->caller, .file = "/s/a.c", .line = 90};
    }
}

static uint32_t data_partner(const struct prof_diff *d, uint32_t i)
{
    for (size_t k = 0; k < d->data_count; k++)
        if (d->data[k].old == &d->old->data[i])
            return d->data[k].now ? (uint32_t)(d->data[k].now - d->now->data) : ID_NONE;
    fail_msg("data object %u is in no pair", i);
    return ID_NONE;
}

/* PAIRS: by old object, the new one. */
static void check_data(const struct place *old, size_t old_count, const struct place *now, size_t now_count,
                       const uint32_t *pairs)
{
    struct prof_result *a = result(), *b = rebuilt();
    add_data(a, old, old_count);
    add_data(b, now, now_count);
    struct prof_diff *d = prof_diff_new(a, b);
    assert_true(d->is_of_data);
    for (uint32_t i = 0; i < old_count; i++)
        assert_int_equal(data_partner(d, i), pairs[i]);
    done(d);
}

/* Four lines more above: one block now comes from the line that another one came from. Ids are by stall, and say
 * nothing. */
static void test_data_moved(void **state)
{
    (void)state;
    static const struct place old[] = {
        {"make", 10, "main"}, {"make", 14, "main"}, {"make", 10, "load"}, {NULL, 0, "xs"}, {"gone", 3, "main"}};
    static const struct place now[] = {
        {NULL, 0, "xs"}, {"make", 14, "load"}, {"make", 18, "main"}, {"made", 3, "main"}, {"make", 14, "main"}};
    check_data(old, ARRAY_LEN(old), now, ARRAY_LEN(now), (const uint32_t[]){4, 2, 1, 0, ID_NONE});
}

/* One of three blocks of a place is gone: those whose lines did not move are what they were. */
static void test_data_gone(void **state)
{
    (void)state;
    static const struct place old[] = {{"make", 10, "main"}, {"make", 14, "main"}, {"make", 20, "main"}};
    static const struct place now[] = {{"make", 20, "main"}, {"make", 14, "main"}};
    check_data(old, ARRAY_LEN(old), now, ARRAY_LEN(now), (const uint32_t[]){ID_NONE, 1, 0});
}

/* Who allocated it is called otherwise now, and the name says the same. */
static void test_data_by_name(void **state)
{
    (void)state;
    struct prof_result *a = result(), *b = rebuilt();
    add_data(a, (const struct place[]){{"make", 10, "main"}}, 1);
    add_data(b, (const struct place[]){{"make", 10, "main"}}, 1);
    b->data_frames[1].function = "run";
    struct prof_diff *d = prof_diff_new(a, b);
    assert_int_equal(data_partner(d, 0), 0);
    done(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_changed),
        cmocka_unit_test(test_lines_moved),
        cmocka_unit_test(test_loop_gone_and_come),
        cmocka_unit_test(test_nameless),
        cmocka_unit_test(test_same_build),
        cmocka_unit_test(test_renamed_program_and_clone),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_gone_or_not_counted),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_every_object_once),
        cmocka_unit_test(test_data_moved),
        cmocka_unit_test(test_data_gone),
        cmocka_unit_test(test_data_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
