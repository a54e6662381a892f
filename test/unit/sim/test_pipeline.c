/* SPDX-License-Identifier: Apache-2.0
 * Pipelines put back to their begin between any two instructions: they go on as if they had not been, and those in
 * which all goes on alike are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/sim.h"

static const char *const codes[] = {
    "\x48\x8b\x06",     /* mov rax,[rsi] */
    "\x48\x01\xd8",     /* add rax,rbx */
    "\x48\x89\x06",     /* mov [rsi],rax */
    "\x48\x0f\xaf\xc3", /* imul rax,rbx */
    "\x48\xf7\xfb",     /* idiv rbx */
    "\xf2\x0f\x58\xc1", /* addsd xmm0,xmm1 */
    "\xf2\x0f\x5e\xc1", /* divsd xmm0,xmm1 */
    "\x48\x8b\x1e",     /* mov rbx,[rsi] */
    "\x48\x85\xc0",     /* test rax,rax */
    "\xf3\x48\xab",     /* rep stosq */
    "\x90",             /* nop */
};
enum { CODES = ARRAY_LEN(codes), STEPS = 3000 };

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

struct pair {
    struct machine *m;
    struct sim_shapes *shapes;
    struct sim_insn insns[CODES];
    struct sim_pipeline *a, *b;
};

static struct pair make(const char *name)
{
    struct pair p = {.shapes = sim_shapes_new()};
    char path[512];
    snprintf(path, sizeof path, "%s/%s.machine", MACHINES_DIR, name);
    assert_int_equal(machine_read(path, &p.m), 0);
    for (size_t i = 0; i < CODES; i++)
        assert_int_equal(sim_insn_prepare(p.m, p.shapes, (const uint8_t *)codes[i], 4, 0x1000, &p.insns[i]), 0);
    p.a = sim_pipeline_new(p.m);
    p.b = sim_pipeline_new(p.m);
    return p;
}

static void done(struct pair *p)
{
    sim_pipeline_free(p->a);
    sim_pipeline_free(p->b);
    sim_shapes_free(p->shapes);
    machine_free(p->m);
}

/* One is put back at random places, the other never within a stretch. */
static void test_goes_on(void **state)
{
    static const char *const machines[] = {"titan", "decstation-3100", "decstation-5000", "bonnell"};
    uint32_t seed = 1;
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(machines); k++) {
        struct pair p = make(machines[k]);
        for (int i = 0; i < STEPS; i++) {
            const struct sim_insn *x = &p.insns[next_random(&seed) % CODES];
            if (i % 30 == 0) { /* its table of units has an end */
                sim_pipeline_rebase(p.a);
                sim_pipeline_copy(p.b, p.a);
            } else if (next_random(&seed) % 3 == 0) {
                sim_pipeline_rebase(p.b);
            }
            int64_t a = sim_pipeline_ticks(p.a), b = sim_pipeline_ticks(p.b);
            sim_pipeline_issue(p.a, x);
            sim_pipeline_issue(p.b, x);
            assert_int_equal(sim_pipeline_ticks(p.a) - a, sim_pipeline_ticks(p.b) - b);
        }
        done(&p);
    }
}

static void test_is_same(void **state)
{
    struct pair p = make("titan");
    (void)state;
    sim_pipeline_rebase(p.a);
    sim_pipeline_copy(p.b, p.a);
    for (int i = 0; i < 10; i++)
        sim_pipeline_issue(p.a, &p.insns[CODES - 1]); /* nothing of which is left */
    sim_pipeline_rebase(p.a);
    assert_true(sim_pipeline_is_same(p.a, p.b));
    assert_int_equal(sim_pipeline_hash(p.a), sim_pipeline_hash(p.b));
    sim_pipeline_issue(p.a, &p.insns[0]); /* a load is under way */
    sim_pipeline_rebase(p.a);
    assert_false(sim_pipeline_is_same(p.a, p.b));
    assert_int_equal(sim_pipeline_stalls(p.a) - sim_pipeline_ticks(p.a), 0);
    done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goes_on), cmocka_unit_test(test_is_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
