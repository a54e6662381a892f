/* SPDX-License-Identifier: Apache-2.0
 * mtool calibrate, and the description of the machine that mtool run uses: the one given, else the one kept for this
 * CPU, else one measured now. */
#include "cmd/machine/attempts.h"
#include "cmd/run/profile.h"
#include "sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define FORM_S 0.08          /* to time a form that is met later */
#define TIME_FORMS_MAX_S 4.0 /* all of them */

/* What tells one CPU from another: its names and features in /proc/cpuinfo, without what changes by itself. */
static void cpu_identity(char hex[33])
{
    struct strbuf s = {0};
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[8192];
    while (f && fgets(line, sizeof line, f) && line[0] != '\n')
        if (!strncmp(line, "vendor_id", 9) || !strncmp(line, "cpu family", 10) || !strncmp(line, "model", 5) ||
            !strncmp(line, "stepping", 8) || !strncmp(line, "flags", 5))
            str_puts(&s, line);
    if (f)
        fclose(f);
    file_hash_hex(s.data ? s.data : "", s.len, hex);
    str_free(&s);
}

/* Of two calibrations the one is kept that is taken, and what was measured for that. */
struct recording {
    struct tape *now, *kept, *test; /* test: where self-tests are recorded; all NULL: nobody asked for a tape */
};

static void open_recording(struct recording *r, bool wanted)
{
    *r = (struct recording){wanted ? machine_tape_new() : NULL, wanted ? machine_tape_new() : NULL, NULL};
}

static void close_recording(struct recording *r)
{
    machine_tape_free(r->now);
    machine_tape_free(r->kept);
}

static void keep_recording(void *ctx)
{
    struct recording *r = ctx;
    struct tape *kept = r->kept;
    r->kept = r->now;
    r->now = kept;
}

/* A counter that is unusable right now is lab's to refuse; what happens while it measures is not seen there. */
static int calibrate_here(void *ctx, struct machine **out)
{
    struct recording *r = ctx;
    struct machine_bench bench = {.record = r->now};
    struct machine_calibrate_options opt = {.bench = &bench};
    r->test = r->now;
    if (bench.record)
        machine_tape_clear(bench.record);
    struct machine_reading readings[MACHINE_CLOCK_READINGS + 1];
    machine_clock_read_rate(readings);
    int rc = machine_calibrate(&opt, out);
    readings[MACHINE_CLOCK_READINGS] = machine_clock_read();
    struct machine_clock c = machine_clock_judge(readings, ARRAY_LEN(readings));
    cmd_warn_of_clock(&c, "while this machine was calibrated");
    return rc;
}

void cmd_warn_of_clock(const struct machine_clock *c, const char *when)
{
    if (c->fault != MACHINE_CLOCK_GOOD)
        diag_warn("clock-uneven", "the time stamp counter %s (by %.3g s %s)", machine_clock_fault_text[c->fault],
                  c->off_s, when);
}

