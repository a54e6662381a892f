/* SPDX-License-Identifier: Apache-2.0
 * Windows of the instruction stream through the core model: what is played, what is not, and what it costs. */
#include "estimate/model/windows.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the three above it */

/* 0x1000: add rax,rcx; 0x1003: dec rdx; 0x1006: jnz 0x1000; 0x1008: rep stosb; 0x100a: ret */
static const char code[] = "\x48\x01\xc8\x48\xff\xca\x75\xf8\xf3\xaa\xc3";
static const uint64_t places[] = {0x1000, 0x1003, 0x1006, 0x1008, 0x100a};
enum { ADD, DEC, JNZ, REP, RET, INSNS };

static uint32_t index_of(void *unused, uint64_t place)
{
    (void)unused;
    for (uint32_t i = 0; i < INSNS; i++)
        if (places[i] == place)
            return i;
    return ID_NONE;
}

struct bench {
    struct machine *m;
    struct sim_insn table[INSNS];
    struct window_player p;
    struct window_known known;
    struct wire_windows *w;
    struct arena *arena;
    struct sim_shapes *shapes;
};
enum { WORDS = 500000 };

static void set_up(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->m = machine_default();
    b->arena = arena_new();
    b->shapes = sim_shapes_new();
    b->w = xmalloc(sizeof *b->w + WORDS * 8);
    b->w->capacity = WORDS;
    for (unsigned i = 0; i < INSNS; i++)
        assert_int_equal(sim_insn_prepare(b->m, b->shapes, (const uint8_t *)code + (places[i] - 0x1000),
                                          sizeof code - 1 - (places[i] - 0x1000), places[i], &b->table[i]),
                         0);
    b->p = (struct window_player){.core = sim_feed_new(sim_core_new(b->m, b->table, INSNS, NULL)),
                                  .mispredicting = sim_feed_new(sim_core_new(b->m, b->table, INSNS, NULL)),
                                  .predictor = sim_predictor_new(),
                                  .table = b->table,
                                  .known = &b->known,
                                  .index_of = index_of,
                                  .warm = 10};
}

static void tear_down(struct bench *b)
{
    sim_feed_free(b->p.core);
    sim_feed_free(b->p.mispredicting);
    sim_predictor_free(b->p.predictor);
    VEC_FREE(&b->known.index_of);
    free(b->w);
    arena_free(b->arena);
    sim_shapes_free(b->shapes);
    machine_free(b->m);
}

static void step(struct bench *b, uint64_t place)
{
    uint64_t *word = &b->w->data[b->w->used++], *steps = &b->w->windows[0].steps;
    *word = place;
    assert_true(b->w->used + 3 < WORDS);
    if (*steps % 2) { /* rax changes now and then */
        *word |= 1ull << 48;
        b->w->data[b->w->used++] = *steps;
    }
    if (index_of(NULL, place) != ID_NONE) {
        uint8_t bytes[16] = {0};
        memcpy(bytes, code + (place - 0x1000), sizeof code - 1 - (place - 0x1000));
        *word |= WIRE_STEP_BYTES;
        memcpy(&b->w->data[b->w->used], bytes, sizeof bytes);
        b->w->used += 2;
    }
    ++*steps;
}

static uint64_t place_of(void *unused, uint64_t address)
{
    (void)unused;
    return address;
}

static uint64_t play(struct bench *b)
{
    struct trace_window w;
    assert_true(trace_steps(b->w, 0, b->arena, &w));
    trace_place_steps(&w, place_of, NULL);
    return window_play(&b->p, &w, NULL);
}

static void loop(struct bench *b, unsigned turns)
{
    for (unsigned k = 0; k < turns; k++)
        for (unsigned i = ADD; i <= JNZ; i++)
            step(b, places[i]);
}

static void test_counts(void **unused)
{
    (void)unused;
    struct bench b;
    set_up(&b);
    loop(&b, 1000);
    for (int k = 0; k < 50; k++)
        step(&b, places[REP]);
    step(&b, places[RET]);
    step(&b, places[ADD]);
    assert_int_equal(play(&b), 3002); /* the 50 turns are one, the last has no successor */
    const struct sim_cost *c = sim_core_costs(sim_feed_core(b.p.core));
    assert_in_range(c[ADD].count, 995, 1000);
    assert_int_equal(c[REP].count, 1);
    assert_int_equal(c[RET].count, 1);
    assert_in_range((int)(1000 * c[JNZ].cycles / 1000 + 1000 * (c[ADD].cycles + c[DEC].cycles) / 1000), 900,
                    1500); /* a cycle a turn */
    tear_down(&b);
}

static void test_interruptions(void **unused)
{
    (void)unused;
    struct bench b;
    set_up(&b);
    for (int k = 0; k < 20; k++) {
        loop(&b, 10);
        step(&b, 0x7000);
        step(&b, OBSERVED_PLACE_UNKNOWN);
        step(&b, places[DEC]); /* comes back, and then is somewhere else without a jump */
        step(&b, places[RET]);
    }
    assert_int_equal(play(&b), 20 * 32 - 1);
    assert_in_range(sim_core_costs(sim_feed_core(b.p.core))[ADD].count, 100,
                    190); /* each new beginning fills the pipeline first */
    tear_down(&b);
}

static void test_branch_part(void **unused)
{
    (void)unused;
    struct bench b;
    uint64_t v = 1;
    set_up(&b);
    for (int k = 0; k < 8000; k++) {
        v = v * 6364136223846793005u + 1442695040888963407u;
        loop(&b, 1 + (unsigned)(v >> 63));
        step(&b, places[REP]);
        step(&b, places[RET]);
    }
    step(&b, places[ADD]);
    play(&b);
    const struct sim_cost *core = sim_core_costs(sim_feed_core(b.p.core)),
                          *mispredicting = sim_core_costs(sim_feed_core(b.p.mispredicting));
    double calm = 0, wild = 0;
    for (int i = 0; i < INSNS; i++) {
        calm += core[i].cycles / (double)core[i].count;
        wild += mispredicting[i].cycles / (double)mispredicting[i].count;
    }
    assert_true(wild > calm + 2); /* a third of the branches cost a pipeline each */
    assert_in_range(mispredicting[JNZ].count, core[JNZ].count / 3,
                    core[JNZ].count * 2 / 3); /* the first half only trains */
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_interruptions),
        cmocka_unit_test(test_branch_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
