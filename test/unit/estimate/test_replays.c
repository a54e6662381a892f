/* SPDX-License-Identifier: Apache-2.0
 * What replayed slices tell of the loops that they are made of. */
#include "estimate/replays/replays.h"

#include "wire/wire.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the three above it */

/* A nop each, at places 0x1000 ...: the owner is the place's second hexadecimal digit. */
enum { PLACES = 0x400, STEPS = 8000 };
#define ADD "\x48\x01\xc8\x90"

struct bench {
    struct machine *m;
    struct sim_insn table[PLACES];
    struct sim_core *core;
    struct window_player p;
    struct window_known known;
    struct replays *r;
    struct arena *arena;
    struct sim_shapes *shapes;
    double max[16]; /* cycles of an instruction of an owner in the program */
};

static uint32_t index_of(void *unused, uint64_t place)
{
    (void)unused;
    return place >= 0x1000 && place < 0x1000 + PLACES ? (uint32_t)place - 0x1000 : ID_NONE;
}
static uint32_t owner_of(void *unused, uint64_t place)
{
    (void)unused;
    return (uint32_t)(place >> 8 & 0xf);
}

static uint32_t one_of_sixteen(void *unused, uint64_t place)
{
    (void)unused;
    return (uint32_t)(place & 0xf);
}

/* second: an instruction of owner 2. */
static void set_up_with(struct bench *b, struct machine *m, const char *second)
{
    memset(b, 0, sizeof *b);
    b->m = m;
    b->arena = arena_new();
    b->shapes = sim_shapes_new();
    for (uint32_t i = 0; i < PLACES; i++)
        assert_int_equal(sim_insn_prepare(b->m, b->shapes, (const uint8_t *)(i >> 8 == 2 ? second : ADD), 4, 0x1000 + i,
                                          &b->table[i]),
                         0);
    b->core = sim_core_new(b->m, b->table, PLACES, NULL);
    b->p = (struct window_player){.core_of_slice = sim_core_new(b->m, b->table, PLACES, NULL),
                                  .predictor = sim_predictor_new(),
                                  .table = b->table,
                                  .known = &b->known,
                                  .index_of = index_of};
    b->r = replays_new(owner_of, NULL);
    for (int h = 0; h < 16; h++)
        b->max[h] = INFINITY;
    for (uint32_t i = 0; i < PLACES; i++)
        for (int k = 0; k < 8; k++)
            sim_core_step(b->core, i, 0, 0);
    sim_core_flush(b->core);
}

static void set_up(struct bench *b) { set_up_with(b, machine_default(), ADD); }

static void tear_down(struct bench *b)
{
    replays_free(b->r);
    sim_predictor_free(b->p.predictor);
    VEC_FREE(&b->known.index_of);
    sim_core_free(b->p.core_of_slice);
    sim_core_free(b->core);
    machine_free(b->m);
    arena_free(b->arena);
    sim_shapes_free(b->shapes);
}

static uint64_t place_of(void *unused, uint64_t address)
{
    (void)unused;
    return address;
}

/* A window of instructions at these places. */
static struct trace_window window_of(struct bench *b, const uint64_t words[STEPS + 2])
{
    struct wire_windows *file = xmalloc(sizeof *file + (STEPS + 2) * sizeof *words);
    struct trace_window w;
    file->used = file->capacity = file->windows[0].steps = STEPS + 2;
    memcpy(file->data, words, (STEPS + 2) * sizeof *words);
    assert_true(trace_steps(file, 0, b->arena, &w));
    trace_place_steps(&w, place_of, NULL);
    free(file);
    return w;
}

enum { EDGE = 100 };