static int warn_of_unlike_cpus(void)
{
    enum { MAX = 8 };
    struct machine_cpu_clock cpus[MAX];
    size_t slowest, fastest, count;
    if (machine_cpus_look(cpus, MAX, &count) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        diag_debug(1, "calibrate: processor %d: counter %.4f GHz, core %.3f GHz", cpus[i].cpu, cpus[i].tsc_hz * 1e-9,
                   cpus[i].core_hz * 1e-9);
    if (machine_cpus_differ(cpus, count, &slowest, &fastest))
        diag_warn("clocks-differ", "processors differ: %d runs at %.2f GHz, %d at %.2f GHz", cpus[slowest].cpu,
                  cpus[slowest].core_hz * 1e-9, cpus[fastest].cpu, cpus[fastest].core_hz * 1e-9);
    return 0;
}

static int test_here(void *ctx, struct machine *m)
{
    struct machine_bench bench = {.record = ((struct recording *)ctx)->test};
    struct sim_selftest_options test = {.bench = &bench};
    return sim_selftest(m, &test, NULL, NULL);
}

/* It gets what the best calibration measured. */
static struct machine *shipped_here(void *ctx)
{
    struct recording *r = ctx;
    r->test = r->kept;
    return machine_shipped_here();
}

static int measure(struct recording *record, struct machine **out)
{
    const struct attempts a = {.measure = calibrate_here,
                               .test = test_here,
                               .shipped = shipped_here,
                               .keep = keep_recording,
                               .ctx = record,
                               .max = 2};
    return warn_of_unlike_cpus() < 0 ? -1 : attempts_make(&a, out);
}

void cmd_warn_of_model(const struct machine *m)
{
    const struct machine_error *e = machine_error_of(m, "all");
    if (!machine_passes(m))
        diag_warn("model-failed",
                  "the self-test failed (off by %.0f %% in the median, %.0f %% for nine in ten kernels): no loop will "
                  "be reported as significant by the model "
                  "alone; calibrate again when less runs on this machine",
                  100 * e->median, 100 * e->p90);
}

/* Before anything is measured. `option`: that names it. */
static int check_place(const struct cmd_args *a, const char *path, const char *option)
{
    if (path && !a->force && file_exists(path))
        return diag_error("%s: exists already; choose another name with %s, or --force to replace it", path, option);
    return path ? cmd_place_check("calibrate", path, "", true) : 0;
}

int cmd_calibrate(const struct cmd_args *a)
{
    if (check_place(a, a->tape_record, "--record") < 0)
        return CMD_UNUSABLE;
    if (a->tape_replay || a->calibrate_as)
        return cmd_calibrate_elsewhere(a);
    if (check_place(a, a->output, "-o") < 0)
        return CMD_UNUSABLE;
    struct machine *m = NULL;
    const char *path = a->output ? a->output : cmd_machine_path(a->arena);
    if (!path)
        return CMD_FAILED;
    double start = time_now_s();
    struct recording record;
    open_recording(&record, a->tape_record);
    int rc = measure(&record, &m) < 0 ? CMD_FAILED : CMD_DONE;
    if (rc == CMD_DONE && record.kept && machine_tape_write(record.kept, a->tape_record) < 0)
        rc = CMD_FAILED;
    close_recording(&record);
    if (!m)
        return rc;
    if (rc == CMD_DONE && machine_write(m, path) < 0)
        rc = CMD_FAILED;
    const struct machine_error *e = machine_error_of(m, "all");
    if (rc == CMD_DONE && e)
        diag_note(
            "%s: described in %s in %.0f s; its predictions are off by %.0f %% in the median, %.0f %% for nine in ten "
            "kernels, on average %+.0f %%",
            m->name, path, time_now_s() - start, 100 * e->median, 100 * e->p90, 100 * e->bias);
    if (rc == CMD_DONE)
        cmd_warn_of_model(m);
    machine_free(m);
    return rc;
}

const char *cmd_machine_path(struct arena *ar)
{
    char hex[33];
    cpu_identity(hex);
    const char *dir = file_cache_dir(ar);
    if (file_make_dirs(dir, 0700) < 0) {
        diag_error("%s: cannot be made: %s; set XDG_CACHE_HOME to a folder that can be written", dir, strerror(errno));
        return NULL;
    }
    return arena_printf(ar, "%s/host-%.16s.machine", dir, hex);
}

/* One mtool at a time measures. A descriptor that keeps the others away until it is closed, or -1: they may come. */
static int lock_kept(struct arena *ar, const char *path)
{
    int lock = open(arena_printf(ar, "%s.lock", path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock >= 0)
        flock(lock, LOCK_EX);
    return lock;
}

static int read_kept(const char *path, struct machine **out)
{
    if (!file_exists(path) || machine_read(path, out) < 0)
        return -1;
    if (!machine_is_outdated(*out))
        return 0;
    diag_note("%s: an older mtool made it and its self-test failed", path);
    machine_free(*out);
    *out = NULL;
    return -1;
}

/* Two mtools at once measure once: the second waits and reads. */
static int get_kept(const struct cmd_args *a, const char *path, struct machine **out)
{
    int lock = lock_kept(a->arena, path);
    int rc = read_kept(path, out);
    if (rc < 0) {
        diag_note("measuring this machine once (a minute, two if it is busy); kept in %s", path);
        struct recording none;
        open_recording(&none, false);
        rc = measure(&none, out);
        if (rc == 0) {
            cmd_warn_of_model(*out);
            machine_write(*out, path);
        }
    }
    if (lock >= 0)
        close(lock);
    return rc;
}

int cmd_machine_get(const struct cmd_args *a, struct machine **out, const char **where)
{
    *where = a->machine;
    if (a->machine)
        return machine_read(a->machine, out) < 0 ? CMD_UNUSABLE : 0;
    const char *path = *where = cmd_machine_path(a->arena);
    if (path && get_kept(a, path, out) == 0)
        return 0;
    *where = NULL;
    diag_warn("model-not-calibrated", "this machine could not be measured: a generic core is assumed, without a clock");
    *out = machine_default();
    return 0;
}

static void time_forms(void *ctx, const char *const *forms, size_t count)
{
    struct cmd_form_timing *l = ctx;
    int lock = lock_kept(l->arena, l->path);
    double budget = FORM_S * (double)count;
    size_t added = machine_extend(l->machine, forms, count, budget < TIME_FORMS_MAX_S ? budget : TIME_FORMS_MAX_S);
    diag_debug(1, "%zu of %zu forms of instructions that the machine description lacked are timed", added, count);
    if (added)
        machine_write(l->machine, l->path);
    if (lock >= 0)
        close(lock);
}

void cmd_machine_time_forms(const struct cmd_args *a, struct machine *m, const char *where, struct cmd_form_timing *l,
                            struct prof_input *in)
{
    *l = (struct cmd_form_timing){m, where, a->arena};
    if (a->machine || !where)
        return; /* the user's own file, or none */
    in->time_forms = time_forms;
    in->time_forms_ctx = l;
}
