/* SPDX-License-Identifier: Apache-2.0
 *
 * zoo [-n RANDOM] [-s SEED] [-q] [-c] [-v] [-o FILE.json] [FILE.machine...]: can calibration find a machine again? The
 * simulated cores of the descriptions, and of RANDOM ones drawn from SEED on, are calibrated under simulated noise
 * (-c: none): a neighbour that has half of the width four tenths of the time, in stretches of 1 to 50 ms, a clock that
 * drifts by 5 %, interrupts and stolen time. The descriptions that come out are held against the given ones: how many
 * forms have their latency and interval within 5 %, both simulated; width, reorder buffer, schedulers of general
 * operations; and the cycles of all kernels of the self-test. Nothing here needs a quiet machine: time is simulated,
 * and a seed gives the same figures everywhere. -q: a tenth of the time and the common forms only, as tests do. -v:
 * each form, kernel and number that is off. Without files: all that are shipped (in-order ones are named and left out).
 */
#include "zoo.h"

#include "machine/lab/lab.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS_MAX = 1000 };

struct row {
    char name[64];
    struct zoo_match match;
    double seconds;
};

static struct sim_streams *streams;

/* ---- one machine ---- */

struct options {
    bool quick, calm, verbose;
    uint32_t seed;
};

static bool calibrate(const struct machine *given, const struct options *o, struct row *row)
{
    struct machine *found = NULL;
    struct sim_noise t = zoo_noise(o->seed);
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
    zoo_compare(given, found, &row->match);
    zoo_compare_kernels(given, found, streams, &row->match, o->verbose);
    zoo_compare_forms(given, found, &row->match, o->verbose);
    if (o->verbose)
        zoo_print_params(given, found);
    row->seconds = time_now_s() - start;
    machine_free(found);
    return true;
}

/* ---- the table ---- */

static void print_row(const struct row *r)
{
    const struct zoo_match *m = &r->match;
    printf("%-24s %5u %7.1f %7.1f %6.2f %5.2f %6.0f %5.0f %6.0f %5.0f %7.2f %6.1f %6.1f\n", r->name, m->forms,
           100 * m->latency, 100 * m->interval, m->width[0], m->width[1], m->rob[0], m->rob[1], m->queues[0],
           m->queues[1], 100 * m->median, 100 * m->p90, r->seconds);
    fflush(stdout);
}

static void summarize(const struct row *rows, size_t n)
{
    double forms = 0, latency = 0, interval = 0;
    unsigned width = 0, rob = 0, queues = 0, kernels = 0;
    double *medians = xmalloc((n + 1) * sizeof *medians), *p90s = xmalloc((n + 1) * sizeof *p90s);
    for (size_t i = 0; i < n; i++) {
        const struct zoo_match *m = &rows[i].match;
        forms += m->forms, latency += m->latency * m->forms, interval += m->interval * m->forms;
        width += zoo_near(m->width, 0), rob += zoo_near(m->rob, 0.1), queues += zoo_near(m->queues, 0.1);
        kernels += m->median <= 0.03 && m->p90 <= 0.08;
        medians[i] = m->median, p90s[i] = m->p90;
    }
    printf("all %zu: forms within 5 %%: latencies %.1f %%, intervals %.1f %%; machines: width exact %u, reorder within "
           "10 %% %u, schedulers "
           "within 10 %% %u, kernels within 3 and 8 %% %u; of the machines' kernels: median %.2f %%, nine in ten %.1f "
           "%%\n",
           n, 100 * latency / forms, 100 * interval / forms, width, rob, queues, kernels,
           100 * lab_quantile(medians, n, 0.5), 100 * lab_quantile(p90s, n, 0.5));
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
        const struct zoo_match *m = &r->match;
        json_object(&j, NULL);
        json_str(&j, "machine", r->name);
        json_u64(&j, "forms", m->forms);
        json_real(&j, "latencies_within_5", m->latency);
        json_real(&j, "intervals_within_5", m->interval);
        json_real(&j, "width", m->width[0]), json_real(&j, "width_found", m->width[1]);
        json_real(&j, "reorder", m->rob[0]), json_real(&j, "reorder_found", m->rob[1]);
        json_real(&j, "schedulers", m->queues[0]), json_real(&j, "schedulers_found", m->queues[1]);
        json_real(&j, "kernels_median", m->median), json_real(&j, "kernels_p90", m->p90);
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
    if (!m || n == ROWS_MAX)
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
    struct row *rows = xmalloc(ROWS_MAX * sizeof *rows);
    size_t n = 0;
    int option;
    while ((option = getopt(argc, argv, "qcvn:s:o:")) != -1)
        switch (option) {
        case 'q':
            o.quick = true;
            break;
        case 'c':
            o.calm = true;
            break;
        case 'v':
            o.verbose = true;
            break;
        case 'n':
            random = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 's':
            o.seed = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'o':
            out = optarg;
            break;
        default:
            return 2;
        }
    streams = sim_streams_new();
    printf("%-24s %5s %7s %7s %6s %5s %6s %5s %6s %5s %7s %6s %6s\n", "machine", "forms", "latency", "interv.", "width",
           "found", "ROB", "found", "sched.", "found", "median", "p90", "s");
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