/* A window with so many slices of these steps that took so many cycles. */
static void add_times(struct bench *b, const uint64_t words[STEPS + 2], double cycles, uint32_t times)
{
    enum { TIMES_MAX = 8 };
    struct wire_canary canary = {.times = 1, .chain = 2048, .width = 2048};
    struct wire_slice s = {
        .state = WIRE_SLICE_DONE, .forms = 1, .batch_count = WIRE_BATCHES, .first = 1, .last = STEPS + 1};
    s.form[0].last = s.last;
    for (uint32_t i = 0; i < WIRE_BATCHES; i++) {
        s.batches[i] = (struct wire_batch){.replays = WIRE_REPLAYS, .canary = canary};
        for (uint32_t k = 0; k < WIRE_REPLAYS; k++)
            s.batches[i].ticks[k] = (uint32_t)cycles + EDGE;
    }
    s.second = (struct wire_second){(uint32_t)cycles + EDGE, 0, canary};
    struct wire_slice all[TIMES_MAX];
    assert_true(times <= TIMES_MAX);
    for (uint32_t i = 0; i < times; i++)
        all[i] = s;
    struct trace_window taken = window_of(b, words);
    struct prof_input_window w = {&taken, times, all};
    replays_see(b->r, &w, 1);
    replays_add(b->r, &b->p, &w);
}

static void add_words(struct bench *b, const uint64_t words[STEPS + 2], double cycles)
{
    add_times(b, words, cycles, 1);
}

/* With `in_one` of its steps in owner 1, the others in owner 2. */
static void add_slice(struct bench *b, uint32_t in_one, double cycles)
{
    uint64_t words[STEPS + 2];
    for (uint32_t i = 0; i < STEPS + 2; i++)
        words[i] = (i <= in_one ? 0x1100 : 0x1200) + i % 256;
    add_words(b, words, cycles);
}

/* Of loops of so many turns of a jump to itself. */
static void add_loops(struct bench *b, uint32_t turns, double cycles)
{
    uint64_t words[STEPS + 2];
    for (uint32_t i = 0; i < STEPS + 2; i++)
        words[i] = i % (turns + 1) < turns ? 0x1200 : 0x1202; /* what the jump leaves to */
    add_words(b, words, cycles);
}

/* Of an instruction, in the model: all are alike. */
static double model_cycles(const struct bench *b) { return sim_core_cycles(b->core) / (8.0 * PLACES); }

static void tell_of(struct bench *b, const double modelled[16], struct join_replay measured[16])
{
    replays_tell(b->r, b->core, &(struct fit_known){modelled, b->max, 0.2}, 16, measured);
}

static void tell(struct bench *b, struct join_replay measured[16])
{
    double modelled[16];
    for (int h = 0; h < 16; h++)
        modelled[h] = model_cycles(b);
    tell_of(b, modelled, measured);
}

static void a_owner_gets_the_ratio_of_its_slices(void **state)
{
    (void)state;
    struct bench b;
    struct join_replay measured[16];
    set_up(&b);
    for (int i = 0; i < 5; i++)
        add_slice(&b, STEPS, 1.5 * STEPS * model_cycles(&b));
    tell(&b, measured);
    assert_true(measured[1].factor > 1.45 && measured[1].factor < 1.51);
    assert_true(measured[1].is_replayed && measured[1].error > 0.08 && measured[1].error < 0.15);
    assert_true(!measured[2].is_replayed &&
                fabs(measured[2].factor - 1.5) < 0.05); /* the model, by what replays took against it */
    tear_down(&b);
}

static void owners_are_told_apart(void **state)
{
    (void)state;
    struct bench b;
    struct join_replay measured[16];
    set_up(&b);
    for (uint32_t i = 0; i <= 10; i++) {
        double one = (double)i / 10;
        add_slice(&b, i * STEPS / 10, (one * 1.4 + (1 - one) * 0.8) * STEPS * model_cycles(&b));
    }
    tell(&b, measured);
    assert_true(fabs(measured[1].factor - 1.4) < 0.05 && fabs(measured[2].factor - 0.8) < 0.05);
    tear_down(&b);
}

