/* SPDX-License-Identifier: Apache-2.0
 * Every shipped description runs the kernels of the self-test, recorded here, in the core model: no result is absurd,
 * and what is known of the machines' order holds. */
#include "help.h"

#include "sim/kernels.h"
#include "sim/record.h"

#include <stdlib.h>

enum { MACHINES = 32, STEPS = 40000, STATIC = 2048, ITERATIONS = 4 };

static struct {
    const char *name;
    struct machine *m;
    double log_sum; /* of cycles an instruction */
    unsigned count;
} zoo[MACHINES];
static size_t zoo_count;

static const uint8_t *code_at(uint64_t addr)
{
    union {
        uint64_t n;
        const uint8_t *p;
    } u = {.n = addr};
    return u.p;
}

/* The recorded steps on one machine; the first half warms up. */
static double cycles_each(const struct machine *m, const struct record *r)
{
    static struct sim_insn table[STATIC];
    struct map seen = {0};
    struct sim_shapes *shapes = sim_shapes_new();
    uint32_t *index = xmalloc(r->count * sizeof *index), count = 0;
    for (size_t i = 0; i < r->count; i++) {
        uint64_t id;
        if (!map_get(&seen, r->steps[i].rip, &id)) {
            id = count++;
            assert_true(count <= STATIC);
            map_put(&seen, r->steps[i].rip, id);
            sim_insn_prepare(m, shapes, code_at(r->steps[i].rip), 15, r->steps[i].rip, &table[id]);
        }
        index[i] = (uint32_t)id;
    }
    map_fini(&seen);
    struct sim_core *c = sim_core_new(m, table, count, NULL);
    sim_core_reset_pipeline(c, (uint32_t)(r->count / 2));
    for (size_t i = 0; i + 1 < r->count; i++) {
        const struct sim_insn *insn = &table[index[i]];
        sim_core_set_regs(c, r->steps[i].regs);
        sim_core_step(c, index[i], 0, insn->addr + insn->shape->len != r->steps[i + 1].rip ? SIM_TAKEN : 0);
    }
    double each = sim_core_cycles(c) / (double)(r->count - 1 - r->count / 2);
    sim_core_free(c);
    sim_shapes_free(shapes);
    free(index);
    return each;
}

static void add_kernel(const struct kernel *k, const struct record *r)
{
    for (size_t i = 0; i < zoo_count; i++) {
        const struct machine *m = zoo[i].m;
        double each = cycles_each(m, r), min = m->in_order ? 1 / m->max_issue : 0.5 / m->max_issue;
        /* Two instructions to a slot at best (a fused jump, a fused nop); a kernel of nothing but divisions at worst.
         */
        if (!(each >= 0.99 * min && each < (m->in_order ? 60 : 15)))
            fail_msg("%s on %s: %g cycles an instruction", k->name, zoo[i].name, each);
        zoo[i].log_sum += log(each);
        zoo[i].count++;
    }
}

static void the_kernels_run_on_every_machine(void **state)
{
    (void)state;
    struct record r = {.cap = STEPS, .steps = xmalloc(STEPS * sizeof *r.steps)};
    struct kernel_data *data = aligned_alloc(4096, ALIGN_UP(sizeof *data, 4096));
    for (size_t i = 0; i < kernel_count; i++) {
        kernel_data_init(data);
        if (record_run(kernels_base[i].run, ITERATIONS, data, &r) < 0)
            break; /* no single steps here */
        if (r.count > 100)
            add_kernel(&kernels_base[i], &r);
    }
    free(data);
    free(r.steps);
    if (!zoo[0].count)
        skip();
}

static double mean_of(const char *name)
{
    for (size_t i = 0; i < zoo_count; i++)
        if (strcmp(zoo[i].name, name) == 0)
            return exp(zoo[i].log_sum / zoo[i].count);
    fail_msg("%s is not shipped", name);
    return 0;
}

static void later_cores_take_fewer_cycles(void **state)
{
    (void)state;
    static const char *const order[][2] = {
        {"zen5.machine", "zen4.machine"},       {"zen4.machine", "zen3.machine"},
        {"zen3.machine", "zen2.machine"},       {"golden-cove.machine", "icelake.machine"},
        {"icelake.machine", "skylake.machine"}, {"gracemont.machine", "bonnell.machine"},
        {"skylake.machine", "bonnell.machine"}, {"skylake.machine", "decstation-5000.machine"},
    };
    if (!zoo[0].count)
        skip();
    for (size_t i = 0; i < zoo_count; i++)
        print_message("# %s: %.3f cycles an instruction\n", zoo[i].name, mean_of(zoo[i].name));
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (!(mean_of(order[i][0]) < mean_of(order[i][1])))
            fail_msg("%s takes %g, %s %g cycles an instruction", order[i][0], mean_of(order[i][0]), order[i][1],
                     mean_of(order[i][1]));
}

static int open_zoo(void **state)
{
    (void)state;
    const char *text;
    for (; (text = machine_shipped_text(zoo_count, &zoo[zoo_count].name)); zoo_count++)
        zoo[zoo_count].m = machine_of(text);
    return 0;
}

static int close_zoo(void **state)
{
    (void)state;
    for (size_t i = 0; i < zoo_count; i++)
        machine_free(zoo[i].m);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernels_run_on_every_machine),
        cmocka_unit_test(later_cores_take_fewer_cycles),
    };
    return cmocka_run_group_tests(tests, open_zoo, close_zoo);
}
