/* SPDX-License-Identifier: Apache-2.0
 * The branch predictor on branches whose nature is known. */
#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h> /* needs the three above it */

static uint64_t state = 1;
static bool coin(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 63;
}

static struct sim_insn insn_of(const char *bytes, size_t len, uint64_t at)
{
    struct machine *m = machine_default();
    static struct sim_shapes *shapes;
    shapes = shapes ? shapes : sim_shapes_new();
    struct sim_insn i;
    assert_int_equal(sim_insn_prepare(m, shapes, (const uint8_t *)bytes, len, at, &i), 0);
    machine_free(m);
    return i;
}

static struct sim_insn jne_at(uint64_t at) { return insn_of("\x75\x10", 2, at); }

static unsigned wrong_of(struct sim_predictor *p, const struct sim_insn *i, const bool *ways, unsigned n)
{
    unsigned wrong = 0;
    for (unsigned k = 0; k < n; k++)
        wrong += sim_predict(p, i, i->addr, ways[k], i->addr + 18);
    return wrong;
}

static void test_patterns(void **unused)
{
    (void)unused;
    enum { N = 500 };
    struct sim_predictor *p = sim_predictor_new();
    struct sim_insn always = jne_at(0x1000), third = jne_at(0x2000), drawn = jne_at(0x3000);
    bool yes[N], thirds[N], ways[N];
    for (int k = 0; k < N; k++)
        yes[k] = true, thirds[k] = k % 3 == 0, ways[k] = coin();
    wrong_of(p, &always, yes, N);
    assert_int_equal(wrong_of(p, &always, yes, N), 0);
    wrong_of(p, &third, thirds, N - 2);
    assert_in_range(wrong_of(p, &third, thirds, N - 2), 0, 2);
    for (int iteration = 0; iteration < 6; iteration++)
        wrong_of(p, &drawn, ways, N);
    assert_in_range(wrong_of(p, &drawn, ways, N), 0, N / 50); /* drawn once, then always the same */
    sim_predictor_free(p);
}

static void test_chance(void **unused)
{
    (void)unused;
    enum { N = 20000 };
    struct sim_predictor *p = sim_predictor_new();
    struct sim_insn i = jne_at(0x1000);
    unsigned wrong = 0;
    for (int k = 0; k < N; k++)
        wrong += sim_predict(p, &i, i.addr, coin(), i.addr + 18);
    assert_in_range(wrong, N * 45 / 100, N * 55 / 100);
    sim_predictor_free(p);
}

static void test_loop_exits(void **unused)
{
    (void)unused;
    struct sim_predictor *p = sim_predictor_new();
    struct sim_insn i = jne_at(0x1000);
    for (unsigned trips = 10, wrong; trips <= 1000; trips *= 100) {
        for (unsigned iteration = wrong = 0; iteration < 200; iteration++)
            for (unsigned k = 1; k <= trips; k++) {
                bool bad = sim_predict(p, &i, i.addr, k < trips, i.addr + 18);
                wrong += iteration >= 100 && bad;
            }
        assert_in_range(wrong, 0, 2); /* the history shows the exit coming, or the number of iterations */
    }
    sim_predictor_free(p);
}

static void test_loops_that_vary(void **unused)
{
    (void)unused;
    struct sim_predictor *p = sim_predictor_new();
    struct sim_insn i = jne_at(0x1000);
    unsigned wrong = 0;
    for (unsigned iteration = 0; iteration < 200; iteration++)
        for (unsigned k = 1, trips = 900 + 10 * coin() + 100 * coin() + 37 * coin(); k <= trips; k++) {
            bool bad = sim_predict(p, &i, i.addr, k < trips, i.addr + 18);
            wrong += iteration >= 100 && bad;
        }
    assert_in_range(wrong, 90, 130); /* once each time round, or a little more where chance repeats itself */
    sim_predictor_free(p);
}

static void test_calls_and_jumps(void **unused)
{
    (void)unused;
    struct sim_predictor *p = sim_predictor_new();
    struct sim_insn call = insn_of("\xe8\0\0\0\0", 5, 0x1000), ret = insn_of("\xc3", 1, 0x2000),
                    jump = insn_of("\xff\xe0", 2, 0x3000), plain = insn_of("\x48\x01\xc8", 3, 0x4000);
    unsigned wrong = 0;
    for (uint64_t depth = 0; depth < 16; depth++)
        assert_false(sim_predict(p, &call, 0x1000 + depth * 64, true, 0x2000));
    for (uint64_t depth = 16; depth-- > 0;)
        wrong += sim_predict(p, &ret, 0x2000, true, 0x1005 + depth * 64);
    assert_int_equal(wrong, 0);
    assert_true(sim_predict(p, &ret, 0x2000, true, 0x7777)); /* to where nobody called from */
    for (unsigned k = 0; k < 400; k++) {
        bool bad = sim_predict(p, &jump, 0x3000, true, 0x5000 + 16 * ("\0\1\0\2\3"[k % 5]));
        wrong += k >= 200 && bad;
    }
    assert_in_range(wrong, 0, 4);
    assert_false(sim_predict(p, &plain, 0x4000, false, 0x4003));
    assert_false(sim_insn_is_branch(&plain));
    sim_predictor_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),        cmocka_unit_test(test_chance),
        cmocka_unit_test(test_loop_exits),      cmocka_unit_test(test_loops_that_vary),
        cmocka_unit_test(test_calls_and_jumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