/* Many owners that always come together cannot be distinguished, and share what there is. */
static void many_owners_together(void **state)
{
    (void)state;
    struct bench b;
    struct join_replay measured[16];
    set_up(&b);
    replays_free(b.r);
    b.r = replays_new(one_of_sixteen, NULL);
    for (int i = 0; i < 12; i++)
        add_slice(&b, 0, 1.3 * STEPS * model_cycles(&b));
    tell(&b, measured);
    for (int h = 0; h < 16; h++)
        assert_true(fabs(measured[h].factor - 1.3) < 0.03 && measured[h].error < 0.1 && fabs(measured[h].apart) < 0.01);
    tear_down(&b);
}

static void slices_that_differ_are_less_sure(void **state)
{
    (void)state;
    struct bench b, c;
    struct join_replay measured[16], other[16];
    set_up(&b);
    set_up(&c);
    for (int i = 0; i < 6; i++) {
        add_slice(&b, STEPS, STEPS * model_cycles(&b));
        add_slice(&c, STEPS, (i & 1 ? 0.7 : 1.3) * STEPS * model_cycles(&c));
    }
    tell(&b, measured);
    tell(&c, other);
    assert_true(measured[1].error < 0.15 && other[1].error > 0.3);
    assert_true(fabs(other[1].factor - 1) < 0.1);
    tear_down(&b);
    tear_down(&c);
}

/* They met the same data: that they agree says less than if they were of as many windows. */
static void slices_of_one_window_are_less_sure(void **state)
{
    (void)state;
    struct bench b, c;
    struct join_replay measured[16], other[16];
    uint64_t words[STEPS + 2];
    set_up(&b);
    set_up(&c);
    for (uint32_t i = 0; i < STEPS + 2; i++)
        words[i] = 0x1100 + i % 256;
    for (int i = 0; i < 6; i++)
        add_words(&b, words, STEPS * model_cycles(&b));
    add_times(&c, words, STEPS * model_cycles(&c), 6);
    tell(&b, measured);
    tell(&c, other);
    assert_true(other[1].is_replayed && fabs(other[1].factor - measured[1].factor) < 0.01);
    assert_true(measured[1].error < 0.15 && other[1].error > 0.2 && other[1].error < 0.4);
    tear_down(&b);
    tear_down(&c);
}

/* What no slice has is told by the model, which is off by as much in single slices. */
static void the_model_is_as_unsure_as_it_tells_slices(void **state)
{
    (void)state;
    struct bench b, c;
    struct join_replay measured[16], other[16];
    set_up(&b);
    set_up(&c);
    for (int i = 0; i < 10; i++) {
        add_slice(&b, STEPS, STEPS * model_cycles(&b));
        add_slice(&c, STEPS, (i & 1 ? 0.4 : 1.6) * STEPS * model_cycles(&c));
    }
    tell(&b, measured);
    tell(&c, other);
    assert_true(!measured[2].is_replayed && measured[2].error == 0); /* no more than it is of kernels: 0.2 */
    assert_true(!other[2].is_replayed && fabs(other[2].error - (0.6 - 0.2)) < 0.05);
    tear_down(&b);
    tear_down(&c);
}

/* Such as one in which each replay ran into the same machine clears. */
static void one_that_is_unlike_all_others_hardly_counts(void **state)
{
    (void)state;
    struct bench b;
    struct join_replay measured[16];
    set_up(&b);
    for (int i = 0; i < 7; i++)
        add_slice(&b, STEPS, (i == 3 ? 3 : 1) * STEPS * model_cycles(&b));
    tell(&b, measured);
    assert_true(measured[1].factor > 0.95 && measured[1].factor < 1.1);
    tear_down(&b);
}

/* ---- what a description has no part in ---- */

