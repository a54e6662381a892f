/* SPDX-License-Identifier: Apache-2.0
 *
 * zoo [-n RANDOM] [-s SEED] [-q] [-c] [-o FILE.json] [FILE.machine...]: can calibration find a machine again? The simulated cores of
 * the descriptions, and of RANDOM made ones, are calibrated under simulated trouble (-c: none), and the descriptions that come out
 * are held against the given ones: how many forms have their latency and interval within 5 %, in simulations of both;
 * width, reorder buffer and schedulers; and the cycles of the self-test's kernels. Nothing here needs a quiet machine:
 * time is simulated, and a seed gives the same figures everywhere. -q: the common forms only, as in tests. */
#include "machine/calib.h"
#include "sim/sim.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>

struct row {
    const char *name;
    unsigned forms;
    double latency, interval; /* shares of the forms */
    double width[2], rob[2], queues[2]; /* given, found */
    double median, p90;
};

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

static struct calib lab_on(const struct machine *m, struct lab_core **core, struct machine *scratch)
{
    *core = sim_bench_new(m, NULL);
    struct machine_bench bench = {.core = *core};
    struct calib k = {.lab = lab_open(&bench, 1e9), .arena = arena_new(), .width = m->max_issue, .length = 5, .m = scratch};
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

static void compare_forms(const struct machine *given, const struct machine *found, struct row *row, bool verbose)
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
            printf("    %-28s latency %.2f found %.2f   interval %.3f found %.3f\n", form, a->latency, b->latency, a->interval,
                   b->interval);
    }
    row->forms = n;
    row->latency = timed ? latencies / (double)timed : NAN;
    row->interval = n ? intervals / (double)n : NAN;
    lab_off(&g, cores[0]);
    lab_off(&f, cores[1]);
    machine_free(scratch);
}

static struct sim_streams *streams;

static void compare_kernels(const struct machine *given, struct machine *found, struct row *row, bool verbose)
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
        row->median = lab_quantile(off, r.count, 0.5);
        row->p90 = lab_quantile(off, r.count, 0.9);
    }
    sim_bench_free(core);
    arena_free(a);
}

int main(int argc, char **argv)
{
    bool quick = false, calm = false, verbose = false;
    int option;
    while ((option = getopt(argc, argv, "qcv")) != -1)
        switch (option) {
        case 'q': quick = true; break;
        case 'c': calm = true; break;
        case 'v': verbose = true; diag_verbose++; break;
        default: return 2;
        }
    streams = sim_streams_new();
    printf("%-28s %5s %7s %7s %11s %11s %11s %6s %6s %6s\n", "machine", "forms", "latency", "interv", "width", "reorder", "queues", "median", "p90", "s");
    for (int i = optind; i < argc; i++) {
        struct machine *given, *found = NULL;
        if (machine_read(argv[i], &given) < 0)
            return 2;
        struct sim_trouble t = {7 + (uint32_t)i, 0.4, 0.05, 300, 10};
        double start = time_now_s();
        struct lab_core *core = sim_bench_new(given, calm ? NULL : &t);
        if (!core)
            continue;
        struct machine_bench bench = {.core = core};
        struct machine_calibrate_options o = {.bench = &bench, .quick = quick};
        if (machine_calibrate(&o, &found) < 0)
            return 1;
        double took = time_now_s() - start;
        struct row r = {.name = file_base_name(argv[i])};
        r.width[0] = given->max_issue, r.width[1] = found->max_issue;
        r.rob[0] = given->rob, r.rob[1] = found->rob;
        r.queues[0] = int_queues(given), r.queues[1] = int_queues(found);
        compare_kernels(given, found, &r, verbose);
        compare_forms(given, found, &r, verbose);
        if (verbose)
            machine_write(found, "/tmp/found.machine");
        printf("%-28s %5u %6.1f%% %6.1f%% %5.2f %5.2f %5.0f %5.0f %5.0f %5.0f %5.1f%% %5.1f%% %5.1f %5.1f\n", r.name, r.forms, 100 * r.latency,
               100 * r.interval, r.width[0], r.width[1], r.rob[0], r.rob[1], r.queues[0], r.queues[1], 100 * r.median, 100 * r.p90,
               took, time_now_s() - start);
        fflush(stdout);
        sim_bench_free(core);
        machine_free(given);
        machine_free(found);
    }
    return 0;
}
