/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine that was given beside the one that calibration found: its sizes, its forms timed on the simulated cores of
 * both, and the kernels of the self-test. For the zoo and for the tests of calibration. */
#include "zoo.h"

#include "machine/calibrate/calib.h"

#include <math.h>

struct sim_noise zoo_noise(uint32_t seed)
{
    return (struct sim_noise){
        .seed = seed, .neighbour = 0.4, .drift = 0.05, .interrupts_per_s = 300, .stolen_per_s = 10};
}

bool zoo_near(const double v[2], double by) { return fabs(v[1] - v[0]) <= by * v[0] + 0.01; }

/* ---- sizes ---- */

/* Places in the schedulers of the general operations. */
static double int_queues(const struct machine *m)
{
    const struct machine_class *c = machine_class_named(m, "int");
    double sum = 0;
    bool seen[64] = {false};
    if (!c || !c->use_count)
        return 0;
    for (size_t i = 0; i < m->unit_count; i++) {
        uint32_t ports = (uint32_t)(((1ull << m->units[i].multiplicity) - 1) << m->units[i].first_port);
        int q = m->units[i].queue;
        if (c->uses[0].ports & ports && q >= 0 && q < 64 && !seen[q]) {
            seen[q] = true;
            sum += m->queues[q].size;
        }
    }
    return sum;
}

void zoo_compare(const struct machine *given, const struct machine *found, struct zoo_match *out)
{
    out->width[0] = given->max_issue, out->width[1] = found->max_issue;
    out->rob[0] = given->rob, out->rob[1] = found->rob;
    out->queues[0] = int_queues(given), out->queues[1] = int_queues(found);
}

void zoo_print_params(const struct machine *given, const struct machine *found)
{
#define X(group, field, name, value, text)                                                                             \
    if (fabs(given->field - found->field) > 0.1 * fabs(given->field) + 0.01)                                           \
        printf("    %-28s given %g found %g\n", name, given->field, found->field);
#include "machine/params.def"
#undef X
}

/* ---- forms ---- */

static struct calib lab_on(const struct machine *m, struct lab_core **core, struct machine *scratch)
{
    *core = sim_bench_new(m, NULL);
    struct machine_bench bench = {.core = *core};
    struct calib k = {
        .lab = lab_open(&bench, 1e9), .arena = arena_new(), .width = m->max_issue, .length = 5, .m = scratch};
    lab_plan(k.lab, 1, 1e9);
    return k;
}

static void lab_off(struct calib *k, struct lab_core *core)
{
    lab_close(k->lab);
    VEC_FREE(&k->forms);
    arena_free(k->arena);
    sim_bench_free(core);
}

static bool within(double a, double b) { return fabs(a - b) <= 0.05 * fabs(b) + 0.02; }

void zoo_compare_forms(const struct machine *given, const struct machine *found, struct zoo_match *out, bool verbose)
{
    struct lab_core *cores[2];
    struct machine *scratch = machine_new();
    struct calib g = lab_on(given, &cores[0], scratch), f = lab_on(found, &cores[1], scratch);
    unsigned n = 0, latencies = 0, timed = 0, intervals = 0;
    for (size_t i = 0; i < found->form_count; i++) {
        const char *form = found->forms[i].form;
        if (found->forms[i].measured_interval < 0 || form[0] == '~')
            continue;
        const struct timed_form *a = timing_of(&g, form), *b = timing_of(&f, form);
        if (!a || !b)
            continue;
        bool i_ok = within(b->interval, a->interval), l_ok = a->latency < 0 || within(b->latency, a->latency);
        n++, intervals += i_ok;
        timed += a->latency >= 0, latencies += a->latency >= 0 && l_ok;
        if (verbose && (!i_ok || !l_ok))
            printf("    %-28s latency %.2f found %.2f   interval %.3f found %.3f\n", form, a->latency, b->latency,
                   a->interval, b->interval);
    }
    out->forms = n;
    out->latency = timed ? latencies / (double)timed : NAN;
    out->interval = n ? intervals / (double)n : NAN;
    lab_off(&g, cores[0]);
    lab_off(&f, cores[1]);
    machine_free(scratch);
}

/* ---- kernels ---- */

void zoo_compare_kernels(const struct machine *given, struct machine *found, struct sim_streams *streams,
                         struct zoo_match *out, bool verbose)
{
    struct arena *a = arena_new();
    struct lab_core *core = sim_bench_new(given, NULL);
    struct machine_bench bench = {.core = core};
    struct sim_selftest_options o = {.bench = &bench, .given = given, .streams = streams, .budget_s = 1e9};
    struct sim_selftest_result r;
    if (sim_selftest(found, &o, a, &r) == 0) {
        double *off = ARENA_ARRAY(a, double, r.count);
        for (size_t i = 0; i < r.count; i++) {
            off[i] = fabs(r.cases[i].predicted_cycles / r.cases[i].true_cycles - 1);
            if (verbose && off[i] > 0.05)
                printf("    %-20s %-8s %s given %.1f found %.1f (%+.1f %%)\n", r.cases[i].name, r.cases[i].kind,
                       r.cases[i].wide ? "wide" : "base", r.cases[i].true_cycles, r.cases[i].predicted_cycles,
                       100 * (r.cases[i].predicted_cycles / r.cases[i].true_cycles - 1));
        }
        out->median = lab_quantile(off, r.count, 0.5);
        out->p90 = lab_quantile(off, r.count, 0.9);
    }
    sim_bench_free(core);
    arena_free(a);
}