/* Wrong on purpose. */
static void as_it_is(struct machine *m) { (void)m; }
static void twice_as_wide(struct machine *m) { m->max_issue *= 2, m->retire_width *= 2; }
static void twice_as_late(struct machine *m)
{
    for (size_t c = 0; c < m->class_count; c++)
        m->classes[c].latency *= 2, m->classes[c].latency_high *= 2;
}
static void half_of_the_units(struct machine *m)
{
    for (size_t c = 0; c < m->class_count; c++)
        for (unsigned u = 0; u < m->classes[c].use_count; u++)
            m->classes[c].uses[u].issue *= 2;
}

/* Cycles of an owner's instructions in the model. */
static double modelled_of(const struct bench *b, uint32_t owner)
{
    double sum = 0;
    for (uint32_t i = owner << 8; i < (owner + 1) << 8; i++)
        sum += sim_core_costs(b->core)[i].cycles / (double)sim_core_costs(b->core)[i].count;
    return sum / 256;
}

/* Home 1 takes 0.4 cycles an instruction, owner 2 takes 1.9; slices of both, in which the first has 20 to 60 parts in a
 * hundred. */
static void find_cpi(void (*spoil)(struct machine *m), double cpi[2])
{
    struct bench b;
    struct join_replay measured[16];
    double modelled[16] = {0};
    struct machine *m = machine_default();
    spoil(m);
    set_up_with(&b, m, "\x48\x0f\xaf\xc8" /* imul */);
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t one = (20 + i * 2) * STEPS / 100;
        add_slice(&b, one, 0.4 * one + 1.9 * (STEPS - one));
    }
    for (uint32_t h = 1; h <= 2; h++)
        modelled[h] = modelled_of(&b, h);
    tell_of(&b, modelled, measured);
    for (uint32_t h = 1; h <= 2; h++) {
        assert_true(measured[h].is_replayed);
        cpi[h - 1] = measured[h].factor * modelled[h];
    }
    tear_down(&b);
}

static void a_wrong_description_moves_nothing(void **state)
{
    (void)state;
    void (*const spoilt[])(struct machine * m) = {twice_as_wide, twice_as_late, half_of_the_units};
    double right[2], wrong[2];
    find_cpi(as_it_is, right);
    assert_true(fabs(right[0] / 0.4 - 1) < 0.03 && fabs(right[1] / 1.9 - 1) < 0.03);
    for (size_t k = 0; k < ARRAY_LEN(spoilt); k++) {
        find_cpi(spoilt[k], wrong);
        assert_true(fabs(wrong[0] / right[0] - 1) < 0.03 && fabs(wrong[1] / right[1] - 1) < 0.03);
    }
}

/* Slices of two owners, always in the same proportion, of which the second takes three times as long by the model. What
 * both take together is known, how they share it is not: it is in doubt, but of both together nothing is. */
static void find_together(double one_slice, double another, double cpi[2], double apart[2])
{
    struct bench b;
    struct join_replay measured[16];
    double modelled[16] = {0};
    set_up(&b);
    for (int i = 0; i < 10; i++)
        add_slice(&b, STEPS / 2, (i & 1 ? one_slice : another) * STEPS);
    modelled[1] = model_cycles(&b), modelled[2] = 3 * model_cycles(&b);
    tell_of(&b, modelled, measured);
    for (int h = 0; h < 2; h++)
        cpi[h] = measured[h + 1].factor * modelled[h + 1], apart[h] = measured[h + 1].apart;
    assert_true(fabs(apart[0] * cpi[0] + apart[1] * cpi[1]) < 0.05);
    tear_down(&b);
}

static void owners_that_come_together_say_so(void **state)
{
    (void)state;
    double cpi[2], apart[2];
    find_together(0.5, 1.5, cpi, apart); /* the model does not tell slices: no part in it */
    assert_true(fabs(cpi[0] / cpi[1] - 1) < 0.1);
    assert_true(apart[0] < -0.3 && apart[1] > 0.3);
    find_together(1, 1, cpi, apart); /* it does */
    assert_true(fabs((cpi[0] + cpi[1]) / 2 - 1) < 0.02 && fabs(cpi[1] / cpi[0] - 3) < 0.1);
    assert_true(apart[0] > 0.3 && apart[1] < -0.3);
}

