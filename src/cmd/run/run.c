/* SPDX-License-Identifier: Apache-2.0
 * mtool run, the main job: a sampled run of the untouched program, plain runs, a counted run; then the estimate, the
 * report, the profile. */
#include "cmd/run/budget.h"
#include "cmd/run/onerun.h"
#include "cmd/run/probe.h"
#include "cmd/run/windows.h"
#include "cmd/spy/program.h"

#include <math.h>

enum { PLAIN_MAX = 12, PLAIN_UNLIKE = 4 };
static const double UNLIKE = 0.02; /* plain runs that differ by more are joined by others, up to PLAIN_UNLIKE, */
static const double COUNTER_UNLIKE = 0.005; /* rates of the time stamp counter, then and now */
static const double PATIENCE = 5;           /* while all runs together take less than so many plain ones */

struct times {
    double user[PLAIN_MAX], system[PLAIN_MAX];
    size_t n, planned;
    double guises[2]; /* user times of the sampled and the counted run, where these are not in `user` */
    size_t guise_count;
    double began, shortest; /* when the first run began; wall time of the shortest plain run */
    double clocks[PLAIN_MAX], shares[PLAIN_MAX];
    size_t looks; /* at the core's speed, beside the plain runs; of clocks and shares */
    struct machine_reading
        readings[MACHINE_CLOCK_READINGS + PLAIN_MAX]; /* of the clocks: before all runs, behind each plain one */
};

static void look_at_speed(const struct machine *m, struct times *t)
{
    struct machine_speed now = machine_speed_now(m);
    diag_debug(1, "run: %.4f core cycles a tick, %.3f of the core's width", now.core_per_tsc, now.share);
    if (isnan(now.share))
        return;
    t->clocks[t->looks] = now.core_per_tsc;
    t->shares[t->looks++] = now.share;
}

static double mean(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / (double)n : 0;
}

static const char *run_text(struct profile *p, const struct times *t)
{
    struct arena *a = p->result->arena;
    size_t number = t->n + 1;
    return number > t->planned ? arena_printf(a, "measuring, run %zu", number)
                               : arena_printf(a, "measuring, run %zu of %zu", number, t->planned);
}

/* Of a run of the untouched program. */
static void take_times(const struct machine *m, const struct launch_result *run, struct times *t)
{
    look_at_speed(m, t);
    t->readings[MACHINE_CLOCK_READINGS + t->n] = machine_clock_read();
    t->user[t->n] = run->user_s;
    t->system[t->n++] = run->system_s;
    t->shortest = t->n == 1 || run->wall_s < t->shortest ? run->wall_s : t->shortest;
}

static void take_guise(const struct launch_result *run, struct times *t) { t->guises[t->guise_count++] = run->user_s; }

static int run_plain(struct profile *p, const struct machine *m, struct times *t)
{
    struct launch_options opt = {.how = LAUNCH_PLAIN, .progress = run_text(p, t)};
    struct launch_result *run = NULL;
    int rc = profile_run(p, &opt, false, &run);
    if (rc)
        return rc;
    take_times(m, run, t);
    launch_result_free(run);
    return 0;
}

static bool needs_another(const struct times *t)
{
    double low = t->user[0], high = t->user[0];
    for (size_t i = 1; i < t->n; i++) {
        low = t->user[i] < low ? t->user[i] : low;
        high = t->user[i] > high ? t->user[i] : high;
    }
    double spent = time_now_s() - t->began;
    return high - low > UNLIKE * low && t->n < PLAIN_UNLIKE && spent + t->shortest < PATIENCE * t->shortest;
}

/* A virtual machine may have been moved to a host whose counter has another rate since it was calibrated. */
static void take_clock(struct profile *p, const struct machine *m, const struct times *t)
{
    struct machine_clock c = machine_clock_judge(t->readings, MACHINE_CLOCK_READINGS + t->n);
    cmd_warn_of_clock(&c, "while the program ran");
    double then = m->tsc_ghz * 1e9;
    if (c.fault != MACHINE_CLOCK_GOOD || !(fabs(c.hz / then - 1) > COUNTER_UNLIKE) || !machine_is_this(m))
        return;
    diag_warn("clock-uneven",
              "the time stamp counter runs at %.4g GHz, when calibrated at %.4g GHz: the former is taken", c.hz * 1e-9,
              m->tsc_ghz);
    p->result->machine.tsc_hz = c.hz;
}

static uint64_t counters_of(const struct launch_program *p)
{
    uint64_t n = 0;
    for (size_t i = 0; i < p->module_count; i++)
        n += p->modules[i].copy ? p->modules[i].counter_count : 0;
    return n;
}

