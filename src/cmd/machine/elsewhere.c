/* SPDX-License-Identifier: Apache-2.0
 * mtool calibrate --as MACHINE and --replay TAPE: calibration of what is not this processor. The description goes to
 * standard output or a file of its own, never where this processor's is kept. */
#include "cmd/machine/attempts.h"
#include "cmd/run/profile.h"
#include "sim/sim.h"

enum { NAMED_MAX = 3 }; /* of the experiments that are missing */

/* What was asked of the tape and not found there. */
static void tell_gaps(const char *path, const struct tape *t)
{
    struct machine_tape_gaps g;
    machine_tape_gaps(t, &g);
    if (g.changed)
        diag_note("%s: mtool %s recorded it; %zu of its experiments are made of other code today", path, g.program,
                  g.changed);
    if (g.doubted)
        diag_warn("tape-incomplete",
                  "%s: %zu of its times are implausible, among them that of \"%s\"; recorded by mtool %s", path,
                  g.doubted, g.first_doubted, g.program);
    if (!g.missing)
        return;
    struct strbuf names = {0};
    for (size_t i = 0; i < g.label_count; i++)
        diag_debug(1, "%s: not on the tape: \"%s\"", path, g.labels[i]);
    for (size_t i = 0; i < g.label_count && i < NAMED_MAX; i++)
        str_printf(&names, "%s\"%s\"", i ? ", " : "", g.labels[i]);
    diag_warn("tape-incomplete",
              "%s: %zu experiments are not on the tape (%zu are), among them %s%s; recorded by mtool %s", path,
              g.missing, g.used, names.data, g.label_count > NAMED_MAX ? " ..." : "", g.program);
    str_free(&names);
}

struct played {
    const char *path;
    const struct machine_bench *bench;
    bool has_shipped; /* the description that is tested now is the shipped one */
};

static int measure_played(void *ctx, struct machine **out)
{
    const struct played *p = ctx;
    struct machine_calibrate_options o = {.bench = p->bench};
    return machine_calibrate(&o, out);
}

/* Without its kernels a tape is good for a description all the same. A shipped description that could not be tested
 * when it was recorded cannot be now, and is not taken. */
static int test_played(void *ctx, struct machine *m)
{
    const struct played *p = ctx;
    struct sim_selftest_options test = {.bench = p->bench};
    struct strbuf why = {0};
    diag_hold(&why);
    int tested = sim_selftest(m, &test, NULL, NULL);
    diag_hold(NULL);
    if (p->has_shipped)
        return tested;
    if (tested < 0)
        diag_note("%s: the self-test's kernels are not on the tape: how far predictions are off is not known", p->path);
    str_free(&why);
    return 0;
}

static struct machine *shipped_played(void *ctx)
{
    struct played *p = ctx;
    p->has_shipped = true;
    return machine_tape_shipped(p->bench->play);
}

/* What became of the calibration that was recorded becomes of it again: a tape is of the one that was taken. */
static int calibrate(const struct cmd_args *a, const struct machine_bench *bench, const struct machine *given,
                     struct machine **out)
{
    struct machine_calibrate_options o = {.bench = bench};
    struct sim_selftest_options test = {.bench = bench, .given = given};
    struct played played = {a->tape_replay, bench, false};
    const struct attempts again = {
        .measure = measure_played, .test = test_played, .shipped = shipped_played, .ctx = &played, .max = 1};
    if (!given)
        return attempts_make(&again, out);
    return machine_calibrate(&o, out) < 0 ? -1 : sim_selftest(*out, &test, NULL, NULL);
}

static int put_out(const struct cmd_args *a, const struct machine *m)
{
    const struct machine_error *e = machine_error_of(m, "all");
    if (a->output && machine_write(m, a->output) < 0)
        return CMD_FAILED;
    if (e)
        diag_note(
            "%s: predictions are off by %.1f %% in the median, %.1f %% for nine in ten kernels, on average %+.1f %%",
            m->name, 100 * e->median, 100 * e->p90, 100 * e->bias);
    if (a->output)
        return CMD_DONE;
    struct strbuf text = {0};
    machine_format(m, &text);
    return cmd_print(&text);
}

static int run(const struct cmd_args *a, struct machine_bench *bench, const struct machine *given)
{
    struct machine *m = NULL;
    bench->record = a->tape_record ? machine_tape_new() : NULL;
    int rc = calibrate(a, bench, given, &m) < 0 ? CMD_UNUSABLE : CMD_DONE;
    if (rc == CMD_DONE && bench->record && machine_tape_write(bench->record, a->tape_record) < 0)
        rc = CMD_FAILED;
    if (rc == CMD_DONE && bench->play)
        tell_gaps(a->tape_replay, bench->play);
    if (rc == CMD_DONE)
        rc = put_out(a, m);
    if (rc == CMD_DONE && bench->play)
        cmd_warn_of_model(m);
    machine_free(m);
    machine_tape_free(bench->record);
    return rc;
}

static int from_tape(const struct cmd_args *a)
{
    struct machine_bench bench = {NULL, NULL, NULL};
    if (machine_tape_read(a->tape_replay, &bench.play) < 0)
        return CMD_UNUSABLE;
    int rc = run(a, &bench, NULL);
    machine_tape_free(bench.play);
    return rc;
}

static int from_description(const struct cmd_args *a)
{
    struct machine *given;
    struct machine_bench bench = {NULL, NULL, NULL};
    if (machine_read(a->calibrate_as, &given) < 0)
        return CMD_UNUSABLE;
    bench.core = sim_bench_new(given, NULL);
    int rc = bench.core ? run(a, &bench, given) : CMD_UNUSABLE;
    sim_bench_free(bench.core);
    machine_free(given);
    return rc;
}

int cmd_calibrate_elsewhere(const struct cmd_args *a)
{
    if (a->tape_replay && a->calibrate_as)
        return diag_error("--as and --replay exclude each other: one machine at a time"), CMD_UNUSABLE;
    if (a->tape_replay && a->tape_record)
        return diag_error("--record has nothing to record with --replay: copy %s instead", a->tape_replay),
               CMD_UNUSABLE;
    if (a->output && !a->force && file_exists(a->output))
        return diag_error("%s: exists already; choose another name with -o, or --force to replace it", a->output),
               CMD_UNUSABLE;
    return a->tape_replay ? from_tape(a) : from_description(a);
}
