/* SPDX-License-Identifier: Apache-2.0
 * What replayed slices tell of the loops that they are made of. */
#include "prof/replays.h"

#include "wire/wire.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the three above it */

/* A nop each, at places 0x1000 ...: the home is the place's second hexadecimal digit. */
enum { PLACES = 0x400, STEPS = 8000 };

struct bench {
    struct machine *m;
    struct sim_insn table[PLACES];
    struct sim_core *core;
    struct window_player p;
    struct replays *r;
};

static uint32_t index_of(void *unused, uint64_t place)
{
    (void)unused;
    return place >= 0x1000 && place < 0x1000 + PLACES ? (uint32_t)place - 0x1000 : ID_NONE;
}
static uint32_t home_of(void *unused, uint64_t place)
{
    (void)unused;
    return (uint32_t)(place >> 8 & 0xf);
}

static uint32_t one_of_sixteen(void *unused, uint64_t place)
{
    (void)unused;
    return (uint32_t)(place & 0xf);
}

static void set_up(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->m = machine_default();
    for (uint32_t i = 0; i < PLACES; i++)
        assert_int_equal(sim_insn_prepare(b->m, (const uint8_t *)"\x48\x01\xc8\x90", 4, 0x1000 + i, &b->table[i]), 0);
    b->core = sim_core_new(b->m, b->table, PLACES, NULL);
    b->p = (struct window_player){.core = b->core, .predictor = sim_predictor_new(), .table = b->table, .index_of = index_of};
    b->r = replays_new(home_of, NULL);
    for (uint32_t i = 0; i < PLACES; i++)
        for (int k = 0; k < 8; k++)
            sim_core_step(b->core, i, 0, 0);
    sim_core_flush(b->core);
}

static void tear_down(struct bench *b)
{
    replays_free(b->r);
    sim_predictor_free(b->p.predictor);
    sim_core_free(b->core);
    machine_free(b->m);
}

/* A slice with `in_one` of its thousand steps in home 1, the others in home 2, that took so many cycles. */
static void add_slice(struct bench *b, uint32_t in_one, double cycles)
{
    static uint64_t words[STEPS + 10];
    struct wire_slice s = {.state = WIRE_SLICE_DONE, .forms = 1, .batch_count = WIRE_BATCHES, .first = 1, .last = STEPS + 1};
    for (uint32_t i = 0; i < WIRE_BATCHES; i++) {
        s.batches[i] = (struct wire_batch){.chain = 2048, .width = 2048};
        for (uint32_t k = 0; k < WIRE_REPLAYS; k++)
            s.batches[i].ticks[k] = (uint32_t)cycles;
    }
    s.second = (struct wire_second){(uint32_t)cycles, 0, 2048};
    for (uint32_t i = 0; i < STEPS + 2; i++)
        words[i] = (i <= in_one ? 0x1100 : 0x1200) + i % 256;
    struct prof_input_window w = {words, STEPS + 2, 1, &s};
    replays_see(b->r, 0, &w, 1);
    replays_add(b->r, &b->p, &w);
}

/* Of an instruction, in the model: all are alike. */
static double model_cycles(const struct bench *b) { return sim_core_cycles(b->core) / (8.0 * PLACES); }

static void a_home_gets_the_ratio_of_its_slices(void **state)
{
    (void)state;
    struct bench b;
    struct join_replay told[16];
    set_up(&b);
    for (int i = 0; i < 5; i++)
        add_slice(&b, STEPS, 1.5 * STEPS * model_cycles(&b));
    replays_tell(b.r, b.core, 0.2, 16, told);
    assert_true(told[1].factor > 1.45 && told[1].factor < 1.51);
    assert_true(told[1].error > 0.04 && told[1].error < 0.2); /* unlike the model: in doubt */
    assert_true(told[2].factor == 0 && told[3].factor == 0);
    tear_down(&b);
}

static void homes_are_told_apart(void **state)
{
    (void)state;
    struct bench b;
    struct join_replay told[16];
    set_up(&b);
    for (uint32_t i = 0; i <= 10; i++) {
        double one = (double)i / 10;
        add_slice(&b, i * STEPS / 10, (one * 1.4 + (1 - one) * 0.8) * STEPS * model_cycles(&b));
    }
    replays_tell(b.r, b.core, 0.2, 16, told);
    assert_true(fabs(told[1].factor - 1.4) < 0.05 && fabs(told[2].factor - 0.8) < 0.05);
    tear_down(&b);
}

/* Many homes that always come together cannot be told apart, and share what there is. */
static void many_homes_together(void **state)
{
    (void)state;
    struct bench b;
    struct join_replay told[16];
    set_up(&b);
    replays_free(b.r);
    b.r = replays_new(one_of_sixteen, NULL);
    for (int i = 0; i < 12; i++)
        add_slice(&b, 0, 1.3 * STEPS * model_cycles(&b));
    replays_tell(b.r, b.core, 0.2, 16, told);
    for (int h = 0; h < 16; h++)
        assert_true(fabs(told[h].factor - 1.3) < 0.03 && told[h].error < 0.1);
    tear_down(&b);
}

static void slices_that_differ_are_less_sure(void **state)
{
    (void)state;
    struct bench b, c;
    struct join_replay told[16], other[16];
    set_up(&b);
    set_up(&c);
    for (int i = 0; i < 6; i++) {
        add_slice(&b, STEPS, STEPS * model_cycles(&b));
        add_slice(&c, STEPS, (i & 1 ? 0.7 : 1.3) * STEPS * model_cycles(&c));
    }
    replays_tell(b.r, b.core, 0.2, 16, told);
    replays_tell(c.r, c.core, 0.2, 16, other);
    assert_true(told[1].error < 0.1 && other[1].error > 0.25);
    assert_true(fabs(other[1].factor - 1) < 0.05);
    tear_down(&b);
    tear_down(&c);
}

/* Such as one in which each replay ran into the same machine clears. */
static void one_that_is_unlike_all_others_hardly_counts(void **state)
{
    (void)state;
    struct bench b;
    struct join_replay told[16];
    set_up(&b);
    for (int i = 0; i < 7; i++)
        add_slice(&b, STEPS, (i == 3 ? 3 : 1) * STEPS * model_cycles(&b));
    replays_tell(b.r, b.core, 0.2, 16, told);
    assert_true(told[1].factor > 0.95 && told[1].factor < 1.1);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_home_gets_the_ratio_of_its_slices),
        cmocka_unit_test(homes_are_told_apart),
        cmocka_unit_test(many_homes_together),
        cmocka_unit_test(slices_that_differ_are_less_sure),
        cmocka_unit_test(one_that_is_unlike_all_others_hardly_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
