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

struct taking_back {
    struct profile *p;
    const struct prof_input *in;
};

static const struct rewrite_map *map_of(void *ctx, uint32_t module, const char **copy)
{
    const struct taking_back *t = ctx;
    *copy = t->p->program->modules[module].copy;
    return profile_map(t->p, module);
}

/* A counter that is stored after each turn of a short loop waits for its own store, some cycles. That of an edge stands
 * behind its function, and what counts by registers does not count its own executions: the more of both is taken. */
static double most_of(void *ctx, uint32_t module, const struct rewrite_place *at)
{
    static const double ONE_S = 1e-9;
    const struct prof_input *in = ((const struct taking_back *)ctx)->in;
    const struct prof_input_module *m = &in->modules[module];
    if (!m->counters || !m->flow->blocks)
        return INFINITY;
    uint64_t counted = at->counter == ID_NONE ? 0 : m->counters[at->counter];
    return ONE_S / in->sample_period_s * (double)max_u64(counted, m->flow->blocks[at->block]);
}

/* A sample stands at the oldest instruction that has not retired: counters that are done while the program waits for
 * something else have none, and cost none. */
static double counting_s(struct profile *p, const struct launch_result *r, const struct prof_input *in)
{
    struct taking_back t = {p, in};
    const struct rewrite_copies copies = {p->program->module_count, map_of, most_of, &t};
    uint64_t taken = rewrite_take_back(&copies, r->samples, r->sample_count, r->frames, r->frame_count);
    if (!r->samples_user)
        return NAN;
    double s = r->user_s * (double)taken / (double)r->samples_user;
    diag_debug(1, "one run: %llu of %llu samples taken off, %.4f s", (unsigned long long)taken,
               (unsigned long long)r->samples_user, s);
    return s;
}

/* Forks, and pages that are copied after them, are part of its system time. Copies are in no cache: that costs the
 * program between nothing and as much again (perl 1.0, bzip2 0.4 times as much). */
static void take_off_windows(const struct launch_result *r, struct one_run_times *t)
{
    bool taken = r->tried_windows && !r->windows_note;
    t->windows_s = taken ? fmin(r->system_s, r->bursts.forks_s + r->bursts.copied_s) : NAN;
    t->system_s = r->system_s - (taken ? t->windows_s : 0);
    t->user_s -= taken ? fmin(t->user_s / 2, r->bursts.copied_s / 2) : 0;
}

struct one_run_times one_run_take_off(struct profile *p, const struct launch_result *run, const struct prof_input *in)
{
    struct one_run_times t = {.counting_s = counting_s(p, run, in)};
    t.user_s = run->user_s - (isnan(t.counting_s) ? 0 : t.counting_s);
    take_off_windows(run, &t);
    return t;
}

int one_run_make(struct profile *p, const struct launch_burst_options *windows, struct launch_result **out)
{
    const struct cmd_args *a = p->args;
    struct launch_options o = profile_counted_options(p);
    int rc = profile_copies(p);
    o.sample_hz = a->hz > 0 ? a->hz : HZ;
    o.threads = o.may_sample_itself = true;
    o.bursts = windows;
    if (rc || (rc = profile_run(p, &o, true, out)))
        return rc;
    const struct launch_result *run = *out;
    if (o.bursts && !run->windows_note)
        profile_note_after(p, run);
    launch_remember_modules(p->program);
    launch_keep_sampled(p->program, run);
    profile_warn_left(run);
    if (a->follow)
        profile_take_processes(p, run);
    else
        profile_warn_executed(run);
    if (p->rank.rank != ID_NONE)
        diag_warn(
            "one-run",
            "a process can join its parallel job only once: times are those of the counted copy, less its counters'");
    return profile_counts_are_exact(run) ? 0 : CMD_SELF_FAILED;
}