/* What the runs gave, and the join works on. */
struct runs {
    struct times times;
    struct launch_result *sampled, *counted, *windows; /* of one run: only `counted` */
    struct taken_windows taken;
    bool has_windows;            /* taken in the counted run */
    struct spied_program *spied; /* of --spy, its caches chosen */
};

static struct budget budget_now(const struct profile *p, const struct machine *m, const struct runs *r)
{
    return (struct budget){.first_s = r->sampled->wall_s,
                           .first_user_s = r->sampled->user_s,
                           .spent_s = time_now_s() - r->times.began,
                           .counters = counters_of(p->program),
                           .windows = windows_wanted(p->args, m),
                           .probes = !p->args->no_probes};
}

static void plan_plain_runs(struct profile *p, const struct machine *m, struct runs *r)
{
    const struct cmd_args *a = p->args;
    struct times *t = &r->times;
    struct budget b = budget_now(p, m, r);
    t->planned = a->runs ? (size_t)a->runs : budget_plain_runs(&b);
    t->planned = t->planned > PLAIN_MAX ? PLAIN_MAX : t->planned;
    if (!t->planned)
        take_times(m, r->sampled, t);
    else
        take_guise(r->sampled, t);
}

static int run_sampled(struct profile *p, struct runs *r)
{
    const struct cmd_args *a = p->args;
    struct launch_options sample = {.how = LAUNCH_SAMPLED, .mode = p->mode, .sample_hz = a->hz};
    int rc = profile_run(p, &sample, true, &r->sampled);
    if (rc)
        return rc;
    launch_remember_modules(p->program);
    launch_keep_sampled(p->program, r->sampled); /* before there are copies: what they need to know */
    if ((rc = one_run_refuse_others(p, r->sampled)))
        return rc;
    profile_warn_left(r->sampled);
    if (!a->follow)
        profile_warn_executed(r->sampled);
    return 0;
}

static struct windows_room room_for(const struct runs *r, double limit_s)
{
    diag_debug(1, "run: %.2f s for windows", limit_s);
    return (struct windows_room){.user_s = r->sampled->user_s, .system_s = r->sampled->system_s, .limit_s = limit_s};
}

/* Where there could be none, the run of their own is made after all; what a program does against them it does there
 * too. */
static void take_counted_windows(struct profile *p, struct runs *r)
{
    if (r->counted->windows_note && !r->counted->tried_windows) {
        diag_debug(1, "windows: none in the counted run: %s", r->counted->windows_note);
        windows_fini(&r->taken);
        return;
    }
    profile_note_after(p, r->counted);
    windows_note(r->counted, &r->taken);
    r->has_windows = true;
}

/* With windows where a run of their own would be beyond the budget, and is not asked for. */
static int run_counted(struct profile *p, const struct machine *m, struct runs *r)
{
    struct launch_options count = profile_counted_options(p);
    struct launch_burst_options windows;
    struct budget b = budget_now(p, m, r);
    if (b.windows && !p->args->windows && !budget_has_windows_run(&b)) {
        const struct windows_room room = room_for(r, budget_after_s(&b));
        windows = windows_counted(p, &room, &r->taken);
        count.bursts = &windows;
    }
    int rc = profile_run(p, &count, false, &r->counted);
    if (rc)
        return rc;
    if (p->args->follow)
        profile_take_processes(p, r->counted);
    if (!count.bursts)
        take_guise(r->counted, &r->times);
    else
        take_counted_windows(p, r);
    return 0;
}

static int run_windows(struct profile *p, const struct machine *m, struct runs *r)
{
    struct budget b = budget_now(p, m, r);
    if (!b.windows || r->has_windows)
        return 0;
    const struct windows_room room = room_for(r, budget_windows_s(&b));
    return windows_take(p, &room, &r->taken, &r->windows);
}

/* Plain runs on both sides of the counted one, so that a drift of the machine's speed falls on all alike. */
static int make_runs(struct profile *p, const struct machine *m, struct runs *r)
{
    struct times *t = &r->times;
    machine_clock_read_rate(t->readings);
    profile_copies_ahead(p);
    t->began = time_now_s();
    int rc = run_sampled(p, r);
    if (rc || (rc = profile_copies(p)))
        return rc;
    plan_plain_runs(p, m, r);
    while (t->n < (t->planned + 1) / 2)
        if ((rc = run_plain(p, m, t)))
            return rc;
    if ((rc = run_counted(p, m, r)))
        return rc;
    while (t->n < t->planned || (!p->args->runs && !windows_wanted(p->args, m) && needs_another(t)))
        if ((rc = run_plain(p, m, t)))
            return rc;
    take_clock(p, m, t);
    return profile_counts_are_exact(r->counted) ? run_windows(p, m, r) : CMD_SELF_FAILED;
}