/* As before, but the program hardly took any time for the first. */
static void no_owner_gets_more_than_it_took(void **state)
{
    (void)state;
    struct bench b;
    struct join_replay measured[16];
    double modelled[16] = {0};
    set_up(&b);
    for (int i = 0; i < 10; i++)
        add_slice(&b, STEPS / 2, STEPS);
    modelled[1] = modelled[2] = model_cycles(&b);
    b.max[1] = 0.2;
    tell_of(&b, modelled, measured);
    assert_true(measured[1].factor * modelled[1] < 0.21);
    assert_true(fabs(measured[2].factor * modelled[2] / 1.8 - 1) < 0.02);
    tear_down(&b);
}

/* Of 300 turns: whether a replay predicts that is by chance. */
static void ends_of_long_loops_are_in_doubt(void **state)
{
    (void)state;
    struct join_replay of_short[16], of_long[16], of_cheap[16];
    struct join_replay *const measured[] = {of_short, of_long, of_cheap};
    const struct {
        uint32_t turns;
        double cycles;
    } loops[] = {{30, 2 * STEPS}, {300, 2 * STEPS}, {300, STEPS / 2.0}};
    for (size_t k = 0; k < ARRAY_LEN(loops); k++) {
        struct bench b;
        set_up_with(&b, machine_default(), "\x75\xfe\x90\x90" /* jne */);
        for (int i = 0; i < 5; i++)
            add_loops(&b, loops[k].turns, loops[k].cycles);
        tell(&b, measured[k]);
        tear_down(&b);
    }
    double ends = STEPS / 301 * 50.0, less = ends / 2 / (2 * STEPS);
    assert_true(of_short[2].is_replayed && of_long[2].is_replayed);
    assert_true(fabs(of_long[2].factor / of_short[2].factor - (1 - less)) < 0.01);
    assert_false(of_cheap[2].is_replayed); /* its ends could be a third of it */
}

/* To what was called before the replay began. */
static void returns_to_before_are_in_doubt(void **state)
{
    (void)state;
    enum { RETURNS = 20 };
    struct join_replay measured[2][16];
    for (uint32_t k = 0; k < 2; k++) {
        struct bench b;
        uint64_t words[STEPS + 2];
        set_up_with(&b, machine_default(), "\xc3\x90\x90\x90" /* ret */);
        for (uint32_t i = 0; i < STEPS + 2; i++)
            words[i] = k && i % (STEPS / RETURNS) == 200 ? 0x1200 : 0x1100 + i % 256;
        for (int i = 0; i < 5; i++)
            add_words(&b, words, 2 * STEPS);
        tell(&b, measured[k]);
        tear_down(&b);
    }
    assert_true(measured[0][1].is_replayed && measured[1][1].is_replayed);
    assert_true(fabs(measured[1][1].factor / measured[0][1].factor - (1 - RETURNS * 25.0 / (2 * STEPS))) < 0.01);
    assert_true(measured[1][1].error > measured[0][1].error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_owner_gets_the_ratio_of_its_slices),
        cmocka_unit_test(owners_are_told_apart),
        cmocka_unit_test(many_owners_together),
        cmocka_unit_test(slices_that_differ_are_less_sure),
        cmocka_unit_test(slices_of_one_window_are_less_sure),
        cmocka_unit_test(the_model_is_as_unsure_as_it_tells_slices),
        cmocka_unit_test(one_that_is_unlike_all_others_hardly_counts),
        cmocka_unit_test(a_wrong_description_moves_nothing),
        cmocka_unit_test(owners_that_come_together_say_so),
        cmocka_unit_test(no_owner_gets_more_than_it_took),
        cmocka_unit_test(ends_of_long_loops_are_in_doubt),
        cmocka_unit_test(returns_to_before_are_in_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
