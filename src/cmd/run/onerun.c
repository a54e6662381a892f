/* SPDX-License-Identifier: Apache-2.0
 * Everything in one run: the counted one, sampled from outside. For programs that can or may run only once: servers,
 * jobs of hours, what has side effects; ranks of parallel jobs, whose processes can join only once. The untouched
 * program's time is then not measured, but estimated: samples that fell on what counts are taken off. */
#include "cmd/run/onerun.h"
#include "cmd/run/budget.h"

#include <math.h>

static const double HZ = 997;

bool one_run_is(const struct profile *p) { return p->args->one_run || p->rank.rank != ID_NONE; }

bool one_run_may_fork(const struct profile *p) { return p->args->windows || p->rank.rank == ID_NONE; }

int one_run_check(const struct cmd_args *a)
{
    const struct {
        bool given;
        const char *name;
    } excluded[] = {{a->runs, "runs"},           {a->probe, "probe"}, {a->unprobed, "unprobed"},
                    {a->no_probes, "no-probes"}, {a->spy, "spy"},     {a->baseline_threads, "baseline-threads"}};
    for (size_t i = 0; a->one_run && i < ARRAY_LEN(excluded); i++)
        if (excluded[i].given)
            return diag_error("run: --one-run excludes --%s, which is about further runs", excluded[i].name),
                   CMD_UNUSABLE;
    return 0;
}

void one_run_announce(const struct profile *p, bool windows)
{
    const struct cmd_args *a = p->args;
    bool always_windows = windows && a->windows; /* in a run of their own */
    uint64_t others = 2 + always_windows + (a->baseline_threads ? 2 : 0) + (a->spy ? 1 : 0),
             probed = a->no_probes ? 0 : 1,
             min = others + (a->runs   ? a->runs
                             : windows ? 0
                                       : BUDGET_RUNS),
             max = others + (windows && !always_windows) + probed + (a->runs ? a->runs : BUDGET_RUNS_SHORT);
    if (one_run_is(p))
        return;
    if (min == max)
        diag_note("%s will be run %llu times; with --one-run once", p->program->argv[0], (unsigned long long)min);
    else
        diag_note("%s will be run %llu to %llu times; with --one-run once", p->program->argv[0],
                  (unsigned long long)min, (unsigned long long)max);
}

/* A session of its own is what tells such a server from a helper that is only slow to end. */
int one_run_refuse_others(const struct profile *p, const struct launch_result *first)
{
    if (!first->is_daemon)
        return 0;
    return diag_error("%s went into the background (process %d): each further run would start it again; keep it in the "
                      "foreground by an option of its own and use --one-run",
                      p->program->argv[0], (int)first->in_background),
           CMD_UNUSABLE;
}

static const struct rewrite_map *map_of(void *ctx, uint32_t module, const char **copy)
{
    struct profile *p = ctx;
    *copy = p->program->modules[module].copy;
    return profile_map(p, module);
}

/* To the originals. Returns how many samples were the counters' own. */
static uint64_t take_back(struct profile *p, struct launch_result *run)
{
    const struct rewrite_copies copies = {p->program->module_count, map_of, p};
    return rewrite_take_back(&copies, run->samples, run->sample_count, run->frames, run->frame_count);
}

/* A sample stands at the oldest instruction that has not retired: counters that are done while the program waits for
 * something else have none, and cost none. */
static void take_off_counting(struct one_run *one, uint64_t of_counters)
{
    const struct launch_result *r = one->run;
    one->user_s = r->user_s;
    one->counting_s = NAN;
    if (!r->samples_user)
        return;
    one->counting_s = r->user_s * (double)of_counters / (double)r->samples_user;
    one->user_s -= one->counting_s;
    diag_debug(1, "one run: %llu of %llu samples taken off, %.4f s", (unsigned long long)of_counters,
               (unsigned long long)r->samples_user, one->counting_s);
}

/* Forks, and pages that are copied after them, are part of its system time. Copies are in no cache: that costs the
 * program between nothing and as much again (perl 1.0, bzip2 0.4 times as much). */
static void take_off_windows(struct one_run *one)
{
    const struct launch_burst_counts *b = &one->run->bursts;
    bool taken = one->windows && !one->run->windows_note;
    one->windows_s = taken ? fmin(one->run->system_s, b->forks_s + b->copied_s) : NAN;
    one->system_s = one->run->system_s - (taken ? one->windows_s : 0);
    one->user_s -= taken ? fmin(one->user_s / 2, b->copied_s / 2) : 0;
}

int one_run_make(struct profile *p, struct one_run *one)
{
    const struct cmd_args *a = p->args;
    struct launch_options o = profile_counted_options(p);
    int rc = profile_copies(p);
    o.sample_hz = a->hz > 0 ? a->hz : HZ;
    o.threads = o.may_sample_itself = true;
    o.bursts = one->windows;
    if (rc || (rc = profile_run(p, &o, true, &one->run)))
        return rc;
    if (o.bursts && !one->run->windows_note)
        profile_note_after(p, one->run);
    launch_remember_modules(p->program);
    launch_keep_sampled(p->program, one->run);
    profile_warn_left(one->run);
    if (a->follow)
        profile_take_processes(p, one->run);
    else
        profile_warn_executed(one->run);
    take_off_counting(one, take_back(p, one->run));
    take_off_windows(one);
    if (p->rank.rank != ID_NONE)
        diag_warn(
            "one-run",
            "a process can join its parallel job only once: times are those of the counted copy, less its counters'");
    return profile_counts_are_exact(one->run) ? 0 : CMD_SELF_FAILED;
}