/* All in one run: how long it will take is not known, so windows come at moments of their own (ticks.c). */
static int make_one_run(struct profile *p, const struct machine *m, struct times *t, struct taken_windows *to,
                        struct launch_result **run)
{
    struct launch_burst_options windows;
    bool wanted = windows_wanted(p->args, m) && one_run_may_fork(p);
    if (wanted)
        windows = windows_options(p, to);
    machine_clock_read_rate(t->readings);
    int rc = one_run_make(p, wanted ? &windows : NULL, run);
    if (rc)
        return rc;
    if (wanted)
        windows_note(*run, to);
    look_at_speed(m, t);
    t->readings[MACHINE_CLOCK_READINGS] = machine_clock_read();
    t->n = 1; /* whose times are told when its counts are */
    take_clock(p, m, t);
    return 0;
}

/* The join, with one more run before it whose references are simulated, if that is wanted. */
static int join_spied(struct profile *p, struct runs *r, struct prof_input *in)
{
    int rc = r->spied ? spied_run(r->spied, r->counted, in) : 0;
    double since = time_now_s();
    if (rc == 0)
        rc = profile_join(p->result, in);
    spied_free(r->spied);
    r->spied = NULL;
    if (rc == 0)
        profile_note_phase(p, "estimating", since);
    return rc;
}

static void take_one_run(struct profile *p, const struct launch_result *run, struct times *t, struct prof_input *in)
{
    struct one_run_times once = one_run_take_off(p, run, in);
    t->user[0] = once.user_s;
    t->system[0] = once.system_s;
    in->counting_s = once.counting_s;
    in->windows_s = once.windows_s;
}

/* What the run with probes is told of this one. */
static struct prof_seen seen_by(const struct launch_result *sampled, const struct prof_input *in)
{
    struct prof_seen s = {.kernel = sampled->samples_all - sampled->samples_user};
    if (sampled->sampler != LAUNCH_SAMPLER_PERF || in->samples_user_only)
        return s;
    s.period_s = in->sample_period_s;
    for (size_t i = 0; i < in->sample_count; i++)
        if (in->samples[i].module < in->module_count && in->modules[in->samples[i].module].is_interp)
            s.loader += in->samples[i].count;
    return s;
}

static int join(struct profile *p, const struct cmd_args *a, struct machine *m, const char *where,
                const struct probe_plan *plan, struct runs *runs)
{
    struct times *t = &runs->times;
    const struct launch_result *counted = runs->counted, *sampled = one_run_is(p) ? counted : runs->sampled;
    struct prof_input in = {.plain_user_s = t->user,
                            .ran_once = one_run_is(p),
                            .counting_s = NAN,
                            .windows_s = NAN,
                            .plain_system_s = t->system,
                            .plain_runs = t->n,
                            .guise_user_s = t->guises,
                            .guise_runs = t->guise_count,
                            .machine = m,
                            .core_per_tsc = mean(t->clocks, t->looks),
                            .core_share = mean(t->shares, t->looks),
                            .want_blocks = a->blocks || a->export_to[REPORT_EXPORT_gprof],
                            .seed = 1};
    int rc = profile_inputs(p, counted, sampled, &in);
    if (rc)
        return rc;
    p->seen = seen_by(sampled, &in);
    struct cmd_form_timing form_timing;
    cmd_machine_time_forms(a, m, where, &form_timing, &in);
    probe_ask(plan, &in);
    windows_put(&runs->taken, &in);
    struct prof_result *r = p->result;
    r->sampler = launch_sampler_text[sampled->sampler];
    r->processes = sampled->processes;
    r->threads = sampled->threads_max;
    if (sampled->sampler == LAUNCH_SAMPLER_NONE)
        diag_warn("no-samples", "the program could not be sampled (%s): times are known for the whole program only",
                  sampled->sampler_note ? sampled->sampler_note : "no sampler");
    profile_keep_feedback(p, &in);
    if (one_run_is(p))
        take_one_run(p, counted, t, &in);
    if (!runs->spied && !a->baseline_threads)
        profile_forget_counters(p, &in);
    if ((rc = join_spied(p, runs, &in)))
        return rc;
    return a->baseline_threads && p->rank.rank == ID_NONE ? baseline_run(p, &in) : 0;
}

static void free_runs(struct runs *r)
{
    launch_result_free(r->sampled);
    launch_result_free(r->counted);
    launch_result_free(r->windows);
    windows_fini(&r->taken);
    spied_free(r->spied);
    *r = (struct runs){.sampled = NULL};
}

/* All but the probed one. */
static int make_all_runs(struct profile *p, const struct cmd_args *a, const struct machine *m, struct runs *r)
{
    one_run_announce(p, windows_wanted(a, m));
    if (one_run_is(p))
        return make_one_run(p, m, &r->times, &r->taken, &r->counted);
    return make_runs(p, m, r);
}

