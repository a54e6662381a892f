/* SPDX-License-Identifier: Apache-2.0
 *
 * zoo [-n RANDOM] [-s SEED] [-q] [-c] [-v] [-o FILE.json] [FILE.machine...]: can calibration find a machine again? The simulated cores
 * of the descriptions, and of RANDOM ones drawn from SEED on, are calibrated under simulated trouble (-c: none): a neighbour that has
 * half of the width four tenths of the time, in stretches of 1 to 50 ms, a clock that drifts by 5 %, interrupts and stolen time. The
 * descriptions that come out are held against the given ones: how many forms have their latency and interval within 5 %, both simulated;
 * width, reorder buffer, schedulers of general operations; and the cycles of all kernels of the self-test. Nothing here needs a quiet
 * machine: time is simulated, and a seed gives the same figures everywhere. -q: a tenth of the time and the common forms only, as tests
 * do. -v: each form and kernel that is off. Without files: all that are shipped (in-order ones are named and left out). */
#include "zoo.h"

#include "machine/calib.h"
#include "sim/sim.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS_MOST = 1000 };

struct row {
    char name[64];
    unsigned forms;
    double latency, interval; /* shares of the forms */
    double width[2], rob[2], queues[2]; /* given, found */
    double median, p90, seconds;
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

/* ---- one machine ---- */

struct options {
    bool quick, calm, verbose;
    uint32_t seed;
};

static bool calibrate(const struct machine *given, const struct options *o, struct row *row)
{
    struct machine *found = NULL;
    struct sim_trouble t = {.seed = o->seed, .neighbour = 0.4, .drift = 0.05, .interrupts_per_s = 300, .stolen_per_s = 10};
    struct lab_core *core = sim_bench_new(given, o->calm ? NULL : &t);
    if (!core)
        return false;
    struct machine_bench bench = {.core = core};
    struct machine_calibrate_options how = {.bench = &bench, .quick = o->quick};
    double start = time_now_s();
    bool ok = machine_calibrate(&how, &found) == 0;
    sim_bench_free(core);
    if (!ok)
        return false;
    row->width[0] = given->max_issue, row->width[1] = found->max_issue;
    row->rob[0] = given->rob, row->rob[1] = found->rob;
    row->queues[0] = int_queues(given), row->queues[1] = int_queues(found);
    compare_kernels(given, found, row, o->verbose);
    compare_forms(given, found, row, o->verbose);
    row->seconds = time_now_s() - start;
    machine_free(found);
    return true;
}

/* ---- the table ---- */

static void print_row(const struct row *r)
{
    printf("%-24s %5u %7.1f %7.1f %6.2f %5.2f %6.0f %5.0f %6.0f %5.0f %7.2f %6.1f %6.1f\n", r->name, r->forms, 100 * r->latency, 100 * r->interval,
           r->width[0], r->width[1], r->rob[0], r->rob[1], r->queues[0], r->queues[1], 100 * r->median, 100 * r->p90, r->seconds);
    fflush(stdout);
}

static bool near(const double v[2], double by) { return fabs(v[1] - v[0]) <= by * v[0] + 0.01; }

static void summarize(const struct row *rows, size_t n)
{
    double forms = 0, latency = 0, interval = 0;
    unsigned width = 0, rob = 0, queues = 0, kernels = 0;
    double *medians = xmalloc((n + 1) * sizeof *medians), *p90s = xmalloc((n + 1) * sizeof *p90s);
    for (size_t i = 0; i < n; i++) {
        forms += rows[i].forms, latency += rows[i].latency * rows[i].forms, interval += rows[i].interval * rows[i].forms;
        width += near(rows[i].width, 0), rob += near(rows[i].rob, 0.1), queues += near(rows[i].queues, 0.1);
        kernels += rows[i].median <= 0.03 && rows[i].p90 <= 0.08;
        medians[i] = rows[i].median, p90s[i] = rows[i].p90;
    }
    printf("all %zu: forms within 5 %%: latencies %.1f %%, intervals %.1f %%; machines: width exact %u, reorder within 10 %% %u, schedulers "
           "within 10 %% %u, kernels within 3 and 8 %% %u; of the machines' kernels: median %.2f %%, nine in ten %.1f %%\n",
           n, 100 * latency / forms, 100 * interval / forms, width, rob, queues, kernels, 100 * lab_quantile(medians, n, 0.5),
           100 * lab_quantile(p90s, n, 0.5));
    free(medians);
    free(p90s);
}

static int write_json(const struct row *rows, size_t n, const char *path)
{
    struct strbuf text = {0};
    struct json j;
    json_init(&j, &text, true);
    json_object(&j, NULL);
    json_array(&j, "rows");
    for (size_t i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        json_object(&j, NULL);
        json_str(&j, "machine", r->name);
        json_u64(&j, "forms", r->forms);
        json_real(&j, "latencies_within_5", r->latency);
        json_real(&j, "intervals_within_5", r->interval);
        json_real(&j, "width", r->width[0]), json_real(&j, "width_found", r->width[1]);
        json_real(&j, "reorder", r->rob[0]), json_real(&j, "reorder_found", r->rob[1]);
        json_real(&j, "schedulers", r->queues[0]), json_real(&j, "schedulers_found", r->queues[1]);
        json_real(&j, "kernels_median", r->median), json_real(&j, "kernels_p90", r->p90);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    str_puts(&text, "\n");
    int rc = file_write_whole(path, text.data, text.len, 0644);
    str_free(&text);
    return rc;
}

static size_t add_row(struct row *rows, size_t n, const char *name, struct machine *m, const struct options *o)
{
    struct options own = *o;
    own.seed += (uint32_t)n;
    if (!m || n == ROWS_MOST)
        return n;
    snprintf(rows[n].name, sizeof rows[n].name, "%.63s", name);
    if (m->in_order)
        printf("%-24s in-order: calibration does not measure it\n", name);
    else if (calibrate(m, &own, &rows[n]))
        print_row(&rows[n++]);
    machine_free(m);
    return n;
}

static size_t add_files(struct row *rows, size_t n, char **files, int count, const struct options *o)
{
    for (int i = 0; i < count; i++) {
        struct machine *m;
        if (machine_read(files[i], &m) == 0)
            n = add_row(rows, n, file_base_name(files[i]), m, o);
    }
    return n;
}

static size_t add_shipped(struct row *rows, size_t n, const struct options *o)
{
    const char *name, *text;
    for (size_t i = 0; (text = machine_shipped_text(i, &name)) != NULL; i++) {
        struct machine *m;
        if (machine_parse(name, text, strlen(text), &m) == 0)
            n = add_row(rows, n, name, m, o);
    }
    return n;
}

int main(int argc, char **argv)
{
    struct options o = {.seed = 1};
    const char *out = NULL;
    unsigned random = 0;
    struct row *rows = xmalloc(ROWS_MOST * sizeof *rows);
    size_t n = 0;
    int option;
    while ((option = getopt(argc, argv, "qcvn:s:o:")) != -1)
        switch (option) {
        case 'q': o.quick = true; break;
        case 'c': o.calm = true; break;
        case 'v': o.verbose = true; break;
        case 'n': random = (unsigned)strtoul(optarg, NULL, 10); break;
        case 's': o.seed = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'o': out = optarg; break;
        default: return 2;
        }
    streams = sim_streams_new();
    printf("%-24s %5s %7s %7s %6s %5s %6s %5s %6s %5s %7s %6s %6s\n", "machine", "forms", "latency", "interv.", "width", "found", "reord.", "found",
           "sched.", "found", "median", "p90", "s");
    n = optind < argc ? add_files(rows, n, argv + optind, argc - optind, &o) : random ? 0 : add_shipped(rows, n, &o);
    for (unsigned i = 0; i < random; i++) {
        char name[32];
        snprintf(name, sizeof name, "random %u", o.seed + i);
        n = add_row(rows, n, name, zoo_random(o.seed + i), &o);
    }
    if (n)
        summarize(rows, n);
    sim_streams_free(streams);
    int rc = out && write_json(rows, n, out) < 0 ? 1 : 0;
    free(rows);
    return rc;
}