/* Ends by freeing all that the probes do not need: the copies with probes are made by processes that begin with what
 * this one has. */
static int join_runs(struct profile *p, const struct cmd_args *a, struct machine *m, const char *where,
                     const struct probe_plan *plan, struct runs *r)
{
    int rc = join(p, a, m, where, plan, r);
    free_runs(r);
    profile_close_maps(p);
    return rc;
}

/* Options of --spy. 0, or an exit status after one line. */
static int spy_check(const struct cmd_args *a)
{
    const char *without = a->caches.count       ? "cache"
                          : a->unfiltered       ? "unfiltered"
                          : a->sets             ? "sets"
                          : a->sample           ? "sample"
                          : a->sample_length    ? "sample-length"
                          : a->sample_evenly    ? "sample-evenly"
                          : a->allocators.count ? "allocator"
                                                : NULL;
    if (!a->spy && without)
        return diag_error("run: --%s is about caches that are simulated; give --spy too", without), CMD_UNUSABLE;
    int rc = a->spy ? spied_check_rank("run: --spy") : 0;
    return rc ? rc : spied_check(a);
}

static int check(const struct cmd_args *a)
{
    int rc = one_run_check(a);
    if (rc || (rc = spy_check(a)))
        return rc;
    return a->quick && a->windows ? (diag_error("run: --quick and --windows exclude each other"), CMD_UNUSABLE) : 0;
}

/* ---- --gprof ---- */

/* Before all runs. Ranks of a job would all write the same file, and standard output is the program's. */
static int check_gprof(const struct profile *p, const struct cmd_args *a)
{
    const char *path = a->export_to[REPORT_EXPORT_gprof];
    if (!path)
        return 0;
    if (p->rank.rank != ID_NONE)
        return diag_error("run: --gprof cannot be had of ranks of a parallel job, which would write one file; give "
                          "--blocks, then 'mtool export --gprof' for each profile"),
               CMD_UNUSABLE;
    if (!strcmp(path, "-") || !strcmp(path, store_path(p->store)))
        return diag_error("run: --gprof cannot write to %s, where %s stands; choose another name", path,
                          strcmp(path, "-") ? "the profile" : "what the program says"),
               CMD_UNUSABLE;
    return cmd_place_check("run", path, store_path(p->store), a->force) < 0 ? CMD_UNUSABLE : 0;
}

/* Looked at once more: the program may have written a gmon.out of its own. */
static int write_gprof(const struct profile *p, const struct cmd_args *a)
{
    const char *path = a->export_to[REPORT_EXPORT_gprof];
    struct strbuf out = {0};
    if (!path)
        return 0;
    if (cmd_place_check("run", path, store_path(p->store), a->force) < 0)
        return CMD_SELF_FAILED;
    report_export(p->result, REPORT_EXPORT_gprof, &(struct export_options){.module = 0}, &out);
    return cmd_place_write("run", path, &out) == CMD_DONE ? 0 : CMD_SELF_FAILED;
}

/* ---- all ---- */

static int run(struct profile *p, const struct cmd_args *a)
{
    struct machine *m = NULL;
    struct runs runs = {.sampled = NULL};
    struct probe_plan plan;
    const char *where = NULL;
    int rc = check(a);
    if (!rc)
        rc = profile_begin(p, a);
    if (!rc)
        rc = check_gprof(p, a);
    if (!rc)
        rc = probe_begin(a, p->result->arena, &plan);
    if (!rc && (rc = cmd_machine_get(a, &m, &where)) == 0)
        p->result->machine.description = where ? arena_strdup(p->result->arena, where) : NULL;
    if (!rc && a->spy) /* behind the calibration, whose caches they may be, and before all runs */
        rc = (runs.spied = spied_new(p)) ? 0 : CMD_UNUSABLE;
    if (!rc)
        rc = make_all_runs(p, a, m, &runs);
    if (!rc)
        rc = join_runs(p, a, m, where, &plan, &runs);
    if (!rc && !one_run_is(p))
        rc = probe_objects(p, &plan);
    if (!rc)
        rc = profile_finish(p);
    if (!rc)
        rc = write_gprof(p, a);
    free_runs(&runs);
    machine_free(m);
    return rc;
}

int cmd_run(const struct cmd_args *a)
{
    struct profile p = {.status = -1};
    int rc = run(&p, a);
    int status = p.status;
    if (rc == 0 && !a->quiet)
        profile_show(&p, a);
    profile_end(&p);
    if (rc == 0 || rc == PROFILE_INTERRUPTED)
        launch_exit_like(status);
    return rc;
}
